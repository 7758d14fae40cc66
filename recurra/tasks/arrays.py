"""A task that serves arrays a user already has."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra.losses import Loss
from recurra.tasks.base import BLOCK, Task


class Arrays(Task):
    """Row t of `inputs` and `labels` at step t; with `repeat` they start over at the end, else a run must fit."""

    inputs: Float[Array, "rows n_in"] = eqx.field(converter=lambda value: _rows(value, "inputs"))
    labels: Float[Array, "rows n_out"] = eqx.field(converter=lambda value: _rows(value, "labels"))
    repeat: bool = False

    def __check_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise ValueError(
                f"`inputs` and `labels` must have one row a step each, and have {len(self.inputs)} and "
                f"{len(self.labels)} rows."
            )
        if len(self.inputs) == 0:
            raise ValueError("`inputs` and `labels` are empty: give at least one row.")

    @property
    def n_in(self) -> int:
        return self.inputs.shape[1]

    @property
    def n_out(self) -> int:
        return self.labels.shape[1]

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        if streams > 1:
            raise ValueError(f"`streams` is {streams}, and Arrays hold the rows of one: leave `streams` out.")
        for name, array in (("inputs", self.inputs), ("labels", self.labels)):
            if jnp.issubdtype(array.dtype, jnp.floating) and array.dtype != dtype:
                raise TypeError(
                    f"`{name}` are {array.dtype} and the network is {dtype}: use {name}.astype({str(dtype)!r}), or "
                    f"give the cell dtype={str(array.dtype)!r}."
                )
        loss.check_labels(np.asarray(self.labels))
        if steps > len(self.inputs) and not self.repeat:
            raise ValueError(
                f"`steps` is {steps} and the arrays have {len(self.inputs)} rows: train fewer steps, or pass "
                "repeat=True to start over at the end."
            )

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> None:
        return None

    def block(
        self, state: None, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Float[Array, "steps n_in"], Float[Array, "steps n_out"], None]:
        rows = (number * BLOCK + jnp.arange(BLOCK, dtype="int32")) % len(self.inputs)
        return self.inputs[rows].astype(dtype), self.labels[rows].astype(dtype), None


def _rows(value: Any, name: str) -> Float[Array, "rows columns"]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"`{name}` must be one array, (steps, features), and has rows of different lengths.") from None
    if array.ndim != 2:
        raise ValueError(
            f"`{name}` must have two axes, (steps, features), and has shape {array.shape}: use array[:, None] for a "
            "single feature."
        )
    if array.dtype == object or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise TypeError(f"`{name}` must hold numbers, and holds {array.dtype}.")
    if np.issubdtype(array.dtype, np.complexfloating):
        raise TypeError(f"`{name}` must be real, and is {array.dtype}.")
    found = jnp.array(array if np.issubdtype(array.dtype, np.floating) else array.astype(float))
    wrong = np.argwhere(~np.isfinite(found))  # also what JAX's precision cannot hold
    if wrong.size:
        row, column = wrong[0]
        raise ValueError(
            f"`{name}` must be finite, and row {row}, column {column} is {array[row, column]} "
            f"({len(wrong)} such values in all): drop or fill them first."
        )
    return found
