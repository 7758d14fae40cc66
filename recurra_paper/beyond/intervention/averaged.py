"""Less variance and nothing else: the mean of independent copies of a learner."""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra import About, PastFacing, Tick
from recurra.cells import Cell, Credit, Weights
from recurra.learners import check_pairing
from recurra.linalg import average


class Averaged(PastFacing):
    """M ≈ (1/k) Σ M_c, where each copy c of the learner starts and draws by itself.

    Copies see the same network and the same data, so the mean has the learner's bias and a k-th of its variance. It
    takes k times the memory and the time of the learner.
    """

    learner: PastFacing
    copies: int = eqx.field(static=True)

    about = About("averaged", "mean of copies")

    def check(self, cell: Cell) -> None:
        check_pairing(self.learner, cell)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PyTree[Array]:
        return jax.vmap(lambda own: self.learner.init(cell, weights, own, n_out))(jax.random.split(key, self.copies))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        draw: Callable = lambda own: self.learner.noise(cell, own, steps)
        return jax.vmap(draw, out_axes=1)(jax.random.split(key, self.copies))

    def advance(self, tick: Tick, state: PyTree[Array], noise: PyTree[Array]) -> PyTree[Array]:
        return jax.vmap(lambda state, noise: self.learner.advance(tick, state, noise))(state, noise)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PyTree[Array]) -> Weights:
        return average(jax.vmap(lambda state: self.learner.contract(cell, weights, c, state))(state))

    def forget(self, cell: Cell, state: PyTree[Array]) -> PyTree[Array]:
        return jax.vmap(lambda state: self.learner.forget(cell, state))(state)
