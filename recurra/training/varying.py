"""What varies in a sweep: settings by their paths, and the points that their values make.

A path leads from an argument of `train` to a field of it: "optimizer", "learner.perturbation", "network.cell.alpha".
Some have short names, which study files and the command line know too: see `recurra.training.aliases`. Parts and
functions may be given by their names: see `recurra.training.choices`.
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
from recurra.cells.stack import Stack
from recurra.learners import LEARNERS
from recurra.learners.base import Learner
from recurra.step.optimizers import Injected, floating
from recurra.training.aliases import ALIASES, is_number, path_of
from recurra.training.choices import choices_of, fields_of, table_of

#: the most points that a sweep may have
MOST = 10**6
#: the dimension of points that make no grid
POINT = "point"
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
        return Values(labels, values)

    @staticmethod
    def one(path: str, given: Any) -> "Values":
        """A single value: a number, or a thing with its name, as {"name": thing}."""
        return Values.of(path, given if isinstance(given, Mapping) and len(given) == 1 else [given])


class NoEffectError(ValueError):
    """There is nothing at a path, so that a setting has no effect."""


def chosen(path: str, word: Any, choices: Mapping[str, Any], replaces: Any, fields: Mapping[str, Any]) -> Any:
    """What a name stands for, where there are such `choices`; any other value as it is.

    A part has its defaults. What has none it takes from the given `fields`, or from the part that it `replaces`, whose
    type it has too.
    """
    if not choices or not isinstance(word, str):
        return word
    kind = choices[checks.one_of(f"A name in `vary[{path!r}]`", word, choices)]
    if not isinstance(kind, type):
        return kind
    needed = [name for name, each in fields_of(kind).items() if each.default is dataclasses.MISSING]
    taken = [name for name in (*needed, "dtype") if name in fields_of(kind) and hasattr(replaces, name)]
    own = {name: getattr(replaces, name) for name in taken} | {n: fields[n] for n in needed if n in fields}
    if lacking := [name for name in needed if name not in own]:
        made = f"recurra.{kind.__name__}({', '.join(f'{name}=...' for name in lacking)})"
        raise ValueError(
            f"`vary[{path!r}]` has {word!r}, which has no default for {' and '.join(lacking)}: give the part itself "
            f"with its name, as {{{word!r}: {made}}} does."
        )
    return kind(**own)


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


def with_settings(
    arguments: dict[str, Any], settings: Mapping[str, Any], left_out: dict[str, NoEffectError] | None = None
) -> dict[str, Any]:
    """The arguments with other settings. Shorter paths come first, so that a learner may vary with a field of it.

    A setting that has no effect is noted in `left_out`, if that is given and what comes before it in its path varies.
    """
    paths = {given: path_of(given) for given in settings}
    of = lambda path: {each.rpartition(".")[2]: settings[n] for n, each in paths.items() if each.startswith(f"{path}.")}
    for given, path in sorted(paths.items(), key=lambda pair: pair[1].count(".")):
        name, *rest = path.split(".")
        if name not in arguments:
            choices = [*arguments, *ALIASES]
            near = get_close_matches(name, choices, n=1)
            meant = f"did you mean {near[0]!r}? C" if near else "c"
            raise ValueError(f"`vary` has {given!r}, and `{name}` cannot vary: {meant}hoose from {', '.join(choices)}.")
        try:
            if name == "learner" and rest and rest[0] in LEARNERS:
                _check_learner(arguments[name], rest.pop(0), given)
            value = settings[given] if rest else chosen(given, settings[given], table_of(name), None, of(path))
            new = replaced(arguments[name], rest, value, given, of(path))
        except NoEffectError as error:
            if left_out is None or not any(path.startswith(f"{other}.") for other in paths.values()):
                raise
            left_out[given] = error
        else:
            arguments = {**arguments, name: new}
    return arguments


def _check_learner(learner: Learner, name: str, path: str) -> None:
    """Raise unless a setting of one learner alone meets this learner."""
    if learner.about.id != name:
        raise NoEffectError(
            f"`vary` has {path!r}, which has no effect where the learner is {learner.about.id!r}: leave it out there, "
            f"or vary `learner` too, with {name!r} among its values."
        )


def replaced(part: Any, names: list[str], value: Any, path: str, fields: Mapping[str, Any]) -> Any:
    """A part of an experiment with one of its fields, or fields of fields, replaced. Its own checks apply.

    Where the value is a name, `fields` are those that vary of the part that it stands for.
    """
    if not names:
        return value
    name, *rest = names
    if name == "learning_rate" and not rest and isinstance(part, float | int):
        return value  # a bare learning rate is an optimizer of this one number
    known = _fields(part)
    if name not in known:
        what = type(part).__name__ if known else f"{part!r:.60}"
        choice = f"choose from {', '.join(known)}" if known else _advice(part)
        raise NoEffectError(f"`vary` has {path!r}, and {what} has no setting `{name}`: {choice}.")
    if isinstance(part, optax.GradientTransformation):
        return Injected(part, {name: floating(value)})
    if isinstance(part, Injected):
        return Injected(part.rule, {**part.numbers, name: floating(value)})
    if isinstance(part, Mapping):
        return {**part, name: replaced(part[name], rest, value, path, fields)}
    if isinstance(part, tuple):
        place = int(name)
        return (*part[:place], replaced(part[place], rest, value, path, fields), *part[place + 1 :])
    old = getattr(part, name)
    if not rest and name != "dtype":
        value = chosen(path, value, choices_of(type(part), name), old, fields)
    new = replaced(old, rest, value, path, fields)
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
    return list(fields_of(type(part))) if dataclasses.is_dataclass(part) else []


def _advice(part: Any) -> str:
    if isinstance(part, optax.GradientTransformation):
        return "use recurra.Adam, recurra.SGD, or optax.inject_hyperparams around Optax's own function"
    if isinstance(part, float):
        return "it is a number, which varies as a whole: leave out what follows the dot"
    return "it has no settings of its own"
