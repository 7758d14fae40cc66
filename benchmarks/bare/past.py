"""The algorithms that face the past: M(t) = J M(t-1) + Mbar, gradient = cbar M."""

import jax
import jax.numpy as jnp

from bare.loop import BLOCK, M, N, RATE, Algorithm, signs

RANK = 4
PERTURBATION, KERNEL_RATE, FIRST_ALPHA = 1e-3, 5.0, 0.8


def silent(key):
    """An algorithm without randomness."""
    return None


def push(s, V):
    """J V, for a vector or the columns of a matrix."""
    D = s.D if V.ndim == 1 else s.D[:, None]
    return (1 - s.alpha) * V + D * (s.W[:, :N] @ V)


def norm(*arrays):
    return jnp.sqrt(sum(jnp.sum(x * x) for x in arrays))


def balance(grown, shrunk):
    """ρ with ρ² = grown / shrunk, and 1 where either is zero."""
    both = (grown > 0) & (shrunk > 0)
    return jnp.sqrt(jnp.where(both, grown, 1)) / jnp.sqrt(jnp.where(both, shrunk, 1))


# RTRL: M itself, as one matrix (k, (i, j)).


def rtrl(s, M_old, noise):
    J = jnp.diag(jnp.full(N, 1 - s.alpha)) + s.D[:, None] * s.W[:, :N]
    i = jnp.arange(N)
    M_new = (J @ M_old).reshape(N, N, M).at[i, i].add(jnp.outer(s.D, s.ahat)).reshape(N, N * M)
    return s.W - RATE * (s.cbar @ M_new).reshape(N, M), M_new


RTRL = Algorithm(lambda key, W: jnp.zeros((N, N * M)), silent, rtrl)


# UORO: M[k, (i, j)] ≈ A[k] B[i, j].


def uoro(s, state, nu):
    A, B = state
    JA, nu_Mbar = push(s, A), jnp.outer(nu * s.D, s.ahat)
    rho0 = balance(norm(B), norm(JA))
    rho1 = balance(norm(nu_Mbar), norm(nu))
    A, B = rho0 * JA + rho1 * nu, B / rho0 + nu_Mbar / rho1
    return s.W - RATE * (s.cbar @ A) * B, (A, B)


def uoro_start(key, W):
    key_A, key_B = jax.random.split(key)
    return jax.random.normal(key_A, (N,)), jax.random.normal(key_B, (N, M))


UORO = Algorithm(uoro_start, lambda key: signs(key, (BLOCK, N)), uoro)


# KF-RTRL: M[k, i, j] ≈ A[j] B[k, i].


def kf_rtrl(s, state, nu):
    A, B = state
    JB = push(s, B)
    rho0 = balance(norm(JB), norm(A))
    rho1 = balance(norm(s.D), norm(s.ahat))
    A = nu[0] * rho0 * A + nu[1] * rho1 * s.ahat
    B = nu[0] / rho0 * JB + nu[1] / rho1 * jnp.diag(s.D)
    return s.W - RATE * jnp.outer(s.cbar @ B, A), (A, B)


def kf_rtrl_start(key, W):
    key_A, key_B = jax.random.split(key)
    return jax.random.normal(key_A, (M,)), jax.random.normal(key_B, (N, N)) / N**0.5


KF_RTRL = Algorithm(kf_rtrl_start, lambda key: signs(key, (BLOCK, 2)), kf_rtrl)


# R-KF-RTRL: M[k, i, j] ≈ A[i] B[k, j].


def r_kf_rtrl(s, state, nu):
    A, B = state
    JB, nu_Mbar = push(s, B), jnp.outer(nu * s.D, s.ahat)
    rho0 = balance(norm(JB), norm(A))
    rho1 = balance(norm(nu_Mbar), norm(nu))
    A, B = rho0 * A + rho1 * nu, JB / rho0 + nu_Mbar / rho1
    return s.W - RATE * jnp.outer(A, s.cbar @ B), (A, B)


def r_kf_rtrl_start(key, W):
    key_A, key_B = jax.random.split(key)
    return jax.random.normal(key_A, (N,)), jax.random.normal(key_B, (N, M)) / N**0.5


R_KF_RTRL = Algorithm(r_kf_rtrl_start, lambda key: signs(key, (BLOCK, N)), r_kf_rtrl)


# r-OK: M[k, i, j] ≈ Σ_l A[j, l] B[(k, i), l].


def r_ok(s, state, sign):
    A, B = state
    JB = push(s, B.reshape(N, N * RANK)).reshape(N * N, RANK)
    Q_L, R_L = jnp.linalg.qr(jnp.column_stack([A, s.ahat]))
    Q_R, R_R = jnp.linalg.qr(jnp.column_stack([JB, jnp.diag(s.D).reshape(-1)]))
    U, sigma, Vt = jnp.linalg.svd(R_L @ R_R.T)
    X = thinned(sigma, sign)
    A, B = Q_L @ (U @ X), Q_R @ (Vt.T @ X)
    row = (s.cbar @ B.reshape(N, N * RANK)).reshape(N, RANK)
    return s.W - RATE * row @ A.T, (A, B)


def thinned(sigma, sign):
    """X (r+1 × r) with E[X Xᵀ] = diag(σ) and least variance (Benzing et al. 2019)."""
    r, index = RANK, jnp.arange(RANK + 1)
    tail = jnp.cumsum(sigma[::-1])[::-1]
    k = jnp.argmax((r - index) * sigma <= tail)
    s = jnp.where(tail[k] > 0, tail[k], 1)
    z0 = jnp.where(index < k, 0, jnp.sqrt(jnp.clip(1 - sigma * (r - k) / s, 0)))
    v = z0.at[r].add(1)  # a reflection whose last column is -z0: the others span its complement
    basis = jnp.eye(r + 1) - 2 * jnp.outer(v, v) / (v @ v)
    return sign[:, None] * basis[:, :r] * jnp.sqrt(jnp.where(index < k, sigma, tail[k] / (r - k)))[:r]


def r_ok_start(key, W):
    return jnp.zeros((M, RANK)), jnp.zeros((N * N, RANK))


R_OK = Algorithm(r_ok_start, lambda key: signs(key, (BLOCK, RANK + 1)), r_ok)


# KeRNL: M[k, i, j] ≈ A[k, i] B[i, j], A and the timescales fitted to a noisy copy of the network.


def kernl(s, state, zeta):
    A, scale, B, noisy, Omega, Gamma = state
    keep = 1 - scale
    Gamma, Omega = keep * Gamma - Omega, keep * Omega + zeta
    heard = jnp.concatenate([noisy, s.ahat[N:]])
    noisy = (1 - s.alpha) * noisy + s.alpha * jnp.tanh(s.W @ heard) + zeta
    error = A @ Omega - (noisy - s.a)
    scale = jnp.clip(scale - KERNEL_RATE * (error @ A) * Gamma, 0, 1)
    A = A - KERNEL_RATE * jnp.outer(error, Omega)
    B = keep[:, None] * B + jnp.outer(s.D, s.ahat)
    return s.W - RATE * (s.cbar @ A)[:, None] * B, (A, scale, B, noisy, Omega, Gamma)


def kernl_start(key, W):
    zero = jnp.zeros(N)
    return jnp.eye(N), zero + FIRST_ALPHA, jnp.zeros((N, M)), zero, zero, zero


KERNL = Algorithm(kernl_start, lambda key: PERTURBATION * jax.random.normal(key, (BLOCK, N)), kernl)


# RFLO: M[k, i, j] ≈ δ(k, i) B[i, j].


def rflo(s, B, noise):
    B = (1 - s.alpha) * B + jnp.outer(s.D, s.ahat)
    return s.W - RATE * s.cbar[:, None] * B, B


RFLO = Algorithm(lambda key, W: jnp.zeros((N, M)), silent, rflo)
