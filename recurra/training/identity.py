"""By what a run is known again: so that it goes on from what was kept of it, and from nothing else.

There are two ways. A *traced program* contains every function that a run depends on, also those that a user has
written, but it changes with each version of JAX. An *account* tells the parts of a run by their classes, fields and
functions in words that no version changes; what it cannot tell, such as what a lambda computes, it names. So what was
kept with the same versions is compared by program, and what was kept with others by account.
"""

import dataclasses
import functools
import hashlib
import inspect
import json
import pkgutil
import types
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from recurra import __version__
from recurra.engine.experiment import Experiment, Start
from recurra.engine.fold import advance
from recurra.engine.specialise import in_form

#: packages whose functions mean the same wherever they are installed
KNOWN = ("recurra", "jax", "numpy", "builtins")


class Account(NamedTuple):
    """What something is made of, as JSON, and the names of what that cannot tell."""

    told: Any
    unknown: tuple[str, ...]

    @staticmethod
    def of(value: Any) -> "Account":
        """The account of numbers, arrays, functions and parts, in mappings and sequences."""
        unknown: dict[str, None] = {}
        return Account(_told(value, unknown), tuple(unknown))


def _told(value: Any, unknown: dict[str, None], within: tuple[int, ...] = ()) -> Any:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray | jax.Array) and value.ndim == 0):
        value = value.item()
    tell = lambda each: _told(each, unknown, (*within, id(value)))
    match value:
        case int() if value.bit_length() > 63:  # too long for a number in a file
            return repr(value)
        case None | bool() | int() | str():
            return value
        case float():
            return repr(value)
        case np.dtype():
            return {"dtype": value.name}
        case np.ndarray() | jax.Array():
            array = np.asarray(value)
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
            return {"array": digest, "shape": list(array.shape), "dtype": array.dtype.name}
        case Mapping():
            return {str(name): tell(each) for name, each in value.items()}
        case tuple() | list() | range():
            return [tell(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = {each.name: tell(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        return {"part": _name(type(value), unknown), "fields": told}
    name = _name(value, unknown)
    held = [] if id(value) in within or _is_known(value) else [tell(each) for each in _held(value)]
    return {"function": name, "holds": held} if held else {"function": name}


def _held(function: Any) -> list[Any]:
    """What a function was made with: what it encloses, its defaults, and the arguments that are given already."""
    match function:
        case functools.partial():
            return [function.func, function.args, function.keywords]
        case types.MethodType():
            return [function.__func__, function.__self__]
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, types.FunctionType):
        return []
    is_filled = lambda cell: cell != types.CellType()
    enclosed = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
    return [each for each in (enclosed, function.__defaults__, function.__kwdefaults__) if each]


def _is_known(thing: Any) -> bool:
    """Whether this is what a known package calls by this name, and so the same wherever that is installed.

    A name alone does not say so: `functools.wraps` gives one function the name of another.
    """
    module, name = getattr(thing, "__module__", None) or "", getattr(thing, "__qualname__", None) or "<none>"
    if module.split(".")[0] not in KNOWN or "<" in name:
        return False
    try:
        return pkgutil.resolve_name(f"{module}:{name}") is thing
    except (ImportError, AttributeError, ValueError):
        return False


def _name(thing: Any, unknown: dict[str, None]) -> str:
    """What a class, a function or another object is called; it is noted as unknown if its name does not tell it."""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None) or type(thing).__name__
    if not _is_known(thing):
        unknown[f"{getattr(thing, '__module__', None) or ''}.{name}".lstrip(".")] = None
    return name


def same_settings(unknown: Iterable[str]) -> str:
    """Says that settings are the same, but for what accounts cannot tell."""
    if not (names := ", ".join(unknown)):
        return "The settings are the same"
    return f"It cannot be told whether these are as they were: {names}. All other settings are the same"


def installed() -> dict[str, str]:
    """The versions on which a traced program depends."""
    return {"recurra": __version__} | {name: version(name) for name in ("jax", "jaxlib", "equinox")}


def identity_of(
    experiments: Sequence[Experiment], key: PRNGKeyArray, start: Start | None, settings: dict[str, object]
) -> str:
    """A digest of all that a run depends on: arrays, and the programs of one seed, which contain every function.

    `start` is what each seed starts from, leaves (seed, ...).
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(np.asarray(jax.random.key_data(key)).tobytes())
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), start)
    for experiment, begins in zip(experiments, (first, *(None for _ in experiments[1:])), strict=True):
        form, begins = in_form(experiment, begins, None)
        traced = form.traced
        digest.update(program_text(traced, key, begins).encode())
        _add(digest, eqx.filter(traced, eqx.is_array))
    _add(digest, start)
    return digest.hexdigest()


def program_text(experiment: Experiment, key: PRNGKeyArray, start: Start | None = None) -> str:
    """The program of one member, traced and lowered, in which every function is written out."""

    def whole(experiment: Experiment, key: PRNGKeyArray, start: Start | None, zero: Int[Array, ""]) -> Any:
        return advance(experiment, *experiment.init(key, start), zero, zero, 1)

    compiled: Any = eqx.filter_jit(whole)
    return compiled.lower(experiment, key, start, jnp.zeros((), "int32")).as_text()


def _add(digest: Any, tree: PyTree) -> None:
    for leaf in jax.tree.leaves(tree):
        digest.update(np.asarray(leaf).tobytes())
