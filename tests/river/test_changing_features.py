"""Features and classes that appear and disappear: what is known goes on, and nothing depends on dictionaries' order."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from river import datasets, feature_extraction

import recurra as rc
from driving import FOR_ONE_LAYER
from recurra.online.model import Online
from recurra.river import RNNClassifier, RNNForecaster, RNNRegressor
from recurra.river.classifier import SeenCrossEntropy
from recurra.river.recipe import RIDGE, Recipe
from recurra.river.stream import carried_on
from recurra.step import APPLIED


def stream(rows=80, names="abcdef", seed=0):
    """Features with means and scales of their own, and labels that depend on all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, len(names))) * np.arange(1, len(names) + 1) + 10
    return [dict(zip(names, map(float, row), strict=True)) for row in X], X.sum(axis=1)


def heard(model, name):
    """What the network heard last of a feature: a standardised input."""
    recipe, columns = model._stream.recipe, model._stream.columns
    return float(model._stream.online.state.delayed.waiting.x[0, recipe.first + columns.names[name]])


# Features


def test_a_feature_that_is_missing_is_zero_once_standardised():
    rows, y = stream(60, "abc")
    model = RNNRegressor(n=4)
    for t, (row, label) in enumerate(zip(rows, y, strict=True)):
        is_there = t % 3 < 2
        model.learn_one(row if is_there else {"b": row["b"], "c": None}, label)
        if t > 2:
            for name in "ac":
                assert (abs(heard(model, name)) < 1e-9) is not is_there
            assert heard(model, "b")


@pytest.mark.slow
def test_without_zeros_a_feature_that_is_missing_is_zero_itself():
    """A bag of words: what is there is always the same, and only whether it is there tells something."""
    texts = ["cold rain", "warm sun", "rain", "sun sun"] * 20
    bag = feature_extraction.BagOfWords()
    model, blind = RNNClassifier(n=4, learning_rate=1e-2, absent="zero"), RNNClassifier(n=4, learning_rate=1e-2)
    right = {model: 0, blind: 0}
    for t, text in enumerate(texts):
        x, y = bag.transform_one(text), "rain" in text
        for each in right:
            right[each] += t >= 60 and each.predict_one(x) == y
            each.learn_one(x, y)
    assert right[model] == 20
    words = dict.fromkeys(["cold", "rain", "warm", "sun"], 0) | {"sun": 2}
    assert model.predict_proba_one(words) == model.predict_proba_one({"sun": 2})


@pytest.mark.slow
def test_a_late_feature_is_heard_as_if_it_had_always_been_there():
    """Its first 20 values tell its scale; from then on it is standardised like all others."""
    rows, y = stream(90, "ab")
    model = RNNRegressor(n=4)
    late = np.random.default_rng(1).normal(1e3, 5, 90)
    for t, (row, label) in enumerate(zip(rows, y, strict=True)):
        model.learn_one(row | ({"late": late[t]} if t >= 40 else {}), label)
        if t < 60:
            assert t < 40 or heard(model, "late") == 0
        else:
            known = late[40:60]
            assert heard(model, "late") == pytest.approx((late[t] - known.mean()) / known.std(), abs=0.6)
    # A feature that never varies is never heard.
    for row, label in zip(rows, y, strict=True):
        model.learn_one(row | {"flat": 3.0}, label)
    assert heard(model, "flat") == 0


def test_predictions_do_not_know_names_that_were_never_learned():
    rows, y = stream(30, "ab")
    model = RNNRegressor(n=4)
    for row, label in zip(rows, y, strict=True):
        model.learn_one(row, label)
    assert model.predict_one(rows[0] | {"new": 1e9}) == model.predict_one(rows[0])
    assert "new" not in model._stream.columns.names
    assert np.isfinite(model.predict_one({}))


@pytest.mark.parametrize("kind", [RNNRegressor, pytest.param(RNNClassifier, marks=pytest.mark.slow)])
def test_the_order_of_a_dictionary_does_not_matter(kind):
    """Neither within a row nor in which new names come first; names need not be text."""
    rows, y = stream(40, ["a", 1, 2.5, ("b", 2), "c", None])
    models, shuffled = [kind(n=4) for _ in range(3)], random.Random(0)
    for t, row in enumerate(rows):
        row = row if t > 25 else {name: row[name] for name in ["a", 2.5, None]}
        label = t % 3 if kind is RNNClassifier else y[t]
        ways = [list(row), list(row)[::-1], shuffled.sample(list(row), len(row))]
        for model, names in zip(models, ways, strict=True):
            model.learn_one({name: row[name] for name in names}, label)
    look = lambda model: model.predict_proba_one(row) if kind is RNNClassifier else model.predict_one(row)
    assert look(models[0]) == look(models[1]) == look(models[2])


@pytest.mark.slow
def test_columns_come_in_powers_of_two():
    model, sizes = RNNRegressor(n=4, readout="descent"), []
    for k in range(1, 10):
        model.learn_one(dict.fromkeys(range(k), 1.0), 0.0)
        sizes.append(model._stream.online.n_in)
    assert sizes == [4] * 4 + [8] * 4 + [16]
    series = RNNForecaster(n=4, lags=3)
    series.learn_one(1.0)
    assert series._stream.online.n_in == 1


# A model that grew


def test_what_is_known_keeps_its_place():
    """Three columns and two lags become seven columns and two lags, whichever array they are columns of."""
    recipe = Recipe("test", "rflo", "rnn", 4, 1e-2, "mean", 0, "rls", lags=3)
    old, new, rng = recipe.online(2, 1), recipe.online(6, 1), np.random.default_rng(0)
    drawn = {
        name: rng.normal(size=array.shape) if array.dtype == float else array
        for name, array in old.state_arrays().items()
    }
    found = carried_on(Online.from_saved(old.description(), drawn), new).state_arrays()
    fresh, kept = new.state_arrays(), [0, 1, 2, 7, 8]
    of = lambda arrays, name: next(array for key, array in arrays.items() if key.endswith(name))
    for name in ("weights.cell.0.inp", "mu.0.inp", "readout.V", "waiting.x"):
        assert np.array_equal(of(found, name)[:, kept], of(drawn, name))
        assert np.array_equal(of(found, name)[:, 3:7], of(fresh, name)[:, 3:7])
    for name in ("inputs.mean", "inputs.variance", "origin_x"):
        assert np.array_equal(of(found, name)[..., :3], of(drawn, name))
        assert not of(found, name)[..., 3:].any()
    # u = (1, a, x): the covariance P = S Sᵀ of what is known is the same, and new coefficients have their prior.
    P, known, news = of(found, "optimizers.1") @ of(found, "optimizers.1").T, [*range(8), 12, 13], [8, 9, 10, 11]
    assert P[np.ix_(known, known)] == pytest.approx(of(drawn, "optimizers.1") @ of(drawn, "optimizers.1").T)
    assert P[np.ix_(news, news)] == pytest.approx(np.eye(4) / RIDGE)
    assert not P[np.ix_(known, news)].any()
    assert found.keys() == fresh.keys()


def corner(old, new):
    """The weights of `new`, with those of `old` in their corner: columns first, lags last."""

    def within(small, large):
        if small.shape == large.shape:
            return small
        columns, more = min(small.shape[1], 4), large.shape[1] - small.shape[1]
        large = np.array(large)
        large[: len(small), :columns] = small[:, :columns]
        large[: len(small), columns + more :] = small[:, columns:]
        return jnp.asarray(large)

    return jax.tree.map(within, old, new)


def grown_and_wide(recipe):
    """A model of four columns that grows to eight on the way, and one that had eight from the start."""
    rng = np.random.default_rng(0)
    X, first = rng.normal(size=(120, 8)), 60
    X[:first, 4:] = 0
    y = X @ rng.normal(size=8)
    narrow = recipe.online(4 - recipe.first, 1)
    wide = recipe.online(8 - recipe.first, 1)
    wide = rc.Online(wide.step, weights=corner(narrow.weights, wide.weights))
    for t in range(first):
        narrow.learn_one(X[t, :4], y[t])
        wide.learn_one(X[t], y[t])
    return narrow, wide, X[first:], y[first:]


@pytest.mark.slow
@pytest.mark.parametrize(("readout", "lags"), [("rls", 0), ("rls", 3), ("descent", 3)])
def test_a_model_that_grew_is_one_that_was_large_from_the_start(readout, lags):
    """Columns that were zero so far have taught nothing: weights, optimizer, least squares and scales are the same."""
    recipe = Recipe("test", "rflo", "rnn", 4, 1e-2, "mean", 0, readout, lags=lags)
    narrow, wide, X, y = grown_and_wide(recipe)
    grown = carried_on(narrow, recipe.online(8 - recipe.first, 1))
    # What is drawn anew are weights of new columns, and both models draw the same.
    for t in range(len(X)):
        assert grown.learn_one(X[t], y[t]) == pytest.approx(wide.learn_one(X[t], y[t]), rel=1e-8, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("forgotten", ["optimizers.1", "inputs.mean", "target.mean", "origin_x"])
def test_the_comparison_notices_what_is_forgotten(forgotten):
    recipe = Recipe("test", "rflo", "rnn", 4, 1e-2, "mean", 0, "rls", lags=3)
    narrow, wide, X, y = grown_and_wide(recipe)
    new = recipe.online(7, 1)
    grown, fresh = carried_on(narrow, new), new.state_arrays()
    arrays = {name: fresh[name] if forgotten in name else array for name, array in grown.state_arrays().items()}
    assert any(forgotten in name for name in arrays)
    wrong = Online.from_saved(grown.description(), arrays)
    assert any(abs(wrong.learn_one(X[t], y[t]) - wide.learn_one(X[t], y[t])) > 1e-5 for t in range(len(X)))


@pytest.mark.slow
def test_a_learner_whose_memory_grows_starts_anew():
    """UORO draws its memory: a part of the old one beside a part of the new one would be an estimate of nothing."""
    old, new = (Recipe("test", "uoro", "rnn", 4, 1e-2, "mean", seed) for seed in (1, 0))
    new = new.online(8, 1)
    same = lambda arrays: {name: np.array_equal(arrays[name], new.state_arrays()[name]) for name in arrays}
    grown, kept = same(carried_on(old.online(4, 1), new).state_arrays()), same(old.online(8, 1).state_arrays())
    assert all(grown[name] for name in grown if name.startswith("state/delayed.learning.learners"))
    assert not any(kept[name] for name in kept if name.startswith("state/delayed.learning.learners"))
    assert not grown["state/delayed.learning.weights.cell.0.rec"]


# Classes


def test_classes_appear_and_probabilities_add_up_to_one():
    rows, _ = stream(120, "ab")
    model, order = RNNClassifier(n=4), ["no", "yes", "maybe", 3, 4.5, ("x",), True]
    assert model.predict_proba_one(rows[0]) == {}
    assert model.predict_one(rows[0]) is None
    for t, row in enumerate(rows):
        known = min(t // 15 + 1, 7)  # a new class after every 15 rows
        model.learn_one(row, order[known - 1 if t % 15 == 0 else t % known])
        found = model.predict_proba_one(row)
        assert list(found) == order[:known]
        assert abs(sum(found.values()) - 1) < 1e-12
        assert all(0 <= each <= 1 for each in found.values())
    assert list(found) == order
    assert model._stream.outputs == 8


def test_classes_not_seen_yet_take_no_part_in_the_loss():
    loss, usual = SeenCrossEntropy(), rc.SoftmaxCrossEntropy()
    z, label = jnp.array([0.3, -1.0, 2.0, 50.0]), jnp.array([0.0, 1.0, 0.0, -1.0])
    value, error = loss(z, label)
    expected, expected_error = usual(z[:3], label[:3])
    assert value == pytest.approx(float(expected))
    assert error == pytest.approx(np.append(expected_error, 0))
    assert jax.grad(lambda z: usual(z, label[:3])[0])(z[:3]) == pytest.approx(np.asarray(error[:3]))
    assert usual(z, jnp.maximum(label, 0))[0] > value + 40


@pytest.mark.slow
def test_outputs_that_grew_go_on_as_they_were():
    """A classifier with eight outputs from the start, of which five are seen late, is the same."""
    recipe = Recipe("test", "rflo", "rnn", 4, 1e-2, "mean", 0, loss=SeenCrossEntropy())
    narrow, wide = recipe.online(4, 4), recipe.online(4, 8)
    weights = wide.weights
    readout = jax.tree.map(lambda small, large: large.at[:4].set(small), narrow.weights.readout, weights.readout)
    wide = rc.Online(wide.step, weights=weights._replace(cell=narrow.weights.cell, readout=readout))
    X = np.random.default_rng(0).normal(size=(80, 4))
    label = lambda t, seen, width: np.r_[np.eye(seen)[t % seen], np.full(width - seen, -1.0)]
    for t in range(40):
        narrow.learn_one(X[t], label(t, 4, 4))
        wide.learn_one(X[t], label(t, 4, 8))
    grown = carried_on(narrow, recipe.online(4, 8))
    for t in range(40, 80):
        assert grown.learn_one(X[t], label(t, 6, 8)) == pytest.approx(wide.learn_one(X[t], label(t, 6, 8)), rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "cell"), [*((name, "rnn") for name in FOR_ONE_LAYER), ("rtrl", "gru"), ("rflo", "lstm")]
)
def test_every_learner_grows(learner, cell):
    rows, _ = stream(60)
    classifier = RNNClassifier(learner, cell, n=4)
    for t, row in enumerate(rows):
        row = row if t > 30 else {name: row[name] for name in "abc"}
        classifier.learn_one(row, t % 6 if t > 40 else t % 3)
    found = classifier.predict_proba_one(row)
    assert len(found) == 6
    assert all(map(np.isfinite, found.values()))


@pytest.mark.slow
def test_it_learns_as_well_as_a_linear_model():
    from river import evaluate, linear_model, metrics, preprocessing

    judged = lambda rows, model, metric: evaluate.progressive_val_score(rows, model, metric).get()
    linear = preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    ours = judged(datasets.TrumpApproval(), preprocessing.StandardScaler() | RNNRegressor(), metrics.MAE())
    assert ours < judged(datasets.TrumpApproval(), linear, metrics.MAE())
    softmax = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    ours = judged(datasets.ImageSegments(), preprocessing.StandardScaler() | RNNClassifier(), metrics.Accuracy())
    assert ours > judged(datasets.ImageSegments(), softmax, metrics.Accuracy())


def test_the_applied_learner_is_the_one_asked_for():
    learning = RNNRegressor("e-bptt", "gru", n=4)._recipe().online(4, 1).step.learning
    assert isinstance(learning.learners[APPLIED], rc.EfficientBPTT)
    assert isinstance(learning.network.cell, rc.GRU)
