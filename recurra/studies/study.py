"""The file of a study: thousands of networks in a few lines of TOML, checked before anything runs."""

import functools
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from recurra.studies.choices import Choices, Combinations, Listed, Point, Uniform, Value, Varied
from recurra.studies.reading.checks import check_built, check_effects, check_once, check_samples, check_size
from recurra.studies.reading.problems import Places, Problems, lines_of
from recurra.studies.reading.tables import (
    read_fixed,
    read_learners,
    read_points,
    read_samples,
    read_seeds,
    read_vary,
)
from recurra.studies.settings import STRICT, Settings, SettingsError, checked, in_words, read_bytes


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


@dataclass(frozen=True)
class Study:
    """What is compared: settings that are shared, settings that vary and how, and seeds.

    Names are dotted, as in "learner.kernl.perturbation". A *case* is a combination of everything that is listed or
    spaced, and a *point* is a case with its random choices drawn. What has no effect in a combination is left out of
    it, and combinations that then coincide are taken once. Every point has a "learner".
    """

    #: the file as it is
    text: str
    #: settings that all networks share, as far as the file gives them
    fixed: dict[str, Value]
    seeds: tuple[int, ...]
    #: how settings vary, in the order of the file; "learner" is the first of them if there are several
    varied: dict[str, Varied]
    #: how often random choices are drawn
    samples: int | None
    tune: TuneSettings
    learners: tuple[str, ...]
    places: Places = field(repr=False, compare=False)

    @staticmethod
    def read(path: Path) -> "Study":
        """The study in a file. A `SettingsError` has a line for each problem, with the line of the file in it."""
        try:
            # Some editors begin a file with a mark, which is no part of it.
            text = read_bytes(path, "study").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SettingsError(f"{path}: The file is not text in UTF-8: {error.reason}.") from None
        except ValueError as error:
            raise SettingsError(f"`study` is {str(path)!r}, which cannot be read: {error}.") from None
        return Study.of_text(text, str(path))

    @staticmethod
    def of_text(text: str, file: str = "study") -> "Study":
        """The study that a file has as its text. Problems are said to be in `file`."""
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise SettingsError(_no_toml(file, str(error))) from None
        except RecursionError:
            raise SettingsError(f"{file}: Lists or tables are nested too deeply.") from None
        return Study.of_table(table, text, Places(file, lines_of(text, table)))

    @staticmethod
    def of_table(table: dict[str, Any], text: str = "", places: Places | None = None) -> "Study":
        """The study in a table, which is laid out as the file is."""
        problems = Problems(places or Places("study"))
        learners = read_learners(table.get("learners"), problems)
        seeds = read_seeds(table.get("seeds", Settings.model_fields["seeds"].default), problems)
        samples = read_samples(table.get("samples"), problems)
        tune = _read_tune(table.get("tune", {}), problems)
        fixed, fixed_at = read_fixed(table, problems)
        varied: dict[str, Varied] = {"learner": Listed(learners)} if len(learners) > 1 else {}
        varied_at, points_at = {}, {}
        for key in table:  # in the order of the file
            if key == "vary":
                found, varied_at = read_vary(table["vary"], problems)
                varied |= found
            if key == "points":
                found, points_at = read_points(table["points"], problems)
                varied |= found
        check_once(fixed_at, varied_at, points_at, problems)
        problems.stop()

        combined = Combinations(learners, fixed, varied)
        paths = {**varied_at, **points_at}
        check_effects(combined, fixed_at, paths, problems)
        check_samples(combined.random, samples, problems)
        check_size(combined, len(seeds), samples, paths, problems)
        problems.stop()
        study = Study(text, fixed, tuple(seeds), varied, samples, tune, learners, problems.places)
        check_built(combined, study.settings, fixed_at | paths, problems)
        problems.stop()
        return study

    def count(self) -> int:
        """How many points there are; more than there are where random choices coincide."""
        return self._combined.count() * (self.samples or 1)

    def cases(self) -> list[Point]:
        """The combinations of everything but random choices."""
        return self._combined.cases()

    def points(self) -> list[Point]:
        """The cases, each with the random choices drawn `samples` times; the same ones each time."""
        for name in self._combined.random if self.samples is None else ():
            raise SettingsError(
                self.places.say(
                    ("vary", *name.split(".")),
                    f"`{name}` is a random choice, and the file does not say how often it is drawn: write for example "
                    "`samples = 20` at the top of the file, above any [table].",
                )
            )
        return self._combined.points(self.samples or 1)

    def space(self, case: Point) -> dict[str, Uniform | Choices]:
        """The random choices that have an effect in a case, or may have one, depending on others of them."""
        return {name: how for name, how in self._combined.random.items() if self._combined.applies(name, case)}

    def relevant(self, point: Point) -> Point:
        """The point without what has no effect in it."""
        return self._combined.relevant(point)

    def settings(self, point: Point) -> Settings:
        """The settings of `recurra train` for a point."""
        given: dict[str, Any] = {"learners": (point["learner"],), "seeds": len(self.seeds)}
        hyperparameters: dict[str, Any] = {}
        ours = f"learner.{point['learner']}."
        for name, value in (self.fixed | point).items():
            if name.startswith(ours):
                hyperparameters[name.removeprefix(ours)] = value
            elif name != "learner" and self._combined.applies(name, point):
                given[name] = value
        if hyperparameters:
            given["learner"] = {point["learner"]: hyperparameters}
        return checked(given)

    @functools.cached_property
    def _combined(self) -> Combinations:
        return Combinations(self.learners, self.fixed, self.varied)


def _read_tune(table: Any, problems: Problems) -> TuneSettings:
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


def _no_toml(file: str, error: str) -> str:
    """What the parser says, with the line in front."""
    said = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", error, re.DOTALL)
    if said is None:
        return f"{file}: The file is not valid TOML: {error}."
    return f"{file}, line {said[2]}: This is not valid TOML: {said[1]}, in column {said[3]}."
