"""RTRL: M(t) = J M(t-1) + Mbar, gradient = cbar M, with M brought up to date at the end of each span of steps.

M before a span is one matrix ((p, k), (i, j)) for each gate. The gradient of a step carries cbar back over the steps of
the span so far, and at its end M takes them all at once.
"""

import jax
import jax.numpy as jnp

from bare.cells import N_IN, Sources, width
from bare.loop import SPAN, Algorithm, silent


def rtrl(s, state, noise):
    M, steps = state
    last, now = s.t % SPAN, (s.J, s.local, heard(s.cell, s.ahat))
    steps = jax.tree.map(lambda rows, row: rows.at[last].set(row), steps, now)
    jacobians, local, ahat = steps

    def back(i, running):
        c, credit = running
        r = last - i
        here = jax.tree.map(lambda rows: rows[r], local)
        seen = jnp.sum(sum(v[:, None] * J[r] for v, J in zip(c, jacobians, strict=True)), axis=0)
        put = lambda rows, row: rows.at[r].set(row)
        return (seen, *s.cell.keep(here, c)[1:]), tuple(map(put, credit, s.cell.credit(here, c)))

    c = (s.cbar, *map(jnp.zeros_like, s.a[1:]))
    before, credit = jax.lax.fori_loop(0, last + 1, back, (c, tuple(map(jnp.zeros_like, local.E))))
    before = jnp.concatenate(before)
    blocks = [
        like_gate(rows.T @ ahat[hears] + (before @ m).reshape(width(s.W), -1), hears)
        for rows, m, hears in zip(credit, M, s.cell.hears, strict=True)
    ]
    return s.descend(tuple(blocks)), (M, steps)


def rtrl_fold(cell, state):
    M, (jacobians, local, ahat) = state

    def back(reach, step):
        J, here = step
        seen = jnp.concatenate(reach, axis=1) @ jnp.concatenate(J)
        return (seen, *cell.keep(here, reach)[1:]), cell.credit(here, reach)

    nowhere = tuple(jnp.split(jnp.eye(len(M[0])), cell.states, axis=1))
    whole, credit = jax.lax.scan(back, nowhere, (jacobians, local), reverse=True)
    whole = jnp.concatenate(whole, axis=1)
    after = lambda m, rows, hears: whole @ m + (rows.reshape(SPAN, -1).T @ ahat[hears]).reshape(m.shape)
    return tuple(map(after, M, credit, cell.hears)), (jacobians, local, ahat)


def heard(cell, ahat):
    """ahat, side by side, for each choice of sources that some gate hears."""
    parts = ahat.rec, ahat.inp, jnp.ones(1)
    side_by_side = lambda hears: jnp.concatenate(
        [part for part, is_heard in zip(parts, hears, strict=True) if is_heard]
    )
    return {hears: side_by_side(hears) for hears in cell.hears}


def like_gate(matrix, hears):
    """An array, all sources side by side, in blocks."""
    n = len(matrix) if hears[0] else 0
    return Sources(matrix[:, :n] if hears[0] else None, matrix[:, n : n + N_IN] if hears[1] else None, matrix[:, -1])


def rtrl_start(key, cell, W):
    n = width(W)
    local, a, x = cell.no_steps(W, SPAN)
    ahat = jax.vmap(lambda a, x: heard(cell, Sources(a, x, jnp.ones(()))))(a, x)
    M = tuple(jnp.zeros((cell.states * n, n * ahat[hears].shape[1])) for hears in cell.hears)
    return M, ((jnp.zeros((SPAN, n, n)),) * cell.states, local, ahat)


RTRL = Algorithm(rtrl_start, silent, rtrl, rtrl_fold)
