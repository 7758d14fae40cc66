"""The algorithms that filter the immediate influence D ahat in time: B has the shape of W, for each variable driven."""

import jax
import jax.numpy as jnp

from bare.cells import N_IN, width
from bare.loop import BLOCK, Algorithm, silent

PERTURBATION, KERNEL_RATE, FIRST_ALPHA = 1e-3, 5.0, 0.8


# KeRNL: M[(p, k), (g, i), j] ≈ Σ_q A[p][q][k, i] B[q][g][i, j], A and the timescales fitted to a noisy copy.


def kernl(s, state, zeta):
    A, scale, B, noisy, Omega, Gamma = state
    each, zeta = lambda f, *rows: tuple(map(f, *rows)), s.cell.split(zeta)
    keep = each(lambda alpha: 1 - alpha, scale)
    Gamma = each(lambda k, gamma, omega: k * gamma - omega, keep, Gamma, Omega)
    Omega = each(lambda k, omega, z: k * omega + z, keep, Omega, zeta)
    noisy = each(jnp.add, s.cell.forward(s.W, noisy, s.ahat.inp)[0], zeta)
    error = each(lambda row, new, a: sum(map(jnp.matmul, row, Omega)) - (new - a), A, noisy, s.a)
    blame = each(lambda *column: sum(map(jnp.matmul, error, column)), *A)
    scale = each(lambda alpha, u, gamma: jnp.clip(alpha - KERNEL_RATE * u * gamma, 0, 1), scale, blame, Gamma)
    A = each(lambda row, e: each(lambda a, omega: a - KERNEL_RATE * jnp.outer(e, omega), row, Omega), A, error)
    gates = len(s.W)
    B = each(lambda k, D, b: filtered(s, (k,) * gates, D, b), keep, s.cell.D(s.local), B)
    parts = each(lambda a, b: weighed((s.cbar @ a,) * gates, b), A[0], B)
    return s.descend(each(total, *parts)), (A, scale, B, noisy, Omega, Gamma)


def filtered(s, keep, D, B):
    """B = keep B + D ahat."""
    add = lambda k, b, now: jax.tree.map(lambda b, now: (k * b.T).T + now, b, now)
    gates = zip(keep, B, s.cell.deposit(D, s.ahat), strict=True)
    return tuple(now if k is None or now is None else add(k, b, now) for k, b, now in gates)


def weighed(credit, B):
    """credit B."""
    return tuple(jax.tree.map(lambda b, c=c: (c * b.T).T, gate) for c, gate in zip(credit, B, strict=True))


def total(first, *others):
    """The sum of the trees that are there."""
    present = [each for each in others if each is not None]
    return jax.tree.map(lambda *leaves: sum(leaves), first, *present)


def kernl_start(key, cell, W):
    n, variables = width(W), range(cell.states)
    zero = (jnp.zeros(n),) * cell.states
    D = jax.eval_shape(lambda: cell.D(cell.forward(W, zero, jnp.zeros(N_IN))[1]))
    B = tuple(
        tuple(None if d is None else jax.tree.map(jnp.zeros_like, w) for w, d in zip(W, row, strict=True)) for row in D
    )
    A = tuple(tuple(jnp.eye(n) if p == q else jnp.zeros((n, n)) for q in variables) for p in variables)
    return A, tuple(v + FIRST_ALPHA for v in zero), B, zero, zero, zero


KERNL = Algorithm(
    kernl_start, lambda key, cell, n: PERTURBATION * jax.random.normal(key, (BLOCK, cell.states * n)), kernl
)


# RFLO: M ≈ B[g][i, j], the influence on what gate g drives in unit i, which forgets as the unit itself does.


def rflo(s, B, noise):
    leaks = s.cell.leaks(s.local)
    B = filtered(s, leaks, s.local.E, B)
    kept = [leak is not None for leak in leaks]
    by_trace = s.descend(weighed(s.cell.driven(s.local, s.credit), B))
    by_step = s.descend_along(s.cell.credit(s.local, s.credit), s.ahat)  # all there is where nothing is kept
    W = tuple(old if is_kept else new for old, new, is_kept in zip(by_trace, by_step, kept, strict=True))
    return W, tuple(b if is_kept else None for b, is_kept in zip(B, kept, strict=True))


def rflo_start(key, cell, W):
    zero = jnp.zeros(width(W))
    leaks = cell.leaks(cell.forward(W, (zero,) * cell.states, jnp.zeros(N_IN))[1])
    return tuple(None if leak is None else jax.tree.map(jnp.zeros_like, w) for leak, w in zip(leaks, W, strict=True))


RFLO = Algorithm(rflo_start, silent, rflo)
