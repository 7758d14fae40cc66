"""A_ki B_kj, a decomposition that is possible and useless: it is unbiased, and its variance explodes."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.gates import Sources, listened
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.linalg import balanced, matvec, outer_like
from recurra.linalg.noise import Noise, signs


class RankOneByReceiver(NamedTuple):
    """M[k, i, j] ≈ A[k, i] B[k, j], with k over all state variables, i over the units of all gates, j over sources."""

    A: Float[Array, "S gn"]
    B: Float[Array, "S m"]


class ReceiverUORO(PastFacing):
    """A = (ν P J) A + ρ D,   B = (ν / P) B + ahat / ρ, with a random number ν[k, l] for each entry of J.

    J mixes the index k, which both factors have. So each k merges a rank-one term from every l, and the term D ahat,
    into a single one. P[k, l]² = ‖B_l‖ / (|J[k, l]| ‖A_l‖) and ρ[k]² = ‖ahat‖ / ‖D_k‖ balance each of them.
    Do not learn with it: its variance grows as the spectral radius of |J| to the power 2t, where |J| is J without the
    signs of its entries. It is bounded only if that radius is below 1. For orthogonal weights the radius is about
    √(2n/π), times the slope of φ. It is here to show why no algorithm in use keeps M this way. At first M = 0.
    """

    nu: Noise = eqx.field(static=True, default=signs)

    about = About("receiver-uoro", "Receiver-UORO", "A_ki B_kj", memory="n²", time="n³", stochastic=True, unitwise=True)

    def __check_init__(self) -> None:
        checks.draws(self, "nu", "recurra.noise.gaussian", (3, 2))

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> RankOneByReceiver:
        cell = unitwise(cell)
        zeros = lambda width: jnp.zeros((cell.states * cell.n, width), cell.dtype)
        return RankOneByReceiver(zeros(len(cell.listens) * cell.n), zeros(cell.n + cell.n_in + 1))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Float[Array, "steps S S"]:
        return self.nu(key, (steps, sum(cell.widths), sum(cell.widths)), cell.dtype)

    def advance(self, tick: Tick, state: RankOneByReceiver, noise: Float[Array, "S S"]) -> RankOneByReceiver:
        cell = unitwise(tick.cell)
        J = tick.unless_reset(cell.jacobian(tick.weights, tick.trace))
        nothing = jnp.zeros((cell.n, cell.n), cell.dtype)
        D = jnp.block([[nothing if d is None else jnp.diag(d) for d in row] for row in tick.trace.D])
        ahat = jnp.concatenate(tick.trace.ahat)[None]
        P, one_over_P = balanced(lengths(state.B)[None], jnp.abs(J) * lengths(state.A)[None])
        rho, one_over_rho = balanced(lengths(ahat), lengths(D))
        return RankOneByReceiver(
            matvec(noise * P * J, state.A) + rho[:, None] * D,
            matvec(noise * one_over_P, state.B) + one_over_rho[:, None] * ahat,
        )

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: RankOneByReceiver) -> LazyWeights:
        n = unitwise(cell).n
        cA = jnp.split(jnp.concatenate(cell.dense_credit(c))[:, None] * state.A, len(weights), axis=1)
        sources = Sources(*jnp.split(state.B, [n, n + cell.n_in], axis=1))
        product = lambda u: lambda w, v: outer_like(w, u, v)
        return tuple(listened(gate, sources, product(u)) for gate, u in zip(weights, cA, strict=True))


def lengths(rows: Float[Array, "k m"]) -> Float[Array, " k"]:
    """The length of each row."""
    return jnp.sqrt(jnp.sum(rows * rows, axis=1))
