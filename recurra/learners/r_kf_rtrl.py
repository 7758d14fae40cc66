"""Reverse Kronecker-factored RTRL (Marschall, Cho & Savin 2019)."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.algebra import add_or_zero, balance, combine, inner, mul, outer, total
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.unitwise import Sources
from recurra.learners.base import Tick, unitwise
from recurra.learners.kronecker import KroneckerFactored, Vectors, rows
from recurra.noise import Noise, signs


class ReverseKronecker(NamedTuple):
    """M[k, i, j] ≈ A[i] B[k, j]: A by gate, B by state variable and source, B[source][p][k, j]."""

    A: tuple[Float[Array, " n"], ...]
    B: tuple[tuple[Float[Array, "n _"], ...], ...]


class RKFRTRL(KroneckerFactored):
    """A = ρ0 A + ρ1 ν,   B = J B / ρ0 + ν Mbar / ρ1, where ν Mbar contracts the index i alone."""

    nu: Noise = eqx.field(static=True, default=signs)
    initial_scale: float | Float[Array, ""] = 1.0

    name: ClassVar[str] = "R-KF-RTRL"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "A_i B_kj"
    stochastic: ClassVar[bool] = True
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "n²"
    time: ClassVar[str] = "n³"
    unitwise: ClassVar[bool] = True
    together: ClassVar[bool | None] = True  # products of small matrices are

    def __check_init__(self) -> None:
        checks.in_range(self, "initial_scale", least=0.0)
        checks.function(self, "nu", "recurra.noise.gaussian")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> ReverseKronecker:
        cell = unitwise(cell)
        n, gates, fan = cell.n, len(cell.listens), (cell.n, cell.n_in, 1)
        key_A, key_B = jax.random.split(key)
        draw = lambda key, *shape: self.initial_scale * jax.random.normal(key, shape, cell.dtype)
        keys = jax.random.split(key_B, (len(fan), cell.states))
        return ReverseKronecker(
            tuple(draw(key, n) for key in jax.random.split(key_A, gates)),
            tuple(tuple(draw(keys[j, p], n, m) / n**0.5 for p in range(cell.states)) for j, m in enumerate(fan)),
        )

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[Float[Array, "steps n"], ...]:
        cell = unitwise(cell)
        nu = self.nu(key, (len(cell.listens), steps, cell.n), cell.dtype)
        return tuple(nu[g] for g in range(len(cell.listens)))

    def advance(self, tick: Tick, state: ReverseKronecker, noise: tuple[Array, ...]) -> ReverseKronecker:
        nu = noise
        _, D, ahat = tick.trace
        JB = tuple(tick.push(B) for B in state.B)

        def projected(source: int) -> tuple[Array, ...]:
            # Only the gates that listen to this source have an immediate influence through it.
            heard = [g for g, gate in enumerate(tick.weights) if gate[source] is not None]
            return tuple(add_or_zero(nu[0], *(mul(nu[g], row[g]) for g in heard)) for row in D)

        by_source = [(projected(source), u) for source, u in enumerate(ahat)]
        length = jnp.sqrt(total(*(inner(rows, rows) * inner(u, u) for rows, u in by_source)))  # ‖v uᵀ‖ = ‖v‖ ‖u‖
        rho0 = balance(JB, state.A)
        rho1 = balance(length, nu)
        B = (
            tuple(1 / rho0 * jb + outer(v / rho1, u) for jb, v in zip(each, rows, strict=True))
            for each, (rows, u) in zip(JB, by_source, strict=True)
        )
        return ReverseKronecker(combine(rho0, state.A, rho1, nu), tuple(B))

    def vectors(self, c: Credit, state: ReverseKronecker) -> Vectors:
        return state.A, Sources(*rows(c, state.B))
