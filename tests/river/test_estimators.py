"""Estimators of River's: rows as dictionaries, and behind them the same model as without River."""

import copy
import math
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from river import compose, datasets, evaluate, metrics, preprocessing, time_series

import recurra as rc
from recurra.river import RNNClassifier, RNNForecaster, RNNRegressor

NAMES = ["a", "b", "c"]


def numbers(rows=60, seed=0):
    """Rows with three features, and labels that depend on the present and the row before."""
    X = np.random.default_rng(seed).normal([5, -3, 100], [1, 2, 10], (rows, 3))
    return X, X[:, 0] - X[:, 1] + np.roll(X[:, 2], 1) / 10


def as_dicts(X):
    return [dict(zip(NAMES, map(float, row), strict=True)) for row in X]


def plain(columns, lags=0, readout=None, rate=1e-3, key=0):
    """The model behind an estimator, of the library's own parts."""
    wide = columns + max(lags - 1, 0)
    network = rc.Network(rc.RNN(wide, 4), 1, rc.SquaredError(), skip=True)
    learning = rc.LearningStep(network, rc.RFLO(), rc.Adam(rate, clip=1.0), readout=readout)
    return rc.Online(rc.OnlineStep(learning, 0, max(lags, 1), 1 if lags > 1 else 0), key)


# The same as without River


@pytest.mark.parametrize(
    ("settings", "readout"),
    [
        pytest.param({"forgetting": 0.99}, rc.RLS(0.99, 0.1), id="rls"),
        pytest.param({"readout": "descent"}, None, id="descent", marks=pytest.mark.slow),
        pytest.param({"lags": 3}, rc.RLS(1.0, 0.1), id="lags", marks=pytest.mark.slow),
    ],
)
def test_a_regressor_is_the_model_behind_it_bit_for_bit(settings, readout):
    X, y = numbers()
    lags = settings.get("lags", 0)
    regressor = RNNRegressor(n=4, seed=3, **settings)
    columns = np.concatenate([X, np.zeros((len(X), 1))], axis=1)  # the fourth column has no feature yet
    if lags:
        columns = np.concatenate([np.concatenate([y[:1], y[:-1]])[:, None], columns], axis=1)
    model = plain(columns.shape[1], lags, readout, key=3)
    for features, row, label in zip(as_dicts(X), columns, y, strict=True):
        assert regressor.predict_one(features) == model.predict_one(row)[0]
        regressor.learn_one(features, float(label))
        model.learn_one(row, label)
    assert plain(columns.shape[1], lags, readout, key=4).learn_many(columns, y[:, None])[-1] != model.predict_one(row)


@pytest.mark.slow
def test_a_forecaster_is_the_model_behind_it():
    y = np.sin(np.arange(80.0) / 3) * 7 + 100
    forecaster, model = RNNForecaster(n=4, lags=4), rc.forecaster(1, horizon=0, n=4, lags=4)
    for t, value in enumerate(y):
        forecaster.learn_one(float(value))
        model.learn_one(y[[max(t - 1, 0)]], y[[t]])
    assert forecaster.forecast(1)[0] == pytest.approx(model.predict_one(y[-1:])[0], rel=1e-12)
    assert forecaster.forecast(3) == pytest.approx(by_hand(model, y[-1], 3), rel=1e-9)
    learned = copy.deepcopy(forecaster)
    learned.learn_one(forecaster.forecast(1)[0])  # a forecast is no label
    assert forecaster.forecast(2)[1] != learned.forecast(1)[0]


def by_hand(model, y, horizon):
    """Forecasts from the step's pure functions."""
    step, state, forecasts = model.step, model.state, []
    origin = model.state_arrays()["origin_x"][0, 0]
    onward = jax.jit(lambda state, now: step.observe(step.told(state, now, jnp.array(True)), now))
    for _ in range(horizon):
        state, out = onward(state, jnp.array([y - origin]))
        y = float(out[0]) + origin
        forecasts.append(y)
    return forecasts


@pytest.mark.slow
def test_a_classifier_is_the_model_behind_it():
    """With four classes from the start, nothing tells the loss over seen classes from the usual one."""
    X, _ = numbers()
    classes = [0, 1, 2, 3] * 15
    network = rc.Network(rc.RNN(4, 4), 4, rc.SoftmaxCrossEntropy(), skip=True)
    learning = rc.LearningStep(network, rc.RFLO(), rc.Adam(3e-3, clip=1.0))
    model = rc.Online(rc.OnlineStep(learning, scale_target=False))
    classifier = RNNClassifier(n=4)
    for features, row, label in zip(as_dicts(X), np.c_[X, np.zeros(60)], classes, strict=True):
        classifier.learn_one(features, label)
        model.learn_one(row, np.eye(4)[label])
    z = model.predict_one(row)
    expected = np.exp(z) / np.exp(z).sum()  # the first 20 rows teach nothing, and by then all classes are known
    assert list(classifier.predict_proba_one(features).values()) == pytest.approx(expected, rel=1e-9)


# Looking, copying, changing


@pytest.mark.parametrize("kind", [RNNRegressor, RNNClassifier, RNNForecaster])
def test_looking_changes_nothing_and_copies_go_on_alike(kind):
    model, fed = kind(n=4, **({"lags": 4} if kind is RNNForecaster else {})), as_dicts(numbers()[0])
    learn = (lambda m, i: m.learn_one(float(i % 5), fed[i])) if kind is RNNForecaster else of_labels(kind, fed)
    look = lambda m: m.forecast(3, fed[-3:]) if kind is RNNForecaster else m.predict_one(fed[-1])
    for i in range(40):
        learn(model, i)
    before = pickle.dumps(model)
    expected = look(model)
    assert pickle.dumps(model) == before
    others = [pickle.loads(before), copy.deepcopy(model), model.clone(include_attributes=True)]
    for i in range(40, 50):
        learn(model, i)
    assert [look(other) == expected for other in others] == [True] * 3
    for other in others:
        for i in range(40, 50):
            learn(other, i)
        assert look(other) == look(model)
    if kind is not RNNClassifier:  # whose class may be the same
        assert look(model) != expected
    assert not model.clone()._stream.outputs


def of_labels(kind, fed):
    return lambda model, i: model.learn_one(fed[i], i % 3 if kind is RNNClassifier else float(i % 5))


def test_a_state_travels_as_plain_arrays():
    model = RNNRegressor(n=4)
    model.learn_one({"a": 1.0}, 2.0)
    arrays = model._stream.__getstate__()["online"][1]
    assert arrays
    assert all(type(array) is np.ndarray for array in arrays.values())


@pytest.mark.slow
def test_rates_may_be_changed_on_the_way():
    X, y = numbers()
    model, other, fed = RNNRegressor(n=4), RNNRegressor(n=4), as_dicts(X)
    for row, label in zip(fed[:40], y[:40], strict=True):
        model.learn_one(row, label)
        other.learn_one(row, label)
    model.mutate({"learning_rate": 1e-3, "forgetting": 1.0})
    model.learn_one(fed[40], y[40])
    other.learn_one(fed[40], y[40])
    assert model.predict_one(fed[41]) == other.predict_one(fed[41])
    model.mutate({"learning_rate": 0.1})
    model.learn_one(fed[41], y[41])
    other.learn_one(fed[41], y[41])
    assert model.predict_one(fed[42]) != other.predict_one(fed[42])
    assert model._stream.online.step.learning.optimizer.learning_rate == 0.1
    with pytest.raises(ValueError, match="not a mutable attribute"):
        model.mutate({"n": 7})


# What rows may hold


def test_values_that_are_no_numbers_are_named():
    model = RNNRegressor(n=4)
    with pytest.raises(TypeError, match=r"'colour' is the text 'red'.*river\.preprocessing\.OneHotEncoder"):
        model.learn_one({"colour": "red"}, 1.0)
    with pytest.raises(TypeError, match=r"'colour' is the text"):
        model.predict_one({"colour": "red"})
    with pytest.raises(TypeError, match=r"'when' is \(2020, 1\).*FuncTransformer"):
        model.learn_one({"when": (2020, 1)}, 1.0)
    with pytest.raises(ValueError, match="'a' is inf, which is not finite"):
        model.learn_one({"a": math.inf}, 1.0)
    with pytest.raises(ValueError, match="'a' is 1e\\+60, which is too large"):
        model.learn_one({"a": 1e60}, 1.0)
    for label, kind, words in [
        (math.nan, ValueError, "not a number"),
        (-math.inf, ValueError, "not finite"),
        ("3", TypeError, "must be a number"),
        (None, TypeError, "must be a number"),
    ]:
        with pytest.raises(kind, match=words):
            model.learn_one({"a": 1.0}, label)
    for label in (None, math.nan):
        with pytest.raises(ValueError, match="A class must be given"):
            RNNClassifier(n=4).learn_one({"a": 1.0}, label)
    assert not model._stream.outputs
    assert model.predict_one({"a": 1.0}) == 0.0


def test_truth_values_are_numbers_and_nan_and_none_are_missing():
    X, y = numbers()
    ways = [(bool, {}), (float, {"b": None}), (np.bool, {"b": np.float32("nan")})]
    models = [RNNRegressor(n=4) for _ in ways]
    for t, row in enumerate(as_dicts(X)):
        lacking = {name: value for name, value in row.items() if name != "b"}
        for model, (flag, gap) in zip(models, ways, strict=True):
            model.learn_one((lacking | gap if t % 4 == 1 else row) | {"flag": flag(t % 3 == 0)}, y[t])
    first, *others = [model.predict_one(row) for model in models]
    assert others == [first, first]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learner": "magic"}, r"`learner` of RNNRegressor must be 'rtrl', .* or 'e-prop-3', and is 'magic'"),
        ({"cell": "cnn"}, "or 'nonlinear-rtu', and is 'cnn'"),
        ({"readout": "lasso"}, "'rls' or 'descent', and is 'lasso'"),
        ({"absent": "gone"}, "'mean' or 'zero', and is 'gone'"),
        ({"n": 0}, "`n` of RNNRegressor must be at least 1, and is 0"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"forgetting": 2.0}, "forgetting"),
        ({"lags": -1}, "`lags` of RNNRegressor must be at least 0"),
        ({"seed": 2**32}, "`seed` of RNNRegressor must be a whole number in 0..2³²-1, and is 4294967296"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_parameters_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        RNNRegressor(**settings)


def test_a_learner_that_does_not_go_with_the_cell_is_refused_at_once():
    with pytest.raises(TypeError, match="KeRNL"):
        RNNRegressor(learner="kernl", cell="alif")
    RNNRegressor(learner="kernl", cell="gru")


def test_a_forecaster_says_what_it_needs():
    with pytest.raises(ValueError, match="`lags` of RNNForecaster must be at least 1, and is 0"):
        RNNForecaster(lags=0)
    with pytest.raises(ValueError, match="one row for each of 3 steps, and has 1"):
        RNNForecaster().forecast(3, [{}])
    with pytest.raises(ValueError, match="`horizon` must be at least 1"):
        RNNForecaster().forecast(0)
    assert RNNForecaster().forecast(2) == [0.0, 0.0]


# Together with River


def test_pipelines_metrics_and_evaluation_take_a_regressor():
    rows = [(x | {"kind": "even" if i % 2 else "odd"}, y) for i, (x, y) in enumerate(datasets.TrumpApproval().take(40))]
    scaled = compose.SelectType(float, int) | preprocessing.StandardScaler()
    kinds = compose.SelectType(str) | preprocessing.OneHotEncoder()
    from river.preprocessing import TargetStandardScaler

    model = (scaled + kinds) | TargetStandardScaler(RNNRegressor(n=4))
    metric = evaluate.progressive_val_score(rows, model, metrics.MAE() + metrics.RMSE())
    assert all(math.isfinite(each.get()) for each in metric)


@pytest.mark.slow
def test_with_a_delay_predictions_follow_from_what_has_been_learned():
    X, y = numbers(45)
    rows, delay = list(zip(as_dicts(X), map(float, y), strict=True)), 4
    found = [
        step["Prediction"]
        for step in evaluate.iter_progressive_val_score(
            rows, RNNRegressor(n=4), metrics.MAE(), delay=delay, yield_predictions=True
        )
    ]
    model, by_hand = RNNRegressor(n=4), []
    for t, (x, _) in enumerate(rows):
        if t >= delay:
            model.learn_one(*rows[t - delay])
        by_hand.append(model.predict_one(x))
    assert found[: len(rows)] == by_hand
    assert len(set(by_hand)) > 20


@pytest.mark.slow
def test_a_series_with_features_is_evaluated():
    class Season:
        def __iter__(self):
            return iter([({"phase": float(t % 6)}, float(t % 6 == 0) + t / 10) for t in range(50)])

    judge = getattr(evaluate, "evaluate", None) or time_series.evaluate
    metric = judge(Season(), RNNForecaster(n=4, lags=4), metrics.MAE(), horizon=3)
    assert len(metric.get()) == 3
    assert all(math.isfinite(each) for each in metric.get())


# What is imported


def test_the_library_works_without_river_and_names_the_extra():
    program = (
        "import sys; sys.modules['river'] = None; import recurra; recurra.Online; print('fine'); import recurra.river"
    )
    told = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert told.stdout == "fine\n"
    assert "ImportError: recurra.river needs River, which is not installed: pip install 'recurra[river]'" in told.stderr
