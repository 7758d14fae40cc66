"""Drive a learner by hand over given inputs, with the weights held, one step at a time."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import recurra as rc
from recurra.cells.tick import Tick
from recurra.engine.experiment import Experiment
from recurra.linalg import cleared, dense, zeros_like
from recurra.training.recording import StepRecorder

#: learners for networks of few units, without those that need several layers, or sparse weights
FOR_ONE_LAYER = {
    **{name: kind for name, kind in rc.LEARNERS.items() if not (kind.about.layers or kind.about.sparse)},
    "sk-rtrl": functools.partial(rc.SKRTRL, r=2),
}


def problem(make_cell, n=3, n_in=2, n_out=2, steps=6, seed=0, random_feedback=False):
    """A small network with weights, inputs and labels."""
    network = rc.Network(make_cell(n_in, n), n_out, random_feedback=random_feedback)
    keys = jax.random.split(jax.random.key(seed), 3)
    xs = jax.random.normal(keys[0], (steps, n_in))
    ys = jax.nn.softmax(jax.random.normal(keys[1], (steps, n_out)))
    weights = network.init(keys[2])
    # Zero biases would leave mistakes in them unseen.
    shake = lambda w: w + 0.3 * jax.random.normal(jax.random.fold_in(keys[2], w.size), w.shape, w.dtype)
    return network, weights._replace(cell=cleared(jax.tree.map(shake, weights.cell))), xs, ys


def one_step(network, weights, a, x, y, t):
    """Step t, put together from the network's parts: its loss, and what a learner sees of it."""
    state, trace, output = network.forward(weights, a, x)
    loss, error = network.loss(output, y)
    cbar = network.credit(weights, error, state, x)
    return loss, Tick(network.cell, weights.cell, t, a, state, trace, y, error, cbar, loss=network.loss)


@functools.cache
def compiled(network, learner):
    """A step of a learner, and what is due after it: most tests drive the same few learners on the same few cells."""

    def step(weights, a, state, x, y, t, nu):
        _, tick = one_step(network, weights, a, x, y, t)
        gradient, state = learner.step(tick, state, nu)
        return zeros_like(weights.cell) if gradient is None else dense(gradient), state, tick

    def due(weights, state):
        gradient, state = learner.due(network.cell, weights.cell, state)
        return None if gradient is None else dense(gradient), state

    return jax.jit(step), jax.jit(due)


def drive(network, learner, weights, xs, ys, noise=None, state=None, first=0, anew=False):
    """Each step's (gradient multiplied out, learner state, tick), and what is due where it is; step `first` first.

    With `anew` nothing is taken that was compiled before: for tests that change a learner's own functions.
    """
    if state is None:
        state = learner.init(network.cell, weights.cell, jax.random.key(1), network.n_out)
    if noise is None:
        noise = learner.noise(network.cell, jax.random.key(2), len(xs))
    # A general cell holds arrays, by which nothing can be looked up.
    anew = anew or any(map(eqx.is_array, jax.tree.leaves((network, learner))))
    step, due = (compiled.__wrapped__ if anew else compiled)(network, learner)
    a, visited = network.cell.init_state(), []
    for i in range(len(xs)):
        nu, t = jax.tree.map(lambda rows, i=i: rows[i], noise), first + i
        gradient, state, tick = step(weights, a, state, xs[i], ys[i], jnp.array(t, "int32"), nu)
        if learner.period and (t + 1) % learner.period == 0:
            now, state = due(weights, state)
            gradient = gradient if now is None else now
        visited.append((gradient, state, tick))
        a = tick.state
    return visited


def experiment(network, learner, task, optimizer=0.01, probes=None, record=None, streams=1):
    """What `train` hands to an engine."""
    step = rc.LearningStep(network, learner, optimizer, probes or {}, streams)
    return Experiment(step, task, StepRecorder.of(record or {}, step.learners))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def distance(x, y):
    """Relative to the larger of the two."""
    x, y = flat(x), flat(y)
    assert x.shape == y.shape
    return np.linalg.norm(x - y) / max(np.linalg.norm(x), np.linalg.norm(y), 1e-300)


def exact(network, weights, xs, ys, steps):
    """M after so many steps, as RTRL keeps it, in one row."""
    state = drive(network, rc.RTRL(), weights, xs[:steps], ys[:steps])[-1][1]
    M = rc.RTRL().influence(network.cell, weights.cell, state)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(M)])
