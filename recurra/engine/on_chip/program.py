"""A traced program, carried out operation by operation inside a kernel; and the operations that move entries.

Loops and branches carry out programs of their own. Slices, rows of a ring and arrays side by side only move entries. A
chip has no instruction that takes an entry of an array held in registers by its number. So an entry is found by
comparing places, and a sum picks it out. That is exact, but for the sign of a zero: all other terms are zero.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal
from jax.lax import GatherScatterMode
from jaxtyping import Array, Int

from recurra.engine.on_chip import products  # noqa: F401 (it registers rules)
from recurra.engine.on_chip.padding import counted, padded_shape, padded_size, places
from recurra.engine.on_chip.rules import (
    RULES,
    Results,
    Site,
    UnsupportedError,
    Value,
    check_size,
    rule,
    total,
    without,
)
from recurra.programs import CALLS, called, closed, form_for, loop_parts

#: Which of several forms of a computation a kernel takes, the best first; None is the form for any platform. JAX has
#: forms for Mosaic, another compiler of kernels, that gather nothing: a diagonal is a product with the unit matrix.
PLATFORMS = ("mosaic", "cuda", None)
#: what is said of the other forms of `gather`
ELSEWHERE = "gathers scattered entries; only whole rows, by their numbers, have a form inside a kernel"
#: for each place along an axis of the result, the place that its entry comes from; outside: nothing, which is zero
Source = Callable[[Int[Array, "..."]], Int[Array, "..."]]


def carry_out(program: Any, *arguments: Any, constants: Sequence[Any] | None = None) -> list[Any]:
    """The results of a traced program, whose arguments and results are padded; also its constants, where given."""
    own = [_own(value) for value in program.consts] if constants is None else constants
    known: dict[Any, Any] = dict(zip(program.jaxpr.constvars, own, strict=True))
    known |= zip(program.jaxpr.invars, arguments, strict=True)
    read = lambda var: _number(var) if isinstance(var, Literal) else known[var]
    for equation in needed(program.jaxpr):
        site = Site(
            equation.primitive,
            equation.params,
            [var.aval for var in equation.invars],
            [var.aval for var in equation.outvars],
        )
        found = _apply(site, *map(read, equation.invars))
        results = found if isinstance(found, list | tuple) else [found]
        known |= zip(equation.outvars, results, strict=True)
    return [read(var) for var in program.jaxpr.outvars]


def needed(program: Jaxpr) -> list[Any]:
    """The operations of a program that its results need."""
    wanted, kept = {var for var in program.outvars if not isinstance(var, Literal)}, []
    for equation in reversed(program.eqns):
        if wanted.isdisjoint(equation.outvars) and not equation.effects:
            continue
        kept.append(equation)
        wanted |= {var for var in equation.invars if not isinstance(var, Literal)}
    return kept[::-1]


def _apply(site: Site, *operands: Any) -> Results:
    if site.primitive.name not in RULES:
        raise UnsupportedError(f"uses {site.primitive.name!r}, which has no form inside a kernel")
    return RULES[site.primitive.name](site, *operands)


def _number(literal: Any) -> Any:
    return np.asarray(literal.val, literal.aval.dtype)[()]


def _own(constant: Any) -> Any:
    """What a program inside another holds. Of the outer one, a kernel takes arrays as arguments."""
    if np.shape(constant):
        raise UnsupportedError("keeps an array inside a function with its own `jit`. Hand it over as an argument")
    return np.asarray(constant)[()]


@rule(*CALLS)
def _call(site: Site, *operands: Any) -> Results:
    return carry_out(called(site), *operands)


@rule("platform_index")
def _platform_index(site: Site) -> Any:
    return [form_for(site.params, PLATFORMS)]


@rule("cond")
def _cond(site: Site, which: Any, *operands: Any) -> Results:
    branches = [closed(branch) for branch in site.params["branches"]]
    if isinstance(which, int):  # known now: a choice between platforms
        return carry_out(branches[which], *operands)
    run = lambda branch: lambda *operands: carry_out(branch, *operands)
    return jax.lax.switch(which, [run(branch) for branch in branches], *operands)


@rule("while")
def _while(site: Site, *operands: Any) -> Results:
    goes_on, body = (closed(site.params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    if goes_on.jaxpr.outvars[0].aval.shape:
        raise UnsupportedError("has a while loop whose length differs between streams")
    of_test, of_body = site.params["cond_nconsts"], site.params["body_nconsts"]
    test, fixed, start = operands[:of_test], operands[of_test : of_test + of_body], operands[of_test + of_body :]
    again = lambda state: carry_out(goes_on, *test, *state)[0]
    return jax.lax.while_loop(again, lambda state: carry_out(body, *fixed, *state), list(start))


@rule("scan")
def _scan(site: Site, *operands: Any) -> Results:
    """A loop whose rows, and what it returns for each of them, are arrays in registers."""
    body, fixed, start, rows = scan_parts(site, operands)
    length, count = site.params["length"], len(start)
    blank = [jnp.zeros(padded_shape(aval.shape), aval.dtype) for aval in site.given[count:]]

    def one(k: Array, running: Any) -> Any:
        state, kept = running
        i = length - 1 - k if site.params["reverse"] else k
        state, new = _in_two(carry_out(body, *fixed, *state, *(row_of(each, length, i) for each in rows)), count)
        return state, [with_row(each, i, row) for each, row in zip(kept, new, strict=True)]

    state, kept = jax.lax.fori_loop(jnp.int32(0), jnp.int32(length), one, (list(start), blank))
    return [*state, *kept]


def scan_parts(site: Site, operands: Sequence[Any]) -> tuple[Any, Sequence[Any], Sequence[Any], Sequence[Any]]:
    """The body of a loop, what it closes over, its first state and its rows."""
    body, fixed, state = loop_parts(site.params)
    return body, operands[:fixed], operands[fixed : fixed + state], operands[fixed + state :]


def _in_two(values: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    return values[:count], values[count:]


def moved(array: Array, size: int, axis: int, new_size: int, source: Source) -> Array:
    """The array with another order along one axis; `size` and `new_size` are the axis's sizes without padding."""
    length = padded_size(new_size)
    if length == 1:
        picked = places(array.shape, axis) == source(jnp.int32(0))
        return total(jnp.where(picked, array, jnp.zeros((), array.dtype)), (axis,), keepdims=True)
    if array.shape[axis] == 1:
        shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
        return jnp.where(source(places(shape, axis)) == 0, jnp.broadcast_to(array, shape), jnp.zeros((), array.dtype))
    wide = jnp.expand_dims(array, axis)
    shape = (*wide.shape[:axis], length, *wide.shape[axis + 1 :])
    check_size(shape)
    picked = source(places(shape, axis)) == places(shape, axis + 1)
    inside = jnp.broadcast_to(
        counted(wide, (*wide.shape[: axis + 1], size, *wide.shape[axis + 2 :]), (axis + 1,), 0), shape
    )
    return total(jnp.where(picked, inside, jnp.zeros((), array.dtype)), (axis + 1,))


@rule("slice")
def _slice(site: Site, operand: Value) -> Array:
    starts, before = site.params["start_indices"], site.taken[0].shape
    strides = site.params["strides"] or (1,) * len(starts)
    for axis, (start, stride) in enumerate(zip(starts, strides, strict=True)):
        if site.shape[axis] != before[axis]:
            source = lambda place, start=start, stride=stride: start + stride * place
            operand = moved(operand, before[axis], axis, site.shape[axis], source)
    return operand


@rule("dynamic_slice")
def _dynamic_slice(site: Site, operand: Value, *starts: Value) -> Array:
    before = site.taken[0].shape
    for axis, start in enumerate(starts):
        if site.shape[axis] != before[axis]:
            first = jnp.clip(start, 0, before[axis] - site.shape[axis]).astype("int32")
            source = lambda place, first=first: first + place
            operand = moved(operand, before[axis], axis, site.shape[axis], source)
    return operand


@rule("dynamic_update_slice")
def _dynamic_update_slice(site: Site, operand: Value, update: Value, *starts: Value) -> Array:
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
def _concatenate(site: Site, *parts: Value) -> Array:
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
def _stack(site: Site, *parts: Value) -> Array:
    axis, shape = site.params["axis"], padded_shape(site.shape)
    result = None
    for number, part in enumerate(parts):
        put = jnp.broadcast_to(jnp.expand_dims(part, axis), shape)
        result = put if result is None else jnp.where(places(shape, axis) >= number, put, result)
    assert result is not None
    return result


@rule("split")
def _split(site: Site, operand: Value) -> list[Array]:
    axis, before, parts = site.params["axis"], 0, []
    for size in map(int, site.params["sizes"]):
        source = lambda place, before=before: place + before
        parts.append(moved(operand, site.taken[0].shape[axis], axis, size, source))
        before += size
    return parts


@rule("unstack")
def _unstack(site: Site, operand: Value) -> list[Array]:
    axis, size = site.params["axis"], site.taken[0].shape[site.params["axis"]]
    one = lambda number: moved(operand, size, axis, 1, lambda _: jnp.int32(number))
    return [without(one(number), (axis,)) for number in range(size)]


@rule("pad")
def _pad(site: Site, operand: Value, fill: Value) -> Array:
    for axis, (low, high, between) in enumerate(site.params["padding_config"]):
        size, new_size, step = site.taken[0].shape[axis], site.shape[axis], between + 1
        if (low, high, between) != (0, 0, 0):
            source = lambda place, low=low, step=step: (place - low) // step
            operand = moved(operand, size, axis, new_size, source)
            place = places(operand.shape, axis) - low
            inside = (place >= 0) & (place < step * size) & (place % step == 0)
            operand = jnp.where(inside, operand, fill)
    return operand


@rule("rev")
def _rev(site: Site, operand: Value) -> Array:
    for axis in site.params["dimensions"]:
        last = site.shape[axis] - 1
        operand = moved(operand, site.shape[axis], axis, site.shape[axis], lambda place, last=last: last - place)
    return operand


@rule("scatter")
def _scatter(site: Site, operand: Value, index: Value, update: Value) -> Array:
    """`ring.at[i].set(row)`, for a single number i, along any axis."""
    numbers, shape = site.params["dimension_numbers"], site.shape
    axis = int(next(iter(numbers.scatter_dims_to_operand_dims), 0))
    is_row = numbers.scatter_dims_to_operand_dims == numbers.inserted_window_dims == (axis,)
    is_whole = site.taken[1].shape == (1,) and site.taken[2].shape == (*shape[:axis], *shape[axis + 1 :])
    if not is_row or not is_whole or site.params["update_jaxpr"] is not None:
        raise UnsupportedError("scatters to several places; only `ring.at[i].set(row)` has a form inside a kernel")
    index = index.reshape(()).astype("int32")
    if site.params["mode"] == GatherScatterMode.CLIP:
        index = jnp.clip(index, 0, shape[axis] - 1)
    return with_row(operand, index, update, axis)  # a number outside changes padding at most


@rule("gather")
def _gather(site: Site, operand: Value, index: Value) -> Array:
    """`array[i]` for one number i, or for a list of them along an axis, or as many rows from number i on."""
    numbers, listed = site.params["dimension_numbers"], site.taken[1].shape[:-1]
    if numbers.operand_batching_dims or len(listed) > 1:
        raise UnsupportedError(ELSEWHERE)
    found, inside = (_listed if listed else _window)(site, operand, index)
    if site.params["mode"] != GatherScatterMode.FILL_OR_DROP:
        return found
    fill = site.params["fill_value"]
    return jnp.where(inside, found, jnp.asarray(_outside(operand.dtype) if fill is None else fill, found.dtype))


def _window(site: Site, operand: Array, index: Array) -> tuple[Array, Array]:
    """A part of the array that begins at some numbers, and whether it lies inside."""
    numbers, sizes, before = site.params["dimension_numbers"], site.params["slice_sizes"], site.taken[0].shape
    inside = jnp.ones((), bool)
    for k, axis in enumerate(map(int, numbers.start_index_map)):
        most = before[axis] - sizes[axis]
        start = row_of(index, len(numbers.start_index_map), jnp.int32(k))
        inside = inside & (start >= 0) & (start <= most)
        if most:
            first = jnp.clip(start, 0, most).astype("int32")
            operand = moved(operand, before[axis], axis, sizes[axis], lambda place, first=first: first + place)
    dropped = tuple(map(int, numbers.collapsed_slice_dims))
    return without(operand, dropped) if dropped else operand, inside


def _listed(site: Site, operand: Array, index: Array) -> tuple[Array, Array]:
    """Rows by a list of numbers along an axis, and which of them lie inside."""
    numbers, sizes, before = site.params["dimension_numbers"], site.params["slice_sizes"], site.taken[0].shape
    axis = int(numbers.collapsed_slice_dims[0]) if numbers.collapsed_slice_dims else 0
    rest = (*before[:axis], 1, *before[axis + 1 :])
    is_rows = numbers.start_index_map == numbers.collapsed_slice_dims == (axis,) and tuple(sizes) == rest
    if not is_rows or axis in numbers.offset_dims:
        raise UnsupportedError(ELSEWHERE)

    def along(each: Array, like: Array) -> Array:
        if not like.ndim:
            return each.reshape(())
        return jnp.broadcast_to(each.reshape(*(1,) * axis, -1, *(1,) * (like.ndim - axis - 1)), like.shape)

    wanted = jnp.clip(index, 0, before[axis] - 1).astype("int32")
    found = moved(operand, before[axis], axis, site.taken[1].shape[0], lambda place: along(wanted, place))
    return found, along((index >= 0) & (index < before[axis]), found)


def _outside(dtype: Any) -> Any:
    """What is read outside of an array: nan, or the number of a type that is least likely to be met."""
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.signedinteger) else jnp.iinfo(dtype).max
    return jnp.nan if jnp.issubdtype(dtype, jnp.floating) else True


def row_of(array: Array, size: int, number: Any) -> Array:
    """Row `number` of a padded array, whose first axis has `size` rows."""
    return without(moved(array, size, 0, 1, lambda _: number), (0,))


def with_row(array: Array, number: Any, row: Value, axis: int = 0) -> Array:
    """The padded array with another row `number` along an axis."""
    return jnp.where(places(array.shape, axis) == number, jnp.expand_dims(row, axis), array)
