"""Sums over groups that are known before anything runs, such as the weights of each row of a sparse matrix.

They are gathered, never scattered: a scatter adds one number after the other.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from recurra.linalg import products

#: Sums of at most this many terms are written out: the compiler then adds whole vectors.
MANY = 64

#: Groups of up to so many members are summed together.
SIZES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)


class RowGroups:
    """The members of groups, in tables of groups of similar size. Tables are filled up with the number of members."""

    def __init__(self, group_of: Int[np.ndarray, " count"], groups: int):
        lists = grouped(group_of, groups)
        counts = np.bincount(group_of, minlength=groups)
        most = int(counts.max(initial=0))
        sizes = np.array([*(size for size in SIZES if size < most), most])
        size = sizes[np.searchsorted(sizes, counts)]
        self.tables = [lists[size == each, :each] for each in np.unique(size)]
        self.place = np.argsort(np.argsort(size, kind="stable")).astype(np.int32) if len(self.tables) > 1 else None

    def summed(
        self, w: Float[Array, " count"], v: Float[Array, "_ *k"], place: Int[np.ndarray, " count"]
    ) -> Float[Array, "groups *k"]:
        """Σ w[e] v[place[e]] over the members e of each group."""
        w, place = with_zero(w), np.append(place, np.int32(0))
        parts = [_summed(taken(w, table.ravel()).reshape(table.shape), v, place[table]) for table in self.tables]
        return parts[0] if self.place is None else taken(jnp.concatenate(parts), self.place, axis=0)


def _summed(
    w: Float[Array, "groups size"], v: Float[Array, "_ *k"], place: Int[np.ndarray, "groups size"]
) -> Float[Array, "groups *k"]:
    """Σ w v over the members of each group, of which there are equally many."""
    groups, size = place.shape
    if size == 0:
        return jnp.zeros((groups, *v.shape[1:]), v.dtype)
    if size <= MANY:
        return products.total(*(products.mul(w[:, l], taken(v, place[:, l], axis=0)) for l in range(size)))
    each = products.mul(w.reshape(-1), taken(v, place.ravel(), axis=0))
    return jnp.sum(each.reshape(groups, size, *v.shape[1:]), axis=1)


def grouped(group_of: Int[np.ndarray, " count"], groups: int) -> Int[np.ndarray, "groups _"]:
    """The members of each group, in lists of equal length that are filled up with their number."""
    order = np.argsort(group_of, kind="stable")
    counts = np.bincount(group_of, minlength=groups)
    lists = np.full((groups, max(1, int(counts.max(initial=0)))), len(group_of), np.int32)
    place_in_list = np.arange(len(order)) - np.repeat(counts.cumsum() - counts, counts)
    lists[np.repeat(np.arange(groups), counts), place_in_list] = order
    return lists


def with_zero(each: Float[Array, "count *k"]) -> Float[Array, "_ *k"]:
    """One more row, of zeros: what an index that fills up a list points to."""
    return jnp.concatenate([each, jnp.zeros((1, *each.shape[1:]), each.dtype)])


def taken(each: Float[Array, "..."], index: Int[np.ndarray, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Entries of an array. All indices are known to be inside it."""
    place: Any = slice_of(index)
    place = index if place is None else place
    return each.at[(place,) if axis == 0 else (..., place)].get(mode="promise_in_bounds")


def slice_of(index: Int[np.ndarray, "..."]) -> slice | None:
    """The slice that takes the same entries, if there is one: it is faster."""
    if index.ndim != 1 or index.size == 0:
        return None
    first, step = int(index[0]), int(index[1] - index[0]) if index.size > 1 else 1
    is_even = step > 0 and np.array_equal(index, first + step * np.arange(index.size))
    return slice(first, int(index[-1]) + 1, step) if is_even else None
