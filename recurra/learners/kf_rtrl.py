"""Kronecker-factored RTRL (Mujika et al. 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Sources
from recurra.cells.tick import Tick
from recurra.learners.base import About, unitwise
from recurra.learners.kronecker import KroneckerFactored, Vectors, rows
from recurra.linalg import balance, combine, mul, total


class Kronecker(NamedTuple):
    """M[k, i, j] ≈ A[j] B[k, i]: A by source, B by gate and state variable, B[g][p][k, i]."""

    A: Sources
    B: tuple[tuple[Float[Array, "n n"], ...], ...]


class KFRTRL(KroneckerFactored):
    """A = ν0 ρ0 A + ν1 ρ1 ahat,   B = ν0 J B / ρ0 + ν1 D / ρ1.

    Mbar is the Kronecker product of ahat and D to begin with, so two random numbers a step are enough.
    """

    about = About("kf-rtrl", "KF-RTRL", "A_j B_ki", memory="n²", time="n³", stochastic=True, unitwise=True)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Kronecker:
        cell = unitwise(cell)
        n, gates, states = cell.n, len(cell.listens), range(cell.states)
        key_A, key_B = jax.random.split(key)
        sources = zip(jax.random.split(key_A, 3), (n, cell.n_in, 1), strict=True)
        keys = jax.random.split(key_B, (gates, cell.states))
        return Kronecker(
            Sources(*(self.draw(key, cell.dtype, width) for key, width in sources)),
            tuple(tuple(self.draw(keys[g, p], cell.dtype, n, n) / n**0.5 for p in states) for g in range(gates)),
        )

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[Float[Array, " steps"], ...]:
        nu = self.nu(key, (2, steps), cell.dtype)
        return nu[0], nu[1]

    def advance(self, tick: Tick, state: Kronecker, noise: tuple[Float[Array, ""], ...]) -> Kronecker:
        nu0, nu1 = noise
        _, D, ahat = tick.trace
        JB = tuple(tick.push(B) for B in state.B)
        by_gate = tuple(zip(*D, strict=True))
        rho0 = balance(JB, state.A)
        rho1 = balance(by_gate, ahat)
        eye = jnp.eye(ahat.rec.shape[0], dtype=ahat.rec.dtype)
        return Kronecker(
            combine(nu0 * rho0, state.A, nu1 * rho1, ahat),
            jax.tree.map(lambda jb, d: total(nu0 / rho0 * jb, mul(d, nu1 / rho1 * eye)), JB, by_gate),
        )

    def vectors(self, c: Credit, state: Kronecker) -> Vectors:
        return rows(c, state.B), state.A
