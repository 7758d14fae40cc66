"""Decompositions of five rows. LAPACK's take longer to call than to compute, and break the loop's kernel in pieces."""

import jax
import jax.numpy as jnp

#: one-sided Jacobi turns every pair of five columns so often
SWEEPS = 5


def times(a, b):
    """a b of few columns and rows, written out: a product of matrices would be a call."""
    return sum(a[:, l, None] * b[l] for l in range(len(b)))


def orthonormal_rows(rows):
    """C and Q with C Q = rows, by modified Gram-Schmidt; rows that add nothing new stay zero in Q."""
    rounding = (8 * jnp.finfo(rows.dtype).eps) ** 2
    C, Q, before = [], [], jnp.zeros(len(rows))
    for i in range(len(rows)):
        products = rows @ rows[0]
        new = products[0] > rounding * before[0]
        inverse = jnp.where(new, jax.lax.rsqrt(jnp.where(new, products[0], 1)), 0)
        C.append(jnp.pad(products * inverse, (i, 0)))
        Q.append(rows[0] * inverse)
        rows = rows[1:] - (products[1:] * inverse**2)[:, None] * rows[0]
        before = before[1:] + (products[1:] * inverse) ** 2
    return jnp.stack(C, axis=1), jnp.stack(Q)


def svd(matrix):
    """U, σ, V with matrix = Uᵀ diag(σ) V, of five columns: a sixth of zeros makes three pairs."""
    x, y = jnp.split(jnp.pad(matrix.T, ((0, 1), (0, 0))), 2)
    v, w = jnp.split(jnp.eye(6, 5), 2)
    x, y, v, w = jax.lax.fori_loop(0, 5 * SWEEPS, lambda _, pairs: turn(*pairs), (x, y, v, w))
    columns, V = jnp.concatenate([x, y])[:5], jnp.concatenate([v, w])[:5]
    square, index = jnp.sum(columns * columns, axis=1), jnp.arange(5)
    larger = (square > square[:, None]) | ((square == square[:, None]) & (index < index[:, None]))
    order = (jnp.sum(larger, axis=1) == index[:, None]) * 1.0
    sigma = jnp.sqrt(order @ square)
    return (
        jnp.where(sigma > 0, 1 / jnp.where(sigma > 0, sigma, 1), 0)[:, None] * times(order, columns),
        sigma,
        times(order, V),
    )


def turn(x, y, v, w):
    """Make the rows of x and y orthogonal, pair by pair, and pair them anew."""
    twice, gap = 2 * jnp.sum(x * y, axis=1), jnp.sum(y * y, axis=1) - jnp.sum(x * x, axis=1)
    length = jnp.abs(gap) + jnp.sqrt(gap * gap + twice * twice)
    tangent = jnp.where(length > 0, jnp.where(gap < 0, -twice, twice) / jnp.where(length > 0, length, 1), 0)
    c = jax.lax.rsqrt(1 + tangent * tangent)[:, None]
    s = c * tangent[:, None]
    pair = lambda x, y: (jnp.concatenate([x[:1], y[:1], x[1:2]]), jnp.concatenate([y[1:], x[2:]]))
    return *pair(c * x - s * y, s * x + c * y), *pair(c * v - s * w, s * v + c * w)
