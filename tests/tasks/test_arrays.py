"""Arrays of one's own as a task: rows, sequences, missing labels and episodes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Members
from recurra.step import APPLIED
from small_runs import arrays, train


def test_arrays_are_served_row_by_row_and_start_over_on_request():
    task = arrays(50, repeat=True)
    result = train(task=task, steps=170, seeds=1, record={"xy": lambda o: (o.input, o.label)})
    x, y = result.records["xy"]
    index = np.arange(170) % 50
    np.testing.assert_array_equal(x[0], np.asarray(task.inputs)[0, index])
    np.testing.assert_array_equal(y[0], np.asarray(task.labels)[0, index])


def rows(steps=300, n_out=1, sequences=None, seed=0):
    """Random inputs, and labels under squared error."""
    rng = np.random.default_rng(seed)
    shape = (steps,) if sequences is None else (sequences, steps)
    return rng.normal(size=(*shape, 2)), rng.normal(size=(*shape, n_out))


def by_hand(network, learner, task, steps, streams=1):
    """The weights and losses of seed 0, step by step on the rows as they are given, without an engine."""
    whole = Experiment.of(network, {APPLIED: learner}, 0.05, task, streams)
    carry, keys = whole.init(Members.of_seeds(jax.random.key(0), (0,)).keys[0])
    state, losses = carry.learning._replace(t=jnp.zeros((), "int32")), []
    observe, learn = eqx.filter_jit(whole.step.observe), eqx.filter_jit(whole.step.learn)
    in_line = lambda each, t: None if each is None else (each[0, t] if streams == 1 else each[:, t])
    for t in range(steps):
        if t % rc.BLOCK == 0:
            (_, noise), _ = whole.draw(carry, keys, jnp.array(t // rc.BLOCK, "int32"))
        row = jax.tree.map(lambda leaf, i=t % rc.BLOCK: leaf[i], noise)
        seen, _ = observe(state, in_line(task.inputs, t), row, in_line(task.reset, t))
        state, outcome = learn(seen, in_line(task.labels, t), in_line(task.present, t))
        losses.append(float(outcome.loss))
    return state.weights, np.array(losses)


#: those whose work is cut up differently by an engine, and others
LEARNERS = [rc.EfficientBPTT(T=7)]
OTHERS = [rc.RFLO(), rc.RTRL(), rc.UORO(), rc.FutureBPTT(T=4), rc.DNI(0.01)]


@pytest.mark.parametrize(
    "learner",
    [*LEARNERS, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)],
    ids=lambda learner: learner.about.id,
)
def test_missing_labels_and_episodes_mean_in_a_run_what_they_mean_in_a_step(learner):
    inputs, labels = rows()
    rng = np.random.default_rng(1)
    task = rc.Arrays(inputs, labels, present=rng.random(300) < 0.4, reset=rng.random(300) < 0.05)
    network = rc.Network(rc.LSTM(2, 4), 1, rc.SquaredError())
    weights, losses = by_hand(network, learner, task, 300)
    train = lambda task: rc.train(network, learner, task, steps=300, optimizer=0.05, window=100, progress=False)
    result = train(task)
    for ours, wanted in zip(jax.tree.leaves(result.weights), jax.tree.leaves(weights), strict=True):
        np.testing.assert_allclose(ours[0], wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(losses), ~np.asarray(task.present)[0])
    np.testing.assert_allclose(result.loss[0], np.nanmean(losses.reshape(3, 100), axis=1), rtol=1e-9)
    assert not result.diverged
    if isinstance(learner, rc.RFLO):  # both matter
        for changes in ({"present": None}, {"reset": None}):
            other = rc.Arrays(inputs, labels, **{"present": task.present[0], "reset": task.reset[0], **changes})
            assert not np.allclose(train(other).loss, result.loss, rtol=1e-4)


def test_several_sequences_are_as_many_streams():
    inputs, labels = rows(200, sequences=3)
    present = np.random.default_rng(1).random((3, 200)) < 0.6
    task = rc.Arrays(inputs, labels, present=present)
    network = rc.Network(rc.GRU(2, 4), 1, rc.SquaredError())
    weights, losses = by_hand(network, rc.RTRL(), task, 200, streams=3)
    result = rc.train(network, rc.RTRL(), task, steps=200, streams=3, optimizer=0.05, window=1, progress=False)
    for ours, wanted in zip(jax.tree.leaves(result.weights), jax.tree.leaves(weights), strict=True):
        np.testing.assert_allclose(ours[0], wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.loss[0], losses, rtol=1e-9)


def test_a_mask_of_numpy_s_means_missing_labels():
    inputs, labels = rows(n_out=2)
    missing = np.arange(300) % 3 == 1
    labels[missing] = np.nan  # what is not there need not be a number
    masked = np.ma.masked_array(labels, np.broadcast_to(missing[:, None], labels.shape))
    net = rc.Network(rc.RNN(2, 4), 2, rc.SquaredError())
    run = lambda task: train(task=task, net=net, steps=300).loss
    np.testing.assert_array_equal(run(rc.Arrays(inputs, masked)), run(rc.Arrays(inputs, labels, present=~missing)))
    with pytest.raises(ValueError, match="masked in part"):
        rc.Arrays(inputs, np.ma.masked_array(labels, labels < 0))
    in_list = rc.Arrays([inputs, inputs], [masked, masked])
    np.testing.assert_array_equal(np.asarray(in_list.present), np.stack([~missing, ~missing]))
    with pytest.raises(ValueError, match="true or false for every row"):
        rc.Arrays(inputs, np.nan_to_num(labels), present=np.ma.masked_array(~missing, missing))
    with pytest.raises(TypeError, match="real numbers of at most 8 bytes, and holds timedelta64"):
        rc.Arrays(inputs.astype("timedelta64[s]"), np.nan_to_num(labels))
    with pytest.raises(ValueError, match="fill them first"):
        rc.Arrays(np.ma.masked_array(inputs, inputs < 0), labels)


def test_a_window_without_a_label_has_no_loss_and_the_final_loss_leaves_it_out():
    inputs, labels = rows()
    net = rc.Network(rc.RNN(2, 4), 1, rc.SquaredError())
    result = train(task=rc.Arrays(inputs, labels, present=np.arange(300) < 250), net=net, steps=300, window=20)
    assert np.isnan(result.loss[:, 13:]).all()
    assert np.isfinite(result.loss[:, :13]).all()
    # The 20 labels of window 11 and the 10 of window 12 count alike.
    np.testing.assert_allclose(result.final_loss(0.25), result.loss[:, 11:13] @ [2 / 3, 1 / 3])
    np.testing.assert_allclose(result.final_loss(0.2), result.loss[:, 12])
    assert np.isnan(result.final_loss(0.1)).all()


def test_another_length_of_data_compiles_nothing():
    traced = []

    def counting(outcome):
        traced.append(1)
        return outcome.loss

    losses = lambda length: train(task=arrays(length, repeat=True), steps=1500, record={"loss": counting}).records[
        "loss"
    ]
    losses(1000)
    once = len(traced)
    for length in (901, 1001, 1020):
        loss = losses(length)[0]
        assert np.isfinite(loss).all()
    assert len(traced) == once


def test_precision_that_would_be_lost_is_an_error_and_harmless_rounding_is_not():
    stamps = 1.7e9 + np.arange(300.0)[:, None]
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=r"column 0 by up to 64, while it varies by 86\.6"):
            rc.Arrays(stamps, np.zeros((300, 1)))
        with pytest.raises(ValueError, match="subtract its mean first"):
            rc.Arrays(np.where(np.arange(300)[:, None] == 7, 0, stamps), np.zeros((300, 1)))  # one value far away
        rc.Arrays(stamps - stamps.mean(), np.full((300, 1), 0.1))
    rc.Arrays(stamps, np.zeros((300, 1)))  # in double precision


def test_numbers_of_any_kind_are_served():
    inputs, labels = rows(n_out=2)
    net = rc.Network(rc.RNN(2, 4), 2, rc.SquaredError())
    plain = train(task=rc.Arrays(inputs, labels), net=net).loss
    np.testing.assert_array_equal(plain, train(task=rc.Arrays(inputs.astype(">f8"), labels.tolist()), net=net).loss)
    train(task=rc.Arrays(inputs > 0, (10 * labels).astype(int)), net=net)
