"""Kronecker-factored RTRL (Mujika et al. 2018)."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.algebra import balance, combine, outer, total, vecmat
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.unitwise import Sources, listened
from recurra.learners.base import PastFacing, Tick, unitwise
from recurra.noise import Noise, signs


class Kronecker(NamedTuple):
    """M[k, i, j] ≈ A[j] B[k, i]: A by source, B by state variable, the units i of all gates side by side."""

    A: Sources
    B: tuple[Float[Array, "n gn"], ...]


class KFRTRL(PastFacing):
    """A = ν0 ρ0 A + ν1 ρ1 ahat,   B = ν0 J B / ρ0 + ν1 D / ρ1.

    Mbar is the Kronecker product of ahat and D to begin with, so two random numbers a step are enough.
    """

    nu: Noise = eqx.field(static=True, default=signs)
    initial_scale: float | Float[Array, ""] = 1.0

    name: ClassVar[str] = "KF-RTRL"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "A_j B_ki"
    stochastic: ClassVar[bool] = True
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "n²"
    time: ClassVar[str] = "n³"
    unitwise: ClassVar[bool] = True
    together: ClassVar[bool | None] = True  # products of small matrices are

    def __check_init__(self) -> None:
        checks.in_range(self, "initial_scale", least=0.0)
        checks.function(self, "nu", "recurra.noise.gaussian")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Kronecker:
        cell = unitwise(cell)
        n, gates = cell.n, len(cell.listens)
        key_A, key_B = jax.random.split(key)
        draw = lambda key, *shape: self.initial_scale * jax.random.normal(key, shape, cell.dtype)
        A = Sources(*map(draw, jax.random.split(key_A, 3), (n, cell.n_in, 1)))
        B = (draw(key, n, gates * n) / n**0.5 for key in jax.random.split(key_B, cell.states))
        return Kronecker(A, tuple(B))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[Float[Array, " steps"], ...]:
        nu = self.nu(key, (2, steps), cell.dtype)
        return nu[0], nu[1]

    def advance(self, tick: Tick, state: Kronecker, noise: tuple[Float[Array, ""], ...]) -> Kronecker:
        nu0, nu1 = noise
        _, D, ahat = tick.trace
        JB = tick.push(state.B)
        rho0 = balance(JB, state.A)
        rho1 = balance(D, ahat)
        return Kronecker(
            combine(nu0 * rho0, state.A, nu1 * rho1, ahat),
            combine(nu0 / rho0, JB, nu1 / rho1, unitwise(tick.cell).immediate(tick.trace)),
        )

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Kronecker) -> Weights:
        row = total(*(None if u is None else vecmat(u, B) for u, B in zip(c, state.B, strict=True)))
        by_gate = zip(weights, jnp.split(row, len(weights)), strict=True)
        return tuple(listened(gate, state.A, lambda a, u=u: outer(u, a)) for gate, u in by_gate)
