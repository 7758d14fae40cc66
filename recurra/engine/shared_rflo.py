"""A form of RFLO for cells that hear their gates through one leaky sum, such as LIF: that sum's trace is kept once.

A membrane potential without its reset, v' = α v + z, responds alike in all units. What a weight did to it depends on
the source that the weight listens to, and not on the unit. It is the running sum b of that source. If gates reach all
else in a unit through v' alone, so do their earlier values, and v with them:

    b = α b + ahat,        B[p] = Σ_q H[p][q] B[q] + D[p] bᵀ        over all q but v.

So b takes the place of ahat, B has no part for v, and e-prop is a product of both sides of a synapse.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Sources, listened
from recurra.cells.tick import Tick
from recurra.learners import RFLO
from recurra.learners.base import PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, weighed
from recurra.linalg import add, mul


class Traces(NamedTuple):
    """b, for each source a vector, and B of the state variables that units read, without the shared one."""

    b: Sources
    B: Eligibility


class SharedRFLO(PastFacing):
    """b = α b + ahat, B = H B + D b. The cell must have a shared variable, `UnitwiseCell.shared`."""

    about = RFLO.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Traces:
        cell = unitwise(cell)
        heard = [any(source) for source in zip(*cell.listens, strict=True)]
        no_b = lambda size, is_heard: jnp.zeros(size, cell.dtype) if is_heard else None
        b = Sources(*map(no_b, (cell.n, cell.n_in, 1), heard))
        return Traces(b, no_eligibility(cell, weights, kept=cell.read - {cell.shared}))

    def advance(self, tick: Tick, state: Traces, noise: None) -> Traces:
        v, H = unitwise(tick.cell).shared, tick.trace.H
        assert v is not None
        b = listened(state.b, tick.trace.ahat, lambda b, u: add(mul(H[v][v], b), u))
        beside = tuple(tuple(None if q == v else h for q, h in enumerate(row)) for row in H)
        return Traces(b, filtered(tick.weights, beside, tick.trace._replace(ahat=b), state.B))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Traces) -> Weights:
        return weighed(weights, c, state.B)
