"""The algorithms that keep M(t) = J M(t-1) + Mbar in factors, at random; gradient = cbar M."""

import jax
import jax.numpy as jnp

from bare.cells import N_IN, Sources, width
from bare.decompositions import orthonormal_rows, svd, times
from bare.loop import BLOCK, Algorithm, signs

RANK = 4


def norm(tree):
    """Euclidean norm."""
    return jnp.sqrt(sum(sum_by_rows(x * x) if x.ndim == 2 else jnp.sum(x * x) for x in jax.tree.leaves(tree)))


@jax.custom_batching.custom_vmap
def sum_by_rows(x):
    """A plain sum adds number after number; a product with ones adds rows side by side, fastest for one matrix."""
    return jnp.sum(jnp.ones(len(x)) @ x)


@sum_by_rows.def_vmap
def sums_by_rows(size, batched, x):
    return jnp.sum(jax.lax.optimization_barrier(jnp.sum(x, axis=1)), axis=1), True


def balance(grown, shrunk):
    """ρ with ρ² = grown / shrunk, and 1 where either is zero."""
    both = (grown > 0) & (shrunk > 0)
    return jnp.sqrt(jnp.where(both, grown, 1)) / jnp.sqrt(jnp.where(both, shrunk, 1))


def square(v):
    """‖v‖²."""
    return jnp.sum(v * v)


def length(us, ahat, hears):
    """‖u ahatᵀ‖ of all u together, each of which hears some sources."""
    heard = lambda each: sum(square(v) for v, is_heard in zip(ahat, each, strict=True) if is_heard)
    return jnp.sqrt(sum(square(u) * heard(each) for u, each in zip(us, hears, strict=True)))


def beside(gates, n):
    """A diagonal matrix for each gate, given by its diagonal or None for zero, side by side."""
    return jnp.concatenate([jnp.zeros((n, n)) if d is None else jnp.diag(d) for d in gates], axis=1)


def normal_like(key, tree):
    """Random numbers in the shape of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    draw = lambda key, leaf: jax.random.normal(key, leaf.shape)
    return jax.tree.unflatten(structure, map(draw, jax.random.split(key, len(leaves)), leaves))


# UORO: M[(p, k), (g, i, j)] ≈ A[p][k] B[g][i, j].


def uoro(s, state, nu):
    A, B = state
    JA, nu_D = s.cell.push(s.W, s.local, A), s.cell.credit(s.local, s.cell.split(nu))
    rho0 = balance(norm(B), norm(JA))
    rho1 = balance(length(nu_D, s.ahat, s.cell.hears), norm(nu))
    A = tuple(rho0 * ja + rho1 * v for ja, v in zip(JA, s.cell.split(nu), strict=True))
    nu_Mbar = s.cell.deposit([u / rho1 for u in nu_D], s.ahat)
    B = jax.tree.map(lambda b, now: 1 / rho0 * b + now, B, nu_Mbar)
    credit = s.cbar @ A[0]
    return s.descend(jax.tree.map(lambda b: credit * b, B)), (A, B)


def uoro_start(key, cell, W):
    key_A, key_B = jax.random.split(key)
    return tuple(jax.random.normal(key_A, (cell.states, width(W)))), normal_like(key_B, W)


UORO = Algorithm(uoro_start, lambda key, cell, n: signs(key, (BLOCK, cell.states * n)), uoro)


# KF-RTRL: M[(p, k), (g, i), j] ≈ A[j] B[p][k, (g, i)].


def kf_rtrl(s, state, nu):
    A, B = state
    JB, D = s.cell.push_by(s.J, s.local, B), s.cell.D(s.local)
    rho0 = balance(norm(JB), norm(A))
    rho1 = balance(norm(D), norm(s.ahat))
    A = jax.tree.map(lambda a, now: nu[0] * rho0 * a + nu[1] * rho1 * now, A, s.ahat)
    now = [beside(gates, width(s.W)) for gates in D]
    B = tuple(nu[0] / rho0 * jb + nu[1] / rho1 * d for jb, d in zip(JB, now, strict=True))
    return s.descend_along(jnp.split(s.cbar @ B[0], len(s.W)), A), (A, B)


def kf_rtrl_start(key, cell, W):
    key_A, key_B = jax.random.split(key)
    n = width(W)
    A = jax.random.normal(key_A, (n + N_IN + 1,))
    B = jax.random.normal(key_B, (cell.states, n, len(W) * n)) / n**0.5
    return Sources(A[:n], A[n:-1], A[-1]), tuple(B)


KF_RTRL = Algorithm(kf_rtrl_start, lambda key, cell, n: signs(key, (BLOCK, 2)), kf_rtrl)


# R-KF-RTRL: M[(p, k), (g, i), j] ≈ A[g][i] B[p][k, j].


def r_kf_rtrl(s, state, nu):
    A, B = state
    nu = jnp.split(nu, len(A))
    J = s.J
    JB = tuple(map(Sources, *(s.cell.push_by(J, s.local, columns) for columns in zip(*B, strict=True))))
    nu_D = [through_gates(s.cell, nu, D) for D in s.cell.D(s.local)]
    rho0 = balance(norm(JB), norm(A))
    squares = [square(u) * square(v) for each in nu_D for u, v in zip(each, s.ahat, strict=True)]
    rho1 = balance(jnp.sqrt(sum(squares)), norm(nu))
    B = tuple(
        jax.tree.map(lambda jb, u, v: 1 / rho0 * jb + times_row(u / rho1, v), jb, each, s.ahat)
        for jb, each in zip(JB, nu_D, strict=True)
    )
    A = tuple(rho0 * a + rho1 * v for a, v in zip(A, nu, strict=True))
    row = Sources(*(s.cbar @ columns for columns in B[0]))
    return s.descend_along(A, row), (A, B)


def through_gates(cell, nu, D):
    """Σ_g ν[g] D[g] over the gates that hear each source."""
    gates = [(v * d, hears) for v, d, hears in zip(nu, D, cell.hears, strict=True) if d is not None]
    return Sources(*(sum(u for u, hears in gates if hears[source]) for source in range(3)))


def times_row(u, v):
    """u vᵀ, where v may be a number."""
    return jnp.outer(u, v) if v.ndim else u * v


def r_kf_rtrl_start(key, cell, W):
    key_A, key_B = jax.random.split(key)
    n = width(W)
    like = (Sources(jnp.zeros((n, n)), jnp.zeros((n, N_IN)), jnp.zeros(n)),) * cell.states
    B = jax.tree.map(lambda b: b / n**0.5, normal_like(key_B, like))
    return tuple(jax.random.normal(key_A, (len(W), n))), B


R_KF_RTRL = Algorithm(r_kf_rtrl_start, lambda key, cell, n: signs(key, (BLOCK, len(cell.hears) * n)), r_kf_rtrl)


# r-OK: M[k, i, j] ≈ Σ_l A[l, j] B[l, (i, k)], with k over all state variables and i over all gates.


def r_ok(s, state, sign):
    A, B = state
    n, S = width(s.W), len(s.a)
    JB = B.reshape(-1, S * n) @ s.cell.whole(s.J, s.local).T
    D = jnp.concatenate([beside(gates, n) for gates in s.cell.D(s.local)])
    ahat = jnp.concatenate([s.ahat.rec, s.ahat.inp, jnp.ones(1)])
    C_L, Q_L = orthonormal_rows(jnp.vstack([A, ahat]))
    C_R, Q_R = orthonormal_rows(jnp.vstack([JB.reshape(RANK, -1), D.T.reshape(-1)]))
    U, sigma, V = svd(times(C_L.T, C_R))
    X = thinned(sigma, jnp.where(U @ C_L[-1] < 0, -sign, sign))
    A, B = times(times(X.T, U), Q_L), times(times(X.T, V), Q_R)
    rows = (B.reshape(-1, S * n)[:, :n] @ s.cbar).reshape(RANK, -1)
    blocks = [(gate[:, :n], gate[:, n:-1], gate[:, -1]) for gate in jnp.split(times(rows.T, A), len(s.W))]
    only = lambda gate, hears: Sources(*(block if heard else None for block, heard in zip(gate, hears, strict=True)))
    return s.descend(tuple(map(only, blocks, s.cell.hears))), (A, B)


def thinned(sigma, sign):
    """X (r+1 × r) with E[X Xᵀ] = diag(σ) and least variance (Benzing et al. 2019)."""
    r, index = RANK, jnp.arange(RANK + 1)
    tail = jnp.triu(jnp.ones((r + 1, r + 1))) @ sigma
    k = jnp.sum((r - index) * sigma > tail)
    s = jnp.where(tail[k] > 0, tail[k], 1)
    z0 = jnp.where(index < k, 0, jnp.sqrt(jnp.clip(1 - sigma * (r - k) / s, 0)))
    v = z0.at[r].add(1)  # a reflection whose last column is -z0: the others span its complement
    basis = jnp.eye(r + 1) - 2 * jnp.outer(v, v) / (v @ v)
    return sign[:, None] * basis[:, :r] * jnp.sqrt(jnp.where(index < k, sigma, tail[k] / (r - k)))[:r]


def r_ok_start(key, cell, W):
    n = width(W)
    return jnp.zeros((RANK, n + N_IN + 1)), jnp.zeros((RANK, cell.states * n * len(W) * n))


R_OK = Algorithm(r_ok_start, lambda key, cell, n: signs(key, (BLOCK, RANK + 1)), r_ok)
