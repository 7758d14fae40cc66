"""Exact methods against autodiff through the unrolled network, step by step, and against finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import recurra as rc
import unrolled
from driving import distance, drive, one_step, problem
from recurra.step import APPLIED
from unrolled import CELLS

EXACT = 1e-10
T = 3
#: without a leak a plain network is a leaky one whose leak is zero
EACH = pytest.mark.parametrize("cell", [pytest.param("rnn", marks=pytest.mark.slow), "leaky rnn", "lstm", "gru"])


@pytest.mark.parametrize("cell", CELLS)
def test_rtrl_gradient_and_influence_are_derivatives_of_the_present_loss_and_state(cell):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make)
    of_loss, of_state = unrolled.every_gradient_and_influence(
        step, weights.cell, weights.readout, network.cell.init_state(), xs, ys
    )
    for t, (gradient, state, _) in enumerate(drive(network, rc.RTRL(), weights, xs, ys)):
        assert distance(gradient, jax.tree.map(lambda rows, t=t: rows[t], of_loss)) < EXACT
        expected = jax.tree.map(lambda rows, t=t: rows[t], of_state)
        assert distance(rc.RTRL().influence(network.cell, weights.cell, state), expected) < EXACT


def test_derivatives_of_all_steps_at_once_are_those_of_the_unrolled_network():
    """So that the test above rests on the network in plain Python too."""
    make, step = CELLS["lstm"]
    network, weights, xs, ys = problem(make, steps=3)
    a0 = network.cell.init_state()
    at_once = unrolled.every_gradient_and_influence(step, weights.cell, weights.readout, a0, xs, ys)
    last = (
        unrolled.gradient_of_one_loss(step, weights.cell, weights.readout, a0, xs, ys, 2),
        unrolled.influence(step, weights.cell, a0, xs),
    )
    assert distance(jax.tree.map(lambda rows: rows[2], at_once), last) < EXACT


@EACH
def test_future_bptt_gradient_is_the_derivative_in_one_application(cell):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make, steps=7)
    a0, learner = network.cell.init_state(), rc.FutureBPTT(T=T)
    for t, (gradient, _, _) in enumerate(drive(network, learner, weights, xs, ys)):
        if t < T:
            assert not learner.emits(jnp.array(t))
            assert distance(gradient, jax.tree.map(jnp.zeros_like, gradient)) == 0
            continue
        s = t - learner.lag
        expected = unrolled.gradient_of_application(step, weights.cell, weights.readout, a0, xs, ys, s, t)
        assert distance(gradient, expected) < EXACT


def segment_gradient(step, weights, network, xs, ys, t):
    """d(L(t-T+1) + ... + L(t))/dw over the segment alone: each application counts the losses up to t."""
    a0, first = network.cell.init_state(), t - T + 1
    terms = [
        unrolled.gradient_of_application(step, weights.cell, weights.readout, a0, xs, ys, s, t)
        for s in range(first, t + 1)
    ]
    return jax.tree.map(lambda *leaves: sum(leaves), *terms)


@EACH
def test_efficient_bptt_gradient_is_the_derivative_over_its_segment(cell):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make, steps=6)
    learner = rc.EfficientBPTT(T=T)
    for t, (gradient, _, _) in enumerate(drive(network, learner, weights, xs, ys)):
        assert bool(learner.emits(jnp.array(t))) == (t % T == T - 1)
        if learner.emits(jnp.array(t)):
            assert distance(gradient, segment_gradient(step, weights, network, xs, ys, t)) < EXACT


def test_finite_differences_agree():
    make, step = CELLS["leaky rnn"]
    network, weights, xs, ys = problem(make, steps=5)
    a0, t = network.cell.init_state(), 4
    loss = lambda applied: unrolled.losses(step, applied, weights.readout, a0, xs, ys)
    rtrl = drive(network, rc.RTRL(), weights, xs, ys)[t][0]
    slope = unrolled.finite_difference(jax.jit(lambda W: loss([W] * 5)[t]), weights.cell)
    assert distance(rtrl, slope) < 1e-7

    future = drive(network, rc.FutureBPTT(T=T), weights, xs, ys)[t][0]
    applied_once = jax.jit(lambda W: loss([weights.cell, W, *[weights.cell] * 3])[1:5].sum())
    assert distance(future, unrolled.finite_difference(applied_once, weights.cell)) < 1e-7

    segment = drive(network, rc.EfficientBPTT(T=T), weights, xs, ys)[2][0]
    applied_thrice = jax.jit(lambda W: loss([W] * 3 + [weights.cell] * 2)[:3].sum())
    assert distance(segment, unrolled.finite_difference(applied_thrice, weights.cell)) < 1e-7


class Own(eqx.Module):
    """A user's own cell: two state arrays of different shapes, weights that act on no single unit."""

    W: jax.Array
    U: jax.Array

    def __call__(self, x, state):
        h, m = state["h"], state["m"]
        m = 0.5 * m + jnp.outer(h[:2], x)
        return {"h": jnp.tanh(self.W @ h + self.U @ x + m.sum()), "m": m}


def module_and_carry(name):
    key = jax.random.key(5)
    zeros = jnp.zeros(3)
    own = Own(jax.random.normal(key, (3, 3)), jax.random.normal(key, (3, 2)))
    return {
        "GRUCell": (eqx.nn.GRUCell(2, 3, key=key), zeros),
        "LSTMCell": (eqx.nn.LSTMCell(2, 3, key=key), (zeros, zeros)),
        "own": (own, {"h": zeros, "m": jnp.zeros((2, 2))}),
    }[name]


@pytest.mark.parametrize("name", [pytest.param("GRUCell", marks=pytest.mark.slow), "LSTMCell", "own"])
def test_general_cells_are_exact_too(name):
    module, carry = module_and_carry(name)
    cell, rest = rc.cell_of(module, carry=carry, x=2, unitwise=False), eqx.partition(module, eqx.is_inexact_array)[1]
    network, weights, xs, ys = problem(lambda n_in, n: cell)

    def step(W, a, x):
        leaves, treedef = jax.tree.flatten(carry)
        state = jax.tree.unflatten(treedef, [v.reshape(leaf.shape) for v, leaf in zip(a, leaves, strict=True)])
        after = eqx.combine(W, rest)(x, state)
        return tuple(jnp.ravel(leaf) for leaf in jax.tree.leaves(after))

    a0 = cell.init_state()
    rtrl = drive(network, rc.RTRL(), weights, xs, ys)
    future = drive(network, rc.FutureBPTT(T=T), weights, xs, ys)
    segment = drive(network, rc.EfficientBPTT(T=T), weights, xs, ys)
    assert all(distance(future[t][0], jax.tree.map(jnp.zeros_like, weights.cell)) == 0 for t in range(T))
    for t in (3, 5):
        expected = unrolled.gradient_of_one_loss(step, weights.cell, weights.readout, a0, xs, ys, t)
        assert distance(rtrl[t][0], expected) < EXACT
        expected = unrolled.gradient_of_application(step, weights.cell, weights.readout, a0, xs, ys, t - T, t)
        assert distance(future[t][0], expected) < EXACT
    assert distance(segment[5][0], segment_gradient(step, weights, network, xs, ys, 5)) < EXACT


@pytest.mark.parametrize(("ours", "theirs"), [("gru", "GRUCell"), ("lstm", "LSTMCell")])
def test_our_gated_cells_are_equinox_s(ours, theirs):
    """The unit-wise cell with Equinox's weights takes Equinox's steps."""
    cell = CELLS[ours][0](2, 3)
    module, _ = module_and_carry(theirs)
    W = module
    split = lambda w, parts: jnp.split(w, parts)
    if ours == "lstm":
        blocks = zip(split(W.weight_hh, 4), split(W.weight_ih, 4), split(W.bias, 4), strict=True)
        gates = tuple(rc.cells.Sources(h, i, b[:, None]) for h, i, b in blocks)
    else:
        (hr, hu, hn), (ir, iu, i_n), (br, bu, bn) = split(W.weight_hh, 3), split(W.weight_ih, 3), split(W.bias, 3)
        gates = (
            rc.cells.Sources(hr, ir, br[:, None]),
            rc.cells.Sources(hu, iu, bu[:, None]),
            rc.cells.Sources(hn, None, W.bias_n[:, None]),
            rc.cells.Sources(None, i_n, bn[:, None]),
        )
    a = b = cell.init_state()
    for x in jax.random.normal(jax.random.key(3), (5, 2)):
        a, _ = cell.forward(gates, a, x)
        b = tuple(jnp.atleast_2d(jnp.stack(jax.tree.leaves(module(x, b if len(b) > 1 else b[0])))))
        assert distance(a, b) < EXACT


def readout_gradient(network, weights, x, y):
    """What plain descent at rate 1 takes from the readout in one step."""
    step = rc.LearningStep(network, rc.Fixed(), 1.0)
    state = step.init(jax.random.key(0))._replace(weights=weights)
    seen, _ = step.observe(state, x, {APPLIED: None})
    return jax.tree.map(jnp.subtract, weights.readout, step.learn(seen, y)[0].weights.readout)


@pytest.mark.parametrize("loss", [rc.SoftmaxCrossEntropy(), rc.SigmoidCrossEntropy(), rc.SquaredError()])
def test_readout_and_credit_are_the_loss_s_derivatives(loss):
    network, weights, xs, ys = problem(CELLS["rnn"][0])
    network = rc.Network(network.cell, 2, loss)
    a, x, y, t = network.cell.init_state(), xs[0], ys[0], jnp.array(0, "int32")
    by_hand = {
        "SoftmaxCrossEntropy": lambda z: -jnp.sum(y * jnp.log(jnp.exp(z) / jnp.exp(z).sum())),
        "SigmoidCrossEntropy": lambda z: (
            -jnp.sum(y * jnp.log(unrolled.sigmoid(z)) + (1 - y) * jnp.log(1 - unrolled.sigmoid(z)))
        ),
        "SquaredError": lambda z: 0.5 * jnp.sum((z - y) ** 2),
    }[type(loss).__name__]
    found, tick = one_step(network, weights, a, x, y, t)
    h = tick.state[0]
    value = lambda readout, h: by_hand(readout.W @ h + readout.b)
    assert jnp.allclose(found, value(weights.readout, h), rtol=1e-12)
    expected_readout, expected_credit = jax.grad(value, argnums=(0, 1))(weights.readout, h)
    assert distance(readout_gradient(network, weights, x, y), expected_readout) < EXACT
    assert distance(tick.cbar[0], expected_credit) < EXACT


def test_random_feedback_changes_the_credit_and_not_the_readout():
    exact, weights, xs, ys = problem(CELLS["rnn"][0])
    random = rc.Network(exact.cell, 2, random_feedback=True)
    without, weights = weights, weights._replace(feedback=random.init(jax.random.key(0)).feedback)
    a, x, y, t = exact.cell.init_state(), xs[0], ys[0], jnp.array(0, "int32")
    _, tick = one_step(random, weights, a, x, y, t)
    _, plain = one_step(exact, without, a, x, y, t)
    assert distance(readout_gradient(random, weights, x, y), readout_gradient(exact, without, x, y)) == 0
    assert jnp.allclose(tick.cbar[0], tick.error @ weights.feedback)
    assert distance(tick.cbar[0], plain.cbar[0]) > 0.1


# Negative controls: rules that are wrong in one place must fail the oracles above.


class TransposedRTRL(rc.RTRL):
    """J in the wrong direction."""

    def advance(self, tick, state, noise):
        transposed = jax.tree.map(lambda w: w.T if w.shape[0] == w.shape[1] else w, tick.weights)
        return super().advance(eqx.tree_at(lambda tick: tick.weights, tick, transposed), state, noise)


class ForgetfulRTRL(rc.RTRL):
    """Mbar of the first step only reaches back one step."""

    def advance(self, tick, state, noise):
        return super().advance(tick, jax.tree.map(jnp.zeros_like, state), noise)


@pytest.mark.parametrize("wrong", [TransposedRTRL(), ForgetfulRTRL(), rc.RFLO()])
def test_wrong_past_facing_rules_fail(wrong):
    make, step = CELLS["leaky rnn"]
    network, weights, xs, ys = problem(make)
    gradient, state, _ = drive(network, wrong, weights, xs, ys)[5]
    a0 = network.cell.init_state()
    assert distance(gradient, unrolled.gradient_of_one_loss(step, weights.cell, weights.readout, a0, xs, ys, 5)) > 1e-3
    right = rc.RTRL().influence(network.cell, weights.cell, drive(network, rc.RTRL(), weights, xs, ys)[5][1])
    assert distance(wrong.influence(network.cell, weights.cell, state), right) > 1e-3


def test_wrong_future_facing_rules_fail():
    make, step = CELLS["leaky rnn"]
    network, weights, xs, ys = problem(make)
    a0 = network.cell.init_state()
    expected = unrolled.gradient_of_application(step, weights.cell, weights.readout, a0, xs, ys, 2, 5)
    for wrong in (rc.RTRL(), rc.EfficientBPTT(T=T), rc.FutureBPTT(T=T + 1), rc.FutureBPTT(T=T - 1)):
        assert distance(drive(network, wrong, weights, xs, ys)[5][0], expected) > 1e-3
    segment = segment_gradient(step, weights, network, xs, ys, 5)
    for wrong in (rc.RTRL(), rc.FutureBPTT(T=T), rc.EfficientBPTT(T=2)):
        assert distance(drive(network, wrong, weights, xs, ys)[5][0], segment) > 1e-3
