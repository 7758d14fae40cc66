"""Products and sums of vectors and matrices.

Two conventions keep the algebra of cells and learners short. ``None`` is a structural zero: a block of weights that a
gate does not have, or credit that nothing hands to a state variable; `add` and `mul` carry it through. And a product
with a matrix is spelled `matvec` or `vecmat`, because its fastest form depends on its shape and on the platform that
the program is compiled for.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from recurra.linalg.places import Patterned

# float32 stays float32 on GPUs, whose default would round the factors to ten bits.
EXACT = jax.lax.Precision.HIGHEST

#: A product that adds at most this many terms is written as a sum of vectors or outer products. The compiler then
#: fuses it with what is computed around it, instead of calling a library for it.
FEW = 8


def matvec(W: Float[Array, "n m"] | Patterned, v: Float[Array, "m *k"]) -> Float[Array, "n *k"]:
    """W v, for a vector or for the columns of a matrix.

    >>> linalg.matvec(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """
    if isinstance(W, Patterned):
        return W.matvec(v)
    if v.ndim == 1 and len(v) <= FEW:
        written_out = lambda W, v: total(*(W[:, l] * v[l] for l in range(len(v))))
        return jax.lax.platform_dependent(W, v, cpu=written_out, default=_product)
    if v.ndim == 2 and len(v) <= FEW:
        return total(*(outer(W[:, l], v[l]) for l in range(len(v))))
    return _product(W, v)


def vecmat(c: Float[Array, " n"], W: Float[Array, "n m"] | Patterned) -> Float[Array, " m"]:
    """c W.

    >>> linalg.vecmat(jnp.array([1.0, 1.0]), jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [4.0, 6.0]
    """
    if isinstance(W, Patterned):
        return W.vecmat(c)
    if len(c) <= FEW:
        written_out = lambda c, W: total(*(c[l] * W[l] for l in range(len(c))))
        return jax.lax.platform_dependent(c, W, cpu=written_out, default=_product)
    return _product(c, W)


def _product(x: Array, y: Array) -> Array:
    return jnp.matmul(x, y, precision=EXACT)


def outer(u: Float[Array, " n"], v: Float[Array, " m"]) -> Float[Array, "n m"]:
    """u vᵀ.

    >>> linalg.outer(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return u[:, None] * v[None, :]


def outers(u: Float[Array, "k n"], v: Float[Array, "k m"]) -> Float[Array, "n m"]:
    """Σ `outer` over rows."""
    if u.shape[1] <= FEW:  # a matrix product with few rows takes as long as one with many
        return jnp.stack([vecmat(u[:, i], v) for i in range(u.shape[1])])
    if v.shape[1] <= FEW:
        return jnp.stack([vecmat(v[:, j], u) for j in range(v.shape[1])], axis=1)
    return matvec(u.T, v)


def mul(d: Float[Array, " #n"] | None, B: Float[Array, "#n *m"] | Patterned | None) -> Any:
    """diag(d) B, for a vector or a matrix B. Where d has length 1 it is one number for all units.

    >>> linalg.mul(jnp.array([1.0, 2.0]), jnp.ones((2, 2))).tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    if d is None or B is None:
        return None
    if isinstance(B, Patterned):
        return B.scaled(d)
    return d[:, None] * B if B.ndim == 2 else d * B


def own(W: Float[Array, "n n"] | Patterned | None) -> Float[Array, " n"] | None:
    """The diagonal of W: the weight of each unit on itself."""
    if W is None or isinstance(W, Patterned):
        return None if W is None else W.own()
    return jnp.diagonal(W)


def full(W: Float[Array, "n m"] | Patterned) -> Float[Array, "n m"]:
    """W as a plain array, whichever way it is kept."""
    return W.full() if isinstance(W, Patterned) else W


def squared(W: Float[Array, "n m"] | Patterned) -> Any:
    """Every weight squared."""
    return W.squared() if isinstance(W, Patterned) else W * W


def add(*terms: Any) -> Any:
    """The sum of the terms that are not None; None if there are no such terms.

    >>> linalg.add(jnp.ones(2), None, jnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else None


def add_or_zero(like: Any, *terms: Any) -> Any:
    """`add`, with zeros in the shape of `like` where all terms are None."""
    result = add(*terms)
    return jax.tree.map(jnp.zeros_like, like) if result is None else result


def total(*terms: Any) -> Any:
    """`add`, for terms of which at least one is not None."""
    result = add(*terms)
    if result is None:
        raise ValueError("`total` needs at least one term that is not a structural zero, and got none.")
    return result


def inner(x: PyTree[Array | None], y: PyTree[Array | None]) -> Float[Array, ""]:
    """Σ x y over all leaves; a leaf that is None on either side counts as zero. ValueError if none is left.

    >>> float(linalg.inner((jnp.ones(3), None), (jnp.ones(3), jnp.ones(2))))
    3.0
    """
    is_none = lambda leaf: leaf is None
    pairs = zip(jax.tree.leaves(x, is_leaf=is_none), jax.tree.leaves(y, is_leaf=is_none), strict=True)
    return total(*(None if u is None or v is None else _sum(u * v) for u, v in pairs))


def _sum(array: Float[Array, "..."]) -> Float[Array, ""]:
    """Σ over all entries."""
    if array.ndim != 2:
        return jnp.sum(array)
    return jax.lax.platform_dependent(array, cpu=_sum_by_rows, default=jnp.sum)


@jax.custom_batching.custom_vmap
def _sum_by_rows(matrix: Float[Array, "n m"]) -> Float[Array, ""]:
    """Σ over all entries, with whole rows added at a time.

    A compiler for CPUs may not reorder a plain sum, and would add one number after the other. For one matrix, a product
    with a vector of ones is fastest. For a batch of matrices, two sums with a barrier between them are fastest.
    """
    return jnp.sum(_product(jnp.ones(len(matrix), matrix.dtype), matrix))


@_sum_by_rows.def_vmap
def _sums_by_rows(size: int, batched: list[bool], matrices: Float[Array, "batch n m"]) -> tuple[Array, bool]:
    return jnp.sum(jax.lax.optimization_barrier(jnp.sum(matrices, axis=1)), axis=1), True
