"""Matrices that have weights at some places only, and stay so whatever is learned.

Where a matrix has weights is known before anything runs: its *places*. Its gradient, its eligibility traces and the
state of its optimizer have the same places, so nothing has to be masked. `Sparse` keeps its weights in a row, and its
memory and time follow their number. `Hollow` keeps a whole matrix without self-connections.
"""

import functools
import hashlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from recurra.linalg import products
from recurra.linalg.groups import RowGroups, grouped, taken, with_zero
from recurra.linalg.places import Patterned, Places


class Listed(Places):
    """Places in a list, sorted by rows: weight e is in row `rows[e]` and column `columns[e]`.

    A place outside of `shape`, and one that is there twice, is a ValueError.

    >>> places = linalg.Listed(np.array([1, 0]), np.array([0, 1]), (2, 2))
    >>> len(places), places.rows.tolist()
    (2, [0, 1])
    """

    def __init__(self, rows: Int[np.ndarray, " nnz"], columns: Int[np.ndarray, " nnz"], shape: tuple[int, int]):
        order = np.lexsort((columns, rows))
        self.rows, self.columns = (np.asarray(each, np.int32)[order] for each in (rows, columns))
        self.shape = (int(shape[0]), int(shape[1]))
        self._check()
        digest = hashlib.sha256(repr(self.shape).encode() + self.rows.tobytes() + self.columns.tobytes())
        self._identity = digest.hexdigest()

    def _check(self) -> None:
        for name, index, length in zip(("row", "column"), (self.rows, self.columns), self.shape, strict=True):
            outside = index[(index < 0) | (index >= length)]
            if outside.size:
                raise ValueError(f"A matrix of shape {self.shape} has no {name} {outside[0]}; they are counted from 0.")
        again = np.flatnonzero((np.diff(self.rows) == 0) & (np.diff(self.columns) == 0))
        if again.size:
            place = (int(self.rows[again[0]]), int(self.columns[again[0]]))
            raise ValueError(f"Each place can have one weight, and {place} is listed more than once.")

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Listed) and self._identity == other._identity)

    def __repr__(self) -> str:
        return f"Listed({len(self)} of {self.shape[0]} x {self.shape[1]})"

    def __len__(self) -> int:
        return len(self.rows)

    @functools.cached_property
    def by_row(self) -> Int[np.ndarray, "n _"]:
        """The weights of each row; lists are filled up with the number of weights."""
        return grouped(self.rows, self.shape[0])

    @functools.cached_property
    def by_column(self) -> Int[np.ndarray, "m _"]:
        return grouped(self.columns, self.shape[1])

    @functools.cached_property
    def rows_apart(self) -> RowGroups:
        return RowGroups(self.rows, self.shape[0])

    @functools.cached_property
    def columns_apart(self) -> RowGroups:
        return RowGroups(self.columns, self.shape[1])

    @functools.cached_property
    def diagonal(self) -> Int[np.ndarray, " n"]:
        """The weight of each unit on itself; the number of weights where it has none."""
        found = np.full(self.shape[0], len(self), np.int32)
        on_itself = np.flatnonzero(self.rows == self.columns)
        found[self.rows[on_itself]] = on_itself
        return found

    @functools.cached_property
    def heard(self) -> Int[np.ndarray, "n _"]:
        """The columns of the weights of each row; lists are filled up with the number of columns."""
        return np.append(self.columns, np.int32(self.shape[1]))[self.by_row]

    @functools.cached_property
    def in_lists(self) -> Int[np.ndarray, " nnz"]:
        """Where each weight is in `by_row`, read row by row."""
        return np.flatnonzero(self.by_row.ravel() < len(self)).astype(np.int32)

    def sampled(self, u: Float[Array, "*terms n"], v: Float[Array, "*terms m"]) -> "Sparse":
        each = taken(u, self.rows) * taken(v, self.columns)
        return Sparse(jnp.sum(each.reshape(-1, len(self)), axis=0) if each.ndim > 1 else each, self)


class Sparse(Patterned):
    """A matrix with weights at listed places only, which are kept in a row.

    `Sparsely` and `At` draw recurrent weights of this kind, and gradients and traces have it too. `values` has the
    weights, `places.rows` and `places.columns` where they are, and `full` returns the whole matrix with its zeros.

    >>> cell = rc.RNN(n_in=2, n=8, w_rec=rc.cells.Sparsely(density=0.25))
    >>> (gate,) = cell.init_weights(jax.random.key(0))
    >>> isinstance(gate.rec, rc.Sparse), gate.rec.values.shape, gate.rec.full().shape
    (True, (16,), (8, 8))
    """

    values: Float[Array, "*batch nnz"]
    listed: Listed = eqx.field(static=True)

    @property
    def places(self) -> Listed:
        return self.listed

    def matvec(self, v: Float[Array, "m *k"]) -> Float[Array, "n *k"]:
        return self.listed.rows_apart.summed(self.values, v, self.listed.columns)

    def vecmat(self, c: Float[Array, " n"]) -> Float[Array, " m"]:
        return self.listed.columns_apart.summed(self.values, c, self.listed.rows)

    def scaled(self, d: Float[Array, " #n"]) -> "Sparse":
        return Sparse((d if len(d) == 1 else taken(d, self.listed.rows)) * self.values, self.listed)

    def own(self) -> Float[Array, " n"]:
        return taken(with_zero(self.values), self.listed.diagonal)

    def full(self) -> Float[Array, "n m"]:
        nothing = jnp.zeros(self.listed.shape, self.values.dtype)
        return nothing.at[self.listed.rows, self.listed.columns].set(self.values)

    def squared(self) -> "Sparse":
        return Sparse(self.values**2, self.listed)

    def cleared(self) -> "Sparse":
        return self

    def __add__(self, other: "Sparse") -> "Sparse":
        return Sparse(self.values + other.values, self.listed)


class OffDiagonal(Places):
    """Every place but the diagonal."""

    def __hash__(self) -> int:
        return hash(OffDiagonal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffDiagonal)

    def sampled(self, u: Float[Array, "*terms n"], v: Float[Array, "*terms n"]) -> "Hollow":
        rows = lambda factor: factor.reshape(-1, factor.shape[-1])
        return Hollow(products.outer(u, v) if u.ndim == 1 else products.outers(rows(u), rows(v)))


def _off_diagonal(matrix: Any) -> Any:
    """The matrix with zeros on its diagonal."""
    return jnp.where(np.eye(matrix.shape[-1], dtype=bool), jnp.zeros((), matrix.dtype), matrix)


class Hollow(Patterned):
    """A square matrix whose diagonal is zero.

    The diagonal of a matrix that it is made of is left out, and so is one that arithmetic on the array puts there, such
    as noise that an optimizer adds. What is differentiated through it sees a diagonal that does not move.

    `WithoutSelf` draws recurrent weights of this kind, which is that of spiking cells. `full` returns the matrix.

    >>> rc.Hollow(jnp.ones((2, 2))).full().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    matrix: Float[Array, "*batch n n"] = eqx.field(converter=_off_diagonal)

    @property
    def places(self) -> OffDiagonal:
        return OffDiagonal()

    def matvec(self, v: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        return products.matvec(_off_diagonal(self.matrix), v)

    def vecmat(self, c: Float[Array, " n"]) -> Float[Array, " n"]:
        return products.vecmat(c, _off_diagonal(self.matrix))

    def scaled(self, d: Float[Array, " #n"]) -> "Hollow":
        return jax.tree.map(lambda matrix: d[:, None] * matrix, self)  # as it is: a product of zeros needs no mask

    def own(self) -> Float[Array, " n"]:
        return jnp.zeros(self.matrix.shape[0], self.matrix.dtype)

    def full(self) -> Float[Array, "n n"]:
        return _off_diagonal(self.matrix)

    def squared(self) -> "Hollow":
        return jax.tree.map(jnp.square, self)

    def cleared(self) -> "Hollow":
        return Hollow(self.matrix)

    def __add__(self, other: "Hollow") -> "Hollow":
        return jax.tree.map(jnp.add, self, other)
