"""The adding problem: two numbers of a sequence are marked, and their sum is asked for at its end."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.losses import Loss, SquaredError
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber
from recurra.tasks.episodes import Underway, check_labels, lay_out, none_yet, slots


class Pair(NamedTuple):
    """Where the two marked numbers stand, and the numbers."""

    where: Int[Array, "... 2"]
    numbers: Float[Array, "... 2"]


class Adding(Task):
    """Numbers drawn from [0, 1], one in each half of a sequence of `length` marked: the label is the sum of these two.

    Hochreiter & Schmidhuber (1997) introduced it; the halves and the range are those of Arjovsky et al. (2016). Inputs
    are the number and the mark, 0 or 1. Only the last step has a label. The answer 1 at all times has a mean squared
    error of 1/6, so a loss of 1/12 under SquaredError. A loss of probabilities is a ValueError in `train`. With `reset`
    the network is set back to its first state before every sequence.

    >>> task = rc.Adding(length=50)
    >>> task.n_in, task.n_out
    (2, 1)
    """

    default_loss: ClassVar[type[Loss]] = SquaredError

    length: WholeNumber = 100
    reset: bool = True
    #: episodes that are drawn for a block
    slots: int = eqx.field(init=False, static=True, repr=False)

    def __post_init__(self) -> None:
        checks.whole(self, "length", least=2)
        checks.flag(self, "reset")
        self.slots = slots(self, int(self.length), int(self.length))

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return 1

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        check_labels(self, loss, [[1.5]], "sums between 0 and 2", "SquaredError")

    def traced(self) -> Task:
        return eqx.tree_at(lambda task: task.length, self, jnp.asarray(self.length, "int32"))

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Underway:
        return none_yet(Pair(jnp.zeros(2, "int32"), jnp.zeros(2, "float32")))

    def block(
        self, state: Underway, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Underway]:
        key_where, key_marked, key_others = jax.random.split(key, 3)
        half = jnp.asarray(self.length // 2, "int32")
        least, most = jnp.stack([0 * half, half]), jnp.stack([half, jnp.asarray(self.length, "int32")])
        where = jax.random.randint(key_where, (self.slots, 2), least[None], most[None], "int32")
        # In single precision whatever the network has, so that all see the same numbers.
        marked = jax.random.uniform(key_marked, (self.slots, 2), "float32")
        others = jax.random.uniform(key_others, (BLOCK,), "float32")
        pair, t, state = lay_out(state, Pair(where, marked), self.length)
        here = pair.where == t[:, None]
        mark = jnp.any(here, axis=1)
        value = jnp.where(mark, jnp.sum(jnp.where(here, pair.numbers, 0), axis=1), others)
        total = jnp.sum(pair.numbers.astype(dtype), axis=1, keepdims=True)
        last = t == self.length - 1
        x = jnp.stack([value.astype(dtype), mark.astype(dtype)], axis=1)
        return Rows(x, jnp.where(last[:, None], total, 0), last, t == 0 if self.reset else None), state
