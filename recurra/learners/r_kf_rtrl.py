"""Reverse Kronecker-factored RTRL (Marschall, Cho & Savin 2019)."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Sources
from recurra.cells.tick import Tick
from recurra.learners.base import About, unitwise
from recurra.learners.kronecker import KroneckerFactored, Vectors, rows
from recurra.linalg import Outer, add_or_zero, balance, combine, dense, mul


class ReverseKronecker(NamedTuple):
    """M[k, i, j] ≈ A[i] B[k, j]: A by gate, B by state variable and source, B[source][p][k, j]."""

    A: tuple[Float[Array, " n"], ...]
    B: tuple[tuple[Float[Array, "n _"], ...], ...]


class RKFRTRL(KroneckerFactored):
    """A = ρ0 A + ρ1 ν,   B = J B / ρ0 + ν Mbar / ρ1, where ν Mbar contracts the index i alone."""

    about = About("r-kf-rtrl", "R-KF-RTRL", "A_i B_kj", memory="n²", time="n³", stochastic=True, unitwise=True)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> ReverseKronecker:
        cell = unitwise(cell)
        n, fan, states = cell.n, (cell.n, cell.n_in, 1), range(cell.states)
        key_A, key_B = jax.random.split(key)
        keys = jax.random.split(key_B, (len(fan), cell.states))
        return ReverseKronecker(
            tuple(self.draw(key, cell.dtype, n) for key in jax.random.split(key_A, len(cell.listens))),
            tuple(tuple(self.draw(keys[j, p], cell.dtype, n, m) / n**0.5 for p in states) for j, m in enumerate(fan)),
        )

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[Float[Array, "steps n"], ...]:
        cell = unitwise(cell)
        nu = self.nu(key, (len(cell.listens), steps, cell.n), cell.dtype)
        return tuple(nu[g] for g in range(len(cell.listens)))

    def advance(self, tick: Tick, state: ReverseKronecker, noise: tuple[Array, ...]) -> ReverseKronecker:
        nu = noise
        _, D, ahat = tick.trace
        JB = tuple(tick.push(B) for B in state.B)

        def projected(source: int, u: Array) -> tuple[Outer, ...]:
            # Only the gates that listen to this source have an immediate influence through it.
            heard = [g for g, gate in enumerate(tick.weights) if gate[source] is not None]
            return tuple(Outer(add_or_zero(nu[0], *(mul(nu[g], row[g]) for g in heard)), u) for row in D)

        nu_Mbar = tuple(projected(source, u) for source, u in enumerate(ahat))
        rho0 = balance(JB, state.A)
        rho1 = balance(nu_Mbar, nu)
        return ReverseKronecker(combine(rho0, state.A, rho1, nu), combine(1 / rho0, JB, 1 / rho1, dense(nu_Mbar)))

    def vectors(self, c: Credit, state: ReverseKronecker) -> Vectors:
        return state.A, Sources(*rows(c, state.B))
