"""A task with two dials: how long something must be remembered, and how much of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import BLOCK, Rows, Task, noise

#: the longest lag, and so how many steps of the past are kept: one length, so that all lags share one program
MOST = 64


class Recall(Task):
    """`bits` fair coins x in {-1, 1} a step; the label is all coins of `lag` steps ago, x(t - lag).

    The network must always keep the coins of the last `lag` steps, bits × lag of them. Before the first step all coins
    were 0. An answer that ignores the coins explains nothing: labels are uncorrelated and have variance 1.
    """

    bits: int = 1
    lag: int | Int[Array, ""] = 2

    @property
    def n_in(self) -> int:
        return self.bits

    @property
    def n_out(self) -> int:
        return self.bits

    def traced(self) -> Task:
        return eqx.tree_at(lambda task: task.lag, self, jnp.asarray(self.lag, "int32"))

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Float[Array, "MOST bits"]:
        return jnp.zeros((MOST, self.bits), dtype)

    def block(
        self, state: Float[Array, "MOST bits"], key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Float[Array, "MOST bits"]]:
        x = noise.signs(key, (BLOCK, self.bits), dtype)
        coins = jnp.concatenate([state, x])
        ago = jax.lax.dynamic_slice_in_dim(coins, MOST - self.lag, BLOCK)
        return Rows(x, ago), coins[BLOCK:]
