"""The table [tune] of a study's file: how `recurra tune` searches."""

from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from recurra.studies.reading.problems import Problems
from recurra.studies.settings import STRICT, in_words


class TuneSettings(BaseModel):
    """How the random choices of a study are searched, for each of its cases."""

    model_config = STRICT

    trials: int = Field(default=40, ge=1, le=10**6, description="Settings that are tried.")
    seeds: int | None = Field(default=None, ge=1, le=10**6, description="Seeds of a trial; those of the study.")
    rungs: int = Field(default=3, ge=1, le=100, description="How often trials are looked at, the last time at the end.")
    eta: int = Field(default=2, ge=2, le=1000, description="One trial in so many goes on after each look but the last.")
    finalists: int = Field(
        default=3, ge=1, le=10**6, description="The best trials, which are confirmed on fresh seeds."
    )
    confirm_seeds: int = Field(default=20, ge=1, le=10**6, description="Fresh seeds that confirm a finalist.")
    startup: int | None = Field(
        default=None, ge=1, le=10**6, description="Trials that are drawn before the search begins."
    )
    batch: int | None = Field(default=None, ge=1, le=10**6, description="Trials that are computed together.")

    @model_validator(mode="after")
    def _finalists_are_trials(self) -> "TuneSettings":
        if "finalists" in self.model_fields_set and self.finalists > self.trials:
            raise ValueError(
                f"`tune.finalists` is {self.finalists}, and there are {self.trials} `trials` to choose from."
            )
        return self


def read_tune(table: Any, problems: Problems) -> TuneSettings:
    """[tune], with defaults for what it does not say."""
    if not isinstance(table, dict):
        problems.add(("tune",), f"`tune` must be a table, [tune], and is {table!r}.")
        return TuneSettings()
    try:
        return TuneSettings.model_validate(table)
    except ValidationError as error:
        for each in error.errors():
            place = each["loc"] or ("finalists",)
            problems.add(("tune", *place), in_words(each, TuneSettings, "tune."))
        return TuneSettings()
