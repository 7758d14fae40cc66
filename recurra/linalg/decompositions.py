"""QR decomposition and singular values of matrices with a few rows, in plain arithmetic.

LAPACK is not used, for three reasons. A call of it takes longer than so small a decomposition. The call cuts the
compiled step into pieces. And batches of calls from several threads can wait for each other forever. The functions
here compile into the step's own kernel.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra.linalg.products import matvec


def orthonormal_rows(rows: Float[Array, "q p"]) -> tuple[Float[Array, "q q"], Float[Array, "q p"]]:
    """C, lower triangular, and Q, with orthonormal rows, such that rows = C Q (modified Gram-Schmidt).

    Where a row is a combination of the rows above it, up to rounding, Q has a row of zeros. C Q is the same.
    """
    rounding = (8 * jnp.finfo(rows.dtype).eps) ** 2
    rest, explained = rows, jnp.zeros(len(rows), rows.dtype)
    C, Q = [], []
    for i in range(len(rows)):
        products = matvec(rest, rest[0])
        is_new = products[0] > rounding * explained[0]
        inverse_length = jnp.where(is_new, jax.lax.rsqrt(jnp.where(is_new, products[0], 1)), 0)
        column = products * inverse_length
        C.append(jnp.pad(column, (i, 0)))
        Q.append(rest[0] * inverse_length)
        rest = rest[1:] - (column[1:] * inverse_length)[:, None] * rest[:1]
        explained = explained[1:] + column[1:] ** 2
    return jnp.stack(C, axis=1), jnp.stack(Q)


def svd(matrix: Float[Array, "q q"]) -> tuple[Float[Array, "q q"], Float[Array, " q"], Float[Array, "q q"]]:
    """U, σ and V such that matrix = Uᵀ diag(σ) V, the largest σ first (one-sided Jacobi). Where σ is 0, U has zeros.

    Columns are rotated in pairs until all of them are orthogonal. The pairs are those of a tournament: in each round
    every column meets one other, and after all rounds each has met every other once. 2 + log₂ q tournaments are enough,
    also in double precision. The product Uᵀ diag(σ) V is the matrix after any number of rounds.
    """
    q = len(matrix)
    players = max(4, q + q % 2)
    seats = lambda rows: jnp.pad(rows, ((0, players - q), (0, 0))).reshape(2, players // 2, q)  # zeros are not rotated
    rounds = (2 + (q - 1).bit_length()) * (players - 1)
    largest = jnp.max(jnp.abs(matrix))
    scale = jnp.where(largest > 0, largest, 1)  # keeps fourth powers of the entries in range
    start = seats(matrix.T / scale), seats(jnp.eye(q, dtype=matrix.dtype))
    turned = jax.lax.fori_loop(0, rounds, lambda _, tables: _round(*tables), tuple(map(tuple, start)))
    columns, V = (jnp.concatenate(table)[:q] for table in turned)  # after whole tournaments all are back in place
    square = jnp.sum(columns * columns, axis=1)
    order = _falling(square)
    sigma = jnp.sqrt(matvec(order, square))
    inverse = jnp.where(sigma > 0, 1 / jnp.where(sigma > 0, sigma, 1), 0)
    return inverse[:, None] * matvec(order, columns), scale * sigma, matvec(order, V)


Table = tuple[Float[Array, "pairs q"], Float[Array, "pairs q"]]


def _round(columns: Table, V: Table) -> tuple[Table, Table]:
    """Rotate the columns that sit opposite each other, and V likewise; then all but the first move on by one seat."""
    x, y = columns
    dot = lambda u, v: jnp.sum(u * v, axis=1)
    twice, gap = 2 * dot(x, y), dot(y, y) - dot(x, x)
    length = jnp.abs(gap) + jnp.sqrt(gap * gap + twice * twice)
    tangent = jnp.where(length > 0, jnp.where(gap < 0, -twice, twice) / jnp.where(length > 0, length, 1), 0)
    cosine = jax.lax.rsqrt(1 + tangent * tangent)[:, None]
    sine = cosine * tangent[:, None]

    def turned(x: Array, y: Array) -> Table:
        x, y = cosine * x - sine * y, sine * x + cosine * y
        return jnp.concatenate([x[:1], y[:1], x[1:-1]]), jnp.concatenate([y[1:], x[-1:]])

    return turned(*columns), turned(*V)


def _falling(values: Float[Array, " q"]) -> Float[Array, "q q"]:
    """The permutation matrix that sorts the values, the largest first. A sort of JAX would be a separate call."""
    index = jnp.arange(len(values))
    row, column = lambda vector: vector[None], lambda vector: vector[:, None]
    is_equal = row(values) == column(values)
    before = (row(values) > column(values)) | (is_equal & (row(index) < column(index)))
    return (row(jnp.sum(before, axis=1)) == column(index)).astype(values.dtype)
