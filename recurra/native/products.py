"""Products of matrices, and sums and other folds over axes.

Loops are ordered so that the innermost one moves along entries that follow each other, and adds to as many sums. Where
that cannot be, a product is a sum of several partial sums, since a compiler may not change the order of a sum itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from recurra.native.moving import moved, storage_of
from recurra.native.rules import COperation, is_float, rule
from recurra.native.statements import LETTERS, Assign, Writer, joined
from recurra.native.values import NotWrittenError, Value, View, number, of_view

#: so many rows are added in one pass
TOGETHER = 4


class _Axis(NamedTuple):
    """An axis of a product: its size, and the strides along it in both factors and in the result."""

    size: int
    x: int
    y: int
    out: int


@rule("dot_general")
def _dot_general(writer: Writer, site: COperation, x: Value, y: Value) -> Value:
    a, b = (writer.stored(each) for each in (x, y))
    if not is_float(site.dtype):
        raise NotWrittenError(f"'dot_general' of numbers of type {site.dtype}")
    (over_x, over_y), (batch_x, batch_y) = site.params["dimension_numbers"]
    target = writer.fresh(site.shape, site.dtype)
    out = list(target.strides)
    own = lambda view, used: [axis for axis in range(len(view.shape)) if axis not in used]
    batch = [_Axis(a.shape[i], a.strides[i], b.strides[j], out.pop(0)) for i, j in zip(batch_x, batch_y, strict=True)]
    rows = [_Axis(a.shape[i], a.strides[i], 0, out.pop(0)) for i in own(a, (*over_x, *batch_x))]
    columns = [_Axis(b.shape[j], 0, b.strides[j], out.pop(0)) for j in own(b, (*over_y, *batch_y))]
    summed = [_Axis(a.shape[i], a.strides[i], b.strides[j], 0) for i, j in zip(over_x, over_y, strict=True)]
    batch, rows, columns, summed = map(_joined, (batch, rows, columns, summed))
    if not summed:
        _plain(writer, target, a, b, [*batch, *rows, *columns])
    elif columns and columns[-1].y == 1:
        _rows(writer, target, a, b, [*batch, *rows, *columns[:-1]], summed, columns[-1])
    elif rows and not columns and rows[-1].x == 1:
        _rows(writer, target, a, b, [*batch, *rows[:-1]], summed, rows[-1])
    elif summed[-1].x == summed[-1].y == 1:
        _dots(writer, target, a, b, [*batch, *rows, *columns], summed)
    elif columns or rows:
        last = (columns or rows)[-1]
        _rows(writer, target, a, b, [each for each in (*batch, *rows, *columns) if each is not last], summed, last)
    else:
        _dots(writer, target, a, b, batch, summed)
    return of_view(target)


def _joined(axes: Sequence[_Axis]) -> list[_Axis]:
    shape, (x, y, out) = joined([a.size for a in axes], [[a.x for a in axes], [a.y for a in axes],
                                                         [a.out for a in axes]])  # fmt: skip
    return [_Axis(*each) for each in zip(shape, x, y, out, strict=True)]


def _loops(axes: Sequence[_Axis]) -> tuple[tuple[str, int], ...]:
    return tuple((LETTERS[i], axis.size) for i, axis in enumerate(axes))


def _at(view: View, axes: Sequence[_Axis], which: str) -> str:
    return view.at(list(LETTERS[: len(axes)]), [getattr(axis, which) for axis in axes])


def _product(a: View, b: View, axes: Sequence[_Axis]) -> str:
    return f"{_at(a, axes, 'x')} * {_at(b, axes, 'y')}"


def _place(target: View, axes: Sequence[_Axis]) -> str:
    return target.place(list(LETTERS[: len(axes)]), [axis.out for axis in axes])


def _plain(writer: Writer, target: View, a: View, b: View, axes: Sequence[_Axis]) -> None:
    writer.add(Assign(_loops(axes), storage_of(target), _place(target, axes), _product(a, b, axes)))


def _rows(
    writer: Writer, target: View, a: View, b: View, outer: Sequence[_Axis], summed: Sequence[_Axis], last: _Axis
) -> None:
    """Whole rows are added, several at a time: the entries of a row have sums of their own."""
    writer.fill(target, Value(target.shape, target.dtype, number(0, target.dtype)))

    def add(axes: Sequence[_Axis], text: str) -> None:
        writer.add(Assign(_loops(axes), storage_of(target), _place(target, axes), text, "+=", False))

    *before, k = summed
    whole, rest = divmod(k.size, TOGETHER)
    if before or not whole:
        axes = [*outer, *summed, last]
        add(axes, _product(a, b, axes))
        return

    def row(i: int, axes: Sequence[_Axis]) -> str:
        """The product for a row that lies i further."""
        return _product(moved(a, a.shape, a.strides, i * k.x), moved(b, b.shape, b.strides, i * k.y), axes)

    axes = [*outer, k._replace(size=whole, x=TOGETHER * k.x, y=TOGETHER * k.y), last]
    add(axes, " + ".join(row(i, axes) for i in range(TOGETHER)))
    for i in range(TOGETHER * whole, TOGETHER * whole + rest):
        add([*outer, last], row(i, [*outer, last]))


def _dots(writer: Writer, target: View, a: View, b: View, outer: Sequence[_Axis], summed: Sequence[_Axis]) -> None:
    """Each entry is a sum of its own; over entries that follow each other a function adds them."""
    place = _place(target, outer)
    last = summed[-1]
    if len(summed) == 1 and last.x == last.y == 1:
        starts = [_at(a, outer, "x"), _at(b, outer, "y")]
        text = f"{writer.helper('dot')}(&{starts[0]}, &{starts[1]}, {last.size})"
        writer.add(Assign(_loops(outer), storage_of(target), place, text))
        return
    axes = [*outer, *summed]
    loops = _loops(axes)
    zero = number(0, target.dtype)
    writer.add(
        Assign(loops[: len(outer)], storage_of(target), place, f"S + {_product(a, b, axes)}",
               inner=loops[len(outer) :], start=zero)
    )  # fmt: skip


_FOLDS = {
    "reduce_sum": ("0", "S + {0}", "S + {0}"),
    "reduce_prod": ("1", "S * {0}", "S * {0}"),
    "reduce_max": ("low", "larger(S, {0})", "(S > {0} ? S : {0})"),
    "reduce_min": ("high", "smaller(S, {0})", "(S < {0} ? S : {0})"),
    "reduce_or": ("0", "", "S | {0}"),
    "reduce_and": ("1", "", "S & {0}"),
}


@rule(*_FOLDS, fuses=True)
def _reduce(writer: Writer, site: COperation, operand: Value) -> Value:
    start, on_floats, on_others = _FOLDS[site.name]
    dtype = site.dtype
    if is_float(dtype) and "(S, " in on_floats:
        writer.helper(on_floats.split("(")[0])
    first = {"low": "-INFINITY", "high": "INFINITY"} if is_float(dtype) else {
        "low": "(-2147483647 - 1)" if dtype == "int32" else "0", "high": "2147483647" if dtype == "int32" else "1"
    }  # fmt: skip
    start = first.get(start, start)
    start = number(int(start), dtype) if start in ("0", "1") else start
    if not is_float(dtype):
        operand = writer.kept(operand)
    axes = [int(axis) for axis in site.params["axes"]]
    target = writer.fresh(site.shape, dtype)
    outer = [axis for axis in range(len(operand.shape)) if axis not in axes]
    of = lambda strides, kept: [strides[axis] for axis in kept]
    outer_shape, (own, *leaf_outer) = joined(
        of(operand.shape, outer), [target.strides, *(of(leaf.strides, outer) for leaf in operand.leaves)]
    )
    inner_shape, leaf_inner = joined(of(operand.shape, axes), [of(leaf.strides, axes) for leaf in operand.leaves])
    letters = LETTERS[: len(outer_shape) + len(inner_shape)]
    entries = [
        leaf.at(letters, [*along, *within])
        for leaf, along, within in zip(operand.leaves, leaf_outer, leaf_inner, strict=True)
    ]
    template = on_floats if is_float(dtype) else on_others
    loops = tuple(zip(letters, (*outer_shape, *inner_shape), strict=True))
    count = len(outer_shape)
    place = target.place(letters[:count], own)
    along_rows = outer_shape and all(along[-1] in (0, 1) for along in leaf_outer) and site.name == "reduce_sum"
    text = operand.template.format(*entries)
    if not inner_shape:
        writer.add(Assign(loops, storage_of(target), place, text))
        return of_view(target)
    if along_rows and is_float(dtype) and any(each[-1:] != [1] for each in leaf_inner):
        # the sum over rows, whole rows at a time
        writer.fill(target, Value(target.shape, dtype, start))
        order = (*loops[: count - 1], *loops[count:], loops[count - 1])
        writer.add(Assign(order, storage_of(target), place, text, "+=", False))
        return of_view(target)
    contiguous = len(inner_shape) == 1 and inner_shape[0] >= 16 and all(each[-1] in (0, 1) for each in leaf_inner)
    writer.add(
        Assign(loops[:count], storage_of(target), place, template.format(text), inner=loops[count:], start=start,
               sign="lanes" if contiguous and is_float(dtype) and site.name == "reduce_sum" else "=")
    )  # fmt: skip
    return of_view(target)


@rule("argmax", "argmin")
def _argmax(writer: Writer, site: COperation, operand: Value) -> Value:
    view, axis = writer.stored(operand), int(site.params["axes"][0])
    outer = [k for k in range(len(view.shape)) if k != axis]
    letters = LETTERS[: len(outer)]
    sign = ">" if site.name == "argmax" else "<"
    target = writer.fresh(site.shape, site.dtype)
    index = list(letters)
    index.insert(axis, "0")
    name = writer.helper("first_largest" if sign == ">" else "first_smallest")
    if not is_float(view.dtype):
        raise NotWrittenError(f"{site.name!r} of numbers of type {view.dtype}")
    text = f"{name}(&{view.at(index)}, {view.shape[axis]}, {view.strides[axis]})"
    loops = tuple((letter, view.shape[k]) for letter, k in zip(letters, outer, strict=True))
    writer.add(Assign(loops, storage_of(target), target.place(letters), text))
    return of_view(target)


@rule("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(writer: Writer, site: COperation, operand: Value) -> Value:
    target = writer.fresh(site.shape, site.dtype)
    writer.fill(target, operand)
    axis, n = int(site.params["axis"]), site.shape[int(site.params["axis"])]
    outer = [k for k in range(len(site.shape)) if k != axis]
    letters = [LETTERS[k] for k in range(len(outer))]
    step = LETTERS[len(outer)]
    order = {k: letter for k, letter in zip(outer, letters, strict=True)}
    back = bool(site.params["reverse"])
    here = [order.get(k, f"({n - 2} - {step})" if back else f"({step} + 1)") for k in range(len(site.shape))]
    before = [order.get(k, f"({n - 1} - {step})" if back else step) for k in range(len(site.shape))]
    one, other = target.at(here), target.at(before)
    text = {
        "cumsum": f"{one} + {other}", "cumprod": f"{one} * {other}",
        "cummax": f"larger({one}, {other})", "cummin": f"smaller({one}, {other})",
    }[site.name]  # fmt: skip
    if site.name in ("cummax", "cummin"):
        writer.helper("larger" if site.name == "cummax" else "smaller")
    loops = (*((letter, site.shape[k]) for letter, k in zip(letters, outer, strict=True)), (step, n - 1))
    if n > 1:
        writer.add(Assign(loops, storage_of(target), target.place(here), text, replaces=False))
    return of_view(target)
