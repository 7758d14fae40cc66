"""Three layouts of M, the influence of every weight on the state. RTRL keeps M in the one that suits the cell.

`WHOLE` serves any cell: one piece with a column for each weight. `BY_GATE` serves unit-wise cells. `OWN` serves units
that do not hear each other. A weight then reaches its own unit alone, and M needs no more memory than the weights.
"""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from recurra.cells.base import Cell, Credit, Influence, Tangent, Weights
from recurra.cells.gates import Gates, Trace, apart, heard, side_by_side
from recurra.linalg import dense, mul, total, vecmat


class Layout(abc.ABC):
    """How M is cut into pieces. A piece has a matrix for each state variable, whose columns are pushed together."""

    @abc.abstractmethod
    def nothing(self, cell: Any, weights: Weights) -> Influence:
        """M = 0."""

    @abc.abstractmethod
    def add_immediate(self, cell: Any, weights: Weights, trace: Any, M: Influence) -> Influence:
        """M + Mbar."""

    @abc.abstractmethod
    def contract(self, cell: Any, weights: Weights, c: Credit, M: Influence) -> Weights:
        """c M."""


class Whole(Layout):
    """One piece, whose columns are all weights in the order of `ravel_pytree`."""

    def nothing(self, cell: Cell, weights: Weights) -> Influence:
        count = ravel_pytree(weights)[0].size
        return (tuple(jnp.zeros((width, count), cell.dtype) for width in cell.widths),)

    def add_immediate(self, cell: Cell, weights: Weights, trace: Any, M: Influence) -> Influence:
        row = lambda basis: ravel_pytree(dense(cell.deposit(weights, trace, cell.split(basis))))[0]
        Mbar = jax.vmap(row)(jnp.eye(sum(cell.widths), dtype=cell.dtype))
        return (tuple(map(jnp.add, M[0], cell.split(Mbar))),)

    def contract(self, cell: Cell, weights: Weights, c: Credit, M: Influence) -> Weights:
        return ravel_pytree(weights)[1](_weighed_rows(c, M[0]))


class ByGate(Layout):
    """M[g][p] has a row for each unit k, and a column for each weight of gate g: (i, j), with j over its sources."""

    def nothing(self, cell: Any, weights: Weights) -> Influence:
        columns = (cell.n * side_by_side(gate).shape[1] for gate in weights)
        return tuple((jnp.zeros((cell.n, count), cell.dtype),) * cell.states for count in columns)

    def add_immediate(self, cell: Any, weights: Weights, trace: Any, M: Influence) -> Influence:
        unit = jnp.arange(cell.n)  # Mbar is zero except where k = i

        def plus(M: Array, d: Array | None, heard: Array) -> Array:
            if d is None:
                return M
            by_receiver = M.reshape(cell.n, cell.n, -1)
            return by_receiver.at[unit, unit].add(d[:, None] * heard[None]).reshape(M.shape)

        return _each_gate(plus, weights, trace, M)

    def contract(self, cell: Any, weights: Weights, c: Credit, M: Influence) -> Weights:
        rows = (_weighed_rows(c, each).reshape(cell.n, -1) for each in M)
        return tuple(map(apart, weights, rows))


class Own(Layout):
    """M[g][p] is like the weights of gate g: row i holds what the weights of unit i do to its own variable p."""

    def nothing(self, cell: Any, weights: Weights) -> Influence:
        zeros = lambda gate: jnp.zeros_like(side_by_side(gate))
        return tuple((zeros(gate),) * cell.states for gate in weights)

    def add_immediate(self, cell: Any, weights: Weights, trace: Any, M: Influence) -> Influence:
        plus = lambda M, d, heard: M if d is None else M + d[:, None] * heard[None]
        return _each_gate(plus, weights, trace, M)

    def contract(self, cell: Any, weights: Weights, c: Credit, M: Influence) -> Weights:
        rows = (total(*map(mul, c, each)) for each in M)
        return tuple(map(apart, weights, rows))


WHOLE, BY_GATE, OWN = Whole(), ByGate(), Own()


def _weighed_rows(c: Credit, M: Tangent) -> Array:
    """Σ_p c[p] M[p]."""
    return total(*(None if u is None else vecmat(u, part) for u, part in zip(c, M, strict=True)))


def _each_gate(plus: Callable[..., Array], weights: Gates, trace: Trace, M: Influence) -> Influence:
    """`plus(M, d, heard)` for the matrix of every gate and state variable."""
    each = zip(M, zip(*trace.D, strict=True), (heard(gate, trace.ahat) for gate in weights), strict=True)
    return tuple(tuple(plus(M, d, u) for M, d in zip(piece, D, strict=True)) for piece, D, u in each)
