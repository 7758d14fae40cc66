"""Eligibility traces: immediate influence D ahat, filtered in time, one for each state variable and weight."""

from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp

from recurra.cells.base import Cell, Credit
from recurra.cells.gates import Gates, Sources, Trace
from recurra.cells.structure import Blocks
from recurra.learners.base import unitwise
from recurra.linalg import add, add_or_zero, dense, mul, outer_like, zeros_like

#: B[p][gate][source], in the shape of the weights for each state variable p; None where a gate never reaches p
Eligibility = tuple[Gates, ...]


def no_eligibility(
    cell: Cell,
    weights: Gates,
    kept: Collection[int] | None = None,
    keep: Callable[[Gates, Trace], Blocks] = lambda _, trace: trace.H,
) -> Eligibility:
    """B = 0 of a trace that is filtered with `keep`, for all state variables or those in `kept`.

    RFLO need not keep that of an LSTM's h: no unit reads h again.
    """
    cell = unitwise(cell)

    def once_everything_has_spread() -> Eligibility:
        _, trace = cell.forward(weights, cell.init_state(), jnp.zeros(cell.n_in, cell.dtype))
        B: Eligibility = (_nothing(weights),) * cell.states
        for _ in range(cell.states + 1):
            B = filtered(weights, keep(weights, trace), trace, B)
        return B

    B = zeros_like(jax.eval_shape(once_everything_has_spread))
    return B if kept is None else only(B, kept)


def only(B: Eligibility, kept: Collection[int]) -> Eligibility:
    """B of these state variables alone."""
    return tuple(b if p in kept else _nothing(b) for p, b in enumerate(B))


def filtered(weights: Gates, keep: Blocks, trace: Trace, B: Eligibility) -> Eligibility:
    """B[p] <- Σ_q keep[p][q] B[q] + D[p] ahat."""

    def block(p: int, g: int, source: int) -> Any:
        w, d, u = weights[g][source], trace.D[p][g], trace.ahat[source]
        if w is None:
            return None
        immediate = None if d is None else dense(outer_like(w, d, u))
        return add(*(mul(k, b[g][source]) for k, b in zip(keep[p], B, strict=True)), immediate)

    gates, sources = range(len(weights)), range(len(trace.ahat))
    return tuple(tuple(Sources(*(block(p, g, j) for j in sources)) for g in gates) for p in range(len(B)))


def weighed(weights: Gates, c: Credit, B: Eligibility) -> Gates:
    """Σ_p c[p] B[p]."""
    block = lambda w, *blocks: None if w is None else add_or_zero(w, *map(mul, c, blocks))
    gate = lambda w, *blocks: Sources(*map(block, w, *blocks))
    return tuple(map(gate, weights, *B))


def _nothing(weights: Gates) -> Gates:
    return (Sources(None, None, None),) * len(weights)
