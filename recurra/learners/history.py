"""The last steps, kept in a ring: what both forms of backpropagation through time go back over."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from recurra.cells.base import Cell, State

#: At most so many steps back are unrolled. On a GPU every pass through a loop has to start its kernels again.
UNROLLED = 10

#: the credit of several steps, leading axis time
Credits = tuple[Float[Array, "time _"], ...]


def no_credit(cell: Cell, length: int) -> Credits:
    """Credit of zero for the last steps, leading axis time."""
    return tuple(jnp.zeros((length, width), cell.dtype) for width in cell.widths)


def put(ring: PyTree[Array], t: Int[Array, ""], now: PyTree) -> PyTree[Array]:
    """The ring with step t in the place of the oldest step."""
    return jax.tree.map(lambda rows, row: rows.at[_slot(t, len(rows))].set(row), ring, now)


def ago(ring: PyTree[Array], t: Int[Array, ""], lag: Int[Array, ""] | int) -> PyTree[Array]:
    """Step t - lag, one of those that the ring holds."""
    return jax.tree.map(lambda rows: rows[_slot(t + (len(rows) - lag), len(rows))], ring)


def _slot(t: Int[Array, ""], length: int) -> Int[Array, ""]:
    return jax.lax.rem(t, t.dtype.type(length))


def back(
    f: Callable[[State, Any], tuple[State, State]], start: State, steps: PyTree[Array], seldom: bool = False
) -> Credits:
    """f from the last step to the first, as `jax.lax.scan` does; what it returns for each of them.

    What is done seldom stays a loop on a CPU, where unrolled code would crowd out that of every step.
    """
    length = len(jax.tree.leaves(steps)[0])
    scan = lambda unroll: lambda start, steps: jax.lax.scan(f, start, steps, reverse=True, unroll=unroll)[1]
    unrolled = scan(min(length, UNROLLED))
    return jax.lax.platform_dependent(start, steps, cpu=scan(1), default=unrolled) if seldom else unrolled(start, steps)
