"""Rows that begin a sequence: as in training, and nothing of the rows before is left in the network or its learner."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from online_models import bits, learning_step, one_by_one, plain_step, stream
from recurra.saved import archive
from small_runs import regression, series

slow = pytest.mark.slow
ROWS = 150


def flags(*shape, seed=1):
    return np.random.default_rng(seed).random(shape) < 0.1


def step_with_resets(horizon=0, lags=1, scaled=False, **kwargs):
    learning = learning_step(n_in=2 + 2 * (lags - 1), **kwargs)
    return rc.OnlineStep(learning, horizon, lags, 2 if lags > 1 else 0, scaled, scaled, resets=True)


CASES = [
    (rc.RTRL(), 0, 1),
    (rc.RFLO(), 3, 2),
    *(
        pytest.param(learner, horizon, streams, marks=slow)
        for learner in (rc.UORO(), rc.EfficientBPTT(7), rc.FutureBPTT(4), rc.DNI(), rc.RTRL())
        for horizon, streams in ((0, 1), (3, 1), (1, 2))
    ),
]


@pytest.mark.parametrize(("learner", "horizon", "streams"), CASES, ids=str)
def test_a_model_learns_sequences_as_training_does_in_whichever_cuts(learner, horizon, streams):
    step = step_with_resets(horizon, learner=learner, streams=streams, dtype="float64")
    X, Y = stream(ROWS, streams=streams, missing=0.2)
    reset = flags(ROWS, streams) if streams > 1 else flags(ROWS)
    in_sequences = lambda rows: rows if streams == 1 else rows.swapaxes(0, 1)
    task = rc.Arrays(*map(in_sequences, (X, Y)), reset=in_sequences(reset), horizon=horizon)
    settings = {"streams": streams, "key": 3, "optimizer": 0.01, "progress": False}
    output = {"z": lambda outcome: outcome.output}
    trained = rc.train(step.learning.network, learner, task, steps=ROWS, record=output, **settings).records["z"][0]
    whole, loop, without = (rc.Online(step, key=3) for _ in range(3))
    online = whole.learn_many(X, Y, reset)
    np.testing.assert_allclose(online[: len(trained)], trained, rtol=1e-8, atol=1e-10)
    one = [loop.learn_one(x, y, reset=flag) for x, y, flag in zip(X, Y, reset, strict=True)]
    assert (np.stack(one) == online).all()
    assert bits(loop) == bits(whole)
    assert not np.allclose(without.learn_many(X, Y), online, rtol=1e-3)  # the control: the same rows in one sequence


def after_a_past(step, seed, reset):
    """Predictions for rows that follow on a past of this seed without labels, the first of which may be a `reset`."""
    model = rc.Online(step, key=0)
    model.learn_many(stream(40, seed=seed)[0])
    X, Y = stream(30, seed=5)
    begins = np.arange(30) == 0 if reset else np.zeros(30, bool)
    return model.learn_many(X, Y, begins), model.weights


@pytest.mark.parametrize(
    ("learner", "horizon", "lags"),
    [
        (rc.RTRL(), 3, 1),
        (rc.RFLO(), 0, 3),
        *(pytest.param(kind(), h, 2, marks=slow) for kind in (rc.EfficientBPTT, rc.KFRTRL, rc.SnAp1) for h in (0, 3)),
    ],
    ids=str,
)
def test_nothing_passes_a_reset(learner, horizon, lags):
    """Neither states, traces, lags, nor labels of rows before: two pasts end in the same model."""
    step = step_with_resets(horizon, lags, learner=learner, dtype="float64")
    one, other = (after_a_past(step, seed, reset=True) for seed in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    one, other = (after_a_past(step, seed, reset=False) for seed in (1, 2))
    assert not np.allclose(one[0], other[0])
    assert not np.allclose(one[1].cell[0].rec, other[1].cell[0].rec)


def test_scales_go_on_and_looking_and_waiting_know_resets():
    step = step_with_resets(2, scaled=True, learner=rc.RFLO())
    X, Y = stream(60)
    model, other = rc.Online(step), rc.Online(step)
    for each in (model, other):
        each.learn_many(X[:40], Y[:40])
    before = bits(model)
    seen = model.predict_one(X[40], reset=True), model.predict_one(X[40])
    assert bits(model) == before
    assert not np.allclose(*seen)
    rows = model.state.inputs.rows
    model.label_one(Y[40])  # of row 38, which is before the reset: it counts for its row
    said = model.observe_one(X[40], reset=True)
    assert model.state.inputs.rows == rows + 1  # scales go on
    other.label_one(Y[40])
    kept = other.kept()
    assert not np.allclose(other.observe_one(X[40]), said)
    other.go_back(kept)
    np.testing.assert_array_equal(other.predict_one(X[40], reset=True), said)


def test_several_streams_have_flags_of_their_own():
    step = step_with_resets(learner=rc.RFLO(), streams=2)
    X, Y = stream(10, streams=2)
    models = [rc.Online(step) for _ in range(4)]
    for model in models:
        model.learn_many(X[:9], Y[:9])
    neither, first, both, all_ = (
        model.learn_one(X[9], Y[9], reset=flag)
        for model, flag in zip(models, (False, np.array([True, False]), np.array([True, True]), True), strict=True)
    )
    assert (first[0] == both[0]).all()
    assert (first[1] == neither[1]).all()
    assert (both == all_).all()
    assert not np.allclose(neither, both, rtol=1e-3)


REFUSED = {
    "a model without": (lambda: rc.Online(plain_step()).learn_one([1, 2], 3, reset=True), "made without resets"),
    "flags for a model without": (lambda: rc.Online(plain_step()).learn_many([[1, 2]], [3], [False]), "resets=True"),
    "a step without": (lambda: observed(plain_step()), "made without resets"),
    "differences": (lambda: rc.OnlineStep(learning_step(), difference=True, resets=True), "leave one of them out"),
    "too few flags": (lambda: sequences().learn_many(*stream(3), reset=[True]), r"shape \(3,\), and holds bool"),
    "one flag for all": (lambda: sequences().learn_many(*stream(3), reset=True), r"shape \(3,\)"),
    "numbers": (lambda: sequences().learn_many(*stream(3), reset=[0, 1, 0]), "holds int64"),
    "nan": (lambda: sequences().learn_one([1, 2], 3, reset=np.nan), "holds float64"),
    "an index": (lambda: sequences().predict_one([1, 2], reset=1), "holds int64"),
    "words": (lambda: sequences().observe_one([1, 2], reset="yes"), "true or false"),
    "unequal lists": (lambda: sequences().learn_many(*stream(3), reset=[[True], [], []]), "true or false"),
    "a mask": (lambda: sequences().learn_one([1, 2], reset=np.ma.array(True, mask=True)), "mask of NumPy's"),
}  # fmt: skip


def sequences():
    return rc.Online(step_with_resets(learner=rc.RFLO()))


def observed(step):
    return step.observe(rc.Online(step).state, jnp.ones(2, "float32"), jnp.array(True))


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_reset_is_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


def test_a_row_that_is_not_finite_is_refused_with_resets_too():
    model, (X, Y) = sequences(), stream(5)
    before = bits(model)
    X[3] = np.nan
    with pytest.raises(ValueError, match="Row 3, column 0 of the input"):
        model.learn_many(X, Y, np.arange(5) == 3)
    assert bits(model) == before


def test_a_model_with_resets_in_a_file_and_files_from_before_there_were_any(tmp_path):
    X, Y = stream(40, missing=0.2)
    reset = flags(40)
    model = rc.Online(step_with_resets(2))
    model.learn_many(X[:20], Y[:20], reset[:20])
    rc.save(tmp_path / "model", model)
    loaded = rc.load(tmp_path / "model")
    assert (loaded.learn_many(X[20:], Y[20:], reset[20:]) == model.learn_many(X[20:], Y[20:], reset[20:])).all()
    assert bits(loaded) == bits(model)
    plain = rc.Online(plain_step())
    rc.save(tmp_path / "new", plain)
    arrays, document = archive.read(tmp_path / "new", "model")
    fields = document["model"]["step"]["fields"]
    assert fields.pop("resets") is False
    assert fields["learning"]["fields"]["network"]["fields"].pop("head") is None
    archive.write(tmp_path / "old", "model", arrays, document)
    for like in (None, rc.Online(plain_step())):
        old = rc.load(tmp_path / "old", like)
        assert not old.step.resets
        assert bits(old) == bits(plain)
    with pytest.raises(rc.SavedFileError, match="other settings"):
        rc.load(tmp_path / "old", rc.Online(step_with_resets()))


def test_models_without_resets_carry_nothing_for_them():
    plain, other = rc.Online(plain_step()), rc.Online(step_with_resets())
    assert plain.state.delayed.learning.first is plain.state.delayed.waiting.reset is None
    assert other.state.delayed.learning.first is not None
    X, Y = stream(20)
    assert plain._line.shape[-1] + 1 == other._line.shape[-1]
    np.testing.assert_allclose(one_by_one(plain, X, Y), one_by_one(other, X, Y), rtol=1e-5)


# What was trained on sequences


GOES_ON = [
    (rc.RTRL(), rc.RNN, 0),
    *(
        pytest.param(learner, cell, horizon, marks=slow)
        for learner in (rc.RFLO(), rc.EfficientBPTT(T=7), rc.DNI(0.01), rc.RTRL(), rc.UORO())
        for cell, horizon in ((rc.GRU, 0), (rc.RNN, 3))
    ),
]


@pytest.mark.parametrize(("learner", "cell", "horizon"), GOES_ON, ids=str)
def test_a_network_trained_on_sequences_goes_on_as_a_longer_run_would(learner, cell, horizon):
    x, y = series(240)
    reset, present = flags(240, seed=2), np.random.default_rng(0).random(240) < 0.8
    reset[91] = True
    task = lambda stop: rc.Arrays(x[:stop], y[:stop], present[:stop], reset[:stop], horizon=horizon)
    run = lambda stop, **more: rc.train(
        regression(cell), learner, task(stop), steps=stop, optimizer=rc.Adam(0.01), seeds=[4, 2], progress=False, **more
    )
    longer = run(240, record={"z": lambda outcome: outcome.output})
    model = run(90).online(2)
    assert (model.rows, model.horizon, model.step.resets) == (90, horizon, True)
    labels = np.ma.array(y, mask=~present[:, None])[90:]
    predicted = model.learn_many(x[90:], labels, reset[90:])
    known = longer.records["z"][1]
    np.testing.assert_allclose(predicted[: len(known) - 90], known[90:], rtol=1e-8, atol=1e-10)
    for a, b in zip(jax.tree.leaves(model.weights), jax.tree.leaves(longer.weights_of(2)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "task",
    [rc.Copy(length=2), *(pytest.param(task, marks=slow) for task in (rc.Adding(), rc.Pattern(), rc.Evidence(dt=10)))],
    ids=lambda task: type(task).__name__,
)
def test_a_model_after_any_task_of_episodes(tmp_path, task):
    network = rc.Network(rc.GRU(task.n_in, 3), task.n_out, task.default_loss())
    result = rc.train(network, rc.RFLO(), task, steps=30, progress=False)
    model = result.online()
    rc.save(tmp_path / "model", model)
    x = np.ones(task.n_in)
    assert (rc.load(tmp_path / "model").learn_one(x, reset=True) == model.learn_one(x, reset=True)).all()
