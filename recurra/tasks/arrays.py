"""A task that serves arrays a user already has."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.losses import Loss
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber

#: Rounding to JAX's precision may change a column by this part of how much it varies, at most.
ROUNDING = 1e-3


class Arrays(Task):
    """Row t of `inputs` and `labels` at step t; with `repeat` they start over at the end, else a run must fit.

    They have shapes (step, n_in) and (step, n_out). Several sequences, (sequence, step, feature), are as many streams.
    `present` tells, for each row, whether there is a label; labels that a NumPy mask covers are missing too. Before a
    row for which `reset` is true the network is set back to its first state, as at the start of an episode.

    With a `horizon` h ≥ 1, row t of `labels` is the value of the target at row t. The network forecasts row t + h from
    the inputs up to row t, and learns from a value no earlier than it is known. The loss at step t is that of the
    forecast for row t, which was made h rows before. A forecast does not count if `reset` or the end of the rows comes
    between it and its label.

    Rows that do not match, are not finite or would lose digits are a ValueError, and what holds no numbers a TypeError.

    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> task = rc.Arrays(rows, rows[:, :1], horizon=1)
    >>> task.n_in, task.n_out
    (3, 1)
    """

    inputs: Float[Array, "sequences rows n_in"]
    labels: Float[Array, "sequences rows n_out"]
    present: Bool[Array, "sequences rows"] | None
    reset: Bool[Array, "sequences rows"] | None
    repeat: bool
    #: rows of each sequence; arrays may be longer, see `traced`
    length: WholeNumber
    horizon: int

    def __init__(
        self, inputs: Any, labels: Any, present: Any = None, reset: Any = None, repeat: bool = False, horizon: int = 0
    ):
        self.repeat = repeat
        self.horizon = horizon  # pyright: ignore[reportIncompatibleVariableOverride]
        checks.flag(self, "repeat")
        checks.whole(self, "horizon", least=0)
        labels, inputs = _with_masks(labels), _with_masks(inputs)
        if isinstance(labels, np.ma.MaskedArray) and np.ma.is_masked(labels):
            if present is not None:
                raise ValueError("`labels` have a mask of NumPy's, and `present` is given too: leave one of them out.")
            present, labels = _unmasked(labels), labels.filled(0)
        inputs, labels = _numbers(inputs, "inputs"), _numbers(labels, "labels")
        if inputs.shape[:-1] != labels.shape[:-1]:
            raise ValueError(
                f"`inputs` and `labels` must have one row a step each, and have shapes {inputs.shape} and "
                f"{labels.shape}."
            )
        if inputs.size == 0 or labels.size == 0:
            raise ValueError("`inputs` and `labels` are empty: give at least one row and one column of each.")
        present, reset = _flags(present, "present", inputs), _flags(reset, "reset", inputs)
        labels = labels if present is None else np.where(present[..., None], labels, 0)
        in_sequences = lambda array: jnp.asarray(array if inputs.ndim == 3 else array[None])
        self.inputs, self.labels = in_sequences(_held(inputs, "inputs")), in_sequences(_held(labels, "labels"))
        self.present = None if present is None else in_sequences(present)
        self.reset = None if reset is None else in_sequences(reset)
        self.length = self.inputs.shape[1]
        if self.horizon >= self.length:
            raise ValueError(
                f"`horizon` is {self.horizon} and the arrays have {self.length} rows, so no forecast would meet its "
                "label: give more rows, or a shorter horizon."
            )

    @property
    def n_in(self) -> int:
        return self.inputs.shape[-1]

    @property
    def n_out(self) -> int:
        return self.labels.shape[-1]

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        if streams != len(self.inputs):
            raise ValueError(
                f"`streams` is {streams}, and Arrays hold {len(self.inputs)} of them: pass streams={len(self.inputs)}."
            )
        for name, array in (("inputs", self.inputs), ("labels", self.labels)):
            if array.dtype != dtype and array.dtype != bool:
                raise TypeError(
                    f"`{name}` are {array.dtype} and the network is {dtype}: use {name}.astype({str(dtype)!r}), or "
                    f"give the cell dtype={str(array.dtype)!r}."
                )
        labels = np.asarray(self.labels)
        loss.check_labels(labels[np.asarray(self.present)] if self.present is not None else np.concatenate(labels))
        if steps > self.length and not self.repeat:
            raise ValueError(
                f"`steps` is {steps} and the arrays have {self.length} rows: train fewer steps, or pass "
                "repeat=True to start over at the end."
            )

    def traced(self) -> Task:
        """The same rows in slightly longer arrays: few lengths of them serve all data, and so do few programs."""
        rows = self.inputs.shape[1]
        unit = max(BLOCK, 1 << max(rows.bit_length() - 4, 0))
        longer = lambda leaf: jnp.pad(leaf, ((0, 0), (0, -rows % unit), *((0, 0),) * (leaf.ndim - 2)))
        padded = jax.tree.map(lambda leaf: longer(leaf) if eqx.is_array(leaf) else leaf, self)
        return eqx.tree_at(lambda task: task.length, padded, jnp.asarray(self.length, "int32"))

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Int[Array, ""]:
        return jnp.zeros((), "int32")

    def in_stream(self, state: Int[Array, ""], stream: Int[Array, ""]) -> Int[Array, ""]:
        return stream

    def block(
        self, state: Int[Array, ""], key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Int[Array, ""]]:
        rows = (number * BLOCK + jnp.arange(BLOCK, dtype="int32")) % self.length
        x, label = (data[state, rows].astype(dtype) for data in (self.inputs, self.labels))
        present, reset = (None if flags is None else flags[state, rows] for flags in (self.present, self.reset))
        if self.horizon and self.repeat:  # the first labels would be those of the last rows of the time before
            present = (rows >= self.horizon) & (True if present is None else present)
        return Rows(x, label, present, reset), state


def _with_masks(value: Any) -> Any:
    """A list of sequences as one array; NumPy alone would drop their masks."""
    is_list = isinstance(value, list | tuple) and any(isinstance(each, np.ma.MaskedArray) for each in value)
    return np.ma.stack(value) if is_list else value


def _numbers(value: Any, name: str) -> np.ndarray:
    """The value as an array of real numbers with two or three axes."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"`{name}` have a mask of NumPy's, and every step needs an input: fill them first.")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"`{name}` must be one array, (steps, features), and has rows of different lengths.") from None
    if array.ndim not in (2, 3):
        raise ValueError(
            f"`{name}` must have two axes, (steps, features), or three, (sequences, steps, features), and has shape "
            f"{array.shape}: use array[:, None] for a single feature, and np.eye(k)[array] for k classes."
        )
    is_number = array.dtype.kind in "bifu" or jnp.issubdtype(array.dtype, jnp.floating)  # which has bfloat16 too
    if not is_number or array.dtype.itemsize > 8:
        raise TypeError(f"`{name}` must hold real numbers of at most 8 bytes, and holds {array.dtype}.")
    return array.astype(float) if array.dtype.kind in "biu" else array.astype(array.dtype.newbyteorder("="))


def _unmasked(labels: np.ma.MaskedArray) -> np.ndarray:
    """Which rows of labels no mask covers."""
    mask = np.asarray(np.ma.getmaskarray(labels))
    in_part = np.argwhere(mask.any(axis=-1) & ~mask.all(axis=-1))
    if in_part.size:
        raise ValueError(
            f"A row of `labels` is there or missing as a whole, and row {in_part[0][-1]} is masked in part."
        )
    return np.logical_not(mask.all(axis=-1))


def _flags(value: Any, name: str, inputs: np.ndarray) -> np.ndarray | None:
    if value is None:
        return None
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"`{name}` have a mask of NumPy's: say true or false for every row.")
    array = np.asarray(value)
    if array.dtype != bool or array.shape != inputs.shape[:-1]:
        raise ValueError(
            f"`{name}` must hold true or false for each row, shape {inputs.shape[:-1]}, and holds {array.dtype} of "
            f"shape {array.shape}."
        )
    return array


def _held(array: np.ndarray, name: str) -> np.ndarray:
    """The array in the precision that JAX holds, if nothing is lost by it."""
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    wrong = np.argwhere(~np.isfinite(found))  # also what this precision cannot hold
    if wrong.size:
        *_, row, column = wrong[0]
        missing = "; mark missing labels with `present`" if name == "labels" else ""
        raise ValueError(
            f"`{name}` must be finite, and row {row}, column {column} is {array[tuple(wrong[0])]} "
            f"({len(wrong)} such values in all): drop or fill them first{missing}."
        )
    _warn_of_large(found, name)
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


def _warn_of_large(array: np.ndarray, name: str) -> None:
    """Say so if numbers are so large that their squares are infinite: most often they stand for missing values."""
    if array.dtype == bool:
        return
    large = np.argwhere(np.abs(array) > array.dtype.type(float(jnp.finfo(array.dtype).max) ** 0.5))
    if large.size:
        *_, row, column = large[0]
        found, missing = float(array[tuple(large[0])]), ", or mark missing labels with `present`" * (name == "labels")
        warnings.warn(
            f"`{name}` hold {found:g} in row {row}, column {column} ({len(large)} such values in all), whose square "
            f"{array.dtype} cannot hold, so that losses or gradients may be infinite: scale the column, or fill values "
            f"that stand for missing ones{missing}.",
            stacklevel=6,
        )


def _spread(columns: np.ndarray) -> np.ndarray:
    """How much each column varies: its standard deviation, or less if that comes from a few values far away."""
    low, high = np.quantile(columns, (0.25, 0.75), axis=0)
    return np.where(high > low, np.minimum(columns.std(axis=0), high - low), columns.std(axis=0))
