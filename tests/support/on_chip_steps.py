"""Steps of learning inside a kernel and outside of one, on the same rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import flat
from recurra.engine.experiment import Experiment, StepRecord
from recurra.engine.on_chip.fold import rounds, take
from recurra.engine.on_chip.loop import How, loop
from recurra.tasks.base import Rows

STEPS = 20
PLAYED, BUILT = How(warps=1, interpret=True), How(warps=1)


def shapes(cell, learner, n_out=2, optimizer=0.02):
    """An experiment, and the shapes of a state and of some rows of inputs, labels and random numbers."""
    step = rc.LearningStep(rc.Network(cell, n_out), learner, jnp.asarray(optimizer, "float32"))
    first = lambda key: (step.start_from(step.first_weights(key), key)._replace(t=None), step.noise(key, STEPS))
    state, noise = jax.eval_shape(first, jax.random.key(0))
    rows = Rows(*(jax.ShapeDtypeStruct((STEPS, size), "float32") for size in (cell.n_in, n_out)))
    return Experiment(step, rc.Add(1, 2)), state, (rows, noise)


def setting(*parts, **settings):
    """The same with small numbers: any weights, traces and noise will do, and those of NumPy compile nothing."""
    experiment, state, (rows, noise) = shapes(*parts, **settings)
    rng = np.random.default_rng(0)
    if any(leaf.dtype.kind not in "fb" for leaf in jax.tree.leaves(state)):  # weights with a list of places
        state = jax.jit(lambda key: experiment.start_from(experiment.step.first_weights(key), key)._replace(t=None))(
            jax.random.key(0)
        )
    drawn = lambda like, scale=0.1: (scale * rng.normal(size=like.shape)).astype(like.dtype)
    state, noise = jax.tree.map(lambda leaf: leaf if isinstance(leaf, jax.Array) else drawn(leaf), (state, noise))
    x, y = drawn(rows.x, 1.0), np.exp(drawn(rows.label, 1.0))
    return experiment, state, (Rows(x, y / y.sum(1, keepdims=True)), noise)


def inside(experiment, how=PLAYED):
    """All steps in a kernel: a function of the first state and the rows."""
    step = lambda learning, row, t: take(experiment, learning, row, t)
    zero, last = np.int32(0), np.int32(STEPS)
    return lambda state, rows: loop(step, state, rows, *map(jnp.asarray, (zero, last, zero)), how, rounds(experiment))


def outside(experiment):
    """The same steps one by one, with all that is due inside a step."""

    def one(state, row):
        t, (rows, noise) = row
        seen, _ = experiment.step.observe(state._replace(t=t), rows.x, noise)
        state, outcome = experiment.step.learn(seen, rows.label)
        return state._replace(t=None), StepRecord(outcome.loss, None, {})

    return lambda state, rows: jax.lax.scan(one, state, (jnp.arange(STEPS, dtype="int32"), rows))


def apart(cell, learner, other=None, **settings):
    """How far the steps of a kernel lead from others: in any array or in losses, relative to the largest entry.

    How far the weights went from their start counts by itself, since weights hardly differ from it.
    """
    experiment, start, rows = setting(cell, learner, **settings)
    plain = experiment if other is None else setting(cell, other, **settings)[0]
    here, there = (jax.jit(f)(start, rows) for f in (inside(experiment), outside(plain)))
    way = lambda found, part: flat(part(found[0].weights)) - flat(part(start.weights))
    ways = lambda found: [way(found, lambda weights: weights.cell), way(found, lambda weights: weights.readout)]
    for end in (here, there):
        assert isinstance(learner, rc.Fixed) or largest(ways(end)[0]) > 1e-5
        assert largest(ways(end)[1]) > 1e-3
        assert np.isfinite(end[1].loss).all()
    assert jax.tree.structure(here) == jax.tree.structure(there)
    pairs = list(zip(*([*jax.tree.leaves(end), *ways(end)] for end in (here, there)), strict=True))
    assert all((ours.shape, ours.dtype) == (theirs.shape, theirs.dtype) for ours, theirs in pairs)
    assert all(largest(theirs) < 1e3 for _, theirs in pairs)
    return max(largest(ours, theirs) / max(largest(theirs), 1e-30) for ours, theirs in pairs)


def largest(array, other=0):
    """The largest entry, or the largest difference."""
    return float(np.abs(np.asarray(array, "float64") - np.asarray(other, "float64")).max(initial=0))


def lower(cell, learner, **settings):
    """The kernel, lowered for a GPU, which needs no GPU."""
    experiment, start, rows = shapes(cell, learner, **settings)
    jax.jit(inside(experiment, BUILT)).trace(start, rows).lower(lowering_platforms=("cuda",))


lowered = pytest.mark.skipif(
    jax.__version_info__ >= (0, 11), reason="this version of JAX lowers kernels only where there is a GPU"
)
