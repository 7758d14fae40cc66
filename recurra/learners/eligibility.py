"""Eligibility traces: immediate influence D ahat, filtered in time, one for each state variable and weight."""

import jax
import jax.numpy as jnp

from recurra.algebra import mul, outer, total
from recurra.cells.base import Cell, Credit
from recurra.cells.unitwise import Gates, Sources, Trace
from recurra.learners.base import unitwise

#: B[p][gate][source], in the shape of the weights for each state variable p
Eligibility = tuple[Gates, ...]


def no_eligibility(cell: Cell, weights: Gates) -> Eligibility:
    """B = 0."""
    return tuple(jax.tree.map(jnp.zeros_like, weights) for _ in range(unitwise(cell).states))


def filtered(keep: tuple[Credit, ...], trace: Trace, B: Eligibility) -> Eligibility:
    """B[p] <- Σ_q keep[p][q] B[q] + D[p] ahat."""

    def gate(p: int, g: int) -> Sources:
        by_source = zip(*(b[g] for b in B), strict=True)
        return Sources(
            *(
                None if old[0] is None else total(*map(mul, keep[p], old), outer(trace.D[p][g], u))
                for old, u in zip(by_source, trace.ahat, strict=True)
            )
        )

    return tuple(tuple(gate(p, g) for g in range(len(trace.D[p]))) for p in range(len(B)))


def weighed(c: Credit, B: Eligibility) -> Gates:
    """Σ_p c[p] B[p]."""
    terms = [jax.tree.map(lambda b, u=u: mul(u, b), b) for u, b in zip(c, B, strict=True) if u is not None]
    return jax.tree.map(total, *terms)
