"""Copy with a delay: repeat a string once a marker has been shown."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from recurra import checks
from recurra.losses import Loss
from recurra.tasks.base import Rows, Task, WholeNumber
from recurra.tasks.episodes import Underway, check_classes, lay_out, none_yet, slots


class String(NamedTuple):
    """Random symbols, and how many of them are shown."""

    symbols: Int[Array, "... length"]
    shown: Int[Array, "..."]


class Copy(Task):
    """A string of random symbols, `delay` blanks, a marker, and as many blanks again: at these, repeat the string.

    Hochreiter & Schmidhuber (1997) introduced such tasks. With two symbols and no delay it is that of Menick et al.
    (2020), without their curriculum. With `length` 10, `symbols` 8 and a delay of T - 1 it is that of Arjovsky et al.
    (2016), without their labels at other steps, which are always blank.

    The string has `length` symbols. With `varied` its length is drawn from 1 to `length`, all equally likely. Inputs
    are one-hot: the symbols, the blank, the marker. Only the steps at which the copy is due have a label. No answer
    that knows nothing of the string has a mean loss below log(`symbols`). With `reset` the network is set back to its
    first state before every string.

    >>> task = rc.Copy(length=5, delay=10, symbols=4)
    >>> task.n_in, task.n_out
    (6, 4)
    """

    length: int = 10
    delay: WholeNumber = 0
    symbols: int = 2
    varied: bool = False
    reset: bool = True
    #: episodes that are drawn for a block
    slots: int = eqx.field(init=False, static=True, repr=False)

    def __post_init__(self) -> None:
        checks.whole(self, "length")
        checks.whole(self, "delay", least=0)
        checks.whole(self, "symbols", least=2)
        for name in ("varied", "reset"):
            checks.flag(self, name)
        shortest = 1 if self.varied else self.length
        self.slots = slots(self, 2 * shortest + 1 + int(self.delay), 2 * self.length + 1 + int(self.delay))

    @property
    def n_in(self) -> int:
        return self.symbols + 2

    @property
    def n_out(self) -> int:
        return self.symbols

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        check_classes(self, loss)

    def traced(self) -> Task:
        return eqx.tree_at(lambda task: task.delay, self, jnp.asarray(self.delay, "int32"))

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Underway:
        return none_yet(String(jnp.zeros(self.length, "int32"), jnp.zeros((), "int32")))

    def block(
        self, state: Underway, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Underway]:
        key_symbols, key_shown = jax.random.split(key)
        symbols = jax.random.randint(key_symbols, (self.slots, self.length), 0, self.symbols, "int32")
        least = 1 if self.varied else self.length
        shown = jax.random.randint(key_shown, (self.slots,), least, self.length + 1, "int32")
        string, t, state = lay_out(state, String(symbols, shown), 2 * shown + 1 + self.delay)
        marked = string.shown + self.delay  # the step of the marker
        symbol = lambda t: jnp.take_along_axis(string.symbols, t[:, None], axis=1, mode="clip")[:, 0]
        blank, marker = self.symbols, self.symbols + 1
        x = jnp.where(t < string.shown, symbol(t), jnp.where(t == marked, marker, blank))
        due = t > marked
        label = jnp.where(due, symbol(t - marked - 1), -1)  # -1 is no class, and its row is zero
        one_hot = lambda which, classes: jax.nn.one_hot(which, classes, dtype=dtype)
        reset = t == 0 if self.reset else None
        return Rows(one_hot(x, self.n_in), one_hot(label, self.n_out), due, reset), state
