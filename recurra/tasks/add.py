"""The additive dependencies task (Pitis 2016)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.linalg.noise import signs
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber, held

#: the shortest past that is kept, since shorter lags share one compiled program; and the longest
LEAST_REACH, MOST_REACH = 64, 2**24


class Past(NamedTuple):
    """The latest inputs, oldest first, at least as many as the longest lag, and the latest draw for a label."""

    coins: Float[Array, " reach"]
    chance: Float[Array, ""]


class Add(Task):
    """A fair coin x in {0, 1} a step; the label is 0.5 + 0.5 x(t - t1) - 0.25 x(t - t2).

    Coin and label are shown as [v, 1 - v]. Labels are those probabilities, or with `sampled` a draw from them. With
    `stretch` each coin and label lasts that many steps, and lags count coins. Before the first coin all were 0.

    >>> task = rc.Add(t1=2, t2=4)
    >>> task.n_in, task.n_out
    (2, 2)
    """

    t1: WholeNumber = 6
    t2: WholeNumber = 10
    stretch: WholeNumber = 1
    sampled: bool = False
    #: steps of the past that are kept: a power of two, so that few programs serve all lags
    reach: int = eqx.field(init=False, static=True, repr=False)

    def __post_init__(self) -> None:
        for name in ("t1", "t2", "stretch"):
            checks.whole(self, name)
        checks.flag(self, "sampled")
        name = max("t1", "t2", key=lambda name: getattr(self, name))
        longest = int(getattr(self, name)) * int(self.stretch)
        if longest > MOST_REACH:
            raise ValueError(
                f"`{name}` times `stretch` of Add must be at most {MOST_REACH:,} steps, and is {longest:,}."
            )
        self.reach = max(LEAST_REACH, 1 << (longest - 1).bit_length())

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return 2

    def traced(self) -> Task:
        numbers = lambda task: (task.t1, task.t2, task.stretch)
        return eqx.tree_at(numbers, self, [jnp.asarray(number, "int32") for number in numbers(self)])

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Past:
        return Past(jnp.zeros(self.reach, dtype), jnp.zeros((), dtype))

    def block(self, state: Past, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype) -> tuple[Rows, Past]:
        key_coin, key_label = jax.random.split(key)
        x = held((1 + signs(key_coin, (BLOCK,), dtype)) / 2, state.coins[-1], number, self.stretch)
        coins, chance = jnp.concatenate([state.coins, x]), state.chance
        ago = lambda lag: jax.lax.dynamic_slice_in_dim(coins, self.reach - lag * self.stretch, BLOCK)
        y = 0.5 + 0.5 * ago(self.t1) - 0.25 * ago(self.t2)
        if self.sampled:
            chances = held(jax.random.uniform(key_label, (BLOCK,), dtype), chance, number, self.stretch)
            y, chance = (chances < y).astype(dtype), chances[-1]
        show = lambda v: jnp.stack([v, 1 - v], axis=1)
        return Rows(show(x), show(y)), Past(coins[BLOCK:], chance)
