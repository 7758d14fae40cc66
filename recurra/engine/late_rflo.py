"""A form of RFLO for cells with variables that no unit reads, such as an LSTM: the same gradients from fewer traces.

A variable that no unit reads at the next step, such as an LSTM's h, needs no trace of its own. With B from before a
step, and the step's own H and D,

    c B(t) = (c H) B(t-1) + c D ahat,

so credit is carried back over one step, and B is needed only for the variables that units read. The second term is an
outer product, whose mean over streams is one product of matrices.
"""

import dataclasses
from typing import NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.gates import Trace
from recurra.cells.tick import Tick
from recurra.learners import RFLO
from recurra.learners.base import PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, only, weighed
from recurra.linalg import Outer, add, mul, zeros_like


class Pending(NamedTuple):
    """B before a step, of the state variables that units read, and the step's own derivatives."""

    B: Eligibility
    trace: Trace


class LateRFLO(PastFacing):
    """B is kept one step late, B(t-1) = H B(t-2) + D ahat. Each step's gradient is still complete."""

    about = RFLO.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Pending:
        cell = unitwise(cell)
        no_trace = jax.tree.map(lambda rows: rows[0], cell.no_traces(weights, 1))
        return Pending(no_eligibility(cell, weights, kept=cell.read), zeros_like(no_trace))

    def advance(self, tick: Tick, state: Pending, noise: None) -> Pending:
        B = filtered(tick.weights, state.trace.H, state.trace, state.B)
        return Pending(only(B, unitwise(tick.cell).read), tick.trace)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Pending) -> LazyWeights:
        cH = tuple(add(*map(mul, c, column)) for column in zip(*state.trace.H, strict=True))
        earlier, now = weighed(weights, cH, state.B), cell.deposit(weights, state.trace, c)
        plus = lambda now, earlier: dataclasses.replace(now, plus=earlier)
        return jax.tree.map(plus, now, earlier, is_leaf=lambda leaf: isinstance(leaf, Outer))
