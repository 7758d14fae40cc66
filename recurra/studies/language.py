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
from collections.abc import Collection, Iterator
from dataclasses import MISSING, dataclass
from typing import Any, Literal

from recurra.training.aliases import ALIASES, is_number, name_of, path_of
from recurra.training.choices import choices_of, fields_of, table_of, types_of, word_for

Kind = Literal["number", "text", "flag"]

#: whole numbers that the floats of a data set hold exactly
LARGEST = 2**53
#: layers of a network, and segments of a path, where no one needs more
MOST_LAYERS, MOST_SEGMENTS = 100, 40
#: defaults that are not those of the classes, by path or by the name of a field
DEFAULTS: dict[str, Any] = {
    **{"task": "add", "network.cell": "rnn", "optimizer": "sgd", "engine": "auto"},
    **{"n": 32, "dtype": "float32", "optimizer.learning_rate": 1e-4, "task.target.n_in": 32},
}
#: what belongs to the file of a study, and tables of a file
OF_STUDIES = ("samples", "vary", "points", "tune")
TABLES = ("set", *OF_STUDIES)
#: names of 0.1, and the paths that took their place
OLD = {
    **{name: f"task.{name}" for name in ("t1", "t2", "stretch", "sampled", "outputs")},
    **{"inputs": "task.target.n_in", "random_feedback": "network.random_feedback"},
    **{"task_options": "task", "cell_options": "network.cell"},
}
#: fields that follow from others
DERIVED = {"n_in": "inputs follow from the task or the layer below", "n_out": "outputs follow from the task"}


class SettingsError(Exception):
    """What is wrong with a run's settings, one line for each problem."""


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

    def check(self, value: Any, of: str = "") -> Any:
        """The value as the setting takes it, or a ValueError that says what is wrong with it.

        `of` says of what it is the setting, as in " of `alpha`".
        """
        told = f"`{self.name}`{of} must be"
        if self.choices:
            short = value.rpartition(".")[2] if isinstance(value, str) else value
            for word in (value, short):
                if isinstance(word, str) and word in self.choices:
                    return word
            raise ValueError(f"`{self.name}` is {value!r}, which is unknown: {options(value, self.choices)}")
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


def counted(name: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> Setting:
    """A setting that is a whole number."""
    return Setting(name, "number", True, default, least=least, most=most)


#: settings of a run that are whole numbers
RUN = {
    # Steps each seed learns for.
    "steps": counted("steps", 100_000, most=2**31 - 1),
    # Independent repetitions, trained at once.
    "seeds": counted("seeds", 20, most=2**32),
    # Parallel streams that share a seed's weights; as many as the task's data come in.
    "streams": counted("streams"),
    # Steps a kept loss is averaged over; a hundredth of the run.
    "window": counted("window"),
    # Start of all random numbers. JAX keeps only 32 bits of it, so a larger one would silently repeat another's run.
    "key": counted("key", 0, least=0, most=2**32 - 1),
    # Recurrent layers: each is a cell with the settings of `network.cell`.
    "layers": counted("layers", 1, most=MOST_LAYERS),
}


def options(typed: Any, choices: Collection[str]) -> str:
    """What could have been typed: the nearest of the choices, and all of them."""
    typed = str(typed).lower()
    near = difflib.get_close_matches(typed, list(choices), n=1) or [each for each in choices if typed in each][:1]
    meant = f"did you mean {near[0]!r}? C" if near and len(typed) > 2 else "c"
    return f"{meant}hoose from {', '.join(choices)}."


def learners_of(names: Any) -> tuple[str, ...]:
    """The names of learners, if there are such learners and none is there twice; else a ValueError."""
    known = table_of("learner")
    if not names:
        example = 'as in learners = ["rflo", "uoro"] at the top of a file'
        raise ValueError(f"`learners` is missing or empty, {example}: choose at least one of {', '.join(known)}.")
    if not isinstance(names, list | tuple):
        raise ValueError(f'`learners` must be a list such as ["uoro", "rflo"], and is {names!r}.')
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"`learners` is {name!r}, which is unknown: {options(name, known)}")
        if list(names).count(name) > 1:
            raise ValueError(f"`learners` must be different, and {name!r} is there {list(names).count(name)} times.")
    return tuple(names)


def settable(path: str, kind: Any) -> dict[str, dataclasses.Field]:
    """The fields that can be set of what stands at a path: none of a function. Only a target's inputs can be set."""
    free = {"n_in"} if path.startswith("task.target") else set()
    fields = fields_of(kind) if isinstance(kind, type) else {}
    return {name: about for name, about in fields.items() if name not in DERIVED or name in free}


@functools.cache
def kinds_at(path: str) -> dict[str, Any] | None:
    """What may stand at a path, by name: parts and functions, and nothing for a number. None if there is no such path.

    Below "learner" is what any learner has, as well as each learner by its name.
    """
    above, _, last = path.rpartition(".")
    if not above:
        return table_of(path) or None
    if above == "learner" and last in table_of("learner"):
        return {last: table_of("learner")[last]}
    fields = _fields_at(path)
    found = {word: each for kind, about in fields for word, each in choices_of(kind, about.name).items()}
    return found if fields else None


def _fields_at(path: str) -> list[tuple[type, dataclasses.Field]]:
    """The fields to which a path may lead, each with the part that has it; a layer is in the field of all layers."""
    above, _, last = path.rpartition(".")
    if is_number(last) and above.endswith(".cells"):
        return _fields_at(above)
    owners = [(kind, settable(above, kind)) for kind in (kinds_at(above) or {}).values()]
    return [(kind, fields[last]) for kind, fields in owners if last in fields]


@functools.cache
def find(name: str) -> Setting:
    """The setting of that name or path; a ValueError, with what could have been meant, if there is none."""
    path = path_of(name)
    name = name_of(path)
    segments = path.split(".")
    if len(segments) > MOST_SEGMENTS:
        told = f"{len(segments):,} names, and no setting has more than {MOST_SEGMENTS}"
        raise ValueError(f"`{name:.60}…` is not a setting: its path has {told}.")
    if layer := next((each for each in segments if is_number(each) and int(each[:9]) >= MOST_LAYERS), None):
        raise ValueError(
            f"`{name:.60}` is a setting of layer {layer:.20}, and a network has at most {MOST_LAYERS:,} layers, from 0 "
            f"to {MOST_LAYERS - 1}."
        )
    if path in RUN:
        return RUN[path]
    if path in ("task", "optimizer", "engine"):
        return Setting(name, "text", False, DEFAULTS[path], tuple(table_of(path)), of_parts=path != "engine")
    fields = _fields_at(path)
    if not fields or path.endswith(".cells"):
        raise not_found(path)
    _, about = fields[0]
    default = default_of(path, about)
    if choices := kinds_at(path):
        of_parts = any(isinstance(each, type) for each in choices.values())
        return Setting(name, "text", False, word_for(default), tuple(choices), of_parts=of_parts)
    if bool in types_of(about):
        return Setting(name, "flag", False, default)
    from recurra.saved.parts import SIZES, WIDEST

    whole, most = float not in types_of(about), WIDEST if about.name in SIZES else None
    return Setting(name, "number", whole, default if whole or default is None else float(default), most=most)


def not_found(path: str) -> ValueError:
    """Why there is no setting at a path, with what could have been meant."""
    name, segments = name_of(path), path.split(".")
    if segments[0] in OLD:
        now = ".".join([OLD[segments[0]], *segments[1:]])
        return ValueError(f"`{name}` was a name of recurra 0.1, and is `{now}` now: docs/migration.md has the others.")
    if not table_of(segments[0]):
        told = options(segments[0], ["learners", *top_names(), *TABLES])
        return ValueError(f"`{segments[0]}` is not a setting: {told}")
    if path == "learner":
        told = "write a table for a single learner, such as [learner.kernl]; which learners to train is `learners`"
        return ValueError(f"`learner` is not a setting: {told}.")
    known = 0  # how many of the segments lead to something
    while known < len(segments) and kinds_at(".".join(segments[: known + 1])) is not None:
        known += 1
    above = ".".join(segments[:known])
    fields = sorted({field for kind in (kinds_at(above) or {}).values() for field in settable(above, kind)})
    if not fields:
        return ValueError(f"`{name}` is not a setting: {name_of(above).removeprefix('learner.')} has none.")
    if known == len(segments):
        return ValueError(f"`{name}` is not a setting, but has some: {options('', fields)}")
    segment = segments[known]
    if segment in DERIVED:
        return ValueError(f"`{name}` cannot be set: {DERIVED[segment]}.")
    if above == "learner" and known + 1 < len(segments):
        return ValueError(f"`learner.{segment}` is not a learner: {options(segment, table_of('learner'))}")
    return ValueError(f"`{name}` is not a setting of `{name_of(above)}`: {options(segment, fields)}")


def default_of(path: str, about: dataclasses.Field) -> Any:
    """What a field is when nothing is said; None if its part decides."""
    own = None if about.default is MISSING else about.default
    return DEFAULTS.get(path, DEFAULTS.get(about.name, own))


def top_names() -> list[str]:
    """The names of settings that stand by themselves, without a path."""
    return [*RUN, "engine", "task", "optimizer", *ALIASES]


def every_setting(beginning: str = "") -> Iterator[tuple[Setting, list[str]]]:
    """The settings whose path begins so, and the parts that have them; of parts within parts only where it is asked."""
    beginning = path_of(beginning)
    for name in (*RUN, "engine", "task", "optimizer"):
        if name.startswith(beginning):
            yield find(name), ["a run"]
    above, _, last = beginning.rpartition(".")
    having = [word for word, kind in (kinds_at(above) or {}).items() if last in settable(above, kind)]
    if having and last != "cells":
        yield find(beginning), having
    roots = ["task", "network", "optimizer", "network.cell", *(f"learner.{name}" for name in table_of("learner"))]
    roots += [beginning] if _fields_at(beginning) else []
    for path in dict.fromkeys(root for root in roots if f"{root}.".startswith(beginning)):
        owners: dict[str, list[str]] = {}
        for word, kind in (kinds_at(path) or {}).items():
            for name in settable(path, kind):
                owners.setdefault(name, []).append(word)
        for name in (name for name in owners if name != "cells"):
            yield find(f"{path}.{name}"), owners[name]
