"""A traced program as statements of C about whole arrays.

An operation whose result is used once, by another that computes entry by entry, becomes part of that one's expression.
All other results are stored. Equal operations are computed once.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from recurra.native import control, drawing, moving, products  # noqa: F401 (they register rules)
from recurra.native.rules import FUSING, RULES, ComplexValue, COperation, constant, dtype_of, is_key, shape_of
from recurra.native.statements import Writer
from recurra.native.values import LONGEST, NotWrittenError, Value, of_view, whole
from recurra.programs import CALLS, Flat, Line, Operation, flat, subprograms

#: The form of a computation that is taken where there are several: that of processors, or that for any platform.
PLATFORMS = ("cpu", None)
#: whose lines are not named beside statements: these packages', and ours of plain arithmetic
LIBRARIES = (("jax", "jaxlib", "equinox", "jaxtyping", "beartype", "optax", "recurra.linalg"),)


def written(writer: Writer, program: Any, arguments: Sequence[Value]) -> list[Value]:
    """Write the statements of a traced program for these arguments. Returns its results."""
    straight = _without_repeats(
        flat(program, len(program.jaxpr.outvars), calls=CALLS, platforms=PLATFORMS, libraries=LIBRARIES)
    )
    known: dict[int, Any] = dict(zip(straight.inputs, arguments, strict=True))
    for name, value in straight.constants.items():
        known[name] = _table(writer, value)
    uses = Counter(each for operation in straight.operations for each in operation.arguments if isinstance(each, int))
    uses.update(each for each in straight.outputs if isinstance(each, int))
    fused = _fused_once(straight.operations)
    before = writer.note
    for operation in straight.operations:
        writer.note = _note(operation.line) or before
        site = COperation(
            operation.name,
            operation.equation.params,
            [var.aval for var in operation.equation.invars],
            [var.aval for var in operation.equation.outvars],
        )
        if site.name not in RULES:
            raise NotWrittenError(f"{site.name!r}" + (f" in {operation.line}" if operation.line else ""))
        if any(map(is_key, site.taken)) and not site.name.startswith(("random_", "cond", "while", "scan")):
            raise NotWrittenError(f"{site.name!r} of keys" + (f" in {operation.line}" if operation.line else ""))
        operands = [_read(known, each) for each in operation.arguments]
        if all(0 in shape_of(aval) for aval in site.given):
            blank = [Value(shape_of(aval), dtype_of(aval), "0") for aval in site.given]
            known |= dict(zip(operation.results, blank, strict=True))
            continue
        if any(0 in each.shape for each in operands):
            if site.name != "concatenate":
                raise NotWrittenError(f"{site.name!r} of an empty array")
            operands = [each for each in operands if 0 not in each.shape]
        if any(isinstance(each, ComplexValue) for each in operands) and site.name not in ("exp", "real", "imag"):
            raise NotWrittenError(f"{site.name!r} of complex numbers")
        if site.name not in FUSING:
            operands = [_settled(writer, each) for each in operands]
        found = RULES[site.name](writer, site, *operands)
        results: list[Any] = list(found) if isinstance(found, list | tuple) else [found]
        for name, value in zip(operation.results, results, strict=True):
            if isinstance(value, ComplexValue):
                known[name] = value
                continue
            is_part = uses[name] <= 1 and name in fused and len(value.template) <= LONGEST and value.shape != ()
            known[name] = value if is_part else writer.kept(value)
    writer.note = before
    return [_read(known, each) for each in straight.outputs]


control.WRITE = written


def _settled(writer: Writer, value: Value) -> Value:
    return value if value.view is not None or value.literal is not None else of_view(writer.stored(value))


def _read(known: dict[int, Any], each: int | Literal) -> Any:
    return constant(each.val, each.aval) if isinstance(each, Literal) else known[each]


def _table(writer: Writer, value: Any) -> Value:
    """A constant of the program: a number, or a table in the file."""
    shape, dtype = shape_of(value), dtype_of(value)
    array = np.asarray(value)
    if not shape or (array == array.flat[:1]).all():
        return Value(shape, dtype, constant(array.flat[0] if array.size else 0, value).template)
    for number, known in writer.tables.items():
        if known.dtype == array.dtype and np.array_equal(known, array):
            return of_view(whole(writer.storages[number]))
    storage = writer.storage(shape, dtype, name=f"table_{len(writer.tables)}", is_read_only=True)
    writer.tables[storage.number] = array
    return of_view(whole(storage))


def _fused_once(operations: Sequence[Operation]) -> set[int]:
    """The results whose one user computes entry by entry."""
    found = set()
    for operation in operations:
        if operation.name in FUSING:
            found |= {each for each in operation.arguments if isinstance(each, int)}
    return found


def _note(line: Line | None) -> str:
    if line is None:
        return ""
    text = line.text
    place = line.file.replace("\\", "/")
    _, is_ours, inside = place.rpartition("/recurra/")
    name = f"recurra/{inside}" if is_ours else place.rpartition("/")[2]
    return f"{name}: {text}" if text else name


def _without_repeats(program: Flat) -> Flat:
    """The program with each of several equal operations once, and without those that change nothing."""
    same: dict[int, int] = {}
    made: dict[int, Operation] = {}
    seen: dict[Any, tuple[int, ...]] = {}
    operations = []
    for operation in program.operations:
        arguments = tuple(same.get(each, each) if isinstance(each, int) else each for each in operation.arguments)
        key, operation = None, operation._replace(arguments=arguments)
        if (unchanged := _unchanged(operation, made)) is not None:
            same[operation.results[0]] = unchanged
            continue
        made |= dict.fromkeys(operation.results, operation)
        if not any(subprograms(operation.equation)):
            told = tuple(each if isinstance(each, int) else (str(each.val), str(each.aval)) for each in arguments)
            key = (operation.name, repr(sorted(operation.equation.params.items(), key=lambda item: item[0])), told)
        if key is not None and key in seen:
            same |= dict(zip(operation.results, seen[key], strict=True))
            continue
        if key is not None:
            seen[key] = operation.results
        operations.append(operation)
    outputs = [same.get(each, each) if isinstance(each, int) else each for each in program.outputs]
    return program._replace(operations=operations, outputs=outputs)


#: operations whose result has the same entries in the same order, if they have axes of size 1 alone more or less
_FRAMING = {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "slice", "convert_element_type", "copy", "copy_p",
            "stop_gradient"}  # fmt: skip


def _unchanged(operation: Operation, made: dict[int, Operation]) -> int | None:
    """The value that the result of an operation is, if it is one that is there already."""
    aval = operation.equation.outvars[0].aval
    while True:
        source = operation.arguments[0] if operation.name in _FRAMING and len(operation.arguments) == 1 else None
        if not isinstance(source, int):
            return None
        before = operation.equation.invars[0].aval
        long = lambda shape: [n for n in shape if n != 1]
        if long(before.shape) != long(operation.equation.outvars[0].aval.shape) or before.dtype != aval.dtype:
            return None
        if before.shape == aval.shape:
            return source
        if source not in made:
            return None
        operation = made[source]
