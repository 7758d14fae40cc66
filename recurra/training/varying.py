"""What varies in a sweep: settings by their paths, and the points that their values make.

A path leads from an argument of `train` to a field of it: "optimizer", "learner.perturbation", "network.cell.alpha".
Some have short names, which study files and the command line know too: see `recurra.training.aliases`.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import jax
import numpy as np
import optax

from recurra import checks
from recurra.cells import CELLS
from recurra.cells.stack import Stack
from recurra.learners import LEARNERS
from recurra.learners.base import Learner
from recurra.step import OPTIMIZERS
from recurra.step.optimizers import Injected, floating
from recurra.tasks import TASKS
from recurra.training.aliases import ALIASES, is_number, path_of

#: the most points that a sweep may have
MOST = 10**6
#: the dimension of points that make no grid
POINT = "point"
#: the parts that are known by a name, by the path at which they stand
REGISTERED = {"learner": LEARNERS, "task": TASKS, "network.cell": CELLS, "optimizer": OPTIMIZERS}
#: what the other dimensions are called
TAKEN = ("seed", "step", "evaluated_step", "recorded_step", POINT)


@dataclass(frozen=True)
class Values:
    """The values of a setting, and what each is called in tables: a number by itself, another thing by a name."""

    labels: tuple[Any, ...]
    values: tuple[Any, ...]

    @staticmethod
    def of(path: str, given: Any) -> "Values":
        """From a list of values, or from a mapping of names to values."""
        if isinstance(given, Mapping):
            labels, values = tuple(given), tuple(given.values())
            if not all(isinstance(label, str) for label in labels):
                raise TypeError(f"The names of `vary[{path!r}]` must be text, and are {labels!r}.")
        elif isinstance(given, str) or not hasattr(given, "__iter__"):
            raise TypeError(f"`vary[{path!r}]` must be a list of values, or map names to values, and is {given!r}.")
        else:
            values = tuple(np.asarray(given).tolist() if isinstance(given, np.ndarray | jax.Array) else given)
            labels = tuple(label(path, value) for value in values)
        if not values:
            raise ValueError(f"`vary[{path!r}]` is empty: give at least one value.")
        if len(set(labels)) < len(labels):
            told = ", ".join(map(str, labels))
            raise ValueError(
                f"The values of `vary[{path!r}]` must be different, and are {told}: leave one out, or give them names, "
                "as {'name': value} does."
            )
        return Values(labels, tuple(part_of(path, value) for value in values))

    @staticmethod
    def one(path: str, given: Any) -> "Values":
        """A single value: a number, or a thing with its name, as {"name": thing}."""
        return Values.of(path, given if isinstance(given, Mapping) and len(given) == 1 else [given])


def part_of(path: str, value: Any) -> Any:
    """The part with its defaults where its registered name is given; any other value as it is."""
    known = REGISTERED.get(path_of(path))
    if known is None or not isinstance(value, str):
        return value
    kind = known[checks.one_of(f"A name in `vary[{path!r}]`", value, known)]
    needed = [field.name for field in dataclasses.fields(kind) if field.init and field.default is dataclasses.MISSING]
    if needed:
        made = f"recurra.{kind.__name__}({', '.join(f'{name}=...' for name in needed)})"
        raise ValueError(
            f"`vary[{path!r}]` has {value!r}, which has no default for {' and '.join(needed)}: give the part itself "
            f"with its name, as {{{value!r}: {made}}} does."
        )
    return kind()


def label(path: str, value: Any) -> Any:
    """What a value is called."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Learner):
        return value.about.id
    raise TypeError(
        f"`vary[{path!r}]` holds {value!r:.100}, which is no number: give it a name, as {{'name': value}} does."
    )


@dataclass(frozen=True)
class SweepPoints:
    """All points of a sweep. `settings[p]` maps paths to values, and `labels[p]` to what they are called.

    `dimensions` are those of the grid with their labels, in order. If points make no grid it is None.
    """

    settings: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    dimensions: dict[str, tuple[Any, ...]] | None

    @staticmethod
    def of(vary: Any) -> "SweepPoints":
        """From the values of each setting, of which all combinations are taken, or from a list of points."""
        if isinstance(vary, Mapping):
            _check_once([_path(path) for path in vary])
            return _grid({path: Values.of(path, given) for path, given in vary.items()})
        if isinstance(vary, Sequence) and vary and all(isinstance(each, Mapping) for each in vary):
            _check_count(len(vary), "points")
            for each in vary:
                _check_once([_path(path) for path in each])
            chosen = [{path: Values.one(path, value) for path, value in each.items()} for each in vary]
            values = [{path: one.values[0] for path, one in each.items()} for each in chosen]
            labels = [{path: one.labels[0] for path, one in each.items()} for each in chosen]
            if len({repr(each) for each in labels}) < len(labels):
                raise ValueError(
                    "Two points in `vary` are called the same: leave one out, or give their values names, as "
                    "{'learner': {'name': recurra.KeRNL()}} does."
                )
            return SweepPoints(values, labels, None)
        raise TypeError(
            "`vary` must map settings to lists of values, as {'optimizer': [1e-3, 1e-2]} does, or be a list of points, "
            f"as [{{'optimizer': 1e-3}}] is, and is {vary!r:.200}."
        )


def _path(path: Any) -> str:
    if not isinstance(path, str) or not all(_is_segment(part) for part in path.split(".")):
        raise TypeError(f"A setting in `vary` is named by its path, such as 'network.cell.alpha', and is {path!r}.")
    if path in TAKEN:
        raise ValueError(f"`vary` has {path!r}, which is a dimension of every sweep: choose a setting to vary.")
    return path


def _is_segment(part: str) -> bool:
    """Whether this may be between two dots: a field, the number of a layer, or the name of a learner."""
    return part.replace("-", "_").isidentifier() or is_number(part)


def _check_once(names: Collection[str]) -> None:
    """Raise if two names of a point stand for the same setting."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(path_of(name), name)) != name:
            raise ValueError(f"`vary` has both {other!r} and {name!r}, which are the same setting: leave one out.")


def _check_count(count: int, what: str) -> None:
    if count > MOST:
        raise ValueError(f"`vary` makes {count:,} {what}, and at most {MOST:,} are allowed: vary less.")


def _grid(values: dict[str, Values]) -> SweepPoints:
    _check_count(math.prod(len(each.values) for each in values.values()), "combinations")
    combined = lambda rows: [dict(zip(values, row, strict=True)) for row in itertools.product(*rows)]
    settings = combined([each.values for each in values.values()])
    labels = combined([each.labels for each in values.values()])
    return SweepPoints(settings, labels, {path: each.labels for path, each in values.items()})


def with_settings(arguments: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with other settings. Shorter paths come first, so that a learner may vary with a field of it."""
    for given in sorted(settings, key=lambda name: path_of(name).count(".")):
        name, *rest = path_of(given).split(".")
        if name not in arguments:
            choices = [*arguments, *ALIASES]
            near = get_close_matches(name, choices, n=1)
            meant = f"did you mean {near[0]!r}? C" if near else "c"
            raise ValueError(f"`vary` has {given!r}, and `{name}` cannot vary: {meant}hoose from {', '.join(choices)}.")
        if name == "learner" and rest and rest[0] in LEARNERS:
            _check_learner(arguments[name], rest.pop(0), given)
        arguments = {**arguments, name: replaced(arguments[name], rest, settings[given], given)}
    return arguments


def _check_learner(learner: Learner, name: str, path: str) -> None:
    """Raise unless a setting of one learner alone meets this learner."""
    if learner.about.id != name:
        raise ValueError(
            f"`vary` has {path!r}, which has no effect where the learner is {learner.about.id!r}: give a list of "
            f"points, as [{{'learner': ...}}, ...], with it where the learner is {name!r}."
        )


def replaced(part: Any, names: list[str], value: Any, path: str) -> Any:
    """A part of an experiment with one of its fields, or fields of fields, replaced. Its own checks apply."""
    if not names:
        return value
    name, *rest = names
    if name == "learning_rate" and not rest and isinstance(part, float | int):
        return value  # a bare learning rate is an optimizer of this one number
    known = _fields(part)
    if name not in known:
        what = type(part).__name__ if known else f"{part!r:.60}"
        choice = f"choose from {', '.join(known)}" if known else _advice(part)
        raise ValueError(f"`vary` has {path!r}, and {what} has no setting `{name}`: {choice}.")
    if isinstance(part, optax.GradientTransformation):
        return Injected(part, {name: floating(value)})
    if isinstance(part, Injected):
        return Injected(part.rule, {**part.numbers, name: floating(value)})
    if isinstance(part, Mapping):
        return {**part, name: replaced(part[name], rest, value, path)}
    if isinstance(part, tuple):
        place = int(name)
        return (*part[:place], replaced(part[place], rest, value, path), *part[place + 1 :])
    new = replaced(getattr(part, name), rest, value, path)
    if isinstance(part, Stack) and name == "cells":
        return Stack.fitting(new, part.skip)
    if isinstance(part, Stack):
        return Stack(*part.cells, skip=new)
    return dataclasses.replace(part, **{name: new})


def _fields(part: Any) -> list[str]:
    if isinstance(part, Injected):
        return Injected.names_of(part.rule)
    if isinstance(part, optax.GradientTransformation):
        return Injected.names_of(part)
    if isinstance(part, Mapping):
        return [str(name) for name in part]
    if isinstance(part, tuple):
        return [str(place) for place in range(len(part))]
    return [field.name for field in dataclasses.fields(part) if field.init] if dataclasses.is_dataclass(part) else []


def _advice(part: Any) -> str:
    if isinstance(part, optax.GradientTransformation):
        return "use recurra.Adam, recurra.SGD, or optax.inject_hyperparams around Optax's own function"
    if isinstance(part, float):
        return "it is a number, which varies as a whole: leave out what follows the dot"
    return "it has no settings of its own"
