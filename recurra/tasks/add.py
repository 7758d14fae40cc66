"""The additive dependencies task (Pitis 2016)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.noise import signs
from recurra.tasks.base import Task, stretched_block


class Past(NamedTuple):
    """The latest coins, oldest first, as many as the longest lag."""

    coins: Float[Array, " lag"]


class Add(Task):
    """A fair coin x in {0, 1} a step; the label is 0.5 + 0.5 x(t - t1) - 0.25 x(t - t2).

    Coin and label are shown as [v, 1 - v]. Labels are those probabilities, or with `sampled` a draw from them. With
    `stretch` each coin and label lasts that many steps, and lags count coins. Before the first coin all were 0.
    """

    t1: int = 6
    t2: int = 10
    stretch: int = 1
    sampled: bool = False

    def __check_init__(self) -> None:
        for name in ("t1", "t2", "stretch"):
            checks.whole(self, name)

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return 2

    @property
    def block_length(self) -> int:
        return stretched_block(self.stretch)

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Past:
        return Past(jnp.zeros(max(self.t1, self.t2), dtype))

    def block(
        self, state: Past, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Float[Array, "steps 2"], Float[Array, "steps 2"], Past]:
        count, horizon = self.block_length // self.stretch, len(state.coins)
        key_coin, key_label = jax.random.split(key)
        x = (1 + signs(key_coin, (count,), dtype)) / 2
        coins = jnp.concatenate([state.coins, x])
        ago = lambda lag: jax.lax.slice_in_dim(coins, horizon - lag, horizon - lag + count)
        y = 0.5 + 0.5 * ago(self.t1) - 0.25 * ago(self.t2)
        if self.sampled:
            y = (jax.random.uniform(key_label, (count,), dtype) < y).astype(dtype)
        show = lambda v: jnp.repeat(jnp.stack([v, 1 - v], axis=1), self.stretch, axis=0)
        return show(x), show(y), Past(coins[count:])
