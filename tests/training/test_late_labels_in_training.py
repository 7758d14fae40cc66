"""Labels that come rows later, inside `train`: forecasts are made with no more than what was known."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Members
from small_runs import train

slow = pytest.mark.slow
STEPS = 160


def series(rows=STEPS, n_out=1, sequences=None, seed=0):
    """A noisy oscillation as input, beside noise, and values that can be forecast from it."""
    rng = np.random.default_rng(seed)
    shape = (1 if sequences is None else sequences, rows)
    noise, value = rng.normal(size=shape), np.zeros(shape)
    for t in range(2, rows):
        value[:, t] = 1.2 * value[:, t - 1] - 0.6 * value[:, t - 2] + 0.5 * noise[:, t]
    x = np.stack([value, rng.normal(size=shape)], axis=-1)
    y = np.stack([value * (1 + k) for k in range(n_out)], axis=-1)
    return (x[0], y[0]) if sequences is None else (x, y)


def net(cell=rc.RNN, n_out=1):
    return rc.Network(cell(2, 4), n_out, rc.SquaredError())


def run(task, learner, network=None, steps=STEPS, **settings):
    settings = {"optimizer": rc.Adam(0.01), "window": 1, "seeds": 1, **settings}
    return train(learner, task, network or net(), steps=steps, **settings)


LEARNERS = [
    rc.RFLO(),
    pytest.param(rc.RTRL(), marks=slow),
    pytest.param(rc.UORO(), marks=slow),
    pytest.param(rc.EfficientBPTT(T=7), marks=slow),
    pytest.param(rc.FutureBPTT(T=4), marks=slow),
    pytest.param(rc.DNI(0.01), marks=slow),
]


@slow
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.about.id)
def test_one_row_ahead_is_the_same_as_labels_moved_by_a_row(learner):
    """A label that comes before the next input is seen by the same weights either way."""
    x, y = series()
    moved = run(rc.Arrays(x[:-1], y[1:]), learner, steps=STEPS - 1)
    late = run(rc.Arrays(x, y, horizon=1), learner)
    assert np.isnan(late.loss[:, 0]).all()
    np.testing.assert_allclose(late.loss[:, 1:], moved.loss, rtol=1e-9)
    for ours, wanted in zip(jax.tree.leaves(late.weights), jax.tree.leaves(moved.weights), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-12)


@functools.cache
def parts(network, learner, gaps, resets):
    """A step of learning, and its functions, compiled."""
    step = rc.LearningStep(network, learner, rc.Adam(0.01))
    whole = Experiment(step, rc.Arrays(*series()), gaps=gaps, resets=resets)
    return whole, *map(eqx.filter_jit, (step.observe, step.learn, network.forward))


def by_hand(network, learner, x, y, h, present=None, reset=None, leads=True):
    """Losses and forecasts for every row, with plain calls and lists; `leads` False: a state that waits for labels.

    The network that learns takes row t - h when the label of row t is there. The one that forecasts takes every row.
    """
    gaps = present is not None or reset is not None
    whole, observe, learn, forward = parts(network, learner, gaps, reset is not None)
    carry, keys = whole.init(Members.of_seeds(jax.random.key(0), (0,)).keys[0])
    state = carry.learning._replace(t=jnp.zeros((), "int32"))
    first = network.cell.init_state()
    lead, losses, forecasts = first, np.full(len(x), np.nan), []
    at = lambda rows, t: None if rows is None else jnp.asarray(rows[t])
    for t in range(len(x)):
        if t >= h:
            s = t - h
            if s % rc.BLOCK == 0:
                (_, noise), _ = whole.draw(carry, keys, jnp.array(s // rc.BLOCK, "int32"))
            row = jax.tree.map(lambda rows, i=s % rc.BLOCK: rows[i], noise)
            seen, _ = observe(state, jnp.asarray(x[s]), row, at(reset, s))
            counts = (present is None or present[t]) and (reset is None or not reset[s + 1 : t + 1].any())
            state, _ = learn(seen, jnp.asarray(y[t]), jnp.asarray(bool(counts)) if gaps else None)
            losses[t] = np.sum((forecasts[s] - y[t]) ** 2) / 2 if counts else np.nan
        lead = first if reset is not None and reset[t] else lead
        after, _, z = forward(state.weights, lead if leads else state.a, jnp.asarray(x[t]))
        lead, _ = after, forecasts.append(np.asarray(z))
    return losses, np.array(forecasts), state.weights


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.about.id)
def test_far_ahead_is_what_two_networks_do_by_hand(learner):
    x, y = series()
    record = {"row": lambda o: (o.t, o.input, o.label, o.output)}
    result = run(rc.Arrays(x, y, horizon=5), learner, record=record)
    losses, forecasts, weights = by_hand(net(), learner, x, y, 5)
    np.testing.assert_allclose(result.loss[0], losses, rtol=1e-9)
    assert np.isnan(losses[:5]).all()
    assert np.isfinite(losses[5:]).all()
    for ours, wanted in zip(jax.tree.leaves(result.weights), jax.tree.leaves(weights), strict=True):
        np.testing.assert_allclose(ours[0], wanted, rtol=1e-9, atol=1e-12)
    # What is recorded of a row are its own input and forecast, and the label it was for.
    t, inputs, labels, outputs = (leaf[0] for leaf in result.records["row"])
    count = STEPS - 5 - learner.lag
    np.testing.assert_array_equal(t, np.arange(count))
    np.testing.assert_array_equal(inputs, x[:count])
    np.testing.assert_array_equal(labels, y[5 : 5 + count])
    np.testing.assert_allclose(outputs, forecasts[:count], rtol=1e-9, atol=1e-12)
    # A state that waits for its labels does not pass.
    waiting, _, _ = by_hand(net(), learner, x, y, 5, leads=False)
    assert not np.allclose(losses[5:], waiting[5:], rtol=1e-2)


@slow
def test_weights_that_know_too_much_do_not_pass():
    x, y = series()
    losses = run(rc.Arrays(x, y, horizon=5), rc.RFLO()).loss[0, 5:]
    early = run(rc.Arrays(x[:-5], y[5:]), rc.RFLO(), steps=STEPS - 5).loss[0]
    assert not np.allclose(losses, early, rtol=1e-2)


@slow
@pytest.mark.parametrize("kind", ["missing", "episodes", "both"])
@pytest.mark.parametrize("learner", [rc.RFLO(), rc.RTRL()], ids=lambda each: each.about.id)
def test_missing_labels_and_episodes_with_late_labels(learner, kind):
    """A forecast from before an episode's start has no label in it."""
    x, y = series()
    rng = np.random.default_rng(1)
    present = rng.random(STEPS) < 0.6 if kind != "episodes" else None
    reset = rng.random(STEPS) < 0.1 if kind != "missing" else None
    network = net(rc.LSTM)
    result = run(rc.Arrays(x, y, present=present, reset=reset, horizon=4), learner, network)
    losses, _, weights = by_hand(network, learner, x, y, 4, present, reset)
    np.testing.assert_allclose(result.loss[0], losses, rtol=1e-9)
    np.testing.assert_array_equal(result.labelled[0], np.isfinite(losses))
    for ours, wanted in zip(jax.tree.leaves(result.weights), jax.tree.leaves(weights), strict=True):
        np.testing.assert_allclose(ours[0], wanted, rtol=1e-9, atol=1e-12)


@slow
@pytest.mark.parametrize("with_resets", [False, True])
def test_streams_forecast_as_they_do_alone_if_nothing_is_learned(with_resets):
    x, y = series(sequences=3)
    reset = np.random.default_rng(1).random((3, STEPS)) < 0.1 if with_resets else None
    held = {"optimizer": 0.0, "record": {"z": lambda o: o.output}}
    together = run(rc.Arrays(x, y, horizon=4, reset=reset), rc.RFLO(), streams=3, **held)
    own = [None if reset is None else reset[i] for i in range(3)]
    alone = [run(rc.Arrays(x[i], y[i], horizon=4, reset=own[i]), rc.RFLO(), **held) for i in range(3)]
    each = np.stack([result.records["z"][0] for result in alone], axis=1)
    np.testing.assert_allclose(together.records["z"][0], each, rtol=1e-9)
    with np.errstate(invalid="ignore"):
        count = np.sum([np.isfinite(result.loss[0]) for result in alone], axis=0)
        mean = np.nansum([result.loss[0] for result in alone], axis=0) / count
    np.testing.assert_allclose(together.loss[0], mean, rtol=1e-9)


@slow
@pytest.mark.parametrize("engine", [rc.ScanEngine(chunk=7), rc.ScanEngine(strides=True)], ids=["chunk", "strides"])
def test_how_a_run_is_cut_changes_nothing(engine):
    x, y = series(300)
    whole, cut = (
        run(rc.Arrays(x, y, horizon=150), rc.UORO(), steps=300, seeds=2, engine=each) for each in ("auto", engine)
    )
    assert np.isnan(cut.loss[:, :150]).all()
    np.testing.assert_allclose(cut.loss, whole.loss, rtol=1e-9 if engine.strides else 0)


@slow
def test_a_run_with_late_labels_goes_on_from_its_checkpoint(tmp_path):
    task, file = rc.Arrays(*series(), horizon=20), tmp_path / "run.safetensors"
    record = {"z": lambda o: o.output}
    whole = run(task, rc.RFLO(), record=record)
    for steps in (10, 70, STEPS):  # before the first label, and after it
        result = run(task, rc.RFLO(), steps=steps, record=record, checkpoint=file)
    np.testing.assert_array_equal(result.loss, whole.loss)
    np.testing.assert_array_equal(result.records["z"], whole.records["z"])


def test_when_rows_start_over_the_first_labels_belong_to_no_forecast():
    x, y = series(50)
    result = run(rc.Arrays(x, y, horizon=6, repeat=True), rc.RFLO(), steps=120)
    np.testing.assert_array_equal(np.isnan(result.loss[0]), np.arange(120) % 50 < 6)


class Later(rc.Task):
    """A task of one's own whose labels are what was seen three rows ago."""

    n_in, n_out, horizon = 2, 1, 3

    def init(self, key, dtype):
        return jnp.zeros((), dtype)

    def block(self, state, key, number, dtype):
        x = jax.random.normal(key, (rc.BLOCK, 2), dtype)
        return rc.Rows(x, x[:, :1]), state


def test_a_task_of_one_s_own_may_have_a_horizon():
    result = run(Later(), rc.RFLO(), record={"xy": lambda o: (o.input, o.label)}, steps=140)
    x, y = (leaf[0] for leaf in result.records["xy"])
    assert len(x) == 137
    np.testing.assert_array_equal(y[:100], x[3:103, :1])
    wrong = type("Wrong", (Later,), {"horizon": -1})
    with pytest.raises(ValueError, match="`horizon` of Wrong must be at least 0"):
        run(wrong(), rc.RFLO())


def test_horizons_that_make_no_sense_are_refused():
    x, y = series(50)
    with pytest.raises(ValueError, match="the arrays have 50 rows, so no forecast would meet its label"):
        rc.Arrays(x, y, horizon=50)
    with pytest.raises(TypeError, match="`horizon` of Arrays must be a whole number"):
        rc.Arrays(x, y, horizon=True)
    with pytest.raises(ValueError, match="at least 0"):
        rc.Arrays(x, y, horizon=-1)
