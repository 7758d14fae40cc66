"""Outer products that are not multiplied out yet.

The gradient of one step is often an outer product u vᵀ. Kept as its two factors it is cheap to store, its norm is a
product of two norms, and a sum of many of them, over the steps of a segment or over parallel streams, is a single
product of matrices. A tree of weights may hold an `Outer` wherever it could hold a matrix; `dense` multiplies out.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from recurra.linalg.places import Patterned, Places
from recurra.linalg.products import EXACT, inner, outer, outers, total


class Outer(eqx.Module):
    """plus + Σ u vᵀ, summed over all leading axes of u and v; `plus` is a matrix or None.

    With `places` it has entries at these places only; without, everywhere.

    >>> product = linalg.Outer(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    >>> linalg.dense(product).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """

    u: Float[Array, "*terms n"]
    v: Float[Array, "*terms m"]
    plus: Float[Array, "*batch n m"] | Patterned | None = None
    places: Places | None = eqx.field(static=True, default=None)


def outer_like(w: Float[Array, "n m"] | Patterned, u: Float[Array, "*terms n"], v: Float[Array, "*terms m"]) -> Outer:
    """Σ u vᵀ at the places where w has weights, not multiplied out."""
    return Outer(u, v, places=w.places if isinstance(w, Patterned) else None)


def cleared(tree: PyTree) -> PyTree:
    """The tree with nothing outside the places of its patterned matrices."""
    is_patterned = lambda leaf: isinstance(leaf, Patterned)
    return jax.tree.map(lambda leaf: leaf.cleared() if is_patterned(leaf) else leaf, tree, is_leaf=is_patterned)


def dense(tree: PyTree) -> PyTree[Array]:
    """The tree with every `Outer` multiplied out.

    >>> tree = {"W": linalg.Outer(jnp.ones(3), jnp.ones(2)), "b": jnp.zeros(3)}
    >>> linalg.dense(tree)["W"].shape
    (3, 2)
    """
    return _map(_multiplied, tree)


def summed(tree: PyTree) -> PyTree:
    """The sum over the leading axis of every leaf. An `Outer` stays as it is, for it stands for such a sum."""
    return _map(lambda leaf: leaf if isinstance(leaf, Outer) else jnp.sum(leaf, axis=0), tree)


def average(tree: PyTree, share: Float[Array, " k"] | None = None) -> PyTree[Array]:
    """The mean over the leading axis of every leaf, multiplied out; with `share`, the sum weighted by it.

    >>> linalg.average({"w": jnp.array([[1.0, 2.0], [3.0, 4.0]])})["w"]
    Array([2., 3.], dtype=float32)
    """

    def each(leaf: Any) -> Array:
        if not isinstance(leaf, Outer):
            return _mean(leaf, share)
        count = len(leaf.u)
        u = leaf.u / count if share is None else leaf.u * share.reshape(-1, *(1 for _ in leaf.u.shape[1:]))
        plus = jax.tree.map(lambda each: _mean(each, share), leaf.plus)
        return _multiplied(Outer(u, leaf.v, plus, leaf.places))

    return _map(each, tree)


def norm(tree: PyTree) -> Float[Array, ""]:
    """Euclidean norm over all leaves. ‖u vᵀ‖ = ‖u‖ ‖v‖, so a single `Outer` is not multiplied out."""
    return jnp.sqrt(total(*(_square(leaf) for leaf in jax.tree.leaves(tree, is_leaf=_is_outer))))


def _square(leaf: Any) -> Float[Array, ""]:
    if not isinstance(leaf, Outer):
        return inner(leaf, leaf)
    if leaf.u.ndim > 1 or leaf.plus is not None or leaf.places is not None:
        product = _multiplied(leaf)
        return inner(product, product)
    return inner(leaf.u, leaf.u) * inner(leaf.v, leaf.v)


def _multiplied(leaf: Any) -> Any:
    if not isinstance(leaf, Outer):
        return leaf
    rows = lambda factor: factor.reshape(-1, factor.shape[-1])
    if leaf.places is not None:
        product: Any = leaf.places.sampled(leaf.u, leaf.v)
    else:
        product = outer(leaf.u, leaf.v) if leaf.u.ndim == 1 else outers(rows(leaf.u), rows(leaf.v))
    plus: Any = leaf.plus
    return product if plus is None else plus + product


def _mean(leaf: Float[Array, "k ..."], share: Float[Array, " k"] | None) -> Float[Array, "..."]:
    # Written as a product, the mean adds whole rows at a time. The compiler also does not merge it into the loops that
    # compute its terms, which would be slow.
    share = jnp.full(len(leaf), 1 / len(leaf), leaf.dtype) if share is None else share
    return jnp.tensordot(share, leaf, 1, precision=EXACT)


def _map(f: Any, tree: PyTree) -> PyTree:
    return jax.tree.map(f, tree, is_leaf=_is_outer)


def _is_outer(leaf: Any) -> bool:
    return isinstance(leaf, Outer)
