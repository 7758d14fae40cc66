"""A form of RFLO for cells with a variable that responds alike in all units: its trace is kept once, for all of them.

A membrane potential without its reset is such a variable, v' = α v + z: what a weight does to it depends on the source
that the weight listens to, and not on the unit. So B is a vector b over sources, the same in every row. For a shared
variable p, and for any other,

    b[p] = Σ_q H[p][q] b[q] + D[p] ahat                              q shared: H and D are numbers
    B[p] = Σ_q H[p][q] B[q] + Σ_q H[p][q] b[q]ᵀ + D[p] ahatᵀ         q not shared, q shared

and all but the first term of B[p] are outer products.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.gates import Gates, Sources, listened
from recurra.cells.tick import Tick
from recurra.learners import RFLO
from recurra.learners.base import PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, no_eligibility
from recurra.linalg import Outer, add, add_or_zero, dense, mul, outer_like


class Traces(NamedTuple):
    """b of the state variables that all units share, and B of the others; None in the place of each other."""

    b: Eligibility
    B: Eligibility


class SharedRFLO(PastFacing):
    """B = H B + D ahat, in which the rows that are equal are kept once."""

    about = RFLO.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Traces:
        cell = unitwise(cell)
        shared, sizes = cell.shared & cell.read, Sources(cell.n, cell.n_in, 1)
        B = no_eligibility(cell, weights, kept=cell.read)
        row = lambda gate: listened(gate, sizes, lambda block, size: jnp.zeros(size, cell.dtype))
        b = tuple(tuple(map(row, gates)) if p in shared else _none(gates) for p, gates in enumerate(B))
        return Traces(b, tuple(_none(gates) if p in shared else gates for p, gates in enumerate(B)))

    def advance(self, tick: Tick, state: Traces, noise: None) -> Traces:
        weights, (H, D, ahat), (b, B) = tick.weights, tick.trace, state
        shared = unitwise(tick.cell).shared & unitwise(tick.cell).read

        def row(p: int, g: int, j: int) -> Array | None:
            before = (mul(h, each[g][j]) for h, each in zip(H[p], b, strict=True))
            return add(*before, None if D[p][g] is None else D[p][g][:1] * ahat[j])

        def block(p: int, g: int, j: int) -> Any:
            before = (mul(h, each[g][j]) for h, each in zip(H[p], B, strict=True))
            rows = zip((D[p][g], *H[p]), (ahat[j], *(each[g][j] for each in b)), strict=True)
            outer = _outer(weights[g][j], rows)
            return add(*before, None if outer is None else dense(outer))

        each = lambda f, p: tuple(
            Sources(*(None if w is None else f(p, g, j) for j, w in enumerate(gate))) for g, gate in enumerate(weights)
        )
        return Traces(
            tuple(each(row, p) if p in shared else _none(weights) for p in range(len(B))),
            tuple(_none(weights) if p in shared else each(block, p) for p in range(len(B))),
        )

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Traces) -> LazyWeights:
        def block(w: Any, g: int, j: int) -> Any:
            outer = _outer(w, zip(c, (each[g][j] for each in state.b), strict=True))
            own = add(*(mul(credit, each[g][j]) for credit, each in zip(c, state.B, strict=True)))
            if outer is None:
                return add_or_zero(w, own)
            return Outer(outer.u, outer.v, own, outer.places)

        return tuple(
            Sources(*(None if w is None else block(w, g, j) for j, w in enumerate(gate)))
            for g, gate in enumerate(weights)
        )


def _outer(w: Any, factors: Iterable[tuple[Array | None, Array | None]]) -> Outer | None:
    """Σ u vᵀ over the factors that are there, at the places of w; u may be one number for all units."""
    present = [(jnp.broadcast_to(u, w.shape[:1] if isinstance(w, Array) else u.shape), v) for u, v in factors if u is not None and v is not None]
    if not present:
        return None
    if len(present) == 1:
        return outer_like(w, *present[0])
    us, vs = zip(*present, strict=True)
    return outer_like(w, jnp.stack(us), jnp.stack(vs))


def _none(weights: Gates) -> Gates:
    return (Sources(None, None, None),) * len(weights)
