"""Streams of inputs and labels, made inside the compiled loop a block of steps at a time."""

import abc
import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.losses import Loss, SoftmaxCrossEntropy

#: a whole number, or an array of one that a compiled program takes as an argument
WholeNumber = int | Int[Array, ""]
#: Steps for which random numbers are drawn at once: enough to make drawing cheap, few enough to stay in cache.
BLOCK = 128


class Rows(NamedTuple):
    """What a block of steps brings, leading axis time.

    A label counts only where `present` is true; None: all do. Before a step where `reset` is true the network is set
    back to its first state, as at the start of an episode; None: it never is. `recurra.step` says what both mean.

    >>> rows = rc.Rows(x=jnp.zeros((rc.BLOCK, 2)), label=jnp.zeros((rc.BLOCK, 1)))
    >>> rows.present is None
    True
    """

    x: Float[Array, "steps n_in"]
    label: Float[Array, "steps n_out"]
    present: Bool[Array, " steps"] | None = None
    reset: Bool[Array, " steps"] | None = None


class Task(checks.Part):
    """A stream that depends only on its keys and the number of the block, not on how a run is cut.

    Subclass it for data of your own kind. A task must give the same shapes in every block. What it returns is checked
    before anything runs: a TypeError names the method, what it must return and what it returns.

    >>> class Echo(rc.Task):
    ...     n_in = n_out = 1
    ...     def init(self, key, dtype):
    ...         return None
    ...     def block(self, state, key, number, dtype):
    ...         x = jax.random.normal(key, (rc.BLOCK, 1), dtype)
    ...         return rc.Rows(x, x), state
    """

    #: How many rows after a row its label comes. With 0 it comes with the row. With h ≥ 1 the label in row t belongs to
    #: row t - h: the network forecasts h rows ahead, and learns from a label once it is there.
    horizon: ClassVar[int] = 0
    #: the loss of a network that is described in words, as in study files, where they name no other
    default_loss: ClassVar[type[Loss]] = SoftmaxCrossEntropy

    @property
    @abc.abstractmethod
    def n_in(self) -> int:
        """How many numbers an input has."""

    @property
    @abc.abstractmethod
    def n_out(self) -> int:
        """How many numbers a label has."""

    @property
    def streams(self) -> int:
        """The number of streams that the data come in, which `train` takes unless it is told another."""
        return 1

    @property
    def epoch(self) -> int | None:
        """The number of steps of one pass over all data; None if they have no end."""
        return None

    def traced(self) -> "Task":
        """The task with whole numbers as arrays, if no shape depends on them: another value compiles nothing anew."""
        return self

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        """Raise if a network with this loss and dtype cannot be trained on it for so many steps in so many streams."""
        return None

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Any:
        """The state before the first block."""

    def in_stream(self, state: Any, stream: Int[Array, ""]) -> Any:
        """What `init` returned, for one of several streams: the same for all, unless streams differ from the start."""
        return state

    @abc.abstractmethod
    def block(self, state: Any, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype) -> tuple[Rows, Any]:
        """The inputs and labels of block `number`, `BLOCK` steps long, and the state before the next."""


def held(
    drawn: Float[Array, "steps *shape"], last: Float[Array, "*shape"], number: Int[Array, ""], stretch: WholeNumber
) -> Float[Array, "steps *shape"]:
    """The rows that block `number` shows: each lasts `stretch` steps, and is the one drawn for the first of them.

    `last` is what was shown at the end of the block before. `stretch` may be an array, so no shape depends on it.
    """
    i = jnp.arange(BLOCK, dtype="int32")
    shown = i - (number * BLOCK + i) % stretch  # the step at which it was drawn; negative: in the block before
    first = (shown < 0).reshape(-1, *(1 for _ in last.shape))
    return jnp.where(first, last, drawn[jnp.maximum(shown, 0)])


#: a loop over rows, as `jax.lax.scan` is
Loop = Callable[[Callable, PyTree, PyTree], tuple[PyTree, PyTree]]
_LOOP: ContextVar[Loop] = ContextVar("loop", default=jax.lax.scan)


def step_by_step(
    f: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]], state: PyTree, rows: PyTree
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` over the rows of a block, or the loop that an engine has in its place."""
    return _LOOP.get()(f, state, rows)


@contextlib.contextmanager
def stepped_by(loop: Loop) -> Iterator[None]:
    """Trace `step_by_step` with another loop. Only engines need it."""
    token = _LOOP.set(loop)
    try:
        yield
    finally:
        _LOOP.reset(token)
