"""How steps are strung together: a pure function that takes a run from one step to another.

Randomness is drawn for a block of steps at once, with keys folded from the absolute number of the block, so a run has
the same bits however it is cut. Bounds are arguments of the compiled program: one compilation serves any number of
steps. Nothing here prints, reads a clock or touches the host.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from recurra.learners.base import SPAN
from recurra.loop import Carry, Keys, Loop
from recurra.tasks.base import BLOCK

#: steps that an accelerator takes between two looks at the host, and how many of them are compiled one after the other
STRIDE, UNROLL = 32, 2

#: a run on its way, and what was recorded of it
Running = tuple[Carry, PyTree[Array]]


def advance(
    loop: Loop,
    carry: Carry,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    capacity: int,
    strides: bool = False,
) -> Running:
    """Steps start..stop-1, at most `capacity` of them, with each step's (loss, records).

    With `strides` both bounds are multiples of `STRIDE`: the steps of a stride are then a loop of known length, and
    a GPU runs it without asking the host after every step whether to go on.
    """
    zero = jnp.zeros((), "int32")
    first_row = lambda: jax.tree.map(lambda rows: rows[0], loop.draw(carry, keys, zero)[0])
    shapes = jax.eval_shape(lambda: loop.step(carry, first_row(), zero)[1])
    records = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)

    def block(number: Array, running: Running) -> Running:
        inputs, task = loop.draw(running[0], keys, number)
        before = number * BLOCK
        first, last = jnp.maximum(start - before, 0), jnp.minimum(stop - before, BLOCK)

        def step(i: Array, running: Running) -> Running:
            carry, records = running
            t = before + i
            carry, record = loop.step(carry, jax.tree.map(lambda rows: rows[i], inputs), t)
            return carry, jax.tree.map(lambda rows, row: rows.at[t - start].set(row), records, record)

        def span(k: Array, running: Running) -> Running:
            until = jnp.minimum(last, (k + 1) * SPAN)
            carry, records = jax.lax.fori_loop(jnp.maximum(first, k * SPAN), until, step, running)
            return loop.folded(carry, until == (k + 1) * SPAN), records

        def stride(k: Array, running: Running) -> Running:
            carry, records = running
            begin = k * STRIDE
            rows = jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, begin, STRIDE), inputs)
            carry, new = _stride(loop, carry, rows, before + begin)
            at = before + begin - start
            put = lambda rows, new: jax.lax.dynamic_update_slice_in_dim(rows, new, at, axis=0)
            return carry, jax.tree.map(put, records, new)

        if strides:
            carry, records = jax.lax.fori_loop(first // STRIDE, last // STRIDE, stride, running)
        elif loop.deferring:
            carry, records = jax.lax.fori_loop(first // SPAN, (last - 1) // SPAN + 1, span, running)
        else:
            carry, records = jax.lax.fori_loop(first, last, step, running)
        # A block left half-way is drawn again from its beginning when the run goes on.
        done = lambda new, old: jnp.where(last == BLOCK, new, old)
        return carry._replace(task=jax.tree.map(done, task, carry.task)), records

    return jax.lax.fori_loop(start // BLOCK, (stop - 1) // BLOCK + 1, block, (carry, records))


def _stride(loop: Loop, carry: Carry, rows: PyTree[Array], t: Int[Array, ""]) -> Running:
    """`STRIDE` steps from step t on, and what is recorded of them."""

    def step(carry: Carry, inputs: tuple[Array, PyTree]) -> Running:
        i, row = inputs
        carry, record = loop.step(carry, row, t + i)
        return (loop.folded(carry, (i + 1) % SPAN == 0) if loop.deferring else carry), record

    return jax.lax.scan(step, carry, (jnp.arange(STRIDE, dtype="int32"), rows), unroll=UNROLL)
