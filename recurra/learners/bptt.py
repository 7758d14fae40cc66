"""Backpropagation through time on an endless stream, in its two forms.

Both keep traces of the last T steps, O(nT), F-BPTT what differs between them alone, and rebuild past Jacobians from
them with the present weights.
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.algebra import computed_once
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.learners.base import FutureFacing, Intermittent, Tick
from recurra.machine import backend

#: steps back that are compiled one after the other, at most
UNROLLED = 10


class History(NamedTuple):
    """Traces and credit of the last steps, leading axis time."""

    traces: PyTree[Array]
    credit: State


class FutureBPTT(FutureFacing):
    """F-BPTT: at step t, the gradient of the losses t-T..t in the weights applied at t-T.

    The present loss is propagated back once through the last T steps, and extends the credit of each of them.
    """

    T: int = 10

    name: ClassVar[str] = "F-BPTT"
    facing: ClassVar = "future"
    tensor: ClassVar[str] = "–"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "nT"
    time: ClassVar[str] = "n²T"
    unitwise: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.whole(self, "T")

    @property
    def lag(self) -> int:
        return self.T

    def emits(self, t: Int[Array, ""]) -> Bool[Array, ""]:
        return t >= self.T

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> History:
        history = _empty_history(cell, weights, self.T + 1)
        return history._replace(traces=cell.passing(history.traces))

    def credit(self, tick: Tick, state: History) -> tuple[Credit, Any, History]:
        length = tick.t.dtype.type(self.T + 1)
        slot = lambda lag: jax.lax.rem(tick.t + (length - lag), length)
        # What never differs is that of the present.
        at = lambda lag: eqx.combine(jax.tree.map(lambda rows: rows[slot(lag)], traces), tick.trace)
        kept = computed_once(tick.cell.passing(tick.trace))
        traces = jax.tree.map(lambda old, new: old.at[slot(0)].set(new), state.traces, kept)
        cbar = tick.cell.dense(tick.cbar)

        def back(c: State, lag: Array) -> tuple[State, State]:
            c = tick.cell.pull(tick.weights, at(lag), c)
            return c, c

        lags = jnp.arange(self.T - 1, -1, -1, dtype=tick.t.dtype)
        _, reached = jax.lax.scan(back, cbar, lags, reverse=True, unroll=min(self.T, UNROLLED))
        extended = jax.tree.map(lambda old, new: old[1:] + new, state.credit, reached)
        credit = jax.tree.map(lambda old, new: jnp.concatenate([old, new[None]]), extended, cbar)
        # Nothing was applied before the first step, so nothing is emitted for it.
        oldest = tuple(jnp.where(tick.t >= self.T, c[0], 0) for c in credit)
        return oldest, at(self.T), History(traces, credit)


class EfficientBPTT(Intermittent):
    """E-BPTT: every T steps, the gradient of the last T losses in the weights they share; nothing between."""

    T: int = 10

    name: ClassVar[str] = "E-BPTT"
    facing: ClassVar = "–"
    tensor: ClassVar[str] = "–"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "nT"
    time: ClassVar[str] = "n²"
    unitwise: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.whole(self, "T")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> History:
        return _empty_history(cell, weights, self.T)

    def remember(self, tick: Tick, state: History, noise: None) -> History:
        now = History(tick.trace, tick.cell.dense(tick.cbar))
        return jax.tree.map(lambda old, new: old.at[tick.t % self.T].set(new), state, now)

    def credits(self, cell: Cell, weights: Weights, state: History) -> tuple[PyTree[Array], PyTree[Array]]:
        def back(carry: State, kept: History) -> tuple[State, State]:
            c = jax.tree.map(jnp.add, kept.credit, carry)
            return cell.pull(weights, kept.traces, c), c

        nothing = tuple(jnp.zeros(width, cell.dtype) for width in cell.widths)
        unroll = 1 if backend() == "cpu" else min(self.T, UNROLLED)  # elsewhere every turn of a loop is a launch
        _, credit = jax.lax.scan(back, nothing, state, reverse=True, unroll=unroll)
        return state.traces, credit


def _empty_history(cell: Cell, weights: Weights, length: int) -> History:
    zeros = tuple(jnp.zeros((length, width), cell.dtype) for width in cell.widths)
    return History(cell.no_traces(weights, length), zeros)
