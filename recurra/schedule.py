"""How steps are strung together: a pure function that takes a run from one step to another.

Randomness is drawn for a block of steps at once, with keys folded from the absolute number of the block, so a run has
the same bits however it is cut. Bounds are arguments of the compiled program: one compilation serves any number of
steps. Nothing here prints, reads a clock or touches the host.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from recurra.loop import Carry, Keys, Loop
from recurra.rounds import end_round, period
from recurra.tasks.base import BLOCK

#: steps that an accelerator takes between two looks at the host, and how many of them are launched together, at most:
#: with eight a step would take a tenth less, and compiling a third longer
STRIDE, TOGETHER = 32, 5

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

    With `strides` both bounds are multiples of `stride(loop)`: its steps are then a loop of known length, and a GPU
    runs it without asking the host after every step whether to go on.
    """
    one = jax.eval_shape(lambda: first_record(loop, carry, keys))
    records = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), one)
    if strides:
        return _by_strides(loop, carry, keys, start, stop, records)
    every = period(loop)

    def block(number: Array, running: Running) -> Running:
        inputs, task = loop.draw(running[0], keys, number)
        before = number * BLOCK
        first, last = jnp.maximum(start - before, 0), jnp.minimum(stop - before, BLOCK)

        def step(i: Array, running: Running) -> Running:
            carry, records = running
            t = before + i
            carry, record = loop.step(carry, jax.tree.map(lambda rows: rows[i], inputs), t)
            return carry, jax.tree.map(lambda rows, row: rows.at[t - start].set(row), records, record)

        def steps_of_round(k: Array, running: Running) -> Running:
            begin, end = k * every - before, (k + 1) * every - before
            until = jnp.minimum(last, end)
            carry, records = jax.lax.fori_loop(jnp.maximum(first, begin), until, step, running)
            return end_round(loop, carry, before + until), records

        if every:
            rounds = (before + first) // every, (before + last - 1) // every + 1
            carry, records = jax.lax.fori_loop(*rounds, steps_of_round, running)
        else:
            carry, records = jax.lax.fori_loop(first, last, step, running)
        # A block left half-way is drawn again from its beginning when the run goes on.
        done = lambda new, old: jnp.where(last == BLOCK, new, old)
        return carry._replace(task=jax.tree.map(done, task, carry.task)), records

    return jax.lax.fori_loop(start // BLOCK, (stop - 1) // BLOCK + 1, block, (carry, records))


def first_record(loop: Loop, carry: Carry, keys: Keys) -> PyTree[Array]:
    """(loss, records) of a step."""
    zero = jnp.zeros((), "int32")
    rows, _ = loop.draw(carry, keys, zero)
    return loop.step(carry, jax.tree.map(lambda leaf: leaf[0], rows), zero)[1]


def stride(loop: Loop) -> int:
    """Steps that an accelerator takes between two looks at the host: whole rounds, of a block or of several."""
    every = period(loop)
    return STRIDE if not every or STRIDE % every == 0 else math.lcm(BLOCK, every)


def _by_strides(
    loop: Loop, carry: Carry, keys: Keys, start: Int[Array, ""], stop: Int[Array, ""], records: PyTree[Array]
) -> Running:
    length = stride(loop)
    every, drawn = period(loop) or length, math.lcm(BLOCK, length)
    together = max(count for count in range(1, TOGETHER + 1) if every % count == 0)

    def draw(carry: Carry, number: Array) -> tuple[Carry, PyTree[Array]]:
        rows, task = loop.draw(carry, keys, number)
        return carry._replace(task=task), rows

    def step(carry: Carry, inputs: tuple[Array, PyTree]) -> Running:
        t, row = inputs
        carry, record = loop.step(carry, row, t)
        # Fused with the next, a step would be computed again by every kernel that needs some of it.
        return jax.lax.optimization_barrier(carry), record

    def steps_of_round(carry: Carry, inputs: tuple[Array, PyTree]) -> Running:
        carry, record = jax.lax.scan(step, carry, inputs, unroll=together)
        return end_round(loop, carry, inputs[0][-1] + 1, is_whole=True), record

    def draw_and_take(number: Array, running: Running) -> Running:
        before = number * drawn
        t = before + jnp.arange(drawn, dtype="int32")
        numbers = number * (drawn // BLOCK) + jnp.arange(drawn // BLOCK, dtype="int32")
        after, rows = jax.lax.scan(draw, running[0], numbers)
        inputs = t, jax.tree.map(lambda leaf: leaf.reshape(drawn, *leaf.shape[2:]), rows)
        first, last = jnp.maximum(start - before, 0), jnp.minimum(stop - before, drawn)

        def one_stride(k: Array, running: Running) -> Running:
            carry, records = running
            cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k * length, length)
            in_rounds = lambda leaf: cut(leaf).reshape(-1, every, *leaf.shape[1:])
            carry, new = jax.lax.scan(steps_of_round, carry, jax.tree.map(in_rounds, inputs))

            def put(rows: Array, new: Array) -> Array:
                in_line = new.reshape(length, *new.shape[2:])
                return jax.lax.dynamic_update_slice_in_dim(rows, in_line, before + k * length - start, axis=0)

            return carry, jax.tree.map(put, records, new)

        carry, records = jax.lax.fori_loop(first // length, last // length, one_stride, running)
        done = lambda new, old: jnp.where(last == drawn, new, old)  # a block left half-way is drawn again
        return carry._replace(task=jax.tree.map(done, after.task, carry.task)), records

    return jax.lax.fori_loop(start // drawn, (stop - 1) // drawn + 1, draw_and_take, (carry, records))
