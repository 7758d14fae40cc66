"""Backpropagation through a window of the last T steps, anew at every step: the baseline that online learners name."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, State, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing
from recurra.learners.history import put
from recurra.linalg import summed, where, zeros_like


class RollingWindow(NamedTuple):
    """The traces of the last T steps in a ring, where the next one goes, and how many there are since a reset."""

    traces: PyTree[Array]
    place: Int[Array, ""]
    filled: Int[Array, ""]


class TruncatedBPTT(PastFacing):
    """M = Σ J(t) … J(t-k+1) Mbar(t-k) for k < T: the last T steps, exactly, and nothing of what lies before.

    The window rolls: at every step the credit is carried back over T steps, so that a gradient costs T times as much as
    that of one step. Jacobians are rebuilt from traces, with the present weights. T = 1 is `recurra.Immediate`.

    >>> agent = rc.rl.AC(rc.GRU(n_in=3, n=8), rc.rl.TruncatedBPTT(T=4), actions=2)
    """

    T: int = 8

    about = About("truncated-bptt", "Truncated BPTT", memory="nT", time="n²T")

    def __check_init__(self) -> None:
        checks.whole(self, "T")

    @property
    def name(self) -> str:
        return f"BPTT({self.T})"

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> RollingWindow:
        return RollingWindow(cell.no_traces(weights, self.T), jnp.zeros((), "int32"), jnp.zeros((), "int32"))

    def advance(self, tick: Tick, state: RollingWindow, noise: None) -> RollingWindow:
        traces = put(state.traces, state.place, tick.trace)
        return RollingWindow(traces, (state.place + 1) % self.T, jnp.minimum(state.filled + 1, self.T))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: RollingWindow) -> LazyWeights:
        lags = jnp.arange(self.T, dtype="int32")
        newest_first = (state.place - 1 - lags) % self.T
        traces = jax.tree.map(lambda rows: rows[newest_first], state.traces)

        def back(c: State, step: tuple[Array, PyTree]) -> tuple[State, State]:
            lag, trace = step
            c = where(lag < state.filled, c, zeros_like(c))
            return cell.pull(weights, trace, c), c

        _, credits = jax.lax.scan(back, cell.dense_credit(c), (lags, traces))
        return summed(jax.vmap(lambda trace, c: cell.deposit(weights, trace, c))(traces, credits))
