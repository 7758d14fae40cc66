"""How steps are strung together: a pure function that takes one member from one step to another.

Randomness is drawn for a block of steps at once, with keys folded from the absolute number of the block, so a run has
the same bits however it is cut. Bounds are arguments of the compiled program: one compilation serves any number of
steps. Nothing here prints, reads a clock or touches the host.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from recurra.engine.compiling import jitted
from recurra.engine.experiment import Carry, Experiment, Keys, StepRecord
from recurra.engine.tuning import STRIDE, UNROLLED_STEPS
from recurra.tasks.base import BLOCK

#: what goes on to the next step, and what was kept so far
Running = tuple[Carry, StepRecord]


def take(experiment: Experiment, carry: Carry, row: PyTree[Array], t: Int[Array, ""]) -> Running:
    """One step. It is called through `jitted`, so that all programs that contain it share one trace."""
    return experiment.take(carry, row, t)


def observe(experiment: Experiment, carry: Carry, row: PyTree[Array], t: Int[Array, ""]) -> Carry:
    """One step for which no label can have come yet."""
    return experiment.observe(carry, row, t)


def advance(
    experiment: Experiment,
    carry: Carry,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    chunk: int,
    strides: bool = False,
) -> Running:
    """Steps start..stop-1, at most `chunk` of them, with what is kept of each.

    With `strides` both bounds are multiples of `stride_of(experiment)`, and no less than the horizon. The steps of a
    stride are then a loop of known length, and a GPU runs it without asking the host after every step whether to go on.
    """
    _, one = jax.eval_shape(lambda: first_step(experiment, carry, keys))
    records = jax.tree.map(lambda leaf: jnp.zeros((chunk, *leaf.shape), leaf.dtype), one)
    if experiment.horizon:  # the first steps have no loss
        records = records._replace(loss=jnp.full_like(records.loss, jnp.nan))
    if strides:
        return _by_strides(experiment, carry, keys, start, stop, records)
    every = experiment.round

    def block(number: Array, running: Running) -> Running:
        inputs, task = experiment.draw(running[0], keys, number)
        before = number * BLOCK
        first, last = jnp.maximum(start - before, 0), jnp.minimum(stop - before, BLOCK)
        row = lambda i: jax.tree.map(lambda rows: rows[i], inputs)
        if experiment.horizon:
            begin, first = first, jnp.clip(experiment.horizon - before, first, last)
            look = lambda i, carry: jitted(observe)(experiment, carry, row(i), before + i)
            running = jax.lax.fori_loop(begin, first, look, running[0]), running[1]

        def step(i: Array, running: Running) -> Running:
            carry, records = running
            t = before + i
            carry, record = jitted(take)(experiment, carry, row(i), t)
            return carry, jax.tree.map(lambda rows, row: rows.at[t - start].set(row), records, record)

        def steps_of_round(k: Array, running: Running) -> Running:
            begin, end = k * every - before, (k + 1) * every - before
            until = jnp.minimum(last, end)
            carry, records = jax.lax.fori_loop(jnp.maximum(first, begin), until, step, running)
            return experiment.end_round(carry, before + until), records

        if every:
            rounds = (before + first) // every, (before + last - 1) // every + 1
            carry, records = jax.lax.fori_loop(*rounds, steps_of_round, running)
        else:
            carry, records = jax.lax.fori_loop(first, last, step, running)
        # A block left half-way is drawn again from its beginning when the run goes on.
        done = lambda new, old: jnp.where(last == BLOCK, new, old)
        return carry._replace(task=jax.tree.map(done, task, carry.task)), records

    return jax.lax.fori_loop(start // BLOCK, (stop - 1) // BLOCK + 1, block, (carry, records))


def first_step(experiment: Experiment, carry: Carry, keys: Keys) -> Running:
    """Step 0, by itself."""
    zero = jnp.zeros((), "int32")
    rows, _ = experiment.draw(carry, keys, zero)
    return jitted(take)(experiment, carry, jax.tree.map(lambda leaf: leaf[0], rows), zero)


def stride_of(experiment: Experiment) -> int:
    """How many steps an accelerator takes without asking the host whether to go on: always whole rounds."""
    every = experiment.round
    return STRIDE if not every or STRIDE % every == 0 else math.lcm(BLOCK, every)


def _by_strides(
    experiment: Experiment,
    carry: Carry,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    records: StepRecord,
) -> Running:
    length = stride_of(experiment)
    every, drawn = experiment.round or length, math.lcm(BLOCK, length)
    together = max(count for count in range(1, UNROLLED_STEPS + 1) if every % count == 0)

    def draw(carry: Carry, number: Array) -> tuple[Carry, PyTree[Array]]:
        rows, task = experiment.draw(carry, keys, number)
        return carry._replace(task=task), rows

    def step(carry: Carry, inputs: tuple[Array, PyTree]) -> Running:
        t, row = inputs
        carry, record = jitted(take)(experiment, carry, row, t)
        # Without this barrier the compiler fuses a step with the next, and every kernel that needs part of the step
        # computes it again.
        return jax.lax.optimization_barrier(carry), record

    def steps_of_round(carry: Carry, inputs: tuple[Array, PyTree]) -> Running:
        carry, record = jax.lax.scan(step, carry, inputs, unroll=together)
        return experiment.end_round(carry, inputs[0][-1] + 1, is_whole=True), record

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
