"""Networks, learners and their like as JSON and back.

    {"part": "RNN", "fields": {"n_in": 2, "n": 32, "alpha": 1.0, "phi": {"function": "jax.numpy.tanh"}, ...}}

Only what the tables here name is ever described or built. A name in a file is looked up there and nowhere else: nothing
is imported or called by a name that a file gives. Parts are built by their own constructors, whose checks run.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recurra import cells, learners, losses, step, tasks
from recurra.checks import Part
from recurra.learners import LEARNERS
from recurra.linalg import noise
from recurra.network import Network
from recurra.saved.headers import DTYPES

#: every part that a file can describe, by the name of its class; `register` adds to it
PARTS: dict[str, type[Part]] = {}

_NN = (
    "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "identity", "leaky_relu", "log_sigmoid", "mish",
    "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "squareplus",
)  # fmt: skip
#: the functions that a field of this name may hold, by the names that files give them
FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "phi": {f"jax.numpy.{f.__name__}": f for f in (jnp.tanh, jnp.arctan, jnp.sin, jnp.cos)}
    | {f"jax.nn.{name}": getattr(jax.nn, name) for name in _NN if hasattr(jax.nn, name)},
    "w_rec": {
        f"recurra.cells.{f.__name__}": f for f in (cells.orthogonal, cells.gaussian, cells.symmetric, cells.diagonal)
    },
    "drawn": {f"recurra.cells.{f.__name__}": f for f in (cells.orthogonal, cells.gaussian, cells.symmetric)},
    "surrogate": {f"recurra.cells.{f.__name__}": f for f in (cells.triangular, cells.fast_sigmoid, cells.arctan)},
    "nu": {f"recurra.noise.{f.__name__}": f for f in (noise.signs, noise.gaussian, noise.uniform)},
}
#: types by their names
_TYPES = {dtype.name: dtype for dtype in DTYPES.values()}
#: Cells make vectors of these sizes to check themselves, so a forged file could ask for any amount of memory.
SIZES, WIDEST = ("n_in", "n", "n_out"), 2**24
#: floating-point numbers that JSON has no name for
_UNUSUAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


#: fields that parts did not have in earlier versions, and what they were like without
LATER: dict[str, dict[str, Any]] = {
    "LearningStep": {"exact_probes": []},
    "Network": {"head": None},
    "OnlineStep": {"resets": False},
}


class NotDescribedError(TypeError):
    """A part is not the library's own, so that a file cannot describe it. `reason` says which, and why."""

    def __init__(self, reason: str):
        super().__init__(_refusal(reason))
        self.reason = reason


def register(*kinds: type[Part]) -> None:
    """Let files describe parts of these classes, and build them."""
    for kind in kinds:
        if PARTS.setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"There is another part called {kind.__name__!r}: choose another name.")


def described(part: Part) -> dict[str, Any]:
    """The part as JSON; `NotDescribedError` if it, or anything in it, is not in the tables."""
    name = type(part).__name__
    if PARTS.get(name) is not type(part):
        raise NotDescribedError(f"{name} is none of the library's own parts")
    return {"part": name, "fields": {field: _described(name, field, getattr(part, field)) for field in _fields(part)}}


def outlined(value: Any, owner: str = "", field: str = "") -> Any:
    """The part as `described` has it, but with {"own": class} in the place of all that no file can describe."""
    if isinstance(value, Part) and PARTS.get(type(value).__name__) is type(value):
        name = type(value).__name__
        return {"part": name, "fields": {each: outlined(getattr(value, each), name, each) for each in _fields(value)}}
    if type(value) is tuple:
        return [outlined(each, owner, field) for each in value]
    try:
        return _described(owner, field, value)
    except NotDescribedError:
        return {"own": type(value).__name__}


def difference(one: Any, other: Any, owner: str = "the model", field: str = "") -> str | None:
    """The first setting in which two outlines differ, in words. A field that only one has is of another version."""
    match one, other:
        case {"part": name, "fields": dict(fields)}, {"part": named, "fields": dict(others)} if name == named:
            found = (difference(fields[each], others[each], name, each) for each in fields if each in others)
            return next(filter(None, found), None)
        case list(), list() if len(one) == len(other):
            return next(filter(None, (difference(*each, owner, field) for each in zip(one, other, strict=True))), None)
    what = f"`{field}` of {owner}" if field else owner
    return None if one == other else f"{what} is {_in_words(one)} in the file, and {_in_words(other)} in `like`"


def _in_words(outline: Any) -> str:
    match outline:
        case {"part": str(name)} | {"own": str(name)}:
            return f"a {name:.60}"
        case {"function": str(name)} | {"dtype": str(name)}:
            return f"{name:.60}"
    return _short(outline)


def rebuilt(document: Any) -> Part:
    """The part that `described` made this of; ValueError if it did not."""
    try:
        part = _rebuilt("the model", "", document)
    except RecursionError:
        raise ValueError("the description of the model is nested too deeply") from None
    if not isinstance(part, Part):
        raise ValueError(f"a part such as a Network must be described, and {_short(document)} is")
    return part


def _described(owner: str, field: str, value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray | jax.Array) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Part) and PARTS.get(type(value).__name__) is type(value):
        return described(value)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) is tuple:
        return [_described(owner, field, each) for each in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: _described(owner, field, each) for key, each in value.items()}}
    if isinstance(value, np.dtype) and value.name in _TYPES:
        return {"dtype": value.name}
    for name, function in FUNCTIONS.get(field, {}).items():
        if value is function:
            return {"function": name}
    name = getattr(value, "__name__", None)
    told = f"a {type(value).__name__}" if name is None else f"the function {name!r}"
    raise NotDescribedError(f"`{field}` of {owner} is {told}, which is none of the library's own")


def _rebuilt(owner: str, field: str, found: Any) -> Any:
    if isinstance(found, list):
        return tuple(_rebuilt(owner, field, each) for each in found)
    if not isinstance(found, dict):
        return found
    match found:
        case {"part": str(name), "fields": dict(fields), **rest} if not rest:
            return _built(name, fields)
        case {"dict": dict(each), **rest} if not rest:
            return {key: _rebuilt(owner, field, value) for key, value in each.items()}
        case {"float": str(name), **rest} if not rest and name in _UNUSUAL:
            return _UNUSUAL[name]
        case {"dtype": str(name), **rest} if not rest and name in _TYPES:
            return _TYPES[name]
        case {"function": str(name), **rest} if not rest and name in FUNCTIONS.get(field, {}):
            return FUNCTIONS[field][name]
    raise ValueError(f"`{field}` of {owner} is described as {_short(found)}, which is unknown here")


def _built(name: str, fields: Mapping[str, Any]) -> Part:
    if name not in PARTS:
        raise ValueError(f"the part {_short(name)} is unknown here")
    known = _fields(PARTS[name])
    fields = _as_now(name, fields)
    for field in fields:
        if field not in known:
            raise ValueError(f"{name} has no field {_short(field)}, and the file gives it one")
    for field in known:
        if field not in fields:
            raise ValueError(f"{name} has a field {field!r}, and the file gives no value for it")
    values = {field: _rebuilt(name, field, value) for field, value in fields.items()}
    for field, value in values.items():
        _check_kind(name, known[field], value)
        if field in SIZES and type(value) is int and value > WIDEST:
            raise ValueError(f"`{field}` of {name} is {value:,}, and no network is wider than {WIDEST:,}")
    try:
        return _called(PARTS[name], values)
    except Exception as error:  # whatever their checks raise
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{name} cannot be built as it is described: {line}") from error


def _as_now(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a part as they are called now; version 0.1 called some otherwise, and did not have all."""
    match name, fields:
        case "SGD" | "Adam", {"rate": rate, **others}:
            fields = {"learning_rate": rate, **others}
        case "LearningStep", {"learners": {"dict": {"applied": learner, **probes}}, **others}:
            others = {field: value for field, value in others.items() if field not in ("gaps", "resets")}
            fields = {**others, "learner": learner, "probes": {"dict": probes}}
    return {**LATER.get(name, {}), **fields}


def _called(kind: type[Part], values: dict[str, Any]) -> Part:
    """The part, built from the values of its fields. A constructor may take one of them as `*field`: see `Stack`."""
    parameters = inspect.signature(kind).parameters.values()
    several = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
    return kind(**values) if several is None else kind(*values.pop(several), **values)


def _fields(part: Part | type[Part]) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(part) if field.init}


def _check_kind(owner: str, field: dataclasses.Field, value: Any) -> None:
    """Raise if a field whose default is a number or a truth value holds something else."""
    kinds: dict[type, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float)}
    wanted = kinds.get(type(field.default), ())
    if wanted and type(value) not in wanted:
        raise ValueError(f"`{field.name}` of {owner} must be of type {wanted[-1].__name__}, and is {_short(value)}")


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 80 else f"{told[:77]}..."


def _refusal(reason: str) -> str:
    return (
        f"{reason}, so a file cannot describe it. It can be saved all the same, and is then loaded into a model built "
        "in the same way: rc.load(path, like=model)."
    )


register(
    Network, *cells.CELLS.values(), cells.Stack, cells.Encoded, cells.Sparsely, cells.WithoutSelf, *LEARNERS.values(),
    learners.ThroughLayers, learners.RandomTargets, learners.LocalLosses, learners.WithEncoder, learners.Traced,
    learners.PresentStep, learners.Frozen, *losses.LOSSES.values(), losses.FiringRate, *tasks.TASKS.values(),
    *step.OPTIMIZERS.values(), step.PerGate, step.RLS, step.LearningStep, step.DelayedStep,
)  # fmt: skip
