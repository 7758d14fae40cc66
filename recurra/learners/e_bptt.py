"""Backpropagation through time over segments of T steps, one gradient for each segment."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, LazyWeights, State, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, Unfaced
from recurra.learners.history import Credits, back, no_credit, put
from recurra.linalg import summed, where, zeros_like


class Segment(NamedTuple):
    """The traces and immediate credit of a segment's steps, and whether each is connected to the step before."""

    traces: PyTree[Array]
    cbar: Credits
    connected: Bool[Array, " T"]


class EfficientBPTT(Unfaced):
    """E-BPTT: every T steps the gradient Σ c Mbar of the last T losses, c = cbar + c J from the last step to the first.

    Jacobians are rebuilt from the traces, O(nT), with the present weights.
    """

    T: int = 10

    about = About("e-bptt", "E-BPTT", memory="nT", time="n²", period="T")

    def __check_init__(self) -> None:
        checks.whole(self, "T")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Segment:
        return Segment(cell.no_traces(weights, self.T), no_credit(cell, self.T), jnp.zeros(self.T, bool))

    def remember(self, tick: Tick, state: Segment, noise: None) -> Segment:
        return put(state, tick.t, Segment(tick.trace, tick.cell.dense_credit(tick.cbar), tick.steps_connected > 0))

    def due(self, cell: Cell, weights: Weights, state: Segment) -> tuple[LazyWeights, Segment]:
        return carried_back(cell, weights, state)[0], state


def carried_back(cell: Cell, weights: Weights, segment: Segment) -> tuple[LazyWeights, State]:
    """Σ c Mbar over the steps of a segment, and the credit c J of the state before its first step."""

    def before(step: Segment, c: State) -> State:
        cJ = cell.pull(weights, step.traces, c)
        return where(step.connected, cJ, zeros_like(cJ))

    def pull(cJ: State, step: Segment) -> tuple[State, State]:
        c = jax.tree.map(jnp.add, step.cbar, cJ)
        return before(step, c), c

    c = back(pull, zeros_like(cell.init_state()), segment, seldom=True)
    gradient = summed(jax.vmap(lambda trace, c: cell.deposit(weights, trace, c))(segment.traces, c))
    return gradient, before(*jax.tree.map(lambda rows: rows[0], (segment, c)))
