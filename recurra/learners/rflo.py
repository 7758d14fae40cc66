"""Random-feedback online learning (Murray 2019), with the feedback left to the network."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra.algebra import add, mean, mul
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.unitwise import Trace
from recurra.learners.base import PastFacing, Tick, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, read_again, weighed


class Pending(NamedTuple):
    """B before a step, of the state variables that units read, and the step's own derivatives."""

    B: Eligibility
    trace: Trace


#: credit, and what it meets
Met = tuple[Credit, Eligibility | Pending]


class RFLO(PastFacing):
    """B = H B + D ahat: the network's own leak in place of J, so that M stays on its diagonal k = i.

    Units may not read all they hold: an LSTM's h follows from its memory anew at every step. Then B is kept from before
    the step, where it is smaller, and credit goes back over that step to meet it.
    """

    name: ClassVar[str] = "RFLO"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "δ_ki B_ij"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "n²"
    time: ClassVar[str] = "n²"
    unitwise: ClassVar[bool] = True

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Eligibility | Pending:
        cell, B = unitwise(cell), no_eligibility(cell, weights)
        if len(cell.read) == cell.states:
            return B
        no_trace = jax.tree.map(lambda rows: rows[0], cell.no_traces(weights, 1))
        return Pending(read_again(cell, B), no_trace)

    def advance(self, tick: Tick, state: Eligibility | Pending, noise: None) -> Eligibility | Pending:
        if not isinstance(state, Pending):
            return filtered(tick.weights, tick.trace.H, tick.trace, state)
        B = filtered(tick.weights, state.trace.H, state.trace, state.B)
        return Pending(read_again(unitwise(tick.cell), B), tick.trace)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Eligibility | Pending) -> Weights:
        if not isinstance(state, Pending):
            return weighed(weights, c, state)
        earlier = weighed(weights, _before(c, state), state.B)
        return jax.tree.map(jnp.add, earlier, cell.deposit(weights, state.trace, c))

    def factors(self, tick: Tick, state: Eligibility | Pending, noise: None) -> tuple[Met, Eligibility | Pending]:
        state = self.advance(tick, state, noise)
        return (tick.cbar, state), state

    def gradient(self, cell: Cell, weights: Weights, factors: Met) -> Weights:
        return self.contract(cell, weights, *factors)

    def mean_gradient(self, cell: Cell, weights: Weights, factors: PyTree[Array]) -> Weights:
        c, state = factors
        if not isinstance(state, Pending):
            return super().mean_gradient(cell, weights, factors)
        # What the step itself deposited in all streams is one product of matrices.
        earlier = mean(jax.vmap(lambda c, state: weighed(weights, _before(c, state), state.B))(c, state))
        now = cell.deposit_all(weights, state.trace, jax.tree.map(lambda u: u / len(u), c))
        return jax.tree.map(jnp.add, earlier, now)


def _before(c: Credit, state: Pending) -> Credit:
    """Credit carried back over the step."""
    return tuple(add(*map(mul, c, column)) for column in zip(*state.trace.H, strict=True))
