"""One language for the settings of a run: paths, and short names for a few of them.

A *path* leads to a setting of a run ("steps"), to the choice of a part by its registered name ("task", "network.cell"),
or to a field of a part, as deep as parts go ("task.t1", "network.cell.cells.0.n", "learner.layered.learner.nu"). Which
fields there are, what they may be and their defaults come from the registered classes. The short names are those of
`recurra.training.aliases`, which `rc.sweep` knows too. A setting is *named* by its short name where it has one.

What is derived cannot be set: inputs and outputs of the network follow from the task, and inputs of a layer from the
layer below.
"""

import dataclasses
import difflib
import functools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from recurra.training.aliases import ALIASES, name_of, path_of

if TYPE_CHECKING:
    from recurra.checks import Part

Kind = Literal["number", "text", "flag"]

#: settings of a run: the least and the most, the default, and what it is
RUN: dict[str, tuple[int, int, int | None, str]] = {
    "steps": (1, 2**31 - 1, 100_000, "Steps each seed learns for."),
    "seeds": (1, 2**53, 20, "Independent repetitions, trained at once."),
    "streams": (1, 2**53, 1, "Parallel streams that share a seed's weights."),
    "window": (1, 2**53, None, "Steps a kept loss is averaged over; a hundredth of the run."),
    # JAX keeps only 32 bits of a key, so a larger one would silently repeat a smaller one's run.
    "key": (0, 2**32 - 1, 0, "Start of all random numbers."),
    "layers": (1, 2**53, 1, "Recurrent layers: each is a cell with the settings of `network.cell`."),
}
#: whole numbers that the floats of a data set hold exactly
LARGEST = 2**53
#: defaults that are not those of the classes: fields of these names, and the choices of parts
DEFAULTS = {"n": 32, "dtype": "float32", "optimizer.learning_rate": 1e-4, "task.target.n_in": 32}
CHOSEN = {"task": "add", "network.cell": "rnn", "optimizer": "sgd", "engine": "auto"}
#: tables of a file
TABLES = ("set", "samples", "vary", "points", "tune")
#: fields that follow from others
DERIVED = {"n_in": "inputs follow from the task or the layer below", "n_out": "outputs follow from the task"}


class SettingsError(Exception):
    """What is wrong with a run's settings, one line for each problem."""


def options(typed: Any, choices: Collection[str]) -> str:
    """What could have been typed: the nearest of the choices, and all of them."""
    typed = str(typed).lower()
    near = difflib.get_close_matches(typed, list(choices), n=1) or [each for each in choices if typed in each][:1]
    near = near if len(typed) > 2 else []
    return f"{f'did you mean {near[0]!r}? C' if near else 'c'}hoose from {', '.join(choices)}."


def table_of(path: str) -> dict[str, Any]:
    """The registered parts that may stand at the beginning of a path."""
    import recurra

    tables = {
        "task": recurra.TASKS,
        "optimizer": recurra.OPTIMIZERS,
        "learner": recurra.LEARNERS,
        "network": {"network": recurra.Network},
        "engine": recurra.ENGINES,
    }
    return tables[path]


@functools.cache
def parts() -> "dict[str, type[Part]]":
    """All parts that may stand in the field of another, by name."""
    import recurra
    from recurra import cells
    from recurra.checks import command_name

    some = (recurra.FiringRate, recurra.ThroughLayers, recurra.RandomTargets, recurra.LocalLosses, recurra.Stack)
    drawn = (cells.Sparsely, cells.WithoutSelf)
    own = {command_name(kind): kind for kind in (*some, *drawn)}
    return {**recurra.CELLS, **recurra.LOSSES, **recurra.LEARNERS, **own}


@functools.cache
def choices_of(kind: type, name: str) -> dict[str, Any] | None:
    """What may stand in a field of a part, by name: functions and classes of parts. None for numbers and flags."""
    from recurra.checks import Part
    from recurra.saved.parts import FUNCTIONS

    if name == "dtype":
        return {"float32": "float32", "float64": "float64"}
    about = fields_of(kind)[name]
    bases = [each for each in (get_args(about.type) or (about.type,)) if isinstance(each, type)]
    bases = tuple(each for each in bases if issubclass(each, Part))
    functions = {full.rpartition(".")[2]: function for full, function in FUNCTIONS.get(name, {}).items()}
    if name == "w_rec":
        functions |= {name: each for name, each in parts().items() if each.__module__ == "recurra.cells.initial"}
    found = functions | {each: part for each, part in parts().items() if bases and issubclass(part, bases)}
    return found or None


@functools.cache
def fields_of(kind: type) -> dict[str, dataclasses.Field]:
    """The fields of a part that its constructor takes."""
    return {each.name: each for each in dataclasses.fields(kind) if each.init}


def word_for(value: Any) -> Any:
    """A setting as files have it: a part or a function by its name."""
    from recurra.checks import Part, command_name

    if isinstance(value, Part):
        about = getattr(value, "about", None)
        return about.id if about else command_name(type(value))
    return value.__name__ if callable(value) else value


@dataclass(frozen=True)
class Setting:
    """A setting: what it may be, and what it is when nothing is said."""

    name: str
    kind: Kind
    whole: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    #: whether a value of it is a part with settings of its own
    of_parts: bool = False

    def check(self, value: Any) -> Any:
        """The value as the setting takes it, or a ValueError that says what is wrong with it."""
        told = f"`{self.name}` must be"
        if self.choices:
            short = value.rpartition(".")[2] if isinstance(value, str) else value
            found = next((each for each in (value, short) if isinstance(each, str) and each in self.choices), None)
            if found is None:
                raise ValueError(f"`{self.name}` is {value!r}, which is unknown: {options(value, self.choices)}")
            return found
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise ValueError(f"{told} true or false, and is {value!r}.")
            return value
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            raise ValueError(f"{told} {'a whole number' if self.whole else 'a number'}, and is {value!r}.")
        if isinstance(value, int) and abs(value) > LARGEST:
            large = str(value) if value.bit_length() < 200 else f"about 2^{value.bit_length()}"
            raise ValueError(f"`{self.name}` is {large}, which is too large: at most 2⁵³ is possible.")
        if not math.isfinite(value):
            raise ValueError(f"{told} a finite number, and is {value!r}.")
        if self.least is not None and value < self.least:
            raise ValueError(f"{told} at least {self.least}, and is {value!r}.")
        if self.most is not None and value > self.most:
            raise ValueError(f"{told} at most {self.most}, and is {value!r}.")
        return value if self.whole else float(value)


@functools.cache
def find(name: str) -> Setting:
    """The setting of that name or path; a ValueError, with what could have been meant, if there is none."""
    path = path_of(name)
    name = name_of(path)
    head, *rest = path.split(".")
    if head in RUN and not rest:
        least, most, default, _ = RUN[head]
        return Setting(name, "number", True, default, least=least, most=most)
    if head not in ("task", "network", "optimizer", "learner", "engine"):
        raise ValueError(f"`{head}` is not a setting: {options(head, ['learners', *top_names(), *TABLES])}")
    if path == "learner":
        told = "write a table for a single learner, such as [learner.kernl]; which learners to train is `learners`"
        raise ValueError(f"`learner` is not a setting: {told}.")
    if not rest and head != "network":
        return Setting(name, "text", default=CHOSEN.get(head), choices=tuple(table_of(head)), of_parts=head != "engine")
    kinds: dict[str, Any] = table_of(head)
    if head == "learner" and rest[0] in kinds:
        kinds = {rest[0]: kinds[rest.pop(0)]}
    elif head == "learner" and len(rest) > 1 and not any(rest[0] in fields_of(kind) for kind in kinds.values()):
        raise ValueError(f"`learner.{rest[0]}` is not a learner: {options(rest[0], kinds)}")
    return _below(name, path, head, kinds, rest)


def _below(name: str, path: str, at: str, kinds: dict[str, Any], rest: list[str]) -> Setting:
    """The setting to which the rest of a path leads from one of several kinds of parts."""
    found: dict[type, dataclasses.Field] = {}
    for place, segment in enumerate(rest):
        if segment.isdigit() and rest[place - 1 : place] == ["cells"]:
            continue
        known = {f for kind in kinds.values() if isinstance(kind, type) for f in _settable(at, kind)}
        found = {kind: fields_of(kind)[segment] for kind in kinds.values() if segment in _settable(at, kind)}
        if not found:
            if segment in DERIVED:
                raise ValueError(f"`{name}` cannot be set: {DERIVED[segment]}.")
            what = name_of(".".join(path.split(".")[: -len(rest) + place]))
            if not known:
                raise ValueError(f"`{name}` is not a setting: {what.removeprefix('learner.')} has none.")
            raise ValueError(f"`{name}` is not a setting of `{what}`: {options(segment, sorted(known))}")
        at = f"{at}.{segment}"
        kinds = {}
        for kind in found:
            kinds |= choices_of(kind, segment) or {}
    if not found or (rest and rest[-1] == "cells"):
        raise ValueError(f"`{name}` is not a setting, but has some: {options('', sorted(_known_below(kinds)))}")
    return _setting(name, path, next(iter(found.values())), kinds)


def _known_below(kinds: Mapping[str, Any]) -> set[str]:
    return {each for kind in kinds.values() if isinstance(kind, type) for each in _settable("network", kind)}


def _settable(at: str, kind: Any) -> list[str]:
    """The fields of a kind of part that can be set, where it stands at this place."""
    if not isinstance(kind, type):
        return []
    target = at.startswith("task.target")
    return [each for each in fields_of(kind) if each not in DERIVED or (target and each == "n_in")]


def _setting(name: str, path: str, about: dataclasses.Field, choices: Mapping[str, Any]) -> Setting:
    default = default_of(path, about)
    if choices:
        of_parts = any(isinstance(each, type) for each in choices.values())
        return Setting(name, "text", False, word_for(default), tuple(choices), of_parts=of_parts)
    kinds = get_args(about.type) or (about.type,)
    if isinstance(default, bool) or bool in kinds:
        return Setting(name, "flag", False, default)
    whole = float not in kinds and int in kinds
    return Setting(name, "number", whole, float(default) if isinstance(default, int) and not whole else default)


def default_of(path: str, about: dataclasses.Field) -> Any:
    """What a field is when nothing is said."""
    if path in CHOSEN:
        return CHOSEN[path]
    own = DEFAULTS.get(path, DEFAULTS.get(about.name))
    return own if own is not None else None if about.default is MISSING else about.default


def top_names() -> list[str]:
    """The names of settings that stand by themselves, without a path."""
    return [*RUN, "engine", "task", "optimizer", *ALIASES]


@dataclass(frozen=True)
class Plan:
    """A part to be made: its class, and the values of its fields: plain ones, functions, plans, lists of plans."""

    kind: type
    values: dict[str, Any]


@dataclass
class Planner:
    """What given settings make of a run. `used` are all settings that have an effect, with what they are."""

    given: Mapping[str, Any]  # by path
    used: dict[str, Any] = field(default_factory=dict)

    def learner(self, name: str) -> Plan:
        """The plan of a learner."""
        return self._part(table_of("learner")[name], [f"learner.{name}", "learner"])

    def task(self) -> Plan:
        """The plan of the task."""
        return self._root("task")

    def optimizer(self) -> Plan:
        """The plan of the optimizer."""
        return self._root("optimizer")

    def network(self, task: type) -> Plan:
        """The plan of the network for a task of this kind. Its cell is the first of its values."""
        kind = table_of("network")["network"]
        values = {"cell": self._cell(["network.cell"], self._take(["layers"], RUN["layers"][2]))}
        wanted = {"loss": getattr(task, "default_loss", None)}
        return Plan(kind, values | self._values(kind, ["network"], leave_out=("cell", *DERIVED), instead=wanted))

    def _root(self, path: str) -> Plan:
        return self._part(table_of(path)[self._take([path], CHOSEN[path])], [path])

    def _take(self, paths: list[str], default: Any) -> Any:
        """What is given at the first of the paths at which something is."""
        path = next((path for path in paths if path in self.given), paths[0])
        self.used[path] = value = self.given.get(path, default)
        return value

    def _names_below(self, paths: list[str]) -> set[str]:
        """The next segments of all that is given below the paths."""
        return {
            given.removeprefix(f"{path}.").split(".")[0] for path in paths for given in self.given
            if given.startswith(f"{path}.")
        }  # fmt: skip

    def _cell(self, paths: list[str], layers: int = 1) -> Plan:
        """A cell, or a stack whose layers have the settings of `paths` where they have none of their own."""
        from recurra.cells import CELLS, Stack

        own = {given.removeprefix(f"{paths[0]}.cells.").split(".")[0] for given in self.given
               if given.startswith(f"{paths[0]}.cells.")}  # fmt: skip
        if layers == 1 and not own and self.given.get(paths[0]) != "stack":
            outer = [path for path in paths if self.given.get(path) != "stack"]
            return self._part(CELLS[self._take(outer, CHOSEN["network.cell"])], paths)
        if self.given.get(paths[0]) == "stack":
            self.used[paths[0]] = "stack"
        count = layers if layers > 1 else max([int(each) + 1 for each in own], default=1)
        each = [self._cell([f"{paths[0]}.cells.{layer}", *paths]) for layer in range(count)]
        return Plan(Stack, {"cells": each, **self._values(Stack, paths[:1], leave_out=("cells",))})

    def _part(self, kind: type, paths: list[str], instead: Mapping[str, Any] = MappingProxyType({})) -> Plan:
        target = paths[0].startswith("task.target")
        derived = tuple(name for name in DERIVED if not (target and name == "n_in"))
        return Plan(kind, self._values(kind, paths, derived, instead))

    def _values(
        self, kind: type, paths: list[str], leave_out: Iterable[str], instead: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The values of a part's fields, but for those that its constructor finds by itself."""
        values = {}
        for name, about in fields_of(kind).items():
            if name in leave_out:
                continue
            own = [f"{path}.{name}" for path in paths]
            if own[0].startswith("task.target.w_rec"):  # the target starts as in the paper: `w_rec` is about learning
                own = own[:1]
            if own[0] == "task.target":
                values[name] = self._cell([*own, "network.cell"])
                continue
            choices = choices_of(kind, name)
            default = default_of(own[0], about) if name not in instead else instead[name]
            if choices is None:
                value = self._take(own, default)
                if any(path in self.given for path in own) or own[0] in DEFAULTS or name in DEFAULTS or name in instead:
                    values[name] = value
                continue
            found = self._chosen(kind, choices, own, default)
            if found is not None:
                values[name] = found
        return values

    def _chosen(self, owner: type, choices: Mapping[str, Any], paths: list[str], default: Any) -> Any:
        """The function, or the plan of the part, that stands in a field; None for what its class has there."""
        from recurra.checks import command_name

        below = self._names_below(paths)
        given = any(path in self.given for path in paths)
        has = lambda kind: isinstance(kind, type) and below <= set(fields_of(kind))
        kind = default if isinstance(default, type) else type(default)
        word = command_name(kind) if isinstance(default, type) else word_for(default)
        if not given and below and not (word in choices and has(choices[word])):
            # A field of one part alone says which part is meant, as `density` does.
            word = next((name for name, each in choices.items() if has(each)), word)
        word = self._take(paths, word)
        if word is None:
            return None
        chosen = choices[word]
        if isinstance(chosen, type):
            # As is usual, a spiking unit with sparse weights does not hear itself.
            plan = self._part(chosen, paths, {"itself": getattr(owner, "smooth", True)})
            return plan if given or below or isinstance(default, type) else None
        return chosen if given or isinstance(chosen, str) else None


def plan_of(given: Mapping[str, Any], learners: Iterable[str]) -> tuple[Planner, dict[str, Plan], dict[str, Plan]]:
    """The planner of settings by name, the plans of task, network and optimizer, and those of the learners."""
    planner = Planner({path_of(name): value for name, value in given.items()})
    task = planner.task()
    made = {"task": task, "network": planner.network(task.kind), "optimizer": planner.optimizer()}
    return planner, made, {name: planner.learner(name) for name in learners}


def decides(name: str) -> bool:
    """Whether it depends on a setting which others have an effect."""
    return name in ("layers", "learner") or find(name).of_parts


def effective(given: Mapping[str, Any], learners: Iterable[str]) -> frozenset[str]:
    """Those of the names that have an effect: values of settings that decide nothing do not matter."""
    key = tuple((name, value if decides(name) else None) for name, value in given.items())
    return _effective(key, tuple(learners))


@functools.lru_cache(maxsize=4096)
def _effective(given: tuple[tuple[str, Any], ...], learners: tuple[str, ...]) -> frozenset[str]:
    planner, _, _ = plan_of(dict(given), learners)
    alone = (*RUN, "engine", "learners")
    return frozenset(name for name, _ in given if (name in alone and name != "layers") or path_of(name) in planner.used)


def in_vain(name: str, runs: Iterable[Mapping[str, Any]]) -> str:
    """That a setting has no effect, and why. `runs` are the settings that have one, as in `Planner.used`."""
    path = path_of(name)
    segments = path.split(".")
    if segments[0] == "learner" and segments[1] in table_of("learner"):
        return f"`{name}` has no effect: {segments[1]} is not among the `learners`. Add it to them, or leave this out."
    if segments[0] == "learner" and len(segments) == 2:
        return f"`{name}` has no effect: none of the `learners` has it."
    runs, kinds = list(runs), {**parts(), **table_of("task"), **table_of("optimizer")}
    for place in range(1, len(segments)):
        above, field = ".".join(segments[:place]), segments[place]
        if above == "network.cell" and field in ("cells", "skip"):
            above = "layers"
            layer = int(segments[place + 1]) if field == "cells" else None
            has = lambda count, layer=layer: layer is not None if count == 1 else count > (layer or 0)
        elif above == "network" or field.isdigit() or not find(above).of_parts:
            continue
        else:
            has = lambda word, field=field: word in kinds and field in fields_of(kinds[word])
            if segments[place - 1].isdigit() and not any(above in run for run in runs):
                above = "network.cell"  # a layer is of the kind of all layers if nothing else is said
        seen = list(dict.fromkeys(run[above] for run in runs if above in run))
        if seen and not any(map(has, seen)):
            other, wanted = name_of(above), [word for word in find(above).choices if has(word)]
            break
    else:
        return f"`{name}` has no effect: leave it out."
    told = " and ".join(map(repr, seen))
    made = f", or make `{other}` {' or '.join(map(repr, wanted))}" if wanted else ""
    return f"`{name}` has no effect where `{other}` is {told}: leave it out{made}."


def every_setting(beginning: str = "") -> Iterator[tuple[Setting, list[str]]]:
    """The settings whose path begins so, and the parts that have them; of parts within parts only where it is asked."""
    beginning = path_of(beginning)
    for name in (*RUN, "engine", "task", "optimizer"):
        if name.startswith(beginning):
            yield find(name), ["a run"]
    heads = {"task": "task", "network": "network", "optimizer": "optimizer", "network.cell": "network.cell"}
    roots = {**heads, **{f"learner.{name}": "learner" for name in table_of("learner")}}
    if beginning and find_or_none(beginning):
        roots[beginning] = beginning
    for path in roots:
        if not f"{path}.".startswith(beginning):
            continue
        kinds = kinds_at(path)
        for name in dict.fromkeys(name for kind in kinds.values() for name in _settable(path, kind)):
            if (setting := find_or_none(f"{path}.{name}")) is not None:
                owners = [word for word, kind in kinds.items() if name in _settable(path, kind)]
                yield setting, owners


def kinds_at(path: str) -> dict[str, Any]:
    """The parts that may stand at a path, by name."""
    head, *rest = path.split(".")
    if head == "learner" and rest and rest[0] in table_of(head) and len(rest) == 1:
        return {rest[0]: table_of(head)[rest[0]]}
    if not rest:
        return table_of(head)
    everything = {**parts(), **table_of("task"), **table_of("optimizer")}
    return {word: everything[word] for word in find(path).choices if word in everything}


def find_or_none(name: str) -> Setting | None:
    """The setting of that name, None if there is none."""
    try:
        return find(name)
    except ValueError:
        return None
