"""Labels that come late, beside plain steps of learning on rows that a list remembers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from online_models import CELLS
from recurra.linalg import where
from recurra.step import APPLIED, DelayedStep, LearningStep

ROWS = 24
LEARNERS = {
    "rflo": rc.RFLO(),
    "rtrl": rc.RTRL(),
    "uoro": rc.UORO(),
    "e-bptt": rc.EfficientBPTT(3),
    "f-bptt": rc.FutureBPTT(3),
    "dni": rc.DNI(),
}
#: the pairs of a learner and a horizon that are tried every time
QUICK = [("uoro", 1), ("uoro", 3)]


def rows(seed=0):
    """Inputs, labels, which of these are there, and where the state is set back."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 1)), rng.random(ROWS) < 0.8, rng.random(ROWS) < 0.15


def a_step(learner, cell="rnn"):
    network = rc.Network(CELLS[cell](2, 3), 1, rc.SquaredError(), skip=True)
    return LearningStep(network, learner, rc.SGD(0.05, 0.9))


def late(step, h, start, noise, xs, ys, present, resets):
    """Each row's output, leading and trailing state, and the outcome of the label that came with it."""
    queue = DelayedStep(step, h)
    observe, learn = jax.jit(queue.observe), jax.jit(queue.learn)
    state, found = queue.start(start), []
    for t in range(ROWS):
        outcome = None
        if t >= h:
            state, outcome = learn(state, ys[t], jax.tree.map(lambda each, t=t: each[t - h], noise), present[t])
        before = state
        state, output = observe(state, xs[t], resets[t])
        found.append((output, before.lead, before.learning, outcome))
    return found


@functools.cache
def plain(step):
    """A step of learning, and a look ahead."""

    @jax.jit
    def learned(state, x, y, nu, present, reset):
        return step.learn(step.observe(state, x, nu, reset)[0], y, present)[0]

    @jax.jit
    def looked(weights, a, x, reset):
        a = where(reset, step.network.cell.init_state(), a)
        return step.network.forward(weights, a, x)

    return learned, looked


def by_hand(step, h, start, noise, xs, ys, present, resets):
    """The same from a list of all rows: one network that learns (x[t-h], y[t]) in order, and one that runs ahead."""
    (learned, looked), state, lead, found = plain(step), start, start.a, []
    for t in range(ROWS):
        if t >= h:
            nu = jax.tree.map(lambda each, t=t: each[t - h], noise)
            state = learned(state, xs[t - h], ys[t], nu, present[t], resets[t - h])
        before = lead
        lead, _, output = looked(state.weights, lead, xs[t], resets[t])
        found.append((output, before, state))
    return found


@functools.cache
def everything(name, cell="rnn"):
    step = a_step(LEARNERS[name], cell)
    return (
        step,
        step.init(jax.random.key(0))._replace(key=None),
        step.noise(jax.random.key(1), ROWS),
        *map(jnp.asarray, rows()),
    )


def assert_close(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def check(name, h, cell="rnn"):
    step, start, noise, *data = everything(name, cell)
    found, wanted = late(step, h, start, noise, *data), by_hand(step, h, start, noise, *data)
    for (output, lead, learning, _), expected in zip(found, wanted, strict=True):
        assert_close((output, lead, learning), expected)
    assert np.abs(np.asarray(found[-1][2].weights.readout.W - start.weights.readout.W)).max() > 0.01
    for t in range(h, ROWS):  # the outcome is that of the prediction made h rows ago
        outcome = found[t][3]
        np.testing.assert_array_equal(outcome.output, found[t - h][0])
        loss = 0.5 * float((found[t - h][0] - data[1][t])[0] ** 2)
        np.testing.assert_allclose(outcome.loss, loss if data[2][t] else np.nan, rtol=1e-9)
    if h == 1:  # to the bit
        same = [np.array_equal(*pair) for each in found for pair in zip(each[1], each[2].a, strict=True)]
        assert all(same)
    else:  # The control: a forecast that starts from the state that learns would be h - 1 rows behind.
        assert any(np.abs(np.asarray(each[1][0] - each[2].a[0])).max() > 1e-3 for each in found)


@pytest.mark.parametrize(("name", "h"), QUICK)
def test_beside_plain_steps_on_a_remembered_past(name, h):
    check(name, h)


@pytest.mark.slow
@pytest.mark.parametrize("h", [1, 2, 5])
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("cell", CELLS)
def test_beside_plain_steps_for_all_learners(name, h, cell):
    check(name, h, cell)


def test_whether_a_reset_lies_between_a_row_and_its_label():
    h, queue = 3, DelayedStep(a_step(rc.Fixed()), 3)
    resets = np.random.default_rng(0).random(40) < 0.2
    state = queue.start(queue.step.init(jax.random.key(0)))
    observe, learn = jax.jit(queue.observe), jax.jit(queue.learn)
    for t in range(40):
        reset = jnp.asarray(resets[t])
        if t >= h:
            assert bool(queue.crosses_reset(state, reset)) == resets[t - h + 1 : t + 1].any()
            state, _ = learn(state, jnp.zeros(1), {APPLIED: None}, jnp.asarray(True))
        state, _ = observe(state, jnp.ones(2), reset)


def test_a_queue_of_no_rows_is_refused():
    with pytest.raises(ValueError, match="`rows` of DelayedStep must be at least 1, and is 0"):
        DelayedStep(a_step(rc.RFLO()), 0)
