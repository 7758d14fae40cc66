"""Operations that only move entries, written inside a kernel: slices, rows of a ring, arrays side by side.

A chip has no instruction that takes an entry of an array held in registers by its number. So an entry is found by
comparing places, and a sum picks it out. That is exact: all other terms are zero.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from recurra.engine.on_chip.padding import counted, padded_shape, padded_size, places
from recurra.engine.on_chip.rules import Site, UnsupportedError, rule, without

#: for each place along an axis of the result, the place that its entry comes from; outside: nothing, which is zero
Source = Callable[[Int[Array, "..."]], Int[Array, "..."]]


def moved(array: Array, size: int, axis: int, new_size: int, source: Source) -> Array:
    """The array with another order along one axis; `size` and `new_size` are the axis's sizes without padding."""
    length = padded_size(new_size)
    if length == 1:
        picked = places(array.shape, axis) == source(jnp.int32(0))
        return _total(jnp.where(picked, array, jnp.zeros((), array.dtype)), axis, keepdims=True)
    if array.shape[axis] == 1:
        shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
        return jnp.where(source(places(shape, axis)) == 0, jnp.broadcast_to(array, shape), jnp.zeros((), array.dtype))
    wide = jnp.expand_dims(array, axis)
    shape = (*wide.shape[:axis], length, *wide.shape[axis + 1 :])
    picked = source(places(shape, axis)) == places(shape, axis + 1)
    inside = jnp.broadcast_to(
        counted(wide, (*wide.shape[: axis + 1], size, *wide.shape[axis + 2 :]), (axis + 1,), 0), shape
    )
    return _total(jnp.where(picked, inside, jnp.zeros((), array.dtype)), axis + 1)


def _total(array: Array, axis: int, keepdims: bool = False) -> Array:
    if array.dtype == bool:
        return _total(array.astype("int32"), axis, keepdims) > 0
    return jnp.sum(array, axis=axis, keepdims=keepdims)


@rule("slice")
def _slice(site: Site, operand: Array) -> Array:
    starts, before = site.params["start_indices"], site.taken[0].shape
    strides = site.params["strides"] or (1,) * len(starts)
    for axis, (start, stride) in enumerate(zip(starts, strides, strict=True)):
        if site.shape[axis] != before[axis]:
            source = lambda place, start=start, stride=stride: start + stride * place
            operand = moved(operand, before[axis], axis, site.shape[axis], source)
    return operand


@rule("dynamic_slice")
def _dynamic_slice(site: Site, operand: Array, *starts: Array) -> Array:
    before = site.taken[0].shape
    for axis, start in enumerate(starts):
        if site.shape[axis] != before[axis]:
            first = jnp.clip(start, 0, before[axis] - site.shape[axis]).astype("int32")
            source = lambda place, first=first: first + place
            operand = moved(operand, before[axis], axis, site.shape[axis], source)
    return operand


@rule("dynamic_update_slice")
def _dynamic_update_slice(site: Site, operand: Array, update: Array, *starts: Array) -> Array:
    sizes = zip(starts, site.shape, site.taken[1].shape, strict=True)
    clipped = [jnp.clip(start, 0, size - own).astype("int32") for start, size, own in sizes]
    return _placed(operand, update, site.shape, site.taken[1].shape, clipped)


def _placed(operand: Array, update: Array, shape: Sequence[int], own: Sequence[int], starts: Sequence[Array]) -> Array:
    """The operand with the update where it starts. What of it lies outside is dropped."""
    inside = jnp.ones((), bool)
    for axis, start in enumerate(starts):
        if own[axis] != shape[axis]:
            place = places(operand.shape, axis) - start
            inside = inside & (place >= 0) & (place < own[axis])
            update = moved(update, own[axis], axis, shape[axis], lambda place, start=start: place - start)
    return jnp.where(inside, update, operand)


@rule("concatenate")
def _concatenate(site: Site, *parts: Array) -> Array:
    axis, shape = site.params["dimension"], padded_shape(site.shape)
    result, before = None, 0
    for part, taken in zip(parts, site.taken, strict=True):
        size = taken.shape[axis]
        if size == 1:
            put = jnp.broadcast_to(part, shape)
        else:
            put = moved(part, size, axis, site.shape[axis], lambda place, before=before: place - before)
        result = put if result is None else jnp.where(places(shape, axis) >= before, put, result)
        before += size
    assert result is not None
    return result


@rule("stack")
def _stack(site: Site, *parts: Array) -> Array:
    axis, shape = site.params["axis"], padded_shape(site.shape)
    result = None
    for number, part in enumerate(parts):
        put = jnp.broadcast_to(jnp.expand_dims(part, axis), shape)
        result = put if result is None else jnp.where(places(shape, axis) >= number, put, result)
    assert result is not None
    return result


@rule("split")
def _split(site: Site, operand: Array) -> list[Array]:
    axis, before, parts = site.params["axis"], 0, []
    for size in site.params["sizes"]:
        source = lambda place, before=before: place + before
        parts.append(moved(operand, site.taken[0].shape[axis], axis, size, source))
        before += size
    return parts


@rule("unstack")
def _unstack(site: Site, operand: Array) -> list[Array]:
    axis, size = site.params["axis"], site.taken[0].shape[site.params["axis"]]
    one = lambda number: moved(operand, size, axis, 1, lambda _: jnp.int32(number))
    return [without(one(number), (axis,)) for number in range(size)]


@rule("pad")
def _pad(site: Site, operand: Array, fill: Array) -> Array:
    for axis, (low, _, between) in enumerate(site.params["padding_config"]):
        size, new_size, step = site.taken[0].shape[axis], site.shape[axis], between + 1
        if size != new_size:
            source = lambda place, low=low, step=step: (place - low) // step
            operand = moved(operand, size, axis, new_size, source)
            place = places(operand.shape, axis) - low
            inside = (place >= 0) & (place < step * size) & (place % step == 0)
            operand = jnp.where(inside, operand, fill)
    return operand


@rule("rev")
def _rev(site: Site, operand: Array) -> Array:
    for axis in site.params["dimensions"]:
        last = site.shape[axis] - 1
        operand = moved(operand, site.shape[axis], axis, site.shape[axis], lambda place, last=last: last - place)
    return operand


@rule("scatter")
def _scatter(site: Site, operand: Array, index: Array, update: Array) -> Array:
    """`ring.at[i].set(row)`, for a single number i."""
    numbers = site.params["dimension_numbers"]
    is_row = numbers.scatter_dims_to_operand_dims == numbers.inserted_window_dims == (0,)
    if site.taken[1].shape != (1,) or not is_row or site.params["update_jaxpr"] is not None:
        raise UnsupportedError("writes to places that are numbers of their own, other than a row by its number")
    starts = [index.reshape(()).astype("int32"), *(jnp.int32(0) for _ in site.shape[1:])]
    return _placed(operand, update[None], site.shape, (1, *site.shape[1:]), starts)


@rule("gather")
def _gather(site: Site, operand: Array, index: Array) -> Array:
    """`array[i]` for one number i, or for a list of them, along the first axis."""
    numbers, sizes = site.params["dimension_numbers"], site.params["slice_sizes"]
    listed = site.taken[1].shape[:-1]
    is_row = numbers.start_index_map == numbers.collapsed_slice_dims == (0,) and sizes[1:] == site.taken[0].shape[1:]
    if not is_row or len(listed) > 1 or numbers.operand_batching_dims:
        raise UnsupportedError("reads from places that are numbers of their own, other than rows by their numbers")
    index = jnp.clip(index, 0, site.taken[0].shape[0] - 1).astype("int32")
    if not listed:
        return without(moved(operand, site.taken[0].shape[0], 0, 1, lambda _: index.reshape(())), (0,))
    wanted = index.reshape(index.shape[0], *(1 for _ in operand.shape))
    return moved(operand, site.taken[0].shape[0], 0, listed[0], lambda place: jnp.broadcast_to(wanted, place.shape))


def row(array: Array, size: int, number: Any) -> Array:
    """Row `number` of a padded array, whose first axis has `size` rows."""
    return without(moved(array, size, 0, 1, lambda _: number), (0,))


def with_row(array: Array, number: Any, row: Array) -> Array:
    """The padded array with another row `number`."""
    return jnp.where(places(array.shape, 0) == number, row[None], array)
