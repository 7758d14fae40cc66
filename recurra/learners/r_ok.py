"""Optimal Kronecker-sum approximation (Benzing et al. 2019)."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.algebra import decomposable, matvec
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.unitwise import Gates, Sources
from recurra.learners.base import PastFacing, Tick, unitwise
from recurra.machine import backend
from recurra.noise import signs


class KroneckerSum(NamedTuple):
    """M[k, i, j] ≈ Σ_l A[j, l] B[k, i, l], with k over all state variables and i over the units of all gates."""

    A: Float[Array, "m r"]
    B: Float[Array, "S gn r"]


class ROK(PastFacing):
    """M = Σ_l A_l ⊗ J B_l + ahat ⊗ D has r + 1 terms; the best unbiased sum of r terms takes its place.

    With L = [A, ahat] and R = [J B, D], the singular values σ of L Rᵀ are replaced by a random matrix of rank r with
    expectation diag(σ) and least variance (`reduced`).
    """

    r: int = 4

    name: ClassVar[str] = "r-OK"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "Σ_l A_lj B_lki"
    stochastic: ClassVar[bool] = True
    numerical: ClassVar[bool] = True
    memory: ClassVar[str] = "rn²"
    time: ClassVar[str] = "rn³"
    unitwise: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.whole(self, "r")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> KroneckerSum:
        cell = unitwise(cell)
        zeros = lambda *shape: jnp.zeros((*shape, self.r), cell.dtype)
        return KroneckerSum(zeros(cell.n + cell.n_in + 1), zeros(cell.states * cell.n, len(cell.listens) * cell.n))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Float[Array, "steps q"]:
        return signs(key, (steps, self.r + 1), cell.dtype)

    def advance(self, tick: Tick, state: KroneckerSum, noise: Float[Array, " q"]) -> KroneckerSum:
        cell = unitwise(tick.cell)
        S, gn, r = state.B.shape
        ahat = jnp.concatenate(tick.trace.ahat)
        D = jnp.block([[jnp.diag(d) for d in row] for row in tick.trace.D])
        JB = matvec(cell.jacobian(tick.weights, tick.trace), state.B.reshape(S, gn * r))
        L = jnp.column_stack([state.A, ahat])
        R = jnp.column_stack([JB.reshape(S * gn, r), D.reshape(S * gn)])
        A, B = reduced(*(factor.astype(decomposable(cell.dtype)) for factor in (L, R, noise)))
        return KroneckerSum(A.astype(cell.dtype), B.astype(cell.dtype).reshape(S, gn, r))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: KroneckerSum) -> Weights:
        cell = unitwise(cell)
        S, gn, r = state.B.shape
        credit = jnp.concatenate([jnp.zeros(cell.n, cell.dtype) if u is None else u for u in c])
        row = (credit @ state.B.reshape(S, gn * r)).reshape(gn, r)
        return _by_block(weights, (row @ state.A.T).reshape(len(weights), cell.n, -1))


def reduced(
    L: Float[Array, "m q"], R: Float[Array, "p q"], sign: Float[Array, " q"]
) -> tuple[Float[Array, "m r"], Float[Array, "p r"]]:
    """Factors of one column less with E[L' R'ᵀ] = L Rᵀ and least variance."""
    r = L.shape[1] - 1
    Q_L, R_L = _qr(L)
    Q_R, R_R = _qr(R)
    U, sigma, Vt = _svd(R_L @ R_R.T)
    # With no more singular values than columns to keep, the sum is exact and no sign enters.
    X = _thinned(sigma, sign) if len(sigma) > r else jnp.eye(len(sigma), r, dtype=L.dtype) * jnp.sqrt(sigma)[:, None]
    return Q_L @ (U @ X), Q_R @ (Vt.T @ X)


def _one_by_one(decompose: Callable[[Array], tuple[Array, ...]]) -> Callable[[Array], tuple[Array, ...]]:
    """A decomposition of which a vmap over seeds is a loop on the CPU.

    There a batch of decompositions waits for threads of the pool it runs in, and two such batches at a time can wait
    for each other for ever; single ones never wait.
    """
    sequential = jax.custom_batching.sequential_vmap(decompose)
    return lambda matrix: (sequential if backend() == "cpu" else decompose)(matrix)


_qr = _one_by_one(lambda matrix: tuple(jnp.linalg.qr(matrix)))
_svd = _one_by_one(lambda matrix: tuple(jnp.linalg.svd(matrix, full_matrices=False)))


def _thinned(sigma: Float[Array, " q"], sign: Float[Array, " q"]) -> Float[Array, "q r"]:
    """X with E[X Xᵀ] = diag(σ): the k largest are kept, the others share the remaining r - k columns at random."""
    r = len(sigma) - 1
    index = jnp.arange(r + 1)
    tail = jnp.cumsum(sigma[::-1])[::-1]
    k = jnp.argmax((r - index).astype(sigma.dtype) * sigma <= tail)  # the smallest such index, at most r - 1
    share = tail[k] / (r - k).astype(sigma.dtype)
    ratio = sigma / jnp.where(share > 0, share, 1)
    z0 = jnp.where(index < k, 0, jnp.sqrt(jnp.clip(1 - ratio, 0)))
    # The reflection that takes the last axis to -z0: its other columns are a basis of the complement of z0, and
    # the k kept axes stay as they are.
    v = z0 + jnp.eye(r + 1, dtype=sigma.dtype)[r]
    basis = jnp.eye(r + 1, dtype=sigma.dtype) - 2 * jnp.outer(v, v) / jnp.sum(v * v)
    length = jnp.sqrt(jnp.where(index < k, sigma, share))
    return sign[:, None] * basis[:, :r] * length[:r]


def _by_block(weights: Gates, dense: Float[Array, "g n m"]) -> Gates:
    """The blocks that exist of a gradient over all gates and sources."""

    def cut(gate: Sources, rows: Array) -> Sources:
        widths = (rows.shape[0], rows.shape[1] - rows.shape[0] - 1)
        blocks = jnp.split(rows, [widths[0], widths[0] + widths[1]], axis=1)
        return Sources(*(None if w is None else block for w, block in zip(gate, blocks, strict=True)))

    return tuple(cut(gate, dense[g]) for g, gate in enumerate(weights))
