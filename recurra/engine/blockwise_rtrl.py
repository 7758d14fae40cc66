"""A form of RTRL that keeps M apart for each source of weights: the same gradients from arrays that a kernel can hold.

M has three axes for each gate and source: the unit k that is influenced, and the weight's own two, from j to i. No two
blocks stand side by side, so nothing is cut or joined, and every size can be padded by itself.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Sources
from recurra.cells.tick import Tick
from recurra.learners import RTRL
from recurra.learners.base import PastFacing, unitwise
from recurra.linalg import add, add_or_zero
from recurra.linalg.products import EXACT

#: M[gate][source][p][k, i, j]; None where a gate does not listen to a source
Blockwise = tuple[Sources, ...]


class BlockwiseRTRL(PastFacing):
    """M(t) = J M(t-1) + Mbar, block by block."""

    about = RTRL.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Blockwise:
        cell = unitwise(cell)
        block = lambda w: (jnp.zeros((cell.n, *w.shape), cell.dtype),) * cell.states
        return tuple(Sources(*(None if w is None else block(w) for w in gate)) for gate in weights)

    def advance(self, tick: Tick, state: Blockwise, noise: None) -> Blockwise:
        cell, (H, D, ahat) = unitwise(tick.cell), tick.trace
        J = cell.seen_blocks(tick.weights, tick.trace)
        own = jnp.eye(cell.n, dtype=cell.dtype)[:, :, None]  # Mbar is zero except where k = i

        def advanced(g: int, u: Array, M: tuple[Array, ...]) -> tuple[Array, ...]:
            seen = [None if block is None else _summed(block, M[0]) for block in J]
            Mbar = [_times(d[g], own * u) for d in D]
            row = lambda p: add_or_zero(M[p], seen[p], *map(_times, H[p][1:], M[1:]), Mbar[p])
            return tuple(map(row, range(len(M))))

        each = lambda g, blocks: (None if M is None else advanced(g, u, M) for u, M in zip(ahat, blocks, strict=True))
        return tuple(Sources(*each(g, blocks)) for g, blocks in enumerate(state))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Blockwise) -> Weights:
        weighed = lambda M: add(*(None if u is None else _summed(u, m) for u, m in zip(c, M, strict=True)))
        return tuple(Sources(*(None if M is None else weighed(M) for M in blocks)) for blocks in state)


def _times(d: Float[Array, " #n"] | None, M: Float[Array, "n i j"] | None) -> Any:
    """d[k] M[k, i, j]."""
    return None if d is None or M is None else d[:, None, None] * M


def _summed(W: Float[Array, "*l n"], M: Float[Array, "n i j"]) -> Float[Array, "*l i j"]:
    """Σ_k W[l, k] M[k, i, j]."""
    return jax.lax.dot_general(W, M, (((W.ndim - 1,), (0,)), ((), ())), precision=EXACT)
