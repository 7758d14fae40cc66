"""Drive a learner by hand over given inputs, with the weights held, one step at a time."""

import jax
import jax.numpy as jnp
import numpy as np

import recurra as rc


def problem(make_cell, n=3, n_in=2, n_out=2, steps=6, seed=0, random_feedback=False):
    """A small network with weights, inputs and labels."""
    network = rc.Network(make_cell(n_in, n), n_out, random_feedback=random_feedback)
    keys = jax.random.split(jax.random.key(seed), 3)
    xs = jax.random.normal(keys[0], (steps, n_in))
    ys = jax.nn.softmax(jax.random.normal(keys[1], (steps, n_out)))
    weights = network.init(keys[2])
    # Zero biases would leave mistakes in them unseen.
    shake = lambda w: w + 0.3 * jax.random.normal(jax.random.fold_in(keys[2], w.size), w.shape, w.dtype)
    return network, weights._replace(cell=jax.tree.map(shake, weights.cell)), xs, ys


def drive(network, learner, weights, xs, ys, noise=None, state=None):
    """Each step's (gradient, learner state, tick)."""
    if state is None:
        state = learner.init(network.cell, weights.cell, jax.random.key(1), network.n_out)
    if noise is None:
        noise = learner.noise(network.cell, jax.random.key(2), len(xs))

    @jax.jit
    def step(a, state, x, y, t, nu):
        tick = network.step(weights, a, x, y, t).tick
        gradient, state = learner.step(tick, state, nu)
        return tick.state, gradient, state, tick

    a, visited = network.cell.init_state(), []
    for t in range(len(xs)):
        nu = jax.tree.map(lambda rows, t=t: rows[t], noise)
        a, gradient, state, tick = step(a, state, xs[t], ys[t], jnp.array(t, "int32"), nu)
        visited.append((gradient, state, tick))
    return visited


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def distance(x, y):
    """Relative to the larger of the two."""
    x, y = flat(x), flat(y)
    assert x.shape == y.shape
    return np.linalg.norm(x - y) / max(np.linalg.norm(x), np.linalg.norm(y), 1e-300)
