"""Operations that move entries. Most only change how entries are found, and cost nothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from recurra.native.rules import COperation, is_float, plain, rule, shape_of, spread
from recurra.native.statements import LETTERS, Assign, Writer
from recurra.native.values import Value, View, number, of_view, reshaped


def moved(view: View, shape: Sequence[int], strides: Sequence[int], offset: int = 0, moves: str = "") -> View:
    """The same storage in another order; offsets are added."""
    both = " + ".join(filter(None, (view.moves, moves)))
    return View(view.storage, tuple(shape), tuple(strides), view.dtype, view.offset + offset, both)


@rule("iota")
def _iota(writer: Writer, site: COperation) -> Value:
    strides = tuple(int(axis == site.params["dimension"]) for axis in range(len(site.shape)))
    return of_view(View(None, site.shape, strides, site.dtype))


@rule("broadcast_in_dim", "broadcast_to")
def _broadcast(writer: Writer, site: COperation, operand: Value) -> Value:
    if operand.literal is not None:
        return Value(site.shape, site.dtype, operand.template)
    if operand.shape == () and not operand.view:
        operand = of_view(writer.stored(operand))
    view = operand.view or writer.stored(operand)
    axes = site.params.get("broadcast_dimensions", range(len(site.shape) - len(view.shape), len(site.shape)))
    strides = [0] * len(site.shape)
    for axis, n, stride in zip(axes, view.shape, view.strides, strict=True):
        strides[axis] = 0 if n == 1 else stride
    return of_view(moved(view, site.shape, strides))


@rule("squeeze", "expand_dims", "reshape")
def _reshape(writer: Writer, site: COperation, operand: Value) -> Value:
    if operand.literal is not None:
        return Value(site.shape, site.dtype, operand.template)
    view = operand.view or writer.stored(operand)
    found = reshaped(view, site.shape)
    if found is None or (view.storage is None and found.shape != view.shape):
        found = reshaped(whole_copy(writer, of_view(view)), site.shape)
    assert found is not None
    return of_view(found)


def whole_copy(writer: Writer, value: Value) -> View:
    """The value in a storage of its own."""
    target = writer.fresh(value.shape, value.dtype)
    writer.fill(target, value)
    return target


@rule("transpose")
def _transpose(writer: Writer, site: COperation, operand: Value) -> Value:
    if operand.literal is not None:
        return Value(site.shape, site.dtype, operand.template)
    view = operand.view or writer.stored(operand)
    order = site.params["permutation"]
    return of_view(moved(view, site.shape, [view.strides[axis] for axis in order]))


@rule("slice")
def _slice(writer: Writer, site: COperation, operand: Value) -> Value:
    if operand.literal is not None:
        return Value(site.shape, site.dtype, operand.template)
    view = operand.view or writer.stored(operand)
    starts = site.params["start_indices"]
    steps = site.params["strides"] or (1,) * len(starts)
    offset = sum(int(start) * stride for start, stride in zip(starts, view.strides, strict=True))
    return of_view(moved(view, site.shape, [s * int(k) for s, k in zip(view.strides, steps, strict=True)], offset))


@rule("rev")
def _rev(writer: Writer, site: COperation, operand: Value) -> Value:
    view = writer.stored(operand)
    strides, offset = list(view.strides), 0
    for axis in site.params["dimensions"]:
        offset += (view.shape[axis] - 1) * strides[axis]
        strides[axis] = -strides[axis]
    return of_view(moved(view, site.shape, strides, offset))


@rule("split")
def _split(writer: Writer, site: COperation, operand: Value) -> list[Value]:
    view, before, axis = writer.stored(operand), 0, site.params["axis"]
    parts = []
    for aval in site.given:
        parts.append(of_view(moved(view, shape_of(aval), view.strides, before * view.strides[axis])))
        before += shape_of(aval)[axis]
    return parts


@rule("unstack")
def _unstack(writer: Writer, site: COperation, operand: Value) -> list[Value]:
    view, axis = writer.stored(operand), site.params["axis"]
    without = lambda values: [*values[:axis], *values[axis + 1 :]]
    return [
        of_view(moved(view, without(view.shape), without(view.strides), i * view.strides[axis]))
        for i in range(view.shape[axis])
    ]


def part(target: View, shape: Sequence[int], starts: Sequence[int]) -> View:
    """The entries of a target from these places on."""
    return moved(target, shape, target.strides, sum(a * s for a, s in zip(starts, target.strides, strict=True)))


@rule("concatenate", fuses=True)
def _concatenate(writer: Writer, site: COperation, *parts: Value) -> Value:
    axis, target, before = site.params["dimension"], writer.fresh(site.shape, site.dtype), 0
    for number_of, each in enumerate(parts):
        starts = [before if k == axis else 0 for k in range(len(site.shape))]
        put(writer, part(target, each.shape, starts), each, first=not number_of)
        before += each.shape[axis]
    return of_view(target)


@rule("stack", fuses=True)
def _stack(writer: Writer, site: COperation, *parts: Value) -> Value:
    axis, target = site.params["axis"], writer.fresh(site.shape, site.dtype)
    strides = [*target.strides[:axis], *target.strides[axis + 1 :]]
    for i, each in enumerate(parts):
        put(writer, moved(target, each.shape, strides, i * target.strides[axis]), each, first=not i)
    return of_view(target)


def put(writer: Writer, target: View, value: Value, first: bool) -> None:
    """One part of an array; the `first` one begins it."""
    writer.fill(target, value)
    if first and writer.block and isinstance(writer.block[-1], Assign):
        writer.block[-1].replaces = True


@rule("tile")
def _tile(writer: Writer, site: COperation, operand: Value) -> Value:
    view, reps = writer.stored(operand), site.params["reps"]
    shape = [each for pair in zip(reps, view.shape, strict=True) for each in pair]
    strides = [each for stride in view.strides for each in (0, stride)]
    target = writer.fresh(tuple(shape), view.dtype)
    writer.fill(target, of_view(moved(view, shape, strides)))
    found = reshaped(target, site.shape)
    assert found is not None
    return of_view(found)


@rule("pad")
def _pad(writer: Writer, site: COperation, operand: Value, fill: Value) -> Value:
    operand, target = writer.kept(operand), writer.fresh(site.shape, site.dtype)
    writer.fill(target, spread(writer.kept(fill), site.shape))
    starts, strides, inner, source = 0, [], [], 0
    view = operand.view
    for axis, (low, _, between) in enumerate(tuple(map(int, each)) for each in site.params["padding_config"]):
        n, step = operand.shape[axis], between + 1
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(n - 1, (site.shape[axis] - 1 - low) // step)
        if last < first:
            return of_view(target)
        inner.append(last - first + 1)
        strides.append(step * target.strides[axis])
        starts += (low + step * first) * target.strides[axis]
        source += 0 if view is None else first * view.strides[axis]
    cut = Value(tuple(inner), operand.dtype, operand.template) if view is None else of_view(
        moved(view, inner, view.strides, source)
    )  # fmt: skip
    writer.fill(moved(target, inner, strides, starts), cut)
    return of_view(target)


def clamped(writer: Writer, start: Value, most: int) -> str:
    """The text of a first place, which lies in 0..most."""
    known = plain(start)
    if known is not None:
        return str(min(max(int(known), 0), most))
    if not most:
        return "0"
    start = writer.kept(start)
    low = "" if start.dtype.startswith("u") else "{0} < 0 ? 0 : "
    shaped = Value((), "int32", f"({low}{{0}} > {most} ? {most} : (int){{0}})", start.leaves)
    return writer.scalar(of_view(writer.stored(shaped)))


def offsets(writer: Writer, view: View, shape: Sequence[int], starts: Sequence[Value]) -> tuple[int, str]:
    """How far into an array a part of this shape lies: known now, and known later."""
    known, later = 0, []
    for n, own, stride, start in zip(view.shape, shape, view.strides, starts, strict=True):
        text = clamped(writer, start, n - own)
        if text.isdecimal():
            known += int(text) * stride
        elif stride:
            later.append(text if stride == 1 else f"{stride} * {text}")
    return known, " + ".join(later)


@rule("dynamic_slice")
def _dynamic_slice(writer: Writer, site: COperation, operand: Value, *starts: Value) -> Value:
    if operand.literal is not None:
        return Value(site.shape, site.dtype, operand.template)
    view = operand.view or writer.stored(operand)
    return of_view(moved(view, site.shape, view.strides, *offsets(writer, view, site.shape, starts)))


@rule("dynamic_update_slice")
def _dynamic_update_slice(writer: Writer, site: COperation, operand: Value, update: Value, *starts: Value) -> Value:
    update = writer.kept(update)
    target = whole_copy(writer, operand)
    writer.fill(
        moved(target, update.shape, target.strides, *offsets(writer, target, update.shape, starts)),
        update,
        replaces=False,
    )
    return of_view(target)


class _Windows:
    """Where the entries of `gather` and `scatter` lie: places in the operand for every window and place within it."""

    def __init__(self, writer: Writer, shape: Sequence[int], indices: Value, sizes: Sequence[int],
                 offset_axes: Sequence[int], collapsed: Sequence[int], index_map: Sequence[int], mode: Any,
                 batching: tuple[Sequence[int], Sequence[int]]):  # fmt: skip
        self.writer, self.shape, self.sizes, self.mode = writer, shape, sizes, mode
        self.indices = writer.stored(indices)
        self.offset_axes, self.collapsed, self.index_map = offset_axes, collapsed, index_map
        self.batching = batching

    def texts(self, letters: Sequence[str]) -> tuple[list[str], str]:
        """The index into the operand for an entry with these loop variables; and whether it lies inside."""
        batch = [letter for axis, letter in enumerate(letters) if axis not in self.offset_axes]
        window = [letters[axis] for axis in self.offset_axes]
        kept = [axis for axis in range(len(self.shape)) if axis not in self.collapsed and axis not in self.batching[0]]
        within = {axis: letter for axis, letter in zip(kept, window, strict=True)}
        found, inside = [], []
        by_batch = dict(zip(self.batching[0], self.batching[1], strict=True))
        for axis, n in enumerate(self.shape):
            most = n - self.sizes[axis]
            text = within.get(axis, "0")
            if axis in by_batch:
                text = batch[by_batch[axis]]
            elif axis in self.index_map:
                start = self.indices.at([*batch, str(list(self.index_map).index(axis))])
                signed = not self.indices.dtype.startswith("u")
                if self.mode in (GatherScatterMode.FILL_OR_DROP,):
                    inside.append((f"{start} >= 0 && " if signed else "") + f"{start} <= {most}")
                elif self.mode == GatherScatterMode.CLIP:
                    low = f"{start} < 0 ? 0 : " if signed else ""
                    start = f"({low}{start} > {most} ? {most} : {start})"
                first = f"(int){start}"
                text = first if text == "0" else f"({first} + {text})"
            found.append(text)
        return found, " && ".join(inside)


@rule("gather")
def _gather(writer: Writer, site: COperation, operand: Value, index: Value) -> Value:
    numbers, sizes = site.params["dimension_numbers"], tuple(map(int, site.params["slice_sizes"]))
    mode = GatherScatterMode.from_any(site.params["mode"])
    view = writer.stored(operand)
    batching = tuple(numbers.operand_batching_dims), tuple(numbers.start_indices_batching_dims)
    windows = _Windows(
        writer, view.shape, index, sizes, numbers.offset_dims, numbers.collapsed_slice_dims,
        numbers.start_index_map, mode, batching,
    )  # fmt: skip
    target = writer.fresh(site.shape, site.dtype)
    letters = LETTERS[: len(site.shape)]
    loops = tuple(zip(letters, site.shape, strict=True))
    places, inside = windows.texts(letters)
    expression = view.at([f"({each})" for each in places])
    if inside:
        fill = site.params["fill_value"]
        fill = outside(site.dtype) if fill is None else fill
        expression = f"({inside} ? {expression} : {number(fill, site.dtype)})"
    writer.add(Assign(loops, storage_of(target), target.place(letters), expression, replaces=True))
    return of_view(target)


def outside(dtype: str) -> Any:
    """What JAX fills in for an entry that lies outside."""
    if is_float(dtype):
        return np.nan
    return True if dtype == "bool" else np.iinfo(dtype).max if dtype.startswith("u") else np.iinfo(dtype).min


def storage_of(view: View) -> Any:
    """The storage of a view that has one."""
    assert view.storage is not None
    return view.storage


@rule("scatter", "scatter-add", "scatter_add", "scatter-mul", "scatter_mul")
def _scatter(writer: Writer, site: COperation, operand: Value, index: Value, update: Value) -> Value:
    numbers, name = site.params["dimension_numbers"], site.name.replace("-", "_")
    mode = GatherScatterMode.from_any(site.params["mode"])
    update = writer.kept(update)
    target = whole_copy(writer, operand)
    window_axes = tuple(numbers.update_window_dims)
    batching = tuple(numbers.operand_batching_dims), tuple(numbers.scatter_indices_batching_dims)
    kept = [
        axis for axis in range(len(target.shape))
        if axis not in numbers.inserted_window_dims and axis not in batching[0]
    ]  # fmt: skip
    sizes = [1] * len(target.shape)
    for axis, own in zip(kept, window_axes, strict=True):
        sizes[axis] = update.shape[own]
    windows = _Windows(
        writer, target.shape, index, sizes, window_axes, numbers.inserted_window_dims,
        numbers.scatter_dims_to_operand_dims, mode, batching,
    )  # fmt: skip
    letters = LETTERS[: len(update.shape)]
    loops = tuple(zip(letters, update.shape, strict=True))
    places, inside = windows.texts(letters)
    entry = target.at([f"({each})" for each in places])
    value = update.at(letters)
    value = {"scatter": value, "scatter_add": f"{entry} + {value}", "scatter_mul": f"{entry} * {value}"}[name]
    place = target.place([f"({each})" for each in places])
    if inside:  # an entry that lies outside stands for the first one, which stays as it is
        place = f"({inside} ? {place} : 0)"
        value = f"({inside} ? {value} : {storage_of(target).token}[{place}])"
    writer.add(Assign(loops, storage_of(target), place, value, replaces=False))
    return of_view(target)
