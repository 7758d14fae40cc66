"""What the Kronecker-factored learners share: their gradients are outer products."""

import abc
import functools
from collections.abc import Callable

from jaxtyping import Array, PyTree

from recurra.algebra import mean_outer, outer, total, vecmat
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.unitwise import Sources, listened
from recurra.learners.base import PastFacing, Tick

#: a vector for each gate, over its units, and one for each source
Vectors = tuple[tuple[Array, ...], Sources]


class KroneckerFactored(PastFacing):
    """c M = u[g] v[source]ᵀ."""

    @abc.abstractmethod
    def vectors(self, c: Credit, state: PyTree) -> Vectors:
        """u and v."""

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PyTree) -> Weights:
        return self.gradient(cell, weights, self.vectors(c, state))

    def gradient(self, cell: Cell, weights: Weights, factors: Vectors) -> Weights:
        return _products(outer, weights, *factors)

    def factors(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[Vectors, PyTree]:
        state = self.advance(tick, state, noise)
        return self.vectors(tick.cbar, state), state

    def mean_gradient(self, cell: Cell, weights: Weights, factors: Vectors) -> Weights:
        return _products(mean_outer, weights, *factors)


def rows(c: Credit, B: tuple[tuple[Array, ...], ...]) -> tuple[Array, ...]:
    """c B, where each of B has a block for each state variable."""
    return tuple(total(*(None if u is None else vecmat(u, b) for u, b in zip(c, each, strict=True))) for each in B)


def _products(product: Callable[[Array, Array], Array], weights: Weights, u: tuple[Array, ...], v: Sources) -> Weights:
    each = zip(weights, u, strict=True)
    return tuple(listened(gate, v, functools.partial(product, of_gate)) for gate, of_gate in each)
