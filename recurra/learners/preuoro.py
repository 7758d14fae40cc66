"""UORO with noise in the pre-activations (Cooijmans & Martens 2019)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.gates import listened
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.uoro import RankOne
from recurra.linalg import balance, combine, dense, inner, outer_like, scale, zeros_like
from recurra.linalg.noise import Noise, signs


class PREUORO(PastFacing):
    """A = ρ0 J A + ρ1 Σ_g D[g] ν[g],   B[g] = B[g] / ρ0 + ν[g] ahat / ρ1,   E[ν νᵀ] = I, over the units of all gates.

    UORO multiplies the noise by D on the side of the weights; here it is on the side of the state. If D = 1, and there
    is one gate, the two are the same. At first M = 0.
    """

    nu: Noise = eqx.field(static=True, default=signs)

    about = About("preuoro", "PREUORO", "A_k B_ij", memory="n²", time="n²", stochastic=True, unitwise=True)

    def __check_init__(self) -> None:
        checks.draws(self, "nu", "recurra.noise.gaussian", (3, 2))

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> RankOne:
        return RankOne(tuple(jnp.zeros(width, cell.dtype) for width in cell.widths), zeros_like(weights))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[Float[Array, "steps n"], ...]:
        cell = unitwise(cell)
        return tuple(self.nu(key, (len(cell.listens), steps, cell.n), cell.dtype))

    def advance(self, tick: Tick, state: RankOne, noise: State) -> RankOne:
        ahat, nu = tick.trace.ahat, noise
        JA = tick.push(state.A)
        D_nu = unitwise(tick.cell).spread(tick.trace, nu)
        heard = lambda gate, nu: listened(gate, ahat, lambda w, u: outer_like(w, nu, u))
        nu_ahat = tuple(map(heard, tick.weights, nu))
        rho0 = balance(state.B, JA)
        rho1 = balance(nu_ahat, D_nu)
        return RankOne(combine(rho0, JA, rho1, D_nu), combine(1 / rho0, state.B, 1 / rho1, dense(nu_ahat)))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: RankOne) -> Weights:
        return scale(inner(c, state.A), state.B)
