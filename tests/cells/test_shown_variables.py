"""What the readout sees is the cell's choice: any of its variables, or several side by side."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER, distance, flat, problem
from recurra.cells.initial import random_feedback
from taking_steps import gradients, take_steps
from unrolled import lstm


class Memory(rc.LSTM):
    """Shows its memory c in the place of h."""

    shown: ClassVar = (1,)


class Both(rc.LSTM):
    """Shows its memory first, then h."""

    shown: ClassVar = (1, 0)


def seen(cell, a):
    return jnp.concatenate([a[p] for p in cell.shown])


@pytest.mark.parametrize("kind", [rc.LSTM, Memory, Both])
def test_gradients_are_derivatives_of_the_loss_through_what_is_shown(kind):
    network, weights, xs, ys = problem(kind)
    assert weights.readout.W.shape == (2, 3 * len(kind.shown))

    def loss(W, t):
        a = network.cell.init_state()
        for x in xs[: t + 1]:
            a = lstm(W, a, x)
        z = weights.readout.W @ seen(kind, a) + weights.readout.b
        return -jnp.sum(ys[t] * jax.nn.log_softmax(z))

    visited = take_steps(network, rc.RTRL(), weights, xs, ys)
    for t in (0, 5):
        assert distance(gradients(visited)[t], jax.grad(loss)(weights.cell, t)) < 1e-10
        assert abs(visited[t][0].loss - loss(weights.cell, t)) < 1e-12
    others = take_steps(rc.Network(rc.LSTM(2, 3), 2), rc.RTRL(), weights, xs, ys) if kind is Memory else None
    assert others is None or distance(gradients(others)[5], gradients(visited)[5]) > 1e-3


QUICK = ("dni",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in FOR_ONE_LAYER])
def test_every_learner_trains_a_cell_that_shows_both(name):
    settings = {"steps": 40, "optimizer": 0.1, "progress": False}
    run, start = (
        rc.train(rc.Network(Both(2, 3), 2), each, rc.Add(1, 2), **settings)
        for each in (FOR_ONE_LAYER[name](), rc.Fixed())
    )
    assert np.isfinite(flat(run.weights)).all()
    assert name == "fixed" or distance(run.weights.cell, start.weights.cell) > 0


def test_random_feedback_has_the_size_of_an_average_over_outputs():
    weights = random_feedback(jax.random.key(0), 25, 4000, jnp.dtype("float64"))
    assert weights.shape == (25, 4000)
    assert abs(float(weights.std()) - 1 / 5) < 0.003
