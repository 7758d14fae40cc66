"""Learners written from their equations with dense tensors in NumPy: an oracle for any cell that `unrolled` has.

J and Mbar come from differentiating the textbook cell, so nothing here knows that a cell is written unit by unit. All
state variables lie side by side in one vector, and all weights in another.
"""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np


@functools.cache
def compiled(step, weights_like, a_like):
    """The cell as a function of vectors, and its derivatives: one program for all trajectories of a cell."""
    blank = lambda like: jax.tree.unflatten(like[0], [jnp.zeros(shape) for shape in like[1]])
    unravel_w, unravel_a = (jax.flatten_util.ravel_pytree(blank(like))[1] for like in (weights_like, a_like))
    f = lambda w, a, x: jax.flatten_util.ravel_pytree(step(unravel_w(w), unravel_a(a), x))[0]
    return jax.jit(f), jax.jit(jax.jacobian(f, (0, 1)))


def like(tree):
    """What tells trees of one kind from others."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(leaf.shape for leaf in leaves)


class Trajectory:
    """A textbook cell along given inputs, with the weights held: its states, J, Mbar, outputs and errors at each step.

    `resets` are steps before which the state is set back; `present` tells which steps have a label.
    """

    def __init__(self, step, weights, a0, xs, ys, resets=(), present=None):
        flat_w, unravel_w = jax.flatten_util.ravel_pytree(weights.cell)
        flat_a, _ = jax.flatten_util.ravel_pytree(a0)
        f, jacobians = compiled(step, like(weights.cell), like(a0))
        self.f = lambda a, x: f(flat_w, a, x)
        self.n, self.width, self.first = len(a0[0]), len(flat_a), np.asarray(flat_a)
        self.weights, self.unravel = weights, unravel_w
        self.xs, self.ys, self.resets = np.asarray(xs), np.asarray(ys), set(resets)
        self.present = np.ones(len(xs), bool) if present is None else np.asarray(present)
        self.before, self.a, self.J, self.Mbar, self.error, self.cbar = [], [], [], [], [], []
        a = self.first
        for t in range(len(xs)):
            a = self.first if t in self.resets else a
            Mbar, J = (np.asarray(d) for d in jacobians(flat_w, a, xs[t]))
            self.before.append(a)
            a = np.asarray(self.f(a, xs[t]))
            z = np.asarray(weights.readout.W) @ a[: self.n] + np.asarray(weights.readout.b)
            y = np.exp(z - z.max())
            error = (y / y.sum() - self.ys[t]) * self.present[t]
            cbar = np.zeros(self.width)
            cbar[: self.n] = error @ np.asarray(weights.readout.W)
            for kept, value in zip(
                (self.a, self.J, self.Mbar, self.error, self.cbar),
                (a, J * (t not in self.resets), Mbar, error, cbar),
                strict=True,
            ):
                kept.append(value)

    def features(self, t):
        """ã = (h, y*, 1), with a label of zero where there is none."""
        return np.concatenate([self.a[t][: self.n], self.ys[t] * self.present[t], [1.0]])


def future_bptt(path, T):
    """At t ≥ T the gradient of step s = t - T: Σ_{r = s}^{t} cbar(r) J(r)···J(s+1), times Mbar(s)."""
    found = []
    for t in range(len(path.xs)):
        c = np.zeros(path.width)
        for r in range(t, t - T - 1, -1):
            if r >= 0:
                c = path.cbar[r] + (c @ path.J[r + 1] if r < t else 0)
        found.append(c @ path.Mbar[t - T] if t >= T else np.zeros(path.Mbar[0].shape[1]))
    return found


def efficient_bptt(path, T):
    """At the end of each segment of T steps, Σ c(s) Mbar(s) with c(s) = cbar(s) + c(s+1) J(s+1) inside the segment."""
    found = []
    for t in range(len(path.xs)):
        gradient = np.zeros(path.Mbar[0].shape[1])
        if t % T == T - 1:
            c = np.zeros(path.width)
            for s in range(t, t - T, -1):
                c = path.cbar[s] + (c @ path.J[s + 1] if s < t else 0)
                gradient = gradient + c @ path.Mbar[s]
        found.append(gradient)
    return found


def kernl(path, zeta, rate=5.0, first_alpha=0.8, late=False):
    """KeRNL with the noise ζ(t) of each step, over all state variables."""
    S = path.width
    A, alpha = np.eye(S), np.full(S, first_alpha)
    B, noisy, Omega, Gamma = np.zeros_like(path.Mbar[0]), path.first, np.zeros(S), np.zeros(S)
    found = []
    for t in range(len(path.xs)):
        if t in path.resets:
            B, noisy, Omega, Gamma = 0 * B, path.first, 0 * Omega, 0 * Gamma
        B = (1 - alpha)[:, None] * B + path.Mbar[t]
        Gamma = (1 - alpha) * Gamma - Omega
        Omega = (1 - alpha) * Omega + zeta[t]
        moved = np.asarray(path.f(noisy, path.xs[t]))
        noisy = moved + zeta[t]
        error = A @ Omega - ((moved if late else noisy) - path.a[t])
        slope = (error @ A) * Gamma
        A = A - rate * np.outer(error, Omega)
        alpha = np.clip(alpha - rate * slope, 0, 1)
        found.append((path.cbar[t] @ A) @ B)
    return found


def dni(path, A, rate, interval):
    """DNI from its first A: c ≈ A ã, fitted on the previous step with a target that bootstraps on A*."""
    A_star, found = A.copy(), []
    for t in range(len(path.xs)):
        now = path.features(t)
        if t == 0:  # there was no label before the first step: the present one stands for it
            before, cbar = np.concatenate([path.before[0][: path.n], now[path.n :]]), np.zeros(path.width)
        else:
            before, cbar = path.features(t - 1), path.cbar[t - 1]
        target = cbar + (A_star @ now) @ path.J[t]
        A = A - rate * np.outer(A @ before - target, before)
        if (t + 1) % interval == 0:
            A_star = A.copy()
        found.append((A @ now) @ path.Mbar[t])
    return found


def dni_b(path, A, J, W_fb, rate, jacobian_rate, interval):
    """DNI(b): credit for the firing rates alone, through a learned J and fixed feedback."""
    A_star, found, n = A.copy(), [], path.n
    for t in range(len(path.xs)):
        now = path.features(t)
        J = J - jacobian_rate * np.outer(J @ path.before[t][:n] - path.a[t][:n], path.before[t][:n])
        if t == 0:
            before, cbar = np.concatenate([path.before[0][:n], now[n:]]), np.zeros(n)
        else:
            before, cbar = path.features(t - 1), path.error[t - 1] @ W_fb
        bootstrap = np.tanh(A_star @ now) @ J * (t not in path.resets)
        A = A - rate * np.outer(A @ before - (cbar + bootstrap), before)
        if (t + 1) % interval == 0:
            A_star = A.copy()
        c = np.zeros(path.width)
        c[:n] = A @ now
        found.append(c @ path.Mbar[t])
    return found


def rtrl(path):
    """M = J M + Mbar: the gradient of every step."""
    M, found = np.zeros_like(path.Mbar[0]), []
    for t in range(len(path.xs)):
        M = path.J[t] @ M + path.Mbar[t]
        found.append(path.cbar[t] @ M)
    return found
