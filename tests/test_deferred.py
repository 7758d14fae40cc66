"""RTRL that lets steps wait gives the gradients of RTRL that does not, at every step, inside spans and across them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import reference
from driving import distance, drive, problem
from recurra.fleet import Fleet
from recurra.learners.base import SPAN
from recurra.learners.rtrl import Deferred
from recurra.loop import APPLIED, Loop
from recurra.schedule import stride
from recurra.training import numbers_as_arrays
from reference import CELLS

EXACT = 1e-10
STEPS = 2 * SPAN + 5
#: the first step, both sides of the ends of two spans, and one in the middle of the third
LOOKED_AT = (0, SPAN - 2, SPAN - 1, SPAN, 2 * SPAN - 1, 2 * SPAN, STEPS - 1)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_and_influence_are_derivatives_across_spans(cell):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make, steps=STEPS)
    learner, a0 = rc.RTRL(lazy=True), network.cell.init_state()
    visited = drive(network, learner, weights, xs, ys)
    assert isinstance(visited[0][1], Deferred)
    of_loss = jax.jit(
        lambda t: reference.gradient_of_one_loss(step, weights.cell, weights.readout, a0, xs, ys, t), static_argnums=0
    )
    for t in LOOKED_AT:
        gradient, state, _ = visited[t]
        assert distance(gradient, of_loss(t)) < EXACT
        expected = reference.influence(step, weights.cell, a0, xs[: t + 1])
        assert distance(learner.influence(network.cell, weights.cell, state), expected) < EXACT


def test_a_run_may_start_inside_a_span():
    make, _ = CELLS["leaky rnn"]
    network, weights, xs, ys = problem(make, steps=STEPS)
    offset, ends = 5, []
    for learner in (rc.RTRL(lazy=True), rc.RTRL(lazy=False)):
        state = learner.init(network.cell, weights.cell, jax.random.key(0), 2)
        a, gradients = network.cell.init_state(), []
        step = eqx.filter_jit(
            lambda a, state, x, y, t, learner=learner: advance(network, learner, weights, a, state, x, y, t)
        )
        for t in range(STEPS):
            a, gradient, state = step(a, state, xs[t], ys[t], jnp.array(t + offset, "int32"))
            gradients.append(gradient)
        ends.append(gradients)
    assert max(map(distance, *ends)) < EXACT


def advance(network, learner, weights, a, state, x, y, t):
    tick = network.step(weights, a, x, y, t).tick
    gradient, state = learner.step(tick, state, None)
    return tick.state, gradient, state


def trained(lazy, **settings):
    """A run whose weights move at every step."""
    network = rc.Network(rc.LSTM(2, 4), 2)
    arguments = {"steps": 150, "seeds": 2, "optimizer": 0.3, "window": 1, "progress": False} | settings
    return rc.train(network, rc.RTRL(lazy=lazy), rc.Add(), **arguments)


@pytest.mark.parametrize("streams", [1, 3])
def test_training_follows_the_same_path(streams):
    lazy, plain = trained(True, streams=streams), trained(False, streams=streams)
    assert abs(plain.loss[:, 0] - plain.loss[:, -1]).min() > 1e-3  # the weights did move
    np.testing.assert_allclose(lazy.loss, plain.loss, rtol=1e-9)
    assert distance(lazy.weights, plain.weights) < 1e-9


@pytest.mark.parametrize("chunk", [1, 7, SPAN, 50])
def test_a_run_cut_inside_a_span_has_the_same_bits(chunk):
    whole, cut = trained(True), trained(True, chunk=chunk)
    assert np.array_equal(whole.loss, cut.loss)
    assert distance(whole.weights, cut.weights) == 0


def test_a_probe_lets_steps_wait_too():
    probes = {"exact": rc.RTRL(lazy=False), "lazy": rc.RTRL(lazy=True)}
    record = {"alignments": rc.record.alignments, "norms": rc.record.gradient_norms}
    run = rc.train(
        rc.Network(rc.RNN(2, 4), 2), rc.RFLO(), rc.Add(), steps=50, optimizer=0.1, probes=probes, record=record,
        progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(run.records["norms"]["lazy"], run.records["norms"]["exact"], rtol=1e-9)
    np.testing.assert_allclose(run.records["alignments"]["exact"]["lazy"], 1, rtol=1e-9)


def test_rounds_of_several_lengths_go_together():
    """E-BPTT emits every 6 steps, RTRL as a probe lets 16 wait; neither changes what the other does."""
    record = {"norms": rc.record.gradient_norms}
    arguments = dict(steps=60, seeds=2, optimizer=0.3, record=record, window=1, progress=False)
    train = lambda **probes: rc.train(
        rc.Network(rc.RNN(2, 4), 2), rc.EfficientBPTT(T=6), rc.Add(), probes=probes, **arguments
    )
    alone, lazy, plain = train(), train(exact=rc.RTRL(lazy=True)), train(exact=rc.RTRL(lazy=False))
    np.testing.assert_allclose(lazy.loss, alone.loss, rtol=1e-12)
    np.testing.assert_allclose(lazy.records["norms"]["exact"], plain.records["norms"]["exact"], rtol=1e-9)


def test_a_general_cell_lets_no_step_wait():
    make = lambda key: eqx.nn.GRUCell(2, 3, key=key)
    cell = rc.GeneralCell(make(jax.random.key(0)), 2, jnp.zeros(3))
    state = rc.RTRL(lazy=True).init(cell, cell.weights, jax.random.key(0), 2)
    assert not isinstance(state, Deferred)


@pytest.mark.parametrize("learner", [rc.RTRL(lazy=True), rc.UORO(), rc.EfficientBPTT(), rc.EfficientBPTT(T=9)])
def test_strides_of_known_length_take_the_same_steps(learner):
    """As on an accelerator: from inside one stride to inside another, and whole ones between."""
    loop = numbers_as_arrays(Loop(rc.Network(rc.RNN(2, 4), 2), {APPLIED: learner}, rc.Add(), 0.3, {}))
    last = 150 + 2 * stride(loop) + 5
    bounds = [(0, 3), (3, 150), (150, last)]
    losses = []
    for strides in (False, True):
        with Fleet(loop, jax.random.key(0), (0, 1), last) as fleet:
            fleet._strides, fleet.stride = strides, stride(loop)
            losses.append(np.concatenate([fleet.advance(*each)[0] for each in bounds], axis=1))
    assert losses[1].shape == (2, last)
    np.testing.assert_allclose(*losses, rtol=1e-9)
