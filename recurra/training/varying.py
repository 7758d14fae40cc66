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
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from recurra import checks
from recurra.cells.stack import Stack
from recurra.checks import Part
from recurra.learners import LEARNERS
from recurra.learners.base import Learner
from recurra.network import Network
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
    """The arguments with other settings. Each part is made once, with all that is given for it: its own checks apply.

    A setting that has no effect is noted in `left_out`, if that is given and what comes before it in its path varies.
    """
    paths = {path_of(given): given for given in settings}
    found: dict[str, dict[Below, Given]] = {}
    for path, given in paths.items():
        name, *rest = path.split(".")
        if name not in arguments:
            choices = [*arguments, *ALIASES]
            near = get_close_matches(name, choices, n=1)
            meant = f"did you mean {near[0]!r}? C" if near else "c"
            raise ValueError(f"`vary` has {given!r}, and `{name}` cannot vary: {meant}hoose from {', '.join(choices)}.")
        found.setdefault(name, {})[tuple(rest)] = Given(given, settings[given])
    changes = _Changes()
    made = {name: changes.made(arguments[name], each, table_of(name)) for name, each in found.items()}
    for path, given in paths.items():
        if given not in changes.used:
            if left_out is None or not any(path.startswith(f"{other}.") for other in paths):
                raise changes.errors[given]
            left_out[given] = changes.errors[given]
    return {**arguments, **made}


#: the segments of a path below a part
Below = tuple[str, ...]


class Given(NamedTuple):
    """What is given for a setting, and what that is called there."""

    name: str
    value: Any


class _Changes:
    """Makes parts with other settings, and notes which of these have an effect, and why others have none."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.errors: dict[str, NoEffectError] = {}

    def made(
        self,
        part: Any,
        settings: Mapping[Below, Given],
        choices: Mapping[str, Any],
        owner: Any = None,
        is_default: bool = False,
    ) -> Any:
        """A part of an experiment, or what takes its place, with these settings of it and of its fields.

        By `choices` it may be given by its name. `owner` has it in a field, where nobody chose it if it `is_default`.
        """
        fields: dict[str, dict[Below, Given]] = {}
        for (name, *rest), given in ((path, given) for path, given in settings.items() if path):
            fields.setdefault(name, {})[tuple(rest)] = given
        if () in settings:
            self.used.add(settings[()].name)
            part = self._chosen(part, settings[()], choices, fields, owner)
        elif is_default and not fields.keys() <= _fields(part).keys():
            # A field of one part alone says which part is meant, as `density` does.
            fits = lambda kind: isinstance(kind, type) and {*_needed(kind)} <= fields.keys() <= fields_of(kind).keys()
            if word := next((word for word, kind in choices.items() if fits(kind)), None):
                part = self._chosen(part, next(iter(settings.values()))._replace(value=word), choices, fields, owner)
        if isinstance(part, Learner):
            fields = self._of_learner(part, fields)
        if isinstance(part, Stack):
            fields = self._of_layers(part, fields)
        if isinstance(part, float | int) and fields.keys() == {"learning_rate"}:
            return self.made(part, fields["learning_rate"], {})  # a bare learning rate is an optimizer of this number
        known, new = _fields(part), {}
        for name, each in fields.items():
            if name in known:
                is_default = isinstance(part, Part) and known[name] is fields_of(type(part))[name].default
                new[name] = self.made(known[name], each, _choices(part, name), part, is_default)
            else:
                self._note(part, name, known, each)
        return _with(part, new) if new else part

    def _note(self, part: Any, name: str, known: Collection[str], settings: Mapping[Below, Given]) -> None:
        """Note that a part has no such field."""
        what = type(part).__name__ if known else f"{part!r:.60}"
        choice = f"choose from {', '.join(known)}" if known else _advice(part)
        for given in settings.values():
            error = NoEffectError(f"`vary` has {given.name!r}, and {what} has no setting `{name}`: {choice}.")
            self.errors.setdefault(given.name, error)

    def _of_learner(self, learner: Learner, fields: dict[str, dict[Below, Given]]) -> dict[str, dict[Below, Given]]:
        """The fields of a learner, of which some settings may be for one learner alone, named with it."""
        own = {name: each for name, each in fields.items() if name not in LEARNERS}
        for name in fields.keys() - own.keys():
            for (field, *rest), given in fields[name].items():
                if name == learner.about.id:
                    own[field] = {**own.get(field, {}), tuple(rest): given}
                    continue
                self.errors[given.name] = NoEffectError(
                    f"`vary` has {given.name!r}, which has no effect where the learner is {learner.about.id!r}: leave "
                    f"it out there, or vary `learner` too, with {name!r} among its values."
                )
        return own

    def _of_layers(self, stack: Stack, fields: dict[str, dict[Below, Given]]) -> dict[str, dict[Below, Given]]:
        """The fields of a stack. What it does not have is that of each layer, unless the layer has its own."""
        own = {name: each for name, each in fields.items() if name in _fields(stack)}
        of_all = {(name, *rest): given for name in fields.keys() - own.keys() for rest, given in fields[name].items()}
        layers = {(str(layer), *rest): given for layer in range(len(stack.cells)) for rest, given in of_all.items()}
        return own | {"cells": {**layers, **own.get("cells", {})}} if layers else own

    def _chosen(
        self, part: Any, given: Given, choices: Mapping[str, Any], fields: dict[str, dict[Below, Given]], owner: Any
    ) -> Any:
        """What a name stands for; any other value as it is.

        A part has its defaults. What has none is among the `fields` that are given, or as in the part that was there,
        whose type it has too.
        """
        if not choices or not isinstance(given.value, str):
            return given.value
        kind = choices[checks.one_of(f"A name in `vary[{given.name!r}]`", given.value, choices)]
        if not isinstance(kind, type):
            return kind
        needed = _needed(kind)
        taken = [name for name in (*needed, "dtype") if name in fields_of(kind) and hasattr(part, name)]
        own = {name: getattr(part, name) for name in taken}
        if "itself" in fields_of(kind):  # as is usual, a spiking unit with sparse weights does not hear itself
            own["itself"] = getattr(owner, "smooth", True)
        own |= {name: fields[name][()].value for name in needed if () in fields.get(name, {})}
        if lacking := [name for name in needed if name not in own]:
            made = f"recurra.{kind.__name__}({', '.join(f'{name}=...' for name in lacking)})"
            raise ValueError(
                f"`vary[{given.name!r}]` has {given.value!r}, which has no default for {' and '.join(lacking)}: give "
                f"the part itself with its name, as {{{given.value!r}: {made}}} does."
            )
        return kind(**own)


def _fields(part: Any) -> dict[str, Any]:
    """What a setting may lead to within a part, with what is there."""
    match part:
        case Injected() | optax.GradientTransformation():
            return dict.fromkeys(Injected.names_of(part.rule if isinstance(part, Injected) else part))
        case Mapping():
            return {str(name): each for name, each in part.items()}
        case tuple():
            return {str(place): each for place, each in enumerate(part)}
    return {name: getattr(part, name) for name in fields_of(type(part))} if dataclasses.is_dataclass(part) else {}


def _needed(kind: type) -> list[str]:
    """The fields of a class that have no default."""
    return [name for name, each in fields_of(kind).items() if each.default is dataclasses.MISSING]


def _choices(part: Any, name: str) -> Mapping[str, Any]:
    """What may stand in a field by its name."""
    if isinstance(part, tuple):  # layers
        return choices_of(Network, "cell")
    return choices_of(type(part), name) if isinstance(part, Part) and name != "dtype" else {}


def _with(part: Any, new: dict[str, Any]) -> Any:
    """A part with some of its fields replaced."""
    match part:
        case Injected():
            return Injected(part.rule, part.numbers | {name: floating(value) for name, value in new.items()})
        case optax.GradientTransformation():
            return Injected(part, {name: floating(value) for name, value in new.items()})
        case Mapping():
            return {**part, **new}
        case tuple():
            return tuple(new.get(str(place), each) for place, each in enumerate(part))
        case Stack():
            return Stack.fitting(new.get("cells", part.cells), new.get("skip", part.skip))
    return dataclasses.replace(part, **new)


def _advice(part: Any) -> str:
    if isinstance(part, optax.GradientTransformation):
        return "use recurra.Adam, recurra.SGD, or optax.inject_hyperparams around Optax's own function"
    if isinstance(part, float):
        return "it is a number, which varies as a whole: leave out what follows the dot"
    return "it has no settings of its own"
