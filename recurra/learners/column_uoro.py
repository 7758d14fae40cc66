"""UORO for each source by itself: the common parent of UORO and R-KF-RTRL."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Tangent, Weights
from recurra.cells.gates import Gates, Sources
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.kronecker import rows
from recurra.linalg import add_or_zero, balanced, dense, outer_like, squared, vecmat, zeros_like
from recurra.linalg.noise import Noise, signs


class RankOneBySource(NamedTuple):
    """M[k, i, j] ≈ A[k, j] B[i, j], with j over all sources: units, inputs and bias."""

    A: Tangent
    B: Gates


class ColumnUORO(PastFacing):
    """A_j = ρ0_j J A_j + ρ1_j ν,   B_j = B_j / ρ0_j + ν D ahat_j / ρ1_j, for each source j; at first M = 0.

    With ρ0 and ρ1 the same for all sources it is UORO. If D and ahat are then moved to A's side, it is R-KF-RTRL. All
    sources share ν: with more random numbers, no entry of M would vary less.
    """

    nu: Noise = eqx.field(static=True, default=signs)

    about = About("column-uoro", "Column-UORO", "A_kj B_ij", memory="n²", time="n³", stochastic=True, unitwise=True)

    def __check_init__(self) -> None:
        checks.draws(self, "nu", "recurra.noise.gaussian", (3, 2))

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> RankOneBySource:
        cell = unitwise(cell)
        A = jnp.zeros((cell.n, cell.n + cell.n_in + 1), cell.dtype)
        return RankOneBySource((A,) * cell.states, zeros_like(weights))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Tangent:
        return cell.split(self.nu(key, (steps, sum(cell.widths)), cell.dtype), axis=1)

    def advance(self, tick: Tick, state: RankOneBySource, noise: State) -> RankOneBySource:
        nu, nu_Mbar = immediate(tick, noise)
        JA = tick.push(state.A)
        rho0, one_over_rho0 = balanced(weight_columns(tick, state.B), state_columns(JA))
        rho1, one_over_rho1 = balanced(weight_columns(tick, nu_Mbar), state_columns(nu))
        by_column = functools.partial(scaled, tick.cell, tick.weights)
        B = by_column(state.B, one_over_rho0), by_column(nu_Mbar, one_over_rho1)
        A = jax.tree.map(lambda JA, nu: rho0[None] * JA + rho1[None] * nu, JA, nu)
        return RankOneBySource(A, jax.tree.map(jnp.add, *B))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: RankOneBySource) -> Weights:
        return scaled(cell, weights, state.B, rows(c, (state.A,))[0])


def immediate(tick: Tick, nu: State) -> tuple[Tangent, Gates]:
    """A and B for this step alone, with E[A_kj B_ij] = Mbar[k, i, j]."""
    one = jnp.ones((1, sum(map(len, tick.trace.ahat))), tick.cell.dtype)
    return tuple(each[:, None] * one for each in nu), dense(tick.deposit(nu))


def state_columns(A: Tangent) -> Float[Array, " m"]:
    """‖A_j‖ for each source j, over all state variables."""
    return jnp.sqrt(sum((jnp.sum(a * a, axis=0) for a in A[1:]), start=jnp.sum(A[0] * A[0], axis=0)))


def weight_columns(tick: Tick, B: Gates) -> Float[Array, " m"]:
    """‖B_j‖ for each source j, over the units of all gates."""
    one = jnp.ones_like(tick.trace.ahat.rec)
    square = lambda blocks: (None if b is None else vecmat(one, squared(b)) for b in blocks)
    sources = zip(tick.trace.ahat, zip(*B, strict=True), strict=True)
    return jnp.sqrt(jnp.concatenate([add_or_zero(u, *square(blocks)) for u, blocks in sources]))


def scaled(cell: Cell, weights: Gates, B: Gates, by: Float[Array, " m"]) -> Gates:
    """B, with its column j multiplied by by[j]."""
    n, n_in = unitwise(cell).n, cell.n_in
    factors, one = jnp.split(by, [n, n + n_in]), jnp.ones(n, cell.dtype)
    times = lambda w, b, by: None if w is None else jax.tree.map(jnp.multiply, b, dense(outer_like(w, one, by)))
    return tuple(Sources(*map(times, gate, b, factors)) for gate, b in zip(weights, B, strict=True))
