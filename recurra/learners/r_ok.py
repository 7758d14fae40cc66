"""Optimal Kronecker-sum approximation (Benzing et al. 2019)."""

import abc
import itertools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Sources
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.linalg import Outer, Patterned, decomposable, dense, matvec
from recurra.linalg.decompositions import orthonormal_rows, svd
from recurra.linalg.noise import signs

#: With more terms compiling takes long: on one core 16 s for 64 terms, 68 s for 200.
MANY_TERMS = 64

Factors = tuple[Float[Array, "r m"], Float[Array, "r p"]]


class KroneckerSum(NamedTuple):
    """M[k, i, j] ≈ Σ_l A[l, j] B[l, (i, k)], with k over all state variables and i over the units of all gates."""

    A: Float[Array, "r m"]
    B: Float[Array, "r gn*S"]


class KroneckerSummed(PastFacing):
    """M = Σ_l A_l ⊗ J B_l + ahat ⊗ D has r + 1 terms; a sum of r terms takes its place (`shortened`)."""

    r: int = 4

    def __check_init__(self) -> None:
        checks.whole(self, "r")

    @abc.abstractmethod
    def shortened(self, L: Float[Array, "q m"], R: Float[Array, "q p"], noise: PyTree) -> Factors:
        """Factors with one row less than L and R, whose product takes the place of Lᵀ R."""

    def check(self, cell: Cell) -> None:
        cell, name = unitwise(cell), type(self).__name__
        rank = cell.n + cell.n_in + 1
        if self.r > rank:
            raise ValueError(
                f"`r` of {name} is {self.r}, and with n + n_in + 1 = {rank} it is exact: use at most {rank}, or RTRL."
            )
        if self.r > MANY_TERMS:
            warnings.warn(
                f"`r` of {name} is {self.r}: each step decomposes {self.r + 1} terms, and compiling it may take "
                "minutes.",
                stacklevel=2,
            )

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> KroneckerSum:
        cell = unitwise(cell)
        zeros = lambda *shape: jnp.zeros((self.r, *shape), cell.dtype)
        return KroneckerSum(zeros(cell.n + cell.n_in + 1), zeros(len(cell.listens) * cell.n * cell.states * cell.n))

    def advance(self, tick: Tick, state: KroneckerSum, noise: PyTree) -> KroneckerSum:
        cell = unitwise(tick.cell)
        J = cell.jacobian(tick.weights, tick.trace)
        zero = jnp.zeros((cell.n, cell.n), cell.dtype)
        D = jnp.block([[zero if d is None else jnp.diag(d) for d in row] for row in tick.trace.D])
        JB = matvec(state.B.reshape(-1, len(J)), J.T)
        L = jnp.vstack([state.A, jnp.concatenate(tick.trace.ahat)])
        R = jnp.vstack([JB.reshape(state.B.shape), D.T.reshape(-1)])
        precise = decomposable(cell.dtype)
        A, B = self.shortened(*jax.tree.map(lambda factor: factor.astype(precise), (L, R, noise)))
        return KroneckerSum(A.astype(cell.dtype), B.astype(cell.dtype))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: KroneckerSum) -> Weights:
        cell = unitwise(cell)
        credit = jnp.concatenate(cell.dense_credit(c))
        row = matvec(state.B.reshape(-1, len(credit)), credit).reshape(self.r, -1)
        whole = matvec(row.T, state.A).reshape(len(weights), cell.n, -1)
        apart = lambda blocks: jnp.split(blocks, [cell.n, cell.n + cell.n_in], axis=1)
        terms = zip(jnp.split(row, len(weights), axis=1), whole, weights, strict=True)
        return tuple(
            Sources(*map(_block, gate, apart(of), itertools.repeat(u), apart(state.A))) for u, of, gate in terms
        )


class ROK(KroneckerSummed):
    """The best unbiased sum of r terms takes the place of Σ_l A_l ⊗ J B_l + ahat ⊗ D, which has r + 1.

    With L = [A, ahat] and R = [J B, D], the singular values σ of Lᵀ R are replaced by a random matrix of rank r with
    expectation diag(σ) and least variance (`reduced`).
    """

    about = About(
        "r-ok", "r-OK", "Σ_l A_lj B_lki", memory="rn²", time="rn³", stochastic=True, numerical=True, unitwise=True
    )

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Float[Array, "steps q"]:
        return signs(key, (steps, self.r + 1), cell.dtype)

    def shortened(self, L: Float[Array, "q m"], R: Float[Array, "q p"], noise: Float[Array, " q"]) -> Factors:
        return reduced(L, R, noise)


def reduced(L: Float[Array, "q m"], R: Float[Array, "q p"], sign: Float[Array, " q"]) -> Factors:
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


def _block(
    w: Any, whole: Float[Array, "n m"], u: Float[Array, "r n"], v: Float[Array, "r m"]
) -> Float[Array, "n m"] | Patterned | None:
    """Σ_l u_l v_lᵀ, given as a whole matrix too, for a block of weights like w."""
    return None if w is None else dense(Outer(u, v, places=w.places)) if isinstance(w, Patterned) else whole
