"""The settings that a study may fix or vary, under dotted names: `alpha`, `learner.kernl.perturbation`."""

import functools
import math
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from recurra.studies.choices import Kind
from recurra.studies.options import learner_table
from recurra.studies.settings import NEEDS, Settings, in_words, options

#: settings that a study sets for all of its networks, and why
NOT_VARIED = {
    "samples": "`samples` belongs at the top of the file, above any [table]: so often random choices are drawn.",
    "learners": "`learners` are compared anyway: list them at the top of the file, above any [table].",
    "seeds": "`seeds` belongs at the top of the file, above any [table]: every combination is run with all of them.",
    "window": "`window` is the same for all networks, so that their losses compare: set it at the top of the file.",
    "task_options": "`task_options` is the same for all networks: write it as a table of its own, [task_options].",
    "cell_options": "`cell_options` is the same for all networks: write it as a table of its own, [cell_options].",
    "key": "`key` is the same for all networks: for other random numbers take other `seeds`.",
}
#: tables of settings of the task and the cell, the same for all networks
TABLES = ("task_options", "cell_options")
#: what is in a study's file beside settings
OWN = ("samples", "vary", "points", "tune")
#: whole numbers that a data set's floats hold exactly
LARGEST = 2**53


@dataclass(frozen=True)
class Named:
    """A setting: what it may be, and what it is when nothing is said."""

    name: str
    kind: Kind
    whole: bool
    default: Any
    model: type[BaseModel]
    field: str

    def check(self, value: Any) -> Any:
        """The value as the setting takes it, or a ValueError that says what is wrong with it."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"`{self.name}` must be a finite number, and is {value!r}.")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"`{self.name}` is {_short(value)}, which is too large: at most 2⁵³ is possible.")
        if (
            self.name in TABLES
        ):  # what is in them depends on the task and the cell: every network's settings are checked
            return value
        given: dict[str, Any] = {}
        if self.model is Settings:  # what a run must have, and what this setting needs
            given = {"learners": ("rtrl",)} | dict([NEEDS[self.name]] if self.name in NEEDS else [])
        given[self.field] = value
        try:
            return getattr(self.model.model_validate(given), self.field)
        except ValidationError as error:
            prefix = self.name.removesuffix(self.field)
            raise ValueError(in_words(error.errors()[0], self.model, prefix)) from None


def _short(value: int) -> str:
    """A whole number, which may have more digits than Python writes."""
    return str(value) if value.bit_length() < 200 else f"about 2^{value.bit_length()}"


def needs(name: str) -> tuple[str, str] | None:
    """The setting, and its value, without which this one has no effect."""
    if name.startswith("learner."):
        return "learner", name.split(".")[1]
    return NEEDS.get(name)


@functools.cache
def find(name: str, varies: bool = False) -> Named:
    """The setting of that name, in a table of what varies or among what is fixed; a ValueError if there is none."""
    if name.startswith("learner."):
        return _find_learners(name)
    if name not in Settings.model_fields:
        known = [each for each in (*Settings.model_fields, *OWN) if each != "learner"]
        if varies:
            known = [each for each in known if each not in (*NOT_VARIED, *OWN)]
        raise ValueError(f"`{name}` is not a setting: {options(name, known)}")
    return _named(name, Settings, name)


def _find_learners(name: str) -> Named:
    from recurra.learners import LEARNERS

    _, learner, field = name.split(".", 2)
    if learner not in LEARNERS:
        raise ValueError(f"`learner.{learner}` is not a learner: {options(learner, LEARNERS)}")
    model = learner_table(LEARNERS[learner])
    if not model.model_fields:
        raise ValueError(f"`{name}` is not a setting: {learner} has none.")
    if field not in model.model_fields:
        raise ValueError(f"`{name}` is not a setting of {learner}: {options(field, model.model_fields)}")
    return _named(name, model, field)


def _named(name: str, model: type[BaseModel], field: str) -> Named:
    about = model.model_fields[field]
    kinds = get_args(about.annotation) or (about.annotation,)
    whole = int in kinds
    kind: Kind = "flag" if bool in kinds else "number" if whole or float in kinds else "text"
    return Named(name, kind, whole, about.default, model, field)
