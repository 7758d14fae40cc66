"""Backpropagation through time on an endless stream, in its two forms.

Both keep the traces of the last T steps, O(nT), and rebuild past Jacobians from them with the present weights.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.learners.base import FutureFacing, Intermittent, Tick


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
        return _empty_history(cell, weights, self.T + 1)

    def credit(self, tick: Tick, state: History) -> tuple[Credit, Any, History]:
        shifted = lambda old, new: jnp.concatenate([old[1:], new[None]])
        traces = jax.tree.map(shifted, state.traces, tick.trace)
        cbar = tick.cell.dense(tick.cbar)

        def back(c: State, trace: Any) -> tuple[State, State]:
            c = tick.cell.pull(tick.weights, trace, c)
            return c, c

        later = jax.tree.map(lambda leaf: leaf[1:], traces)
        _, reached = jax.lax.scan(back, cbar, later, reverse=True, unroll=min(self.T, 10))
        extended = jax.tree.map(lambda old, new: old[1:] + new, state.credit, reached)
        credit = jax.tree.map(lambda old, new: jnp.concatenate([old, new[None]]), extended, cbar)
        # Nothing was applied before the first step, so nothing is emitted for it.
        oldest = tuple(jnp.where(tick.t >= self.T, c[0], 0) for c in credit)
        return oldest, jax.tree.map(lambda leaf: leaf[0], traces), History(traces, credit)


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

    def emits(self, t: Int[Array, ""]) -> Bool[Array, ""]:
        return (t + 1) % self.T == 0

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> History:
        return _empty_history(cell, weights, self.T)

    def remember(self, tick: Tick, state: History, noise: None) -> History:
        now = History(tick.trace, tick.cell.dense(tick.cbar))
        return jax.tree.map(lambda old, new: old.at[tick.t % self.T].set(new), state, now)

    def gradient(self, tick: Tick, state: History) -> Weights:
        cell, weights = tick.cell, tick.weights

        def back(carry: State, kept: History) -> tuple[State, State]:
            c = jax.tree.map(jnp.add, kept.credit, carry)
            return cell.pull(weights, kept.traces, c), c

        nothing = jax.tree.map(jnp.zeros_like, tick.state)
        _, credit = jax.lax.scan(back, nothing, state, reverse=True)
        return cell.deposit_all(weights, state.traces, credit)


def _empty_history(cell: Cell, weights: Weights, length: int) -> History:
    zeros = tuple(jnp.zeros((length, width), cell.dtype) for width in cell.widths)
    return History(cell.no_traces(weights, length), zeros)
