"""Arrays that users give to a task: what they must hold, and the same numbers in the precision that JAX holds."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

#: Rounding to JAX's precision may change a column by this part of how much it varies, at most.
ROUNDING = 1e-3
#: tells in words where a row is, from its index
Place = Callable[[np.ndarray], str]


def row(at: np.ndarray) -> str:
    """Where a row is in a table; of several sequences, in its own."""
    return f"row {at[-1]}"


def with_masks(value: Any) -> Any:
    """A list of sequences as one array; NumPy alone would drop their masks."""
    is_list = isinstance(value, list | tuple) and any(isinstance(each, np.ma.MaskedArray) for each in value)
    return np.ma.stack(value) if is_list else value


def real(array: np.ndarray, name: str) -> np.ndarray:
    """The array, if it holds real numbers, as floating-point numbers in the byte order of this machine."""
    is_number = array.dtype.kind in "bifu" or jnp.issubdtype(array.dtype, jnp.floating)  # which has bfloat16 too
    if not is_number or array.dtype.itemsize > 8:
        raise TypeError(f"`{name}` must hold real numbers of at most 8 bytes, and holds {array.dtype}.")
    return array.astype(float) if array.dtype.kind in "biu" else array.astype(array.dtype.newbyteorder("="))


def unmasked(labels: np.ma.MaskedArray, place: Place = row) -> np.ndarray:
    """Which rows of labels no mask covers."""
    mask = np.asarray(np.ma.getmaskarray(labels))
    in_part = np.argwhere(mask.any(axis=-1) & ~mask.all(axis=-1))
    if in_part.size:
        raise ValueError(
            f"A row of `labels` is there or missing as a whole, and {place(in_part[0])} is masked in part."
        )
    return np.logical_not(mask.all(axis=-1))


def flags(value: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The value as an array of truth values, one for each row."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"`{name}` have a mask of NumPy's: say true or false for every row.")
    array = np.asarray(value)
    if array.dtype != bool or array.shape != shape:
        raise ValueError(
            f"`{name}` must hold true or false for each row, shape {shape}, and holds {array.dtype} of shape "
            f"{array.shape}."
        )
    return array


def in_precision(array: np.ndarray, name: str, place: Place = row) -> np.ndarray:
    """The rows in the precision that JAX holds, if nothing is lost by it. They must be finite."""
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    wrong = np.argwhere(~np.isfinite(found))  # also what this precision cannot hold
    if wrong.size:
        *at, column = wrong[0]
        missing = "; mark missing labels with `present`" if name == "labels" else ""
        raise ValueError(
            f"`{name}` must be finite, and {place(np.array(at))}, column {column} is {array[tuple(wrong[0])]} "
            f"({len(wrong)} such values in all): drop or fill them first{missing}."
        )
    _warn_of_large(found, name, place)
    if dtype != array.dtype:
        columns = array.reshape(-1, array.shape[-1])
        error, spread = np.abs(columns - found.reshape(columns.shape)).max(axis=0), _spread(columns)
        varies = columns.max(axis=0) > columns.min(axis=0)
        lost = np.flatnonzero(varies & (error > ROUNDING * spread))
        if lost.size:
            column = lost[0]
            raise ValueError(
                f"`{name}` are {array.dtype}, JAX holds {dtype}, and rounding changes column {column} by up to "
                f"{error[column]:.3g}, while it varies by {spread[column]:.3g}: subtract its mean first, "
                "or set jax_enable_x64 in jax.config."
            )
    return found


def _warn_of_large(array: np.ndarray, name: str, place: Place) -> None:
    """Say so if numbers are so large that their squares are infinite: most often they stand for missing values."""
    if array.dtype == bool:
        return
    large = np.argwhere(np.abs(array) > array.dtype.type(float(jnp.finfo(array.dtype).max) ** 0.5))
    if large.size:
        *at, column = large[0]
        found, missing = float(array[tuple(large[0])]), ", or mark missing labels with `present`" * (name == "labels")
        warnings.warn(
            f"`{name}` hold {found:g} in {place(np.array(at))}, column {column} ({len(large)} such values in all), "
            f"whose square {array.dtype} cannot hold, so that losses or gradients may be infinite: scale the column, "
            f"or fill values that stand for missing ones{missing}.",
            stacklevel=6,
        )


def _spread(columns: np.ndarray) -> np.ndarray:
    """How much each column varies: its standard deviation, or less if that comes from a few values far away."""
    low, high = np.quantile(columns, (0.25, 0.75), axis=0)
    return np.where(high > low, np.minimum(columns.std(axis=0), high - low), columns.std(axis=0))


def check_types(dtype: jnp.dtype, **arrays: Array) -> None:
    """Raise unless a network of this type can be trained on these arrays, which are called by their names."""
    for name, array in arrays.items():
        if array.dtype != dtype and array.dtype != bool:
            raise TypeError(
                f"`{name}` are {array.dtype} and the network is {dtype}: use {name}.astype({str(dtype)!r}), or "
                f"give the cell dtype={str(array.dtype)!r}."
            )
