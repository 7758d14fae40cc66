"""Delayed parity, of which delayed XOR is the case of two bits."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from recurra import checks
from recurra.linalg.noise import signs
from recurra.losses import Loss
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber
from recurra.tasks.episodes import check_classes

#: the shortest past that is kept, since smaller tasks share one compiled program; and the longest
LEAST_REACH, MOST_REACH = 64, 2**20


class Parity(Task):
    """A fair bit b a step; the label is the parity of b(t - d - k + 1), ..., b(t - d), with k `bits` and d the `delay`.

    Two bits make an XOR of bits that come one after the other. Williams & Zipser (1989) tried RTRL on one whose bits
    come together, some steps late. Bit and parity are shown as [v, 1 - v]. Before the first bit all were 0. Fewer than
    all k bits tell nothing: with two or more, or with a delay, no answer that sees only the present input has a mean
    loss below log 2.

    >>> task = rc.Parity(bits=2, delay=3)
    >>> task.n_in, task.n_out
    (2, 2)
    """

    bits: WholeNumber = 2
    delay: WholeNumber = 2
    #: bits of the past that are kept: a power of two, so that few programs serve all sizes
    reach: int = eqx.field(init=False, static=True, repr=False)

    def __post_init__(self) -> None:
        checks.whole(self, "bits")
        checks.whole(self, "delay", least=0)
        longest = int(self.bits) + int(self.delay)
        if longest > MOST_REACH:
            raise ValueError(f"`bits` plus `delay` of Parity must be at most {MOST_REACH:,}, and is {longest:,}.")
        self.reach = max(LEAST_REACH, 1 << (longest - 1).bit_length())

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return 2

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        check_classes(self, loss)

    def traced(self) -> Task:
        numbers = lambda task: (task.bits, task.delay)
        return eqx.tree_at(numbers, self, [jnp.asarray(number, "int32") for number in numbers(self)])

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Int[Array, " reach"]:
        return jnp.zeros(self.reach, "int32")

    def block(
        self, state: Int[Array, " reach"], key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Int[Array, " reach"]]:
        new = signs(key, (BLOCK,), jnp.dtype("float32")) > 0
        b = jnp.concatenate([state, new.astype("int32")])
        ones = jnp.cumsum(b)  # ones so far: those of a window are the difference of two of these
        ago = lambda steps: jax.lax.dynamic_slice_in_dim(ones, self.reach - steps, BLOCK)
        odd = (ago(self.delay) - ago(self.delay + self.bits)) % 2
        show = lambda v: jnp.stack([v, 1 - v], axis=1).astype(dtype)
        return Rows(show(new.astype("int32")), show(odd)), b[BLOCK:]
