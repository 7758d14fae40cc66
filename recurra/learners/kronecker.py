"""What the Kronecker-factored learners share: random numbers, a random start, and gradients as outer products."""

import abc

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.gates import Sources, listened
from recurra.learners.base import PastFacing
from recurra.linalg import outer_like, total, vecmat
from recurra.linalg.noise import Noise, signs

#: a vector for each gate, over its units, and one for each source
Vectors = tuple[tuple[Array, ...], Sources]


class KroneckerFactored(PastFacing):
    """c M = u[g] v[source]ᵀ for each gate g and each of its sources.

    `nu` draws the random numbers, and `initial_scale` multiplies the paper's standard normal start; 0 starts without
    bias.
    """

    nu: Noise = eqx.field(static=True, default=signs)
    initial_scale: float | Float[Array, ""] = 1.0

    def __check_init__(self) -> None:
        checks.in_range(self, "initial_scale", least=0.0)
        checks.draws(self, "nu", "recurra.noise.gaussian", (3, 2))

    @abc.abstractmethod
    def vectors(self, c: Credit, state: PyTree) -> Vectors:
        """u for each gate, and v for each source."""

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PyTree) -> LazyWeights:
        u, v = self.vectors(c, state)
        product = lambda of_gate: lambda w, of_source: outer_like(w, of_gate, of_source)
        return tuple(listened(gate, v, product(of_gate)) for gate, of_gate in zip(weights, u, strict=True))

    def draw(self, key: PRNGKeyArray, dtype: jax.typing.DTypeLike, *shape: int) -> Float[Array, "..."]:
        """Normal numbers of the first state."""
        return self.initial_scale * jax.random.normal(key, shape, dtype)


def rows(c: Credit, B: tuple[tuple[Array, ...], ...]) -> tuple[Array, ...]:
    """c B, where each of B has a block for each state variable."""
    return tuple(total(*(None if u is None else vecmat(u, b) for u, b in zip(c, each, strict=True))) for each in B)
