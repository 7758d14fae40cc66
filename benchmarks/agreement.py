"""Does a bare loop compute what the library computes? Both take the same steps from the same numbers, and must agree.

In double precision, so that what differs is the algorithm and not its rounding, and with a leak, so that it counts.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import recurra
from bare import ALGORITHMS
from bare.after import AFTER
from bare.cells import CELLS
from bare.loop import BLOCK, RATE, Algorithm, take_block
from pairs import PAIRS
from recurra.cells.base import Cell
from recurra.cli.bench import cell_of
from recurra.engine.specialise import fastest
from recurra.learners.base import Learner
from recurra.step import APPLIED
from translation import Translation

N, STEPS, ALPHA, TOLERANCE, WRONG = 32, BLOCK, 0.7, 1e-9, 1.001
DTYPE = jnp.dtype("float64")


def disagreement(
    name: str, kind: str = "rnn", streams: int = 1, bare_alpha: float = ALPHA, exaggerate: bool = False
) -> float:
    """How far the bare loop ends from the library when both take the same steps."""
    algorithm = exaggerated(ALGORITHMS[name]) if exaggerate else ALGORITHMS[name]
    with jax.enable_x64(True):
        return strayed(algorithm, CELLS[kind](bare_alpha), journey(name, kind, streams), streams)


def disagreement_after(name: str, streams: int = 1, exaggerate: bool = False) -> float:
    """The same for what came after the paper."""
    (algorithm, make, numbers), pair = AFTER[name], PAIRS[name]
    with jax.enable_x64(True):
        cell = make(ALPHA if numbers == 1.0 else numbers)
        way = travelled(pair.cell(N, DTYPE, ALPHA), pair.learner, streams, pair.carry)
        return strayed(exaggerated(algorithm) if exaggerate else algorithm, cell, way, streams)


def strayed(algorithm: Algorithm, cell: Any, journey: tuple, streams: int) -> float:
    """How far a bare loop ends from where a journey of the library ended."""
    first, inputs, last, losses = journey
    take = jax.jit(lambda first, inputs: take_block(algorithm, cell, first, inputs, streams))
    there, each_loss = take(first, inputs)
    return distance(first, (last, losses), (there, each_loss if streams == 1 else each_loss.mean(axis=1)))


def exaggerated(algorithm: Algorithm) -> Algorithm:
    """An algorithm whose steps are a little too large."""

    def learn(s, state, noise):
        W, state = algorithm.learn(s, state, noise)
        return jax.tree.map(lambda new, old: old + WRONG * (new - old), W, s.W), state

    return algorithm._replace(learn=learn)


def journey(name: str, kind: str = "rnn", streams: int = 1):
    """Some steps of the library from random numbers: where it starts, what it is given, where it ends, its losses."""
    leak, as_bare = {"alpha": ALPHA} if kind == "rnn" else {}, Translation(kind)
    cell = dataclasses.replace(cell_of(kind, N), dtype=DTYPE, **leak)
    carry = lambda state, over: as_bare.carry(name, state, over)
    return travelled(cell, recurra.LEARNERS[name](), streams, carry, lambda noise: as_bare.noise(name, noise))


def travelled(
    cell: Cell, learner: Learner, streams: int, as_bare: Callable, bare_noise: Callable = lambda noise: noise
):
    """The same for any cell and learner; `as_bare` and `bare_noise` turn their state and noise into a bare loop's."""
    learner = fastest(learner, cell, "cpu")  # as the engine would have it
    step = recurra.LearningStep(recurra.Network(cell, n_out=2), learner, RATE, streams=streams)
    key_state, key_noise, key_task = jax.random.split(jax.random.key(0), 3)
    first, noise = step.init(key_state), step.noise(key_noise, STEPS)
    draw = lambda key: recurra.Add().block(recurra.Add().init(key, DTYPE), key, jnp.array(0), DTYPE)[0]
    x, label, *_ = step.each_stream(draw, key_task)
    if streams > 1:  # steps go first
        x, label = (leaf.swapaxes(0, 1) for leaf in (x, label))
    last, losses = by_library(step, first, (x, label, noise))

    # A learner may keep nothing and draw nothing.
    over = lambda f, axis: jax.vmap(f, axis, axis, axis_size=streams) if streams > 1 else f
    own_noise = over(bare_noise, 1)(noise[APPLIED])
    carry = lambda state: as_bare(state, lambda f: over(f, 0))
    return carry(first), (jnp.arange(STEPS, dtype="int32"), x, label, own_noise), carry(last), losses


def by_library(step, state, inputs):
    """Every step through the public pieces: what `observe` and `learn` make of it."""

    @eqx.filter_jit
    def take(state, inputs):
        x, label, noise = inputs
        state, outcome = step.learn(step.observe(state, x, noise)[0], label)
        return state, outcome.loss

    losses = []
    for t in range(STEPS):
        state, loss = take(state, jax.tree.map(lambda rows, t=t: rows[t], inputs))
        losses.append(loss)
    return state, jnp.stack(losses)


def distance(first, library, other) -> float:
    """The largest difference of two ends and their losses, relative to how far each number moved from the first."""
    (last, losses), (there, other_losses) = library, other
    moved = jax.tree.map(lambda new, old, there: _relative(new - there, new - old), last, first, there)
    return float(max(*jax.tree.leaves(moved), _relative(losses - other_losses, losses)))


def _relative(difference, size):
    largest = jnp.max(jnp.abs(size))
    return jnp.max(jnp.abs(difference)) / jnp.where(largest > 0, largest, 1)


def check(names, kind: str = "rnn", streams: int = 1) -> None:
    """Raise if a bare loop strays from the library, or if one that is slightly wrong would pass."""
    if kind == "rnn" and disagreement("rflo", bare_alpha=ALPHA + 1e-3) < TOLERANCE:
        raise SystemExit("The comparison is blind: a bare loop with another leak passes it.")
    if disagreement("rflo", kind, streams, exaggerate=True) < TOLERANCE:
        raise SystemExit("The comparison is blind: a bare loop with steps that are too large passes it.")
    judge({name: disagreement(name, kind, streams) for name in names}, kind, streams)


def check_after(names, streams: int = 1) -> None:
    """The same for what came after the paper."""
    blind = [name for name in names if disagreement_after(name, streams, exaggerate=True) < TOLERANCE]
    if blind:
        raise SystemExit(f"The comparison is blind: bare loops with steps that are too large pass it: {blind}.")
    judge({name: disagreement_after(name, streams) for name in names}, "after the paper", streams)


def judge(worst: dict[str, float], where: str, streams: int) -> None:
    """Raise if a bare loop is too far from the library."""
    wrong = {name: value for name, value in worst.items() if not value < TOLERANCE}
    if wrong:
        raise SystemExit(f"These bare loops do not compute what the library does: {wrong}.")
    where += f", {streams} streams" * (streams > 1)
    print(f"{where}: within {max(worst.values()):.0e}, bare loops do what the library does: {', '.join(worst)}")
