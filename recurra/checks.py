"""Errors that name the problem, the value seen and the fix, before anything runs; and what all parts have in common."""

import dataclasses
import inspect
import numbers
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath
from jaxtyping import DTypeLike, PRNGKeyArray

Kind = TypeVar("Kind")


class Part(eqx.Module):
    """A part of an experiment, whose fields are its settings. NumPy's numbers are stored as plain ones."""

    def __check_init__(self) -> None:
        # Equinox calls this one, whatever a subclass does. The object is frozen by now, hence the long way to set.
        for field in dataclasses.fields(self):
            value = getattr(self, field.name, None)
            if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
                object.__setattr__(self, field.name, value.item())


def command_name(kind: type) -> str:
    """The name of a part on the command line and in files, from that of its class: "min-gru" for MinGRU.

    A class whose name reads otherwise says it itself, as `command: ClassVar[str]`.
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", kind.__name__)
    return vars(kind).get("command", words.lower())


def registered(names: Mapping[str, Any], base: type[Kind], leave_out: Collection[type] = ()) -> dict[str, type[Kind]]:
    """The parts among the names of a module: all classes that can be made and derive from `base`, in their order."""
    kinds = (kind for kind in tuple(names.values()) if isinstance(kind, type) and issubclass(kind, base))
    return {command_name(kind): kind for kind in kinds if not inspect.isabstract(kind) and kind not in leave_out}


def float_dtype(dtype: DTypeLike | None) -> jnp.dtype:
    """The floating-point type asked for; JAX's own default (float64 with x64, else float32) when None."""
    if dtype is None:
        return jnp.zeros(()).dtype
    try:
        asked = jnp.dtype(dtype)
    except TypeError:
        raise ValueError(f"`dtype` must be a floating-point type such as 'float32', and is {dtype!r}.") from None
    if not jnp.issubdtype(asked, jnp.floating):
        raise ValueError(f"`dtype` must be a floating-point type such as 'float32', and is {asked}.")
    if jax.dtypes.canonicalize_dtype(asked) != asked:
        raise ValueError(f"`dtype` is {asked}, which JAX has switched off: set jax_enable_x64 in jax.config first.")
    return asked


def number(value: Any) -> float | None:
    """The value of a plain number, of NumPy's or JAX's too; None for one that is still being traced."""
    if isinstance(value, jax.core.Tracer):
        return None
    if isinstance(value, bool | str | bytes) or not (isinstance(value, numbers.Real) or np.shape(value) == ()):
        raise TypeError(f"must be a number, and is {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"must be a number, and is {value!r}.") from None


def in_range(
    owner: Any,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float = float("inf"),
) -> None:
    """Raise unless the numeric field `name` of `owner` lies in the range, also as single precision has it.

    There 1 - 1e-9 is 1, and 1e-60 is 0. Bounds that may be reached can be reached by rounding too.
    """
    try:
        value = number(getattr(owner, name))
    except TypeError as error:
        raise TypeError(f"`{name}` of {type(owner).__name__} {error}") from None
    if value is None:
        return
    held = _in_single(value)
    low = lambda v: v > above if above is not None else least is None or value >= least
    high = lambda v: v < below if most is None else value <= most
    is_in = low(value) and high(value)
    if not (is_in and low(held) and high(held)):  # also when the value is nan
        bounds = f"above {above}" if above is not None else f"at least {least}" if least is not None else ""
        limit = "finite" if below == float("inf") else f"below {below}"
        upper = limit if most is None else f"at most {most}"
        wanted = " and ".join(filter(None, [bounds, upper]))
        seen = f"{value!r}, which is {held:g} in single precision" if is_in else f"{value:g}"
        raise ValueError(f"`{name}` of {type(owner).__name__} must be {wanted}, and is {seen}.")


def _in_single(value: float) -> float:
    """The value as programs hold it in single precision, where the smallest numbers count as 0."""
    with np.errstate(over="ignore"):
        held = float(np.float32(value))
    return 0.0 if abs(held) < np.finfo(np.float32).tiny else held


def whole_number(what: str, value: Any, least: int | None = 1) -> int:
    """The value, if it is a whole number of at least `least`, if that is given; else an error that calls it `what`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{what} must be a whole number, and is {value!r}.")
    if least is not None and value < least:
        raise ValueError(f"{what} must be at least {least}, and is {value}.")
    return int(value)


def seed(what: str, value: Any) -> int:
    """The value, if random numbers can start from it; else an error that calls it `what`.

    JAX makes a key of the last 32 bits of a number, so that 2³² would be 0 again, and -1 would be 2³²-1.
    """
    number = whole_number(what, value, least=None)
    if not 0 <= number < 2**32:
        raise ValueError(f"{what} must be a whole number in 0..2³²-1, and is {value}.")
    return number


def key_of(key: int | PRNGKeyArray, what: str = "`key`") -> PRNGKeyArray:
    """A key, from a number or a key."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
        return key
    if isinstance(key, jax.Array):
        raise TypeError(f"{what} must be a number or one key such as jax.random.key(0), and is {key!r}.")
    return jax.random.key(seed(what, key))


def whole(owner: Any, name: str, least: int = 1) -> None:
    """Raise unless the field `name` of `owner` is a whole number of at least `least`."""
    whole_number(f"`{name}` of {type(owner).__name__}", getattr(owner, name), least)


def one_of(what: str, value: Any, known: Collection[str]) -> str:
    """The value, if it is one of the names that are known; else an error that calls it `what`, and tells them."""
    if not isinstance(value, str) or value not in known:
        *most, last = map(repr, known)
        raise ValueError(f"{what} must be {', '.join(most)} or {last}, and is {value!r}.")
    return value


def flag(owner: Any, name: str) -> None:
    """Raise unless the field `name` of `owner` is True or False."""
    value = getattr(owner, name)
    if not isinstance(value, bool | np.bool):
        raise TypeError(f"`{name}` of {type(owner).__name__} must be True or False, and is {value!r}.")


def warn_if_half(what: str, dtype: jnp.dtype, why: str) -> None:
    """Say that `what` will be poor in a type of 16 bits, and `why`."""
    if jnp.finfo(dtype).bits < 32:
        warnings.warn(f"{what} will be poor in {dtype}: {why}. Give the cell dtype='float32'.", stacklevel=3)


def draws(owner: Any, name: str, example: str, shape: Any, wanted: tuple[int, ...] | None = None) -> None:
    """Raise unless the field `name` of `owner` draws an array from a key, the argument `shape` and a type."""
    function(owner, name, example)
    draw = getattr(owner, name)
    if getattr(draw, "__module__", "").startswith("recurra."):  # ours, and tested
        return
    dtype, wanted = jnp.zeros(()).dtype, shape if wanted is None else wanted
    what = f"`{name}` of {type(owner).__name__}"
    try:
        found = jax.eval_shape(lambda key: draw(key, shape, dtype), jax.random.key(0))
    except Exception as error:
        raise TypeError(
            f"{what} is called with a key, {shape} and {dtype}, as {example} is, and fails: {error}"
        ) from error
    if (getattr(found, "shape", None), getattr(found, "dtype", None)) != (wanted, dtype):
        told = found if not hasattr(found, "shape") else f"{found.dtype} of shape {found.shape}"
        raise TypeError(f"{what} must return {dtype} of shape {wanted} here, as {example} does, and returns {told}.")


def function(owner: Any, name: str, example: str) -> None:
    """Raise unless the field `name` of `owner` can be called."""
    value = getattr(owner, name)
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"`{name}` of {type(owner).__name__} must be a function such as {example}, and is {value!r}.")


def fits(
    what: str,
    given: Any,
    like: Any,
    *,
    of: str,
    advice: str = "",
    seeds: int | None = None,
    place: Callable[[KeyPath], str] = jax.tree_util.keystr,
) -> None:
    """Raise unless the tree `given` has the parts, shapes and types of `like`, and only finite numbers.

    Errors call the tree `what`, say what it should be `of`, and name the first array that does not fit by its path, as
    `place` writes it. If the tree has other parts, they end with `advice`. With a number of `seeds`, an array may have
    a leading axis over them. Numbers that are still being traced are taken to be finite.
    """
    leaves = jax.tree_util.tree_leaves_with_path
    if jax.tree.structure(given) != jax.tree.structure(like):
        paths = [{path: None for path, _ in leaves(tree)} for tree in (given, like)]
        missing = [f"no `{what}{place(path)}`" for path in paths[1] if path not in paths[0]]
        unknown = [f"`{what}{jax.tree_util.keystr(path)}` too" for path in paths[0] if path not in paths[1]]
        said = " and ".join([*missing[:1], *unknown[:1]]) or "other parts"
        raise ValueError(f"`{what}` is not of this {of}: it has {said}. Make it with the same settings.{advice}")
    for (path, wanted), leaf in zip(leaves(like), jax.tree.leaves(given), strict=True):
        name = f"`{what}{place(path)}`"
        array = leaf if isinstance(leaf, jax.core.Tracer) else np.asarray(leaf)
        if array.dtype != wanted.dtype:
            raise TypeError(f"{name} is {array.dtype} and the network's is {wanted.dtype}: convert it with astype.")
        if array.shape != wanted.shape and (seeds is None or array.shape != (seeds, *wanted.shape)):
            shapes = f"{wanted.shape}"
            if seeds is not None:
                shapes += f" for all seeds, or {(seeds, *wanted.shape)} for {seeds} of them"
            raise ValueError(f"{name} must have shape {shapes}, and has {array.shape}.")
        is_known = isinstance(array, np.ndarray) and jnp.issubdtype(array.dtype, jnp.floating)
        if is_known and not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, and holds nan or an infinity: start from other weights.")
