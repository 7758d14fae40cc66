"""The algorithms that face the past: M(t) = J M(t-1) + Mbar, Mbar[k, i, j] = δ(k, i) D[i] ahat[j]; gradient cbar M."""

import math

import numpy as np

from textbook.loop import Learner, signs

RANK = 4
PERTURBATION, KERNEL_RATE, FIRST_ALPHA = 1e-3, 5.0, 0.8


def norm(v):
    """Euclidean norm of all entries."""
    return math.sqrt(np.vdot(v, v))


def balance(grown, shrunk):
    """ρ with ρ² = grown / shrunk, and 1 where either is zero."""
    return math.sqrt(grown / shrunk) if grown > 0 and shrunk > 0 else 1.0


class RTRL(Learner):
    """M itself, as one matrix (k, (i, j))."""

    def __init__(self, net, rng):
        n, m = net.W.shape
        self.M = np.zeros((n, n * m), net.W.dtype)

    def gradient(self, s, noise):
        (n, m), i = s.W.shape, np.arange(len(s.a))
        J = s.D[:, None] * s.W_rec
        J[i, i] += 1 - s.alpha
        self.M = J @ self.M
        self.M.reshape(n, n, m)[i, i] += np.outer(s.D, s.ahat)
        return (s.cbar @ self.M).reshape(n, m)


class UORO(Learner):
    """M[k, i, j] ≈ A[k] B[i, j]."""

    def __init__(self, net, rng):
        self.A = rng.normal(size=len(net.a)).astype(net.W.dtype)
        self.B = rng.normal(size=net.W.shape).astype(net.W.dtype)

    def draw(self, rng, steps):
        return signs(rng, (steps, len(self.A)), self.A.dtype)

    def gradient(self, s, nu):
        JA, nu_D = s.push(self.A), nu * s.D
        rho0 = balance(norm(self.B), norm(JA))
        rho1 = balance(norm(nu_D) * norm(s.ahat), norm(nu))
        self.A = rho0 * JA + rho1 * nu
        self.B /= rho0
        self.B += np.outer(nu_D / rho1, s.ahat)
        return (s.cbar @ self.A) * self.B


class KFRTRL(Learner):
    """M[k, i, j] ≈ A[j] B[k, i]."""

    def __init__(self, net, rng):
        n, m = net.W.shape
        self.A = rng.normal(size=m).astype(net.W.dtype)
        self.B = (rng.normal(size=(n, n)) / math.sqrt(n)).astype(net.W.dtype)

    def draw(self, rng, steps):
        return signs(rng, (steps, 2), self.A.dtype)

    def gradient(self, s, nu):
        JB, (nu0, nu1) = s.push(self.B), nu
        rho0 = balance(norm(JB), norm(self.A))
        rho1 = balance(norm(s.D), norm(s.ahat))
        self.A = nu0 * rho0 * self.A + nu1 * rho1 * s.ahat
        self.B = nu0 / rho0 * JB
        self.B.flat[:: len(s.D) + 1] += nu1 / rho1 * s.D  # the diagonal
        return np.outer(s.cbar @ self.B, self.A)


class RKFRTRL(Learner):
    """M[k, i, j] ≈ A[i] B[k, j]."""

    def __init__(self, net, rng):
        n, m = net.W.shape
        self.A = rng.normal(size=n).astype(net.W.dtype)
        self.B = (rng.normal(size=(n, m)) / math.sqrt(n)).astype(net.W.dtype)

    def draw(self, rng, steps):
        return signs(rng, (steps, len(self.A)), self.A.dtype)

    def gradient(self, s, nu):
        JB, nu_D = s.push(self.B), nu * s.D
        rho0 = balance(norm(JB), norm(self.A))
        rho1 = balance(norm(nu_D) * norm(s.ahat), norm(nu))
        self.A = rho0 * self.A + rho1 * nu
        self.B = JB / rho0 + np.outer(nu_D / rho1, s.ahat)
        return np.outer(self.A, s.cbar @ self.B)


class ROK(Learner):
    """M[k, i, j] ≈ Σ_l A[j, l] B[(k, i), l]."""

    def __init__(self, net, rng):
        n, m = net.W.shape
        self.A, self.B = np.zeros((m, RANK), net.W.dtype), np.zeros((n * n, RANK), net.W.dtype)

    def draw(self, rng, steps):
        return signs(rng, (steps, RANK + 1), self.A.dtype)

    def gradient(self, s, sign):
        n = len(s.a)
        JB = s.push(self.B.reshape(n, n * RANK)).reshape(n * n, RANK)
        Q_L, R_L = np.linalg.qr(np.column_stack([self.A, s.ahat]))
        Q_R, R_R = np.linalg.qr(np.column_stack([JB, np.diag(s.D).ravel()]))
        U, sigma, Vt = np.linalg.svd(R_L @ R_R.T)
        along = np.where(U.T @ R_L[:, -1] < 0, -1, 1).astype(sign.dtype)  # a decomposition leaves the sign open
        X = (along * sign)[:, None] * thinned(sigma)
        self.A, self.B = Q_L @ (U @ X), Q_R @ (Vt.T @ X)
        return (s.cbar @ self.B.reshape(n, n * RANK)).reshape(n, RANK) @ self.A.T


def thinned(sigma):
    """X (r+1 × r) with X Xᵀ = diag(σ) on average over signs of its rows, and least variance (Benzing et al. 2019)."""
    r, tail = RANK, np.cumsum(sigma[::-1])[::-1]
    k = int(np.argmax((r - np.arange(r + 1)) * sigma <= tail))
    s = tail[k] if tail[k] > 0 else 1.0
    z0 = np.sqrt(np.maximum(1 - sigma * (r - k) / s, 0).astype(sigma.dtype))
    z0[:k] = 0
    v = z0.copy()
    v[r] += 1  # a reflection whose last column is -z0: the others span its complement
    basis = np.eye(r + 1, dtype=sigma.dtype) - 2 * np.outer(v, v) / (v @ v)
    scale = np.full(r, tail[k] / (r - k), sigma.dtype)
    scale[:k] = sigma[:k]
    return basis[:, :r] * np.sqrt(scale)


class KeRNL(Learner):
    """M[k, i, j] ≈ A[k, i] B[i, j], A and the timescales fitted to a noisy copy of the network."""

    def __init__(self, net, rng):
        n, dtype = len(net.a), net.W.dtype
        self.A, self.B = np.eye(n, dtype=dtype), np.zeros_like(net.W)
        self.alpha = np.full(n, FIRST_ALPHA, dtype)
        self.noisy, self.Omega, self.Gamma = np.zeros((3, n), dtype)

    def draw(self, rng, steps):
        return PERTURBATION * rng.standard_normal((steps, len(self.A)), self.A.dtype)

    def gradient(self, s, zeta):
        keep = 1 - self.alpha
        self.Gamma, self.Omega = keep * self.Gamma - self.Omega, keep * self.Omega + zeta
        heard = s.W @ np.concatenate([self.noisy, s.ahat[len(s.a) :]])
        self.noisy = (1 - s.alpha) * self.noisy + s.alpha * np.tanh(heard) + zeta
        error = self.A @ self.Omega - (self.noisy - s.a)
        self.alpha = np.clip(self.alpha - KERNEL_RATE * (error @ self.A) * self.Gamma, 0, 1)
        self.A -= KERNEL_RATE * np.outer(error, self.Omega)
        self.B *= keep[:, None]
        self.B += np.outer(s.D, s.ahat)
        return (s.cbar @ self.A)[:, None] * self.B


class RFLO(Learner):
    """M[k, i, j] ≈ δ(k, i) B[i, j]."""

    def __init__(self, net, rng):
        self.B = np.zeros_like(net.W)

    def gradient(self, s, noise):
        self.B *= 1 - s.alpha
        self.B += np.outer(s.D, s.ahat)
        return s.cbar[:, None] * self.B
