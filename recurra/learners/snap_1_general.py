"""SnAp-1 for cells that are not unit-wise: M = P ∘ (J M + Mbar), with P the places where Mbar can be nonzero.

P is read from the cell's program before anything runs (`recurra.cells.reach`). Weights that reach the same k entries of
the state form a block, and only these k rows are kept of their columns of M:

    M_block = J_block M_block + Mbar_block          J_block: k × k, of the rows and columns that the block has

A step thus takes k² multiplications a weight, and k numbers of memory. If every weight reaches one entry, that is the
memory and the time of an eligibility trace. J and Mbar are computed with few products. Two rows of Mbar that no weight
reaches both are deposited at once, as their sum, and two rows of J are pulled back at once if the entries that are
needed of one are zero in the other. So Mbar takes one product if every weight reaches one entry. J takes as many as the
state has entries, and one if units do not hear each other.
"""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.reach import Reach, description, reach
from recurra.cells.tick import Tick
from recurra.linalg import dense, total
from recurra.linalg.groups import taken, with_zero
from recurra.linalg.products import EXACT, FEW

#: for each table of blocks that are alike, M with axes (block, row, weight)
Blocks = tuple[Float[Array, "_ _ _"], ...]


def no_influence(cell: Cell, weights: Weights) -> Blocks:
    """M = 0."""
    shapes = [(*rows.shape, columns.shape[1]) for rows, columns in pattern(cell, weights).blocks]
    return tuple(jnp.zeros(shape, cell.dtype) for shape in shapes)


def advanced(tick: Tick, M: Blocks) -> Blocks:
    """P ∘ (J M + Mbar)."""
    P, cell = pattern(tick.cell, tick.weights), tick.cell
    pull = lambda c: jnp.concatenate(tick.pull(cell.split(c)))
    deposit = lambda c: ravel_pytree(dense(tick.deposit(cell.split(c))))[0]
    J = jax.vmap(pull)(P.J.sums(cell.dtype))
    Mbar = jax.vmap(deposit)(P.Mbar.sums(cell.dtype))

    def block(rows: Int[np.ndarray, "blocks k"], columns: Int[np.ndarray, "blocks weights"], M: Array) -> Array:
        J_block = P.J.entries(J, rows[:, :, None], rows[:, None, :])
        return _product(J_block, M) + P.Mbar.entries(Mbar, rows[:, :, None], columns[:, None, :])

    return tuple(block(rows, columns, own) for (rows, columns), own in zip(P.blocks, M, strict=True))


def contracted(cell: Cell, weights: Weights, c: Credit, M: Blocks) -> Weights:
    """c M."""
    P, credit = pattern(cell, weights), jnp.concatenate(cell.dense_credit(c))
    rows = [_product(taken(credit, rows)[:, None], own).ravel() for (rows, _), own in zip(P.blocks, M, strict=True)]
    cM = with_zero(jnp.concatenate([*rows, jnp.zeros(0, cell.dtype)]))
    return ravel_pytree(weights)[1](taken(cM, P.place))


def pattern(cell: Cell, weights: Weights) -> "Reached":
    """P, made once for all cells of the same program."""
    about = description(cell, weights)
    try:
        hash(about)
    except TypeError:  # a module holds arrays of NumPy's
        return Reached(reach(*about))
    return _kept(*about)


@functools.lru_cache(maxsize=16)
def _kept(structure: Any, leaves: tuple[Any, ...]) -> "Reached":
    return Reached(reach(structure, leaves))


class Reached:
    """P as `blocks`: tables (rows, columns) of blocks with equally many rows and equally many columns."""

    def __init__(self, found: Reach):
        S = len(found.weights)
        by_rows: dict[bytes, list[int]] = {}
        rows = np.repeat(np.arange(S), [len(each) for each in found.weights])
        columns = np.concatenate(found.weights).astype(int)
        order = np.argsort(columns, kind="stable")
        reached, first = np.unique(columns[order], return_index=True)
        for column, each in zip(reached.tolist(), np.split(rows[order], first[1:]), strict=True):
            by_rows.setdefault(each.tobytes(), []).append(column)
        alike: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
        for key, each in by_rows.items():
            own = np.frombuffer(key, rows.dtype)
            alike.setdefault((len(own), len(each)), []).append((own, np.array(each)))
        self.blocks = [tuple(map(np.stack, zip(*each, strict=True))) for each in alike.values()]

        #: where each weight's number is among those of all blocks, or past their end
        self.place = np.full(found.learned, len(reached))
        self.place[np.concatenate([columns.ravel() for _, columns in self.blocks])] = np.arange(len(reached))

        together = np.zeros((S, S), bool)  # the entries of J that are needed: rows that a weight reaches both
        for each, _ in self.blocks:
            together[each[:, :, None], each[:, None, :]] = True
        heard = np.zeros((S, S), bool)
        for row, each in zip(heard, found.state, strict=True):
            row[each] = True
        disturbs = together.astype(np.float32) @ heard.T.astype(np.float32) > 0
        is_reached = np.diagonal(together)
        self.Mbar, self.J = RowSums(together, is_reached), RowSums(disturbs | disturbs.T, is_reached)


class RowSums:
    """Rows of a matrix in a few sums, without two in one that disturb each other (Curtis, Powell and Reid 1974)."""

    def __init__(self, disturbs: Bool[np.ndarray, "S S"], is_used: Bool[np.ndarray, " S"]):
        self.sum_of = np.full(len(disturbs), -1)
        for row in np.flatnonzero(is_used):
            others = set(self.sum_of[:row][disturbs[row, :row]].tolist())
            self.sum_of[row] = next(number for number in itertools.count() if number not in others)

    def sums(self, dtype: Any) -> Float[Array, "sums S"]:
        """For each sum a vector with ones at its rows."""
        is_in = np.arange(self.sum_of.max(initial=0) + 1)[:, None] == self.sum_of
        return jnp.asarray(is_in, dtype)

    def entries(self, found: Float[Array, "sums _"], rows: Any, columns: Any) -> Array:
        """Entries of the matrix, from its sums of rows."""
        return found.at[self.sum_of[rows], columns].get(mode="promise_in_bounds")


def _product(J: Float[Array, "blocks m k"], M: Float[Array, "blocks k weights"]) -> Float[Array, "blocks m weights"]:
    """The products of all blocks."""
    if (k := M.shape[1]) <= FEW:
        return total(*(J[:, :, l, None] * M[:, l, None, :] for l in range(k)))
    return jnp.matmul(J, M, precision=EXACT)
