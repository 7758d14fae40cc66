"""A task that serves arrays a user already has."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.losses import Loss
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber
from recurra.tasks.given import check_types, flags, in_precision, real, unmasked, with_masks


class Arrays(Task):
    """Row t of `inputs` and `labels` at step t; with `repeat` they start over at the end, else a run must fit.

    They have shapes (step, n_in) and (step, n_out). Several sequences, (sequence, step, feature), are as many streams,
    which a network learns from at once. `rc.Sequences` serves many sequences in minibatches.
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
        labels, inputs = with_masks(labels), with_masks(inputs)
        if isinstance(labels, np.ma.MaskedArray) and np.ma.is_masked(labels):
            if present is not None:
                raise ValueError("`labels` have a mask of NumPy's, and `present` is given too: leave one of them out.")
            present, labels = unmasked(labels), labels.filled(0)
        inputs, labels = _numbers(inputs, "inputs"), _numbers(labels, "labels")
        if inputs.shape[:-1] != labels.shape[:-1]:
            raise ValueError(
                f"`inputs` and `labels` must have one row a step each, and have shapes {inputs.shape} and "
                f"{labels.shape}."
            )
        if inputs.size == 0 or labels.size == 0:
            raise ValueError("`inputs` and `labels` are empty: give at least one row and one column of each.")
        present = None if present is None else flags(present, "present", inputs.shape[:-1])
        reset = None if reset is None else flags(reset, "reset", inputs.shape[:-1])
        labels = labels if present is None else np.where(present[..., None], labels, 0)
        in_sequences = lambda array: jnp.asarray(array if inputs.ndim == 3 else array[None])
        self.inputs = in_sequences(in_precision(inputs, "inputs"))
        self.labels = in_sequences(in_precision(labels, "labels"))
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

    @property
    def streams(self) -> int:
        return len(self.inputs)

    @property
    def epoch(self) -> int:
        return int(self.length)

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        if streams != self.streams:
            raise ValueError(
                f"`streams` is {streams}, and Arrays hold {self.streams} of them: leave `streams` out, or pass "
                f"streams={self.streams}."
            )
        check_types(dtype, inputs=self.inputs, labels=self.labels)
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
    return real(array, name)
