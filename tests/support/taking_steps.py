"""Take steps of learning by hand: `LearningStep.observe` and `learn`, one after the other, on given rows."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp

import recurra as rc
from recurra.step import APPLIED, LearningStep


@functools.cache
def compiled_step(network, learner, optimizer, streams):
    """A step of learning, and both of its functions in one compiled call."""
    step = LearningStep(network, learner, optimizer, streams=streams)

    def one(state, x, y, nu, reset, present):
        seen, _ = step.observe(state, x, nu, reset)
        return step.learn(seen, y, present)

    return step, jax.jit(one)


def take_steps(
    network, learner, weights, xs, ys, optimizer=0.0, noise=None, reset=None, present=None, start=None, streams=1
):
    """Each step's outcome and the state after it; with no optimizer the weights are held."""
    # A general cell holds arrays, by which nothing can be looked up.
    make = compiled_step.__wrapped__ if any(map(eqx.is_array, jax.tree.leaves(network))) else compiled_step
    step, one = make(network, learner, optimizer, streams)
    state = step.init(jax.random.key(1))._replace(weights=weights)
    if start is None and streams == 1:
        start = learner.init(network.cell, weights.cell, jax.random.key(1), network.n_out)
    state = state if start is None else state._replace(learners={APPLIED: start})
    noise = step.noise(jax.random.key(2), len(xs)) if noise is None else {APPLIED: noise}
    row = lambda rows, t: None if rows is None else jnp.asarray(rows)[t]
    visited = []
    for t in range(len(xs)):
        nu = jax.tree.map(lambda rows, t=t: rows[t], noise)
        state, outcome = one(state, xs[t], ys[t], nu, row(reset, t), row(present, t))
        visited.append((outcome, state))
    return visited


def gradients(visited):
    """The applied learner's gradient at each step."""
    return [outcome.gradients[APPLIED] for outcome, _ in visited]


def fixed_noise(learner, cell, steps, streams=1):
    """The noise that `take_steps` draws by itself."""
    step = LearningStep(rc.Network(cell, 2), learner, 0.0, streams=streams)
    return step.noise(jax.random.key(2), steps)[APPLIED]
