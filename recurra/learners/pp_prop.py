"""Pre-post propagation, or ES-D-RTRL (Wang et al. 2024): two vectors in the place of an eligibility trace."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.gates import Sources, listened
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.linalg import add_or_zero, mul, outer_like, total


class PrePost(NamedTuple):
    """M[(p, i), (g, j)] ≈ F[p][g][i] X[j] / share, with share = 1 - α^(t+1)."""

    X: Sources
    F: tuple[tuple[Float[Array, " n"], ...], ...]
    share: Float[Array, ""]


class PPProp(PastFacing):
    """X = α X + ahat,   F = α H F + (1 - α) D,   M ≈ F X / (1 - α^(t+1)); the bias has X = 1.

    α is `decay`. A sum over past steps of products is replaced by a product of two sums, so what is kept is as small as
    the state.
    """

    decay: float | Float[Array, ""] = 0.9

    about = About("pp-prop", "pp_prop", "F_i X_j", memory="n", time="n²", unitwise=True)

    def __check_init__(self) -> None:
        checks.in_range(self, "decay", least=0.0, below=1.0)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PrePost:
        cell = unitwise(cell)
        zeros = lambda width: jnp.zeros(width, cell.dtype)
        X = Sources(zeros(cell.n), zeros(cell.n_in), zeros(1))
        return PrePost(X, ((zeros(cell.n),) * len(weights),) * cell.states, zeros(()))

    def advance(self, tick: Tick, state: PrePost, noise: None) -> PrePost:
        (X, F, share), (H, D, ahat) = state, tick.trace
        keep, new = jnp.full(1, self.decay, ahat.rec.dtype), jnp.full(1, 1 - self.decay, ahat.rec.dtype)
        kept = lambda p, g: (mul(keep, mul(h, f[g])) for h, f in zip(H[p], F, strict=True))
        post = lambda p, g: add_or_zero(F[p][g], *kept(p, g), mul(new, D[p][g]))
        return PrePost(
            Sources(self.decay * X.rec + ahat.rec, self.decay * X.inp + ahat.inp, ahat.bias),
            tuple(tuple(post(p, g) for g in range(len(tick.weights))) for p in range(len(F))),
            self.decay * share + (1 - self.decay),
        )

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PrePost) -> LazyWeights:
        X, F, share = state
        share = jnp.where(share > 0, share, 1)  # before the first step M is zero, and so is its share
        credit = (total(*map(mul, c, column)) / share for column in zip(*F, strict=True))
        post = lambda u: lambda w, x: outer_like(w, u, x)
        return tuple(listened(gate, X, post(u)) for gate, u in zip(weights, credit, strict=True))
