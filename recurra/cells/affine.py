"""Values of a program that are sums of known coefficients times vectors that are not known yet.

A vector that is not known yet, such as an input, is called a source. `applied` is what a linear operation makes of
sums: it acts on every column of the coefficients, and on the offset.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from recurra.programs import Operation

#: operations that are linear in all of their arguments, in one of them if the others are known, and in the first one
IN_ALL = {"add", "add_any", "sub", "concatenate", "stack", "select_n"}
IN_EITHER = {"mul", "dot_general"}
IN_FIRST = {"neg", "convert_element_type", "copy", "copy_p", "reduce_precision", "div", "reduce_sum", "cumsum"}
#: operations that put entries at other places; they are linear in what they move
MOVES = {
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "dynamic_slice", "split", "rev",
    "tile", "gather", "concatenate", "stack", "scatter", "dynamic_update_slice",
}  # fmt: skip
#: the arguments that those of them move which do not move their first one alone; none: all
MOVED = {"concatenate": (), "stack": (), "scatter": (0, 2), "dynamic_update_slice": (0, 1)}

#: a source: what kind it is, and what it is known by
Source = tuple[str, Any]


class Known(NamedTuple):
    """A value computed from constants and, if it `depends` on them, from parameters."""

    value: Any
    depends: bool


class Affine(NamedTuple):
    """Σ_source coefficients · source + offset. The last axis of the coefficients runs over the source's entries.

    An array whose entries are entries of the source, or zero, is kept as their numbers, or -1, in an array of NumPy's.
    """

    coefficients: dict[Source, Any]
    offset: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sum."""
        if self.offset is not None:
            return jnp.shape(self.offset)
        block = next(iter(self.coefficients.values()))
        return block.shape if is_picked(block) else block.shape[:-1]


def is_picked(block: Any) -> bool:
    """Whether coefficients are kept as numbers of entries."""
    return isinstance(block, np.ndarray)


def moved_in(operation: Operation) -> list[int]:
    """The arguments whose entries an operation of `MOVES` puts at other places."""
    return list(MOVED.get(operation.name, (0,)) or range(len(operation.arguments)))


def multiplied_out(block: Any, width: int, dtype: Any) -> Array:
    """Coefficients as an array, of a source that has so many entries."""
    return jnp.asarray(block[..., None] == np.arange(width), dtype) if is_picked(block) else block


def linear_in(operation: Operation, arguments: Sequence[Any]) -> list[int]:
    """The arguments in which an operation is linear, of known and affine ones; none if it is not linear."""
    name, affine = operation.name, [i for i, each in enumerate(arguments) if isinstance(each, Affine)]
    if name in IN_ALL:
        first = 1 if name == "select_n" else 0  # the others are chosen by the first
        return [] if first and 0 in affine else list(range(first, len(arguments)))
    if name in IN_EITHER:
        return affine if len(affine) == 1 else []
    first = moved_in(operation) if name in MOVES else [0] if name in IN_FIRST else []
    is_float = all(jnp.issubdtype(var.aval.dtype, jnp.floating) for var in operation.equation.outvars)
    return first if affine and is_float and set(affine) <= set(first) else []


def applied(
    operation: Operation, arguments: Sequence[Any], linear: Sequence[int], widths: Mapping[Source, int]
) -> list[Affine]:
    """The results of an operation that is linear in some of its arguments."""
    shapes = [var.aval.shape for var in operation.equation.invars]
    is_wide = operation.name in ("add", "add_any", "sub", "mul", "div", "select_n")
    wide = operation.equation.outvars[0].aval.shape if is_wide else None
    parts = {i: each if isinstance(each := arguments[i], Affine) else Affine({}, each.value) for i in linear}
    others = {i: _broadcast(each.value, wide) for i, each in enumerate(arguments) if i not in parts}

    def result(*columns: Any) -> list[Any]:
        given = others | {i: _broadcast(v, wide) for i, v in zip(parts, columns, strict=True)}
        return operation.bind(*(given[i] for i in range(len(arguments))))

    def zeros(i: int) -> Array:
        return jnp.zeros(shapes[i], operation.equation.invars[i].aval.dtype)

    offsets: list[Any] = [None] * len(operation.results)
    if any(each.offset is not None for each in parts.values()):
        offsets = result(*(zeros(i) if each.offset is None else each.offset for i, each in parts.items()))
    found: list[dict[Source, Any]] = [{} for _ in operation.results]
    is_fixed = not any(isinstance(each, Known) and each.depends for i, each in enumerate(arguments) if i not in parts)
    for source in dict.fromkeys(source for each in parts.values() for source in each.coefficients):
        blocks = {i: each.coefficients.get(source) for i, each in parts.items()}
        present = [block for block in blocks.values() if block is not None]
        alone = operation.name in ("add", "add_any", "sub") and len(present) == 1
        if operation.name in MOVES and is_fixed and all(map(is_picked, present)):
            nowhere = lambda i: np.full(shapes[i], -1)
            with jax.ensure_compile_time_eval():
                picks = [jnp.asarray(nowhere(i) if block is None else block) for i, block in blocks.items()]
                made = [np.asarray(each) for each in result(*picks)]
        elif alone and (operation.name != "sub" or blocks[0] is not None) and _shape(present[0]) == wide:
            made = present
        elif operation.name == "dot_general" and is_picked(present[0]):
            made = [_product(operation, linear[0], present[0], others, widths[source])]
        else:
            axes = [None if block is None else -1 for block in blocks.values()]
            columns = [
                zeros(i) if block is None else multiplied_out(block, widths[source], zeros(i).dtype)
                for i, block in blocks.items()
            ]
            made = jax.vmap(result, in_axes=axes, out_axes=-1)(*columns)
        for each, block in zip(found, made, strict=True):
            each[source] = block
    return [Affine(*each) for each in zip(found, offsets, strict=True)]


def _product(operation: Operation, i: int, picked: np.ndarray, others: Mapping[int, Any], width: int) -> Array:
    """The coefficients of a product of known weights with entries of a source, which stand at argument i."""
    (contracted, batch), weights = operation.equation.params["dimension_numbers"], others[1 - i]
    own, theirs = contracted[i], contracted[1 - i]
    left = [axis for axis in range(picked.ndim) if axis not in own]
    if any(batch) or math.prod(picked.shape[axis] for axis in left) != 1:
        identity = multiplied_out(picked, width, weights.dtype)
        along = lambda column: operation.bind(*((column, weights) if i == 0 else (weights, column)))[0]
        return jax.vmap(along, in_axes=-1, out_axes=-1)(identity)
    free = [axis for axis in range(weights.ndim) if axis not in theirs]
    matrix = jnp.transpose(weights, (*free, *theirs)).reshape(*(weights.shape[axis] for axis in free), -1)
    at = np.transpose(picked, (*left, *own)).reshape(-1)
    if not np.array_equal(at, np.arange(width)):
        matrix = jnp.zeros((*matrix.shape[:-1], width), matrix.dtype).at[..., at[at >= 0]].add(matrix[..., at >= 0])
    out = operation.equation.outvars[0].aval
    return matrix.reshape(*out.shape, width).astype(out.dtype)


def _broadcast(value: Any, shape: tuple[int, ...] | None) -> Any:
    """A value in the shape of what it meets."""
    return value if shape is None or jnp.shape(value) == shape else jnp.broadcast_to(value, shape)


def _shape(block: Any) -> tuple[int, ...]:
    return block.shape if is_picked(block) else block.shape[:-1]
