"""Branches and loops. What they return is copied to its place; `memory` finds the copies that are none."""

from collections.abc import Sequence
from typing import Any

from recurra.native.moving import moved, storage_of
from recurra.native.rules import COperation, dtype_of, rule, shape_of
from recurra.native.statements import Call, Choice, Repeat, Statement, Writer
from recurra.native.values import Value, View, of_view
from recurra.programs import closed, loop_parts

#: writes the statements of a program for these arguments, and returns its results; set by `lowering`
WRITE: Any = None


def _read_only(writer: Writer, operands: Sequence[Value]) -> list[Value]:
    return [writer.kept(each) for each in operands]


def give(writer: Writer, targets: Sequence[View], found: Sequence[Value], prefer: int) -> None:
    """Copy results to their places. All are known before the first is copied."""
    ready = []
    for target, value in zip(targets, found, strict=True):
        is_same = value.view is not None and value.view.storage is target.storage and value.view.is_whole
        if (value.view is not None and (is_same or value.view.is_whole)) or value.literal is not None:
            ready.append(value)
        else:
            fresh = writer.fresh(value.shape, value.dtype)
            writer.fill(fresh, value)
            ready.append(of_view(fresh))
    own = {target.storage for target in targets}
    for i, (target, value) in enumerate(zip(targets, ready, strict=True)):
        if value.view is not None and value.view.storage in own and value.view.storage is not target.storage:
            fresh = writer.fresh(value.shape, value.dtype)
            writer.fill(fresh, value)
            ready[i] = of_view(fresh)
    for target, value in zip(targets, ready, strict=True):
        if value.view is None or value.view.storage is not target.storage:
            writer.fill(target, value, prefer=prefer)


@rule("cond")
def _cond(writer: Writer, site: COperation, which: Value, *operands: Value) -> list[Value]:
    kept = _read_only(writer, operands)
    number = writer.scalar(which)
    targets = [writer.fresh(shape_of(aval), dtype_of(aval)) for aval in site.given]
    blocks: list[list[Statement]] = []
    for branch in site.params["branches"]:
        block: list[Statement] = []
        with writer.within(block):
            found = WRITE(writer, closed(branch), kept)
            given = {value.view.storage for value in kept if value.view is not None}
            stored = [
                value if (value.view is not None and value.view.is_whole) or value.literal else of_view(
                    _stored_here(writer, value)
                ) for value in found
            ]  # fmt: skip
            for target, value in zip(targets, stored, strict=True):
                is_given = value.view is not None and value.view.storage in given
                writer.fill(target, value, prefer=0 if is_given else 2)
        blocks.append(block)
    writer.add(Choice(number, blocks, is_flag=which.dtype == "bool" or len(blocks) == 2))
    return [of_view(target) for target in targets]


def _stored_here(writer: Writer, value: Value) -> View:
    target = writer.fresh(value.shape, value.dtype)
    writer.fill(target, value)
    return target


def _carried(writer: Writer, start: Sequence[Value]) -> list[View]:
    """Places for what goes from one pass to the next, with what is there before the first."""
    targets = [writer.fresh(value.shape, value.dtype) for value in start]
    for target, value in zip(targets, start, strict=True):
        writer.fill(target, value, prefer=1)
    return targets


@rule("while")
def _while(writer: Writer, site: COperation, *operands: Value) -> list[Value]:
    goes_on, body = (closed(site.params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    kept = _read_only(writer, operands)
    of_test, of_body = site.params["cond_nconsts"], site.params["body_nconsts"]
    test, fixed, start = kept[:of_test], kept[of_test : of_test + of_body], kept[of_test + of_body :]
    carried = _carried(writer, start)
    state = [of_view(each) for each in carried]
    tested: list[Statement] = []
    with writer.within(tested):
        condition = writer.scalar(WRITE(writer, goes_on, [*test, *state])[0])
    block: list[Statement] = []
    with writer.within(block):
        give(writer, carried, WRITE(writer, body, [*fixed, *state]), prefer=1)
    writer.add(Repeat(block, test=tested, condition=condition))
    return state


@rule("scan")
def _scan(writer: Writer, site: COperation, *operands: Value) -> list[Value]:
    body, count, carried_count = loop_parts(site.params)
    kept = _read_only(writer, operands)
    fixed, start, rows = kept[:count], kept[count : count + carried_count], kept[count + carried_count :]
    length = int(site.params["length"])
    carried = _carried(writer, start)
    results = [writer.fresh(shape_of(aval), dtype_of(aval)) for aval in site.given[carried_count:]]
    for target in results:
        writer.add(Call("", (storage_of(target),)))  # here its life begins, though no row is there yet
    variable = writer.variable()
    here = f"({length - 1} - {variable})" if site.params["reverse"] else variable

    def row(view: View) -> View:
        stride = view.strides[0]
        moves = "" if not stride else here if stride == 1 else f"{stride} * {here}"
        return moved(view, view.shape[1:], view.strides[1:], moves=moves)

    def row_of(value: Value) -> Value:
        if value.literal is not None:
            return Value(value.shape[1:], value.dtype, value.template)
        return of_view(row(value.view or writer.stored(value)))

    block: list[Statement] = []
    with writer.within(block):
        state = [of_view(each) for each in carried]
        found = WRITE(writer, body, [*fixed, *state, *map(row_of, rows)])
        stored = [value if value.literal else writer.kept(value) for value in found]
        for target, value in zip(results, stored[carried_count:], strict=True):
            writer.fill(row(target), value, replaces=False)
        give(writer, carried, stored[:carried_count], prefer=1)
    writer.add(Repeat(block, variable=variable, count=length))
    return [of_view(each) for each in (*carried, *results)]
