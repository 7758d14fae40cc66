"""How steps are strung together on chip: a pure function that takes one member from one step to another.

Inputs, labels and random numbers of all its steps are drawn first, block by block with the same keys as in compiled
loops, so both see the same bits. The steps themselves are one kernel.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from recurra.engine.experiment import Carry, Experiment, Keys, StepRecord
from recurra.engine.fold import Running
from recurra.engine.on_chip.loop import How, Rounds, loop
from recurra.tasks.base import BLOCK, Rows, stepped_by


def advance(
    how: How,
    experiment: Experiment,
    carry: Carry,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    chunk: int,
    _: bool = False,
) -> Running:
    """Steps start..stop-1, with what is kept of each.

    `chunk` is a multiple of `BLOCK`, and the steps lie in as many blocks as it holds. The kept rows after the last
    step are undefined.
    """
    before = start // BLOCK * BLOCK
    rows, task = draw(experiment, carry.task, keys, start, stop, chunk, how)
    step = lambda learning, row, t: take(experiment, learning, row, t)
    learning, kept = loop(step, carry.learning, rows, start, stop, before, how, rounds(experiment))
    return carry._replace(learning=learning, task=task), kept


def take(
    experiment: Experiment, learning: PyTree, row: tuple[Rows, PyTree], t: Int[Array, ""]
) -> tuple[PyTree, StepRecord]:
    """Step t. Before the horizon of the task's labels nothing is learned, and the loss is nan."""
    carry, kept = experiment.take(Carry(learning, None, None), row, t)
    if not experiment.horizon:
        return carry.learning, kept
    early = t < experiment.horizon
    seen = experiment.observe(Carry(learning, None, None), row, t)
    first = lambda seen, learned: jnp.where(early, seen, learned)
    labelled = None if kept.labelled is None else jnp.where(early, jnp.zeros_like(kept.labelled), kept.labelled)
    kept = kept._replace(loss=jnp.where(early, jnp.nan, kept.loss), labelled=labelled)
    return jax.tree.map(first, seen.learning, carry.learning), kept


def rounds(experiment: Experiment) -> Rounds | None:
    """What is due after every so many steps, if anything is."""
    end = lambda learning, t: experiment.end_round(Carry(learning, None, None), t).learning
    return Rounds(experiment.round, end) if experiment.later else None


def draw(
    experiment: Experiment,
    task: Any,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    chunk: int,
    how: How,
) -> tuple[PyTree[Array], Any]:
    """Rows and random numbers for as many steps as a call can take, and the task's state before block stop // BLOCK."""
    first, whole = start // BLOCK, stop // BLOCK
    numbers = first + jnp.arange(chunk // BLOCK, dtype="int32")

    def block(states: tuple[Any, Any], number: Array) -> tuple[tuple[Any, Any], Rows]:
        present, kept = states
        with stepped_by(_in_a_kernel(how)):
            rows, after = experiment.draw_rows(present, keys, number)
        # A block left half-way is drawn again from its beginning when the run goes on.
        return (after, jax.tree.map(lambda new, old: jnp.where(number < whole, new, old), after, kept)), rows

    (_, task), rows = jax.lax.scan(block, (task, task), numbers)
    # With other generators, what is drawn for several blocks at once depends on how many they are.
    is_by_block = str(jax.random.key_impl(keys.noise)) == "threefry2x32"
    noise_of = lambda number: experiment.draw_noise(keys, number)
    noise = jax.vmap(noise_of)(numbers) if is_by_block else jax.lax.map(noise_of, numbers)
    in_line = lambda leaf: leaf.reshape(chunk, *leaf.shape[2:])
    return jax.tree.map(in_line, (rows, noise)), task


def _in_a_kernel(how: How) -> Any:
    """A loop over the steps of a block, as one kernel."""

    def each(f: Any, state: PyTree, rows: PyTree) -> tuple[PyTree, PyTree]:
        zero, last = jnp.zeros((), "int32"), jnp.full((), BLOCK, "int32")
        return loop(lambda state, row, _: f(state, row), state, rows, zero, last, zero, how)

    return each
