"""SnAp-1 and a low-rank rest, with a bound on its error (SK-RTRL, Yi & Wang 2026, a preprint)."""

import math
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Gates
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.diagonal_uoro import by_unit, row_lengths, row_sums
from recurra.learners.eligibility import Eligibility, weighed
from recurra.learners.r_ok import MANY_TERMS
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import decomposable, matvec, norm, vecmat
from recurra.linalg.decompositions import orthonormal_rows, svd

#: of the subspace in which L R is cut
ITERATIONS = 2
#: of the exponent in the bound on J's largest singular value
DOUBLINGS = 6


class DiagonalAndRest(NamedTuple):
    """M[k, (i, j)] ≈ δ_ki B[i, j] + Σ_l L[l, k] R[l, (i, j)]; the estimate is off by `error` at most."""

    B: Eligibility
    L: Float[Array, "r S"]
    R: Float[Array, "r P"]
    error: Float[Array, ""]


class SKRTRL(PastFacing):
    """M = S + L R, with S from SnAp-1 and L R = J L R + Ĵ S cut down to rank r, where Ĵ = J between units.

    The cut keeps the r largest singular values, as `dominant` finds them. error = ‖J‖ error + ‖what was cut off‖ bounds
    the distance from the M that RTRL would have along the same steps, as a Euclidean norm over all entries, up to
    rounding. If ‖J‖, the largest singular value, is above 1 for long, the bound grows, whether or not the error does.
    With r = 0 it is SnAp-1, and with r as large as the state it is RTRL.
    """

    r: int = 4

    about = About(
        "sk-rtrl", "SK-RTRL", "δ_ki B_ij + Σ_l L_lk R_lij", memory="rn²", time="n³", numerical=True, unitwise=True
    )

    def __check_init__(self) -> None:
        checks.whole(self, "r", least=0)

    def check(self, cell: Cell) -> None:
        size = sum(cell.widths)
        if self.r > size:
            raise ValueError(
                f"`r` of SKRTRL is {self.r}, and with {size}, the size of the state, it is exact: use at most {size}, "
                "or RTRL."
            )
        if self.r > MANY_TERMS:
            warnings.warn(
                f"`r` of SKRTRL is {self.r}: each step decomposes {self.r} terms, and compiling it may take minutes.",
                stacklevel=2,
            )

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> DiagonalAndRest:
        B = SnAp1().init(cell, weights, key, n_out)
        zeros = lambda *shape: jnp.zeros(shape, cell.dtype)
        return DiagonalAndRest(B, zeros(self.r, sum(cell.widths)), zeros(self.r, ravel_pytree(B[0])[0].size), zeros())

    def advance(self, tick: Tick, state: DiagonalAndRest, noise: None) -> DiagonalAndRest:
        cell = unitwise(tick.cell)
        precise = lambda tree: jax.tree.map(lambda leaf: leaf.astype(decomposable(cell.dtype)), tree)
        J, (B, L, R, error) = precise((cell.jacobian(tick.weights, tick.trace), state))
        between_units = jnp.tile(1 - jnp.eye(cell.n, dtype=J.dtype), (cell.states, 1))
        L, R, cut = self.cut(cell, matvec(J, L.T) if self.r else L.T, R, between_units * J[:, : cell.n], B[0])
        error = largest_singular_value(J) * error + cut
        rest = jax.tree.map(lambda leaf: leaf.astype(cell.dtype), (L, R, error))
        return DiagonalAndRest(SnAp1().advance(tick, state.B, None), *rest)

    def cut(
        self, cell: Cell, JL: Float[Array, "S r"], R: Float[Array, "r P"], Jhat: Float[Array, "S n"], B: Gates
    ) -> tuple[Float[Array, "r S"], Float[Array, "r P"], Float[Array, ""]]:
        """Factors of rank r that are close to JL R + Ĵ S, and how far they are from it.

        Row i of S is all that B has for unit i. Rows of different units have no weight in common, so they are
        orthogonal. With their lengths s and directions E, and with R = X E + C Q, the sum is [Ĵ s + JL X, JL C] [E, Q].
        """
        s = row_lengths(cell, B)
        if not self.r:
            return JL.T, R, norm(Jhat * s[None])
        E, n = by_unit(jnp.where(s > 0, 1 / jnp.where(s > 0, s, 1), 0), B), len(s)
        like = ravel_pytree(B)[1]
        X = jax.vmap(lambda row: row_sums(cell, jax.tree.map(jnp.multiply, like(row), E)))(R)
        times_E = jax.vmap(lambda row: ravel_pytree(by_unit(row, E))[0])
        C, Q = orthonormal_rows(R - times_E(X))
        N = jnp.concatenate([Jhat * s[None] + matvec(JL, X), matvec(JL, C)], axis=1)
        L, V = dominant(N, jnp.concatenate([X, C], axis=1))
        return L, times_E(V[:, :n]) + matvec(V[:, n:], Q), norm(N - matvec(L.T, V))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: DiagonalAndRest) -> Weights:
        B, L, R, _ = state
        if not self.r:
            return weighed(weights, c, B)
        rest = ravel_pytree(B[0])[1](vecmat(matvec(L, jnp.concatenate(cell.dense_credit(c))), R))
        return weighed(weights, (*c, jnp.ones(1, cell.dtype)), (*B, rest))  # as if it were one more state variable


def dominant(N: Float[Array, "S m"], before: Float[Array, "r m"]) -> tuple[Float[Array, "r S"], Float[Array, "r m"]]:
    """L and V, with orthonormal rows in V, such that Lᵀ V is close to the best approximation of N of rank r.

    Subspace iteration with 2r directions, from those of the step before and a little of some that are always the same.
    If N has no more than 2r rows or columns, the approximation is the best one.
    """
    r, m = before.shape
    q = min(2 * r, *N.shape)
    fixed = np.random.default_rng(0).standard_normal((q, m)) / (10 * math.sqrt(m))
    Z = jnp.asarray(fixed, N.dtype) + jnp.pad(before, ((0, max(q - r, 0)), (0, 0)))[:q]
    Y = orthonormal_rows(matvec(Z, N.T))[1]
    for _ in range(ITERATIONS - 1):
        Y = orthonormal_rows(matvec(orthonormal_rows(matvec(Y, N))[1], N.T))[1]
    C, Z = orthonormal_rows(matvec(Y, N))
    U, sigma, V = svd(C)
    return sigma[:r, None] * matvec(U, Y)[:r], matvec(V, Z)[:r]


def largest_singular_value(J: Float[Array, "S S"]) -> Float[Array, ""]:
    """A bound from above, too large by a factor of n^(1/4q) at most: ‖J‖² ≤ ‖G^q‖^(1/q), G = JᵀJ, q = 2^DOUBLINGS."""
    G, logarithm = matvec(J.T, J), jnp.zeros((), J.dtype)
    for doubling in range(DOUBLINGS + 1):
        length = norm(G)
        length = jnp.where(length > 0, length, 1)
        logarithm = logarithm + jnp.log(length) / 2**doubling
        G = matvec(G, G) / length**2 if doubling < DOUBLINGS else G
    return jnp.where(norm(J) > 0, jnp.exp(logarithm / 2), 0)
