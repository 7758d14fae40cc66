"""Endless streams of inputs and labels, made inside the compiled loop a block of steps at a time."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

#: Steps for which random numbers are drawn at once: enough to make drawing cheap, few enough to stay in cache.
BLOCK = 128


class Task(eqx.Module):
    """A stream that depends only on its keys and the number of the block, not on how a run is cut."""

    @property
    @abc.abstractmethod
    def n_in(self) -> int: ...

    @property
    @abc.abstractmethod
    def n_out(self) -> int: ...

    @property
    def block_length(self) -> int:
        """Steps a block; a stretched task makes whole stretches."""
        return BLOCK

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Any:
        """The state before the first block."""

    @abc.abstractmethod
    def block(
        self, state: Any, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Float[Array, "steps n_in"], Float[Array, "steps n_out"], Any]:
        """The inputs and labels of a block, and the state before the next."""


def stretched_block(stretch: int) -> int:
    """The multiple of `stretch` nearest below `BLOCK`, and at least one stretch."""
    return max(BLOCK // stretch, 1) * stretch
