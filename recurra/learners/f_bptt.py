"""Backpropagation through time on an endless stream, a full gradient for every step, T steps late."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, FutureFacing
from recurra.learners.history import Credits, ago, back, no_credit, put


class Window(NamedTuple):
    """The traces of steps t-T..t, in a ring, and the credit of each so far, oldest first."""

    traces: PyTree[Array]
    credit: Credits


class FutureBPTT(FutureFacing):
    """F-BPTT: c(s) = cbar(s) + cbar(s+1) J(s+1) + ··· + cbar(s+T) J(s+T)···J(s+1), complete at t = s + T.

    At step t the present cbar is pulled back over the last T steps, and extends the credit of each of them. Jacobians
    are rebuilt from their traces, O(nT), with the present weights.
    """

    T: int = 10

    about = About("f-bptt", "F-BPTT", memory="nT", time="n²T", lag="T")

    def __check_init__(self) -> None:
        checks.whole(self, "T")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Window:
        return Window(cell.differing(cell.no_traces(weights, self.T + 1)), no_credit(cell, self.T + 1))

    def credit(self, tick: Tick, state: Window) -> tuple[Credit, Any, Window]:
        traces = put(state.traces, tick.t, tick.cell.differing(tick.trace))
        trace = lambda lag: eqx.combine(ago(traces, tick.t, lag), tick.trace)  # what never differs is the present's
        cbar = tick.cell.dense_credit(tick.cbar)

        def pull(c: State, lag: Array) -> tuple[State, State]:
            cJ = tick.cell.pull(tick.weights, trace(lag), c)
            if tick.first is not None:  # nothing from before a reset counts
                cJ = tuple(jnp.where(lag < tick.steps_connected, c, 0) for c in cJ)
            return cJ, cJ

        reached = back(pull, cbar, jnp.arange(self.T - 1, -1, -1, dtype=tick.t.dtype))
        c = jax.tree.map(lambda c, more, now: jnp.concatenate([c[1:] + more, now[None]]), state.credit, reached, cbar)
        # Before step T there is no step t - T yet, so nothing is emitted.
        oldest = tuple(jnp.where(tick.t >= self.T, rows[0], 0) for rows in c)
        return oldest, trace(self.T), Window(traces, c)
