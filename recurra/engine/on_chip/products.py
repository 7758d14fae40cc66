"""Products inside a kernel.

A product of large matrices is an instruction of the chip. Its default adds in float32, as the rest does. Two named
precisions are faster and less exact: "tf32x3" cuts each number into two of 11 bits and adds three products, which keeps
about 21 bits, and "tf32" keeps 11.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from recurra.engine.on_chip.padding import counted, padded_shape, places
from recurra.engine.on_chip.rules import Site, Value, check_size, rule, total

#: the least size of every axis of a product of matrices that the chip's own instruction for it serves
LEAST_PRODUCT = 16
#: a product with a matrix of at most so many columns is taken column by column
FEW_COLUMNS = 4

PRECISIONS = {
    "float32": jax.lax.Precision.HIGHEST,
    "tf32x3": jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3,
    "tf32": jax.lax.DotAlgorithmPreset.TF32_TF32_F32,
}
_PRECISION: ContextVar[str] = ContextVar("precision", default="float32")


@contextlib.contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Trace products of matrices with one of `PRECISIONS`."""
    token = _PRECISION.set(precision)
    try:
        yield
    finally:
        _PRECISION.reset(token)


@rule("dot_general")
def _dot_general(site: Site, x: Value, y: Value) -> Array:
    """A product with a vector, or with a narrow matrix, is a sum of products of numbers, spread over all threads."""
    (of_x, of_y), (batch_x, batch_y) = site.params["dimension_numbers"]
    x = counted(x, site.taken[0].shape, of_x, 0)
    y = counted(y, site.taken[1].shape, of_y, 0)
    if not batch_x and len(of_x) == 1 and min(x.ndim, y.ndim) > 1:
        (along_x,), (along_y,) = of_x, of_y
        depth, rows, columns = x.shape[along_x], x.size // x.shape[along_x], y.size // y.shape[along_y]
        at_an_end = along_x in (0, x.ndim - 1) and along_y in (0, y.ndim - 1)
        if at_an_end and min(depth, rows, columns) >= LEAST_PRODUCT:
            return _of_matrices(x, along_x, y, along_y).reshape(padded_shape(site.shape))
        if x.ndim == y.ndim == 2 and columns <= FEW_COLUMNS and rows >= LEAST_PRODUCT:
            return _by_columns(x, along_x, y, along_y)
    return _in_line(x, of_x, batch_x, y, of_y, batch_y)


def _of_matrices(x: Array, along_x: int, y: Array, along_y: int) -> Array:
    """The chip's own product, with all other axes of x as rows and all other axes of y as columns."""
    flat = lambda each, along: each.reshape(each.shape[0], -1) if along == 0 else each.reshape(-1, each.shape[-1])
    numbers = ((min(along_x, 1),), (min(along_y, 1),)), ((), ())
    return jax.lax.dot_general(flat(x, along_x), flat(y, along_y), numbers, PRECISIONS[_PRECISION.get()])


def _by_columns(x: Array, along_x: int, y: Array, along_y: int) -> Array:
    """A product with each column: the threads that hold a row of x add up its entry of the result."""
    shape, result = (x.shape[1 - along_x], y.shape[1 - along_y]), None
    for number in range(shape[1]):
        column = total(jnp.where(places(y.shape, 1 - along_y) == number, y, jnp.zeros((), y.dtype)), (1 - along_y,))
        entries = total(x * jnp.expand_dims(column, 1 - along_x), (along_x,))
        wide = jnp.broadcast_to(entries[:, None], shape)
        result = wide if result is None else jnp.where(places(shape, 1) >= number, wide, result)
    assert result is not None
    return result


def _in_line(x: Array, of_x: tuple, batch_x: tuple, y: Array, of_y: tuple, batch_y: tuple) -> Array:
    """A sum over the common axes of both: those of the larger factor in its own order, then what only the other has."""
    letters = iter("abcdefghijklmnop")
    name_x = [next(letters) for _ in x.shape]
    shared = dict(zip((*of_y, *batch_y), (name_x[axis] for axis in (*of_x, *batch_x)), strict=True))
    name_y = [shared.get(axis) or next(letters) for axis in range(y.ndim)]
    free = lambda names, used: [name for axis, name in enumerate(names) if axis not in used]
    wanted = [name_x[axis] for axis in batch_x]
    wanted += free(name_x, (*of_x, *batch_x)) + free(name_y, (*of_y, *batch_y))
    first, second = (name_x, name_y) if x.ndim >= y.ndim else (name_y, name_x)
    line = first + [name for name in second if name not in first]
    sizes = dict(zip(name_x + name_y, x.shape + y.shape, strict=True))
    check_size(tuple(sizes[name] for name in line))
    product = _spread(x, name_x, line, sizes) * _spread(y, name_y, line, sizes)
    summed = total(product, [line.index(name_x[axis]) for axis in of_x])
    left = [name for name in line if name in wanted]
    return summed if left == wanted else jnp.transpose(summed, [left.index(name) for name in wanted])


def _spread(array: Array, names: list[str], line: list[str], sizes: dict[str, int]) -> Array:
    """The array with its axes where the line has their names, and repeated along the others."""
    order = sorted(range(array.ndim), key=lambda axis: line.index(names[axis]))
    if order != list(range(array.ndim)):
        array = jnp.transpose(array, order)
    own = [line.index(names[axis]) for axis in order]
    return jax.lax.broadcast_in_dim(array, [sizes[name] for name in line], own)
