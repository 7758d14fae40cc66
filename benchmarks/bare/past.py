"""The algorithms that face the past: M(t) = J M(t-1) + Mbar, gradient = cbar M."""

import jax
import jax.numpy as jnp

from bare.loop import BLOCK, N_IN, SPAN, Algorithm, Sources, descend, outer, signs

RANK = 4
PERTURBATION, KERNEL_RATE, FIRST_ALPHA = 1e-3, 5.0, 0.8


def silent(key, n):
    """An algorithm without randomness."""
    return None


def push(s, V):
    """J V, for a vector or the columns of a matrix."""
    D = s.D if V.ndim == 1 else s.D[:, None]
    return (1 - s.alpha) * V + D * (s.W.rec @ V)


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


def blocks_like_W(matrix):
    """An array (n, m), all sources side by side, in blocks."""
    n = len(matrix)
    return Sources(matrix[:, :n], matrix[:, n : n + N_IN], matrix[:, -1])


def sizes(W):
    """n and m of an n × m matrix in blocks."""
    return len(W.bias), len(W.bias) + N_IN + 1


# RTRL: M before a span of steps, as one matrix (k, (i, j)), and each step of the span. The gradient of a step carries
# cbar back over them, and M takes them all at once at the end of the span.


def rtrl(s, state, noise):
    M, J, D, ahat = state
    n, m = sizes(s.W)
    last = s.t % SPAN
    J = J.at[last].set(jnp.diag(jnp.full(n, 1 - s.alpha)) + s.D[:, None] * s.W.rec)
    D, ahat = D.at[last].set(s.D), ahat.at[last].set(jnp.concatenate([s.ahat.rec, s.ahat.inp, jnp.ones(1)]))

    def back(i, running):
        c, credit = running
        r = last - i
        return jnp.sum(c[:, None] * J[r], axis=0), credit.at[r].set(c * D[r])

    before, credit = jax.lax.fori_loop(0, last + 1, back, (s.cbar, jnp.zeros((SPAN, n))))
    gradient = credit.T @ ahat + (before @ M).reshape(n, m)
    return descend(s.W, blocks_like_W(gradient)), (M, J, D, ahat)


def rtrl_fold(state):
    M, J, D, ahat = state
    back = lambda reach, step: (reach @ step[0], reach * step[1])
    whole, reach = jax.lax.scan(back, jnp.eye(len(M)), (J, D), reverse=True)
    return whole @ M + (reach.reshape(SPAN, -1).T @ ahat).reshape(M.shape), J, D, ahat


def rtrl_start(key, W):
    n, m = sizes(W)
    return jnp.zeros((n, n * m)), jnp.zeros((SPAN, n, n)), jnp.zeros((SPAN, n)), jnp.zeros((SPAN, m))


RTRL = Algorithm(rtrl_start, silent, rtrl, rtrl_fold)


# UORO: M[k, (i, j)] ≈ A[k] B[i, j].


def uoro(s, state, nu):
    A, B = state
    JA = push(s, A)
    rho0 = balance(norm(B), norm(JA))
    rho1 = balance(norm(nu * s.D) * norm(s.ahat), norm(nu))
    A, nu_Mbar = rho0 * JA + rho1 * nu, outer(nu * s.D / rho1, s.ahat)
    B = jax.tree.map(lambda b, now: b / rho0 + now, B, nu_Mbar)
    credit = s.cbar @ A
    return descend(s.W, jax.tree.map(lambda b: credit * b, B)), (A, B)


def uoro_start(key, W):
    key_A, key_B = jax.random.split(key)
    n, m = sizes(W)
    return jax.random.normal(key_A, (n,)), blocks_like_W(jax.random.normal(key_B, (n, m)))


UORO = Algorithm(uoro_start, lambda key, n: signs(key, (BLOCK, n)), uoro)


# KF-RTRL: M[k, i, j] ≈ A[j] B[k, i].


def kf_rtrl(s, state, nu):
    A, B = state
    JB = push(s, B)
    rho0 = balance(norm(JB), norm(A))
    rho1 = balance(norm(s.D), norm(s.ahat))
    A = jax.tree.map(lambda a, now: nu[0] * rho0 * a + nu[1] * rho1 * now, A, s.ahat)
    B = nu[0] / rho0 * JB + nu[1] / rho1 * jnp.diag(s.D)
    return descend(s.W, outer(s.cbar @ B, A)), (A, B)


def kf_rtrl_start(key, W):
    key_A, key_B = jax.random.split(key)
    n, m = sizes(W)
    A = jax.random.normal(key_A, (m,))
    return Sources(A[:n], A[n:-1], A[-1]), jax.random.normal(key_B, (n, n)) / n**0.5


KF_RTRL = Algorithm(kf_rtrl_start, lambda key, n: signs(key, (BLOCK, 2)), kf_rtrl)


# R-KF-RTRL: M[k, i, j] ≈ A[i] B[k, j].


def r_kf_rtrl(s, state, nu):
    A, B = state
    JB = jax.tree.map(lambda b: push(s, b), B)
    rho0 = balance(norm(JB), norm(A))
    rho1 = balance(norm(nu * s.D) * norm(s.ahat), norm(nu))
    A, nu_Mbar = rho0 * A + rho1 * nu, outer(nu * s.D / rho1, s.ahat)
    B = jax.tree.map(lambda jb, now: jb / rho0 + now, JB, nu_Mbar)
    row = Sources(s.cbar @ B.rec, s.cbar @ B.inp, s.cbar @ B.bias)
    return descend(s.W, outer(A, row)), (A, B)


def r_kf_rtrl_start(key, W):
    key_A, key_B = jax.random.split(key)
    n, m = sizes(W)
    return jax.random.normal(key_A, (n,)), blocks_like_W(jax.random.normal(key_B, (n, m)) / n**0.5)


R_KF_RTRL = Algorithm(r_kf_rtrl_start, lambda key, n: signs(key, (BLOCK, n)), r_kf_rtrl)


# r-OK: M[k, i, j] ≈ Σ_l A[j, l] B[(k, i), l].


def r_ok(s, state, sign):
    A, B = state
    n, _ = sizes(s.W)
    JB = push(s, B.reshape(n, n * RANK)).reshape(n * n, RANK)
    ahat = jnp.concatenate([s.ahat.rec, s.ahat.inp, jnp.ones(1)])
    Q_L, R_L = qr(jnp.column_stack([A, ahat]))
    Q_R, R_R = qr(jnp.column_stack([JB, jnp.diag(s.D).reshape(-1)]))
    U, sigma, Vt = svd(R_L @ R_R.T)
    X = thinned(sigma, sign)
    A, B = Q_L @ (U @ X), Q_R @ (Vt.T @ X)
    row = (s.cbar @ B.reshape(n, n * RANK)).reshape(n, RANK)
    return descend(s.W, blocks_like_W(row @ A.T)), (A, B)


# A batch of decompositions waits for threads of the pool it runs in, and two groups of seeds for each other, for ever.
# As a loop over seeds they never wait; it takes 7 % longer.
qr = jax.custom_batching.sequential_vmap(lambda matrix: tuple(jnp.linalg.qr(matrix)))
svd = jax.custom_batching.sequential_vmap(lambda matrix: tuple(jnp.linalg.svd(matrix)))


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
    n, m = sizes(W)
    return jnp.zeros((m, RANK)), jnp.zeros((n * n, RANK))


R_OK = Algorithm(r_ok_start, lambda key, n: signs(key, (BLOCK, RANK + 1)), r_ok)


# KeRNL: M[k, i, j] ≈ A[k, i] B[i, j], A and the timescales fitted to a noisy copy of the network.


def kernl(s, state, zeta):
    A, scale, B, noisy, Omega, Gamma = state
    keep = 1 - scale
    Gamma, Omega = keep * Gamma - Omega, keep * Omega + zeta
    heard = s.W.rec @ noisy + s.W.inp @ s.ahat.inp + s.W.bias
    noisy = (1 - s.alpha) * noisy + s.alpha * jnp.tanh(heard) + zeta
    error = A @ Omega - (noisy - s.a)
    scale = jnp.clip(scale - KERNEL_RATE * (error @ A) * Gamma, 0, 1)
    A = A - KERNEL_RATE * jnp.outer(error, Omega)
    B, gradient = filtered(keep, s.cbar @ A, s, B)
    return descend(s.W, gradient), (A, scale, B, noisy, Omega, Gamma)


def filtered(keep, credit, s, B):
    """B = keep B + D ahat, and the gradient credit B."""
    B = jax.tree.map(lambda b, now: (keep * b.T).T + now, B, outer(s.D, s.ahat))
    return B, jax.tree.map(lambda b: (credit * b.T).T, B)


def kernl_start(key, W):
    zero = jnp.zeros(len(W.bias))
    return jnp.eye(len(zero)), zero + FIRST_ALPHA, jax.tree.map(jnp.zeros_like, W), zero, zero, zero


KERNL = Algorithm(kernl_start, lambda key, n: PERTURBATION * jax.random.normal(key, (BLOCK, n)), kernl)


# RFLO: M[k, i, j] ≈ δ(k, i) B[i, j].


def rflo(s, B, noise):
    B, gradient = filtered(1 - s.alpha, s.cbar, s, B)
    return descend(s.W, gradient), B


RFLO = Algorithm(lambda key, W: jax.tree.map(jnp.zeros_like, W), silent, rflo)
