"""What may stand at a place, by its name: for `rc.sweep`, study files and the command line alike.

Nothing here imports JAX before it is needed, so that `recurra --help` is quick.
"""

import dataclasses
import functools
from typing import Any, get_args


def table_of(path: str) -> dict[str, Any]:
    """What may stand at the beginning of a path, by name; nothing where no path begins so."""
    import recurra

    tables = {
        "task": recurra.TASKS,
        "optimizer": recurra.OPTIMIZERS,
        "learner": recurra.LEARNERS,
        "network": {"network": recurra.Network},
        "engine": {name: name for name in recurra.ENGINES},  # an engine has no settings here
    }
    return tables.get(path, {})


@functools.cache
def parts() -> dict[str, type]:
    """All parts that may stand in the field of another, by name."""
    import recurra
    from recurra import cells
    from recurra.checks import command_name

    some = (recurra.FiringRate, recurra.ThroughLayers, recurra.RandomTargets, recurra.LocalLosses, recurra.Stack)
    own = {command_name(kind): kind for kind in (*some, cells.Sparsely, cells.WithoutSelf)}
    return {**recurra.CELLS, **recurra.LOSSES, **recurra.LEARNERS, **own}


@functools.cache
def fields_of(kind: type) -> dict[str, dataclasses.Field]:
    """The fields of a part that its constructor takes."""
    return {each.name: each for each in dataclasses.fields(kind) if each.init}


@functools.cache
def choices_of(kind: type, name: str) -> dict[str, Any]:
    """What may stand in a field of a part, by name: functions and classes of parts. Nothing for numbers and flags."""
    from recurra.checks import Part
    from recurra.saved.parts import FUNCTIONS

    if name == "dtype":
        return {"float32": "float32", "float64": "float64"}
    types = [each for each in types_of(fields_of(kind)[name]) if isinstance(each, type)]
    bases = tuple(each for each in types if issubclass(each, Part))
    functions = {full.rpartition(".")[2]: function for full, function in FUNCTIONS.get(name, {}).items()}
    draws = lambda part: name == "w_rec" and part.__module__ == "recurra.cells.initial"
    return functions | {word: part for word, part in parts().items() if issubclass(part, bases) or draws(part)}


def types_of(about: dataclasses.Field) -> tuple[Any, ...]:
    """The types of a field: each of a union."""
    return get_args(about.type) or (about.type,)


def word_for(value: Any) -> Any:
    """A setting as files have it: a part or a function by its name."""
    from recurra.checks import Part, command_name

    if isinstance(value, Part):
        about = getattr(value, "about", None)
        return about.id if about else command_name(type(value))
    return value.__name__ if callable(value) else value
