"""Optimal Kronecker-sum approximation (Benzing et al. 2019)."""

import warnings
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.tick import Tick
from recurra.cells.unitwise import Gates, Sources
from recurra.learners.base import About, PastFacing, unitwise
from recurra.linalg import decomposable, matvec
from recurra.linalg.decompositions import orthonormal_rows, svd
from recurra.linalg.noise import signs

#: With more terms compiling takes long: on one core 16 s for 64 terms, 68 s for 200.
MANY_TERMS = 64


class KroneckerSum(NamedTuple):
    """M[k, i, j] ≈ Σ_l A[l, j] B[l, (i, k)], with k over all state variables and i over the units of all gates."""

    A: Float[Array, "r m"]
    B: Float[Array, "r gn*S"]


class ROK(PastFacing):
    """M = Σ_l A_l ⊗ J B_l + ahat ⊗ D has r + 1 terms; the best unbiased sum of r terms takes its place.

    With L = [A, ahat] and R = [J B, D], the singular values σ of Lᵀ R are replaced by a random matrix of rank r with
    expectation diag(σ) and least variance (`reduced`).
    """

    r: int = 4

    about = About(
        "r-ok", "r-OK", "Σ_l A_lj B_lki", memory="rn²", time="rn³", stochastic=True, numerical=True, unitwise=True
    )

    def __check_init__(self) -> None:
        checks.whole(self, "r")

    def check(self, cell: Cell) -> None:
        cell = unitwise(cell)
        rank = cell.n + cell.n_in + 1
        if self.r > rank:
            raise ValueError(
                f"`r` of ROK is {self.r}, and with n + n_in + 1 = {rank} it is exact: use at most {rank}, or RTRL."
            )
        if self.r > MANY_TERMS:
            warnings.warn(
                f"`r` of ROK is {self.r}: each step decomposes {self.r + 1} terms, and compiling it may take minutes.",
                stacklevel=2,
            )

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> KroneckerSum:
        cell = unitwise(cell)
        zeros = lambda *shape: jnp.zeros((self.r, *shape), cell.dtype)
        return KroneckerSum(zeros(cell.n + cell.n_in + 1), zeros(len(cell.listens) * cell.n * cell.states * cell.n))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Float[Array, "steps q"]:
        return signs(key, (steps, self.r + 1), cell.dtype)

    def advance(self, tick: Tick, state: KroneckerSum, noise: Float[Array, " q"]) -> KroneckerSum:
        cell = unitwise(tick.cell)
        J = cell.jacobian(tick.weights, tick.trace)
        zero = jnp.zeros((cell.n, cell.n), cell.dtype)
        D = jnp.block([[zero if d is None else jnp.diag(d) for d in row] for row in tick.trace.D])
        JB = matvec(state.B.reshape(-1, len(J)), J.T)
        L = jnp.vstack([state.A, jnp.concatenate(tick.trace.ahat)])
        R = jnp.vstack([JB.reshape(state.B.shape), D.T.reshape(-1)])
        A, B = reduced(*(factor.astype(decomposable(cell.dtype)) for factor in (L, R, noise)))
        return KroneckerSum(A.astype(cell.dtype), B.astype(cell.dtype))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: KroneckerSum) -> Weights:
        cell = unitwise(cell)
        credit = jnp.concatenate(cell.dense_credit(c))
        row = matvec(state.B.reshape(-1, len(credit)), credit).reshape(self.r, -1)
        return _by_block(weights, matvec(row.T, state.A).reshape(len(weights), cell.n, -1))


def reduced(
    L: Float[Array, "q m"], R: Float[Array, "q p"], sign: Float[Array, " q"]
) -> tuple[Float[Array, "r m"], Float[Array, "r p"]]:
    """Factors L' and R' with one row less, such that E[L'ᵀ R'] = Lᵀ R, with the least variance."""
    C_L, Q_L = orthonormal_rows(L)
    C_R, Q_R = orthonormal_rows(R)
    U, sigma, V = svd(matvec(C_L.T, C_R))
    # The sign of a singular vector is arbitrary. Where ahat, the last row of L, has a negative component along one, the
    # random sign is flipped. So the result does not depend on how the decomposition was computed.
    X = _thinned(sigma, jnp.where(matvec(U, C_L[-1]) < 0, -sign, sign))
    return matvec(matvec(X.T, U), Q_L), matvec(matvec(X.T, V), Q_R)


def _thinned(sigma: Float[Array, " q"], sign: Float[Array, " q"]) -> Float[Array, "q r"]:
    """X with E[X Xᵀ] = diag(σ): the k largest are kept, the others share the remaining r - k columns at random."""
    r = len(sigma) - 1
    index = jnp.arange(r + 1)
    tail = matvec((index[None] >= index[:, None]).astype(sigma.dtype), sigma)
    k = jnp.sum((r - index).astype(sigma.dtype) * sigma > tail)  # these come first, and are at most r - 1
    share = tail[k] / (r - k).astype(sigma.dtype)
    ratio = sigma / jnp.where(share > 0, share, 1)
    z0 = jnp.where(index < k, 0, jnp.sqrt(jnp.clip(1 - ratio, 0)))
    # The reflection that takes the last axis to -z0: its other columns are a basis of the complement of z0, and
    # the k kept axes stay as they are.
    v = z0 + jnp.eye(r + 1, dtype=sigma.dtype)[r]
    basis = jnp.eye(r + 1, dtype=sigma.dtype) - 2 * jnp.outer(v, v) / jnp.sum(v * v)
    length = jnp.sqrt(jnp.where(index < k, sigma, share))
    return sign[:, None] * basis[:, :r] * length[None, :r]


def _by_block(weights: Gates, dense: Float[Array, "g n m"]) -> Gates:
    """A gradient over all gates and sources, cut into the blocks that the weights have."""

    def cut(gate: Sources, rows: Array) -> Sources:
        widths = (rows.shape[0], rows.shape[1] - rows.shape[0] - 1)
        blocks = jnp.split(rows, [widths[0], widths[0] + widths[1]], axis=1)
        return Sources(*(None if w is None else block for w, block in zip(gate, blocks, strict=True)))

    return tuple(cut(gate, dense[g]) for g, gate in enumerate(weights))
