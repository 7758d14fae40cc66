"""Heads of one's own: a linear one is the readout, others have the gradient of automatic differentiation."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import recurra as rc
from recurra.network import Readout

KEY = jax.random.key(0)
CELL = rc.RNN(n_in=2, n=5, dtype="float64")


def mlp(n_in, n_out=2):
    return eqx.nn.MLP(n_in, n_out, width_size=4, depth=1, activation=jnp.tanh, dtype=jnp.float64, key=KEY)


def linear(n_in):
    """The readout, written as a head of one's own."""
    W = jax.random.normal(KEY, (2, n_in), "float64")
    return rc.module_of(lambda params, u: params["W"] @ u + params["b"], {"W": W, "b": jnp.zeros(2)}, x=n_in)


@pytest.mark.parametrize(("skip", "streams"), [(False, 1), (True, 3)])
def test_a_linear_head_is_the_readout(skip, streams):
    n_in = CELL.n + CELL.n_in * skip
    network = rc.Network(CELL, n_out=2, head=linear(n_in), skip=skip)
    weights = network.init(KEY)
    own, plain = weights.readout, rc.Network(CELL, n_out=2, skip=skip)
    readout = Readout(own["W"][:, : CELL.n], own["b"], own["W"][:, CELL.n :] if skip else None)
    settings = dict(steps=40, streams=streams, optimizer=rc.Adam(1e-2), window=1, progress=False)
    here = rc.train(network, rc.RFLO(), rc.Add(1, 2), start=weights, **settings)
    there = rc.train(plain, rc.RFLO(), rc.Add(1, 2), start=plain.init(KEY)._replace(readout=readout), **settings)
    np.testing.assert_allclose(here.loss, there.loss, rtol=1e-12)


@pytest.mark.parametrize("skip", [False, True])
def test_gradients_of_any_head_are_those_of_automatic_differentiation(skip):
    """Over three steps RTRL has the gradient of the summed loss, and the head that of each step."""
    network = rc.Network(CELL, n_out=2, head=mlp(CELL.n + CELL.n_in * skip), skip=skip)
    step = rc.LearningStep(network, rc.RTRL(), 1.0)
    xs, ys = jax.random.normal(KEY, (3, 2), "float64"), jnp.eye(2)[jnp.array([0, 1, 1])]

    def losses(weights):
        outputs = network.run(weights, xs)
        return -jnp.sum(ys * jax.nn.log_softmax(outputs), axis=1)

    start = network.init(jax.random.key(1))
    state, found = step.start_from(start, KEY), []
    for x, y in zip(xs, ys, strict=True):
        seen, _ = step.observe(state, x, {"applied": None})
        after, _ = step.learn(seen, y)
        found.append(jax.tree.map(jnp.subtract, start[:2], after.weights[:2]))
        state = after._replace(weights=start)
    for number, gradient in enumerate(found):
        truth = jax.grad(lambda weights, number=number: losses(weights)[number])(start)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), gradient, truth[:2])


def test_heads_of_every_kind_learn():
    heads = [
        mlp(5),
        nnx.Linear(5, 2, param_dtype=jnp.float64, rngs=nnx.Rngs(0)),
        rc.module_of(nn.Dense(2, param_dtype=jnp.float64), x=5),
        rc.module_of(mlp(5), x=5, init=lambda key: eqx.nn.MLP(5, 2, 4, 1, jnp.tanh, dtype=jnp.float64, key=key)),
    ]
    drawn = []
    for head in heads:
        network = rc.Network(CELL, n_out=2, head=head)
        result = rc.train(network, rc.SnAp1(), rc.Add(1, 2), steps=300, seeds=2, optimizer=0.03, progress=False)
        assert (result.loss[:, -10:].mean(axis=1) < result.loss[:, :10].mean(axis=1)).all()
        first, second = (jax.tree.leaves(network.init(jax.random.key(seed)).readout) for seed in (0, 1))
        drawn.append(any(bool((a != b).any()) for a, b in zip(first, second, strict=True)))
    assert drawn == [False, False, True, True]  # the last two draw their parameters from the key of a seed


def test_the_module_of_learned_parameters_is_the_users():
    """What comes back can be called as what was given."""
    u = jnp.arange(5.0)
    for thing in (mlp(5), nnx.Linear(5, 2, param_dtype=jnp.float64, rngs=nnx.Rngs(0))):
        head = rc.module_of(thing, x=5)
        moved = jax.tree.map(lambda leaf: leaf + 1, head.params)
        np.testing.assert_allclose(head.module(moved)(u), head(moved, u))
        np.testing.assert_allclose(head(head.params, u), thing(u))


def test_inputs_of_any_shape():
    image = rc.module_of(lambda W, x: W @ jnp.ravel(x), jnp.ones((3, 6)), x=jnp.zeros((2, 3)))
    assert (image.n_in, image.n_out) == (6, 3)
    np.testing.assert_allclose(image(jnp.eye(3, 6), jnp.arange(6.0)), [0, 1, 2])


class Random(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, x):
        return self.dropout(self.linear(x))


def head(thing, **settings):
    return lambda: rc.Network(CELL, n_out=2, head=thing, **settings)


REFUSED = {
    "another width": (head(mlp(6)), TypeError, r"could not be called as module\(x\), with an input of .* float64\[5\]"),
    "another n_out": (head(mlp(5, 3)), ValueError, "returns 3 numbers, and `n_out` is 2"),
    "another type": (head(eqx.nn.Linear(5, 2, key=KEY, dtype=jnp.float32)),
                     TypeError, "must share one dtype"),
    "a module for another input": (head(linear(7)), ValueError, "takes 7 numbers of float64, and is given 5"),
    "random feedback": (head(mlp(5), random_feedback=True), ValueError, "Random feedback takes the place"),
    "no module": (head(5), TypeError, "5 cannot be called"),
    "nothing to learn": (head(jnp.tanh), TypeError, "nothing to learn"),
    "dropout": (head(Random(eqx.nn.Linear(5, 2, key=KEY, dtype=jnp.float64), eqx.nn.Dropout(0.5))), TypeError,
                "must be a function of its input alone"),
    "a matrix": (lambda: rc.module_of(lambda W, x: W * x, jnp.ones((2, 5)), x=5), TypeError, "must return one vector"),
    "least squares": (lambda: rc.LearningStep(head(mlp(5), loss=rc.SquaredError())(), rc.RFLO(), 0.1, readout=rc.RLS()),
                      TypeError, "is a rule for the linear readout"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_head_is_refused(case):
    make, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        make()
