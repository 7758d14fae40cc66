"""Random-feedback online learning (Murray 2019), with the feedback left to the network."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from recurra.algebra import add, mul
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.unitwise import Trace
from recurra.learners.base import PastFacing, Tick, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, read_again, weighed


class Pending(NamedTuple):
    """B before a step, of the state variables that units read, and the step's own derivatives."""

    B: Eligibility
    trace: Trace


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
        by_variable = zip(*state.trace.H, strict=True)
        before = tuple(add(*map(mul, c, column)) for column in by_variable)
        return jax.tree.map(jnp.add, weighed(weights, before, state.B), cell.deposit(weights, state.trace, c))
