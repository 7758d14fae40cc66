"""Unbiased online recurrent optimization (Tallec & Ollivier 2017)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Tangent, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing
from recurra.linalg import balance, cleared, combine, dense, inner, scale
from recurra.linalg.noise import Noise, signs


class RankOne(NamedTuple):
    """M[k, (i, j)] ≈ A[k] B[i, j]."""

    A: State
    B: Weights


class UORO(PastFacing):
    """A = ρ0 J A + ρ1 ν,   B = B / ρ0 + ν Mbar / ρ1,   E[ν νᵀ] = I.

    The cross terms vanish in expectation; ρ0 and ρ1 make them small by balancing norms. `initial_scale` multiplies the
    paper's standard normal start; 0 starts without bias.
    """

    nu: Noise = eqx.field(static=True, default=signs)
    initial_scale: float | Float[Array, ""] = 1.0

    about = About("uoro", "UORO", "A_k B_ij", memory="n²", time="n²", stochastic=True)

    def __check_init__(self) -> None:
        checks.in_range(self, "initial_scale", least=0.0)
        checks.draws(self, "nu", "recurra.noise.gaussian", (3, 2))

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> RankOne:
        start = RankOne(tuple(jnp.zeros(width, cell.dtype) for width in cell.widths), weights)
        return normal_like(key, start, self.initial_scale)

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Tangent:
        return cell.split(self.nu(key, (steps, sum(cell.widths)), cell.dtype), axis=1)

    def advance(self, tick: Tick, state: RankOne, noise: State) -> RankOne:
        nu = noise
        JA = tick.push(state.A)
        nu_Mbar = tick.deposit(nu)
        rho0 = balance(state.B, JA)
        rho1 = balance(nu_Mbar, nu)
        return RankOne(combine(rho0, JA, rho1, nu), combine(1 / rho0, state.B, 1 / rho1, dense(nu_Mbar)))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: RankOne) -> Weights:
        return scale(inner(c, state.A), state.B)


def normal_like(key: PRNGKeyArray, tree: RankOne, std: float | Float[Array, ""]) -> RankOne:
    """Independent normal numbers in the shape of the tree."""
    leaves, treedef = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    draw = lambda key, leaf: std * jax.random.normal(key, leaf.shape, leaf.dtype)
    return cleared(jax.tree.unflatten(treedef, map(draw, keys, leaves)))
