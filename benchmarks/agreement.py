"""Does a bare loop compute what the library computes? Both take the same steps from the same numbers, and must agree.

In double precision, so that what differs is the algorithm and not its rounding, and with a leak, so that it counts.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp

import recurra
from bare import ALGORITHMS
from bare.cells import CELLS
from bare.loop import BLOCK, RATE, Algorithm, take_block
from recurra.bench import CELLS as LIBRARY_CELLS
from translation import Translation

N, STEPS, ALPHA, TOLERANCE, WRONG = 32, BLOCK, 0.7, 1e-9, 1.001


def disagreement(
    name: str, kind: str = "rnn", streams: int = 1, bare_alpha: float = ALPHA, exaggerate: bool = False
) -> float:
    """How far the bare loop ends from the library when both take the same steps."""
    algorithm = exaggerated(ALGORITHMS[name]) if exaggerate else ALGORITHMS[name]
    with jax.enable_x64(True):
        first, inputs, last, losses = journey(name, kind, streams)
        take = jax.jit(lambda first, inputs: take_block(algorithm, CELLS[kind](bare_alpha), first, inputs, streams))
        return distance(first, (last, losses), take(first, inputs))


def exaggerated(algorithm: Algorithm) -> Algorithm:
    """An algorithm whose steps are a little too large."""

    def learn(s, state, noise):
        W, state = algorithm.learn(s, state, noise)
        return jax.tree.map(lambda new, old: old + WRONG * (new - old), W, s.W), state

    return algorithm._replace(learn=learn)


def journey(name: str, kind: str = "rnn", streams: int = 1):
    """Some steps of the library from random numbers: where it starts, what it is given, where it ends, its losses."""
    over = functools.partial(jax.vmap, axis_size=streams) if streams > 1 else lambda f: f
    each = lambda key: jax.random.split(key, streams) if streams > 1 else key
    steps_first = lambda tree: jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), tree) if streams > 1 else tree
    dtype, leak = jnp.dtype("float64"), {"alpha": ALPHA} if kind == "rnn" else {}
    cell = dataclasses.replace(LIBRARY_CELLS[kind](N), dtype=dtype, **leak)
    network, as_bare = recurra.Network(cell, n_out=2), Translation(kind)
    learner = recurra.LEARNERS[name]()
    keys = jax.random.split(jax.random.key(0), 4)
    weights = network.init(keys[0])
    a, state = over(
        lambda key: (network.cell.init_state(), learner.init(network.cell, weights.cell, key, network.n_out))
    )(each(keys[1]))
    noise = over(lambda key: learner.noise(network.cell, key, STEPS))(each(keys[2]))
    x, label, _ = over(lambda key: recurra.Add().block(recurra.Add().init(key, dtype), key, jnp.array(0), dtype))(
        each(keys[3])
    )
    own_noise = over(lambda noise: as_bare.noise(name, noise))(noise)
    t, (x, label, noise, own_noise) = jnp.arange(STEPS, dtype="int32"), steps_first((x, label, noise, own_noise))

    first = as_bare.carry(name, weights, a, state, over)
    last, losses = by_library(network, learner, weights, a, state, (t, x, label, noise), over)
    return first, (t, x, label, own_noise), as_bare.carry(name, *last, over), losses


def distance(first, library, other) -> float:
    """The largest difference of two ends and their losses, relative to how far each number moved from the first."""
    (last, losses), (there, other_losses) = library, other
    moved = jax.tree.map(lambda new, old, there: _relative(new - there, new - old), last, first, there)
    return float(max(*jax.tree.leaves(moved), _relative(losses - other_losses, losses)))


def by_library(network, learner, weights, a, state, inputs, over):
    """Every step through the public pieces: Network.step, Learner.step and plain gradient descent along the mean."""
    mean = (lambda leaf: leaf.mean(0)) if inputs[1].ndim > 2 else lambda leaf: leaf

    @eqx.filter_jit
    def step(weights, a, state, inputs):
        t, x, label, noise = inputs

        def look(a, x, label, state, noise):
            result = network.step(weights, a, x, label, t)
            return result, *learner.step(result.tick, state, noise)

        result, gradient, state = over(look)(a, x, label, state, noise)
        down = lambda w, g: w - RATE * mean(g)
        cell = jax.tree.map(lambda w, g: jnp.where(learner.emits(t), down(w, g), w), weights.cell, gradient)
        readout = jax.tree.map(down, weights.readout, result.readout_gradient)
        return weights._replace(cell=cell, readout=readout), result.tick.state, state, result.loss

    losses = []
    for t in range(STEPS):
        weights, a, state, loss = step(weights, a, state, jax.tree.map(lambda rows, t=t: rows[t], inputs))
        losses.append(loss)
    return (weights, a, state), jnp.stack(losses)


def _relative(difference, size):
    largest = jnp.max(jnp.abs(size))
    return jnp.max(jnp.abs(difference)) / jnp.where(largest > 0, largest, 1)


def check(names, kind: str = "rnn", streams: int = 1) -> None:
    """Raise if a bare loop strays from the library, or if one that is slightly wrong would pass."""
    if kind == "rnn" and disagreement("rflo", bare_alpha=ALPHA + 1e-3) < TOLERANCE:
        raise SystemExit("The comparison is blind: a bare loop with another leak passes it.")
    if disagreement("rflo", kind, streams, exaggerate=True) < TOLERANCE:
        raise SystemExit("The comparison is blind: a bare loop with steps that are too large passes it.")
    worst = {name: disagreement(name, kind, streams) for name in names}
    strayed = {name: value for name, value in worst.items() if not value < TOLERANCE}
    if strayed:
        raise SystemExit(f"These bare loops do not compute what the library does: {strayed}.")
    where = kind + f", {streams} streams" * (streams > 1)
    print(f"{where}: within {max(worst.values()):.0e}, bare loops do what the library does: {', '.join(names)}")
