"""Sizes inside a kernel are powers of two. Other arrays are padded, and what stands in the padding never counts.

Padding may hold anything, also infinities: whatever adds over an axis, or moves along it, masks the padding first.
"""

from collections.abc import Collection

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

Shape = tuple[int, ...]


def padded_size(size: int) -> int:
    """The next power of two."""
    return 1 << max(int(size) - 1, 0).bit_length()


def padded_shape(shape: Shape) -> Shape:
    """The shape of an array inside a kernel."""
    return tuple(map(padded_size, shape))


def pad(array: Array, skip: int = 0) -> Array:
    """An array as a kernel takes it. The first `skip` axes stay as they are."""
    wanted = (*array.shape[:skip], *padded_shape(array.shape[skip:]))
    if wanted == array.shape:
        return array
    return jnp.pad(array, [(0, new - old) for new, old in zip(wanted, array.shape, strict=True)])


def cut(array: Array, shape: Shape) -> Array:
    """What a kernel returned, without its padding."""
    return array[tuple(map(slice, shape))]


def places(shape: Shape, axis: int) -> Int[Array, "..."]:
    """For each entry of an array of this shape, its place along an axis."""
    return jax.lax.broadcasted_iota("int32", shape, axis)


def counted(array: Array, shape: Shape, axes: Collection[int], fill: bool | int | float) -> Array:
    """The padded array with `fill` in its padding along these axes; `shape` is that of the array without padding."""
    inside: Bool[Array, ...] | None = None
    for axis in axes:
        if array.shape[axis] > shape[axis]:
            own = places(array.shape, axis) < shape[axis]
            inside = own if inside is None else inside & own
    return array if inside is None else jnp.where(inside, array, jnp.asarray(fill, array.dtype))
