"""Numbers gone wrong: what is said of them, and that nothing was learned from the call that found them."""

import re

import jax
import numpy as np
import pytest

import recurra as rc
from online_models import bits, full_step, in_cuts, one_by_one, plain_step, stream
from recurra.online import program
from recurra.online.rows import many_rows
from recurra.online.settling import labels_of

STEPS = {"plain": plain_step(), "full": full_step(3)}
#: It differs from the plain step in a number alone, so that both share one program.
WILD = plain_step(optimizer=1e6)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_number_that_is_not_finite(step):
    X, Y = stream(100)
    for start in (0, 80):  # before the first row of all, and later
        model = rc.Online(step)
        model.learn_many(X[:start], Y[:start])
        for what, bad, told in (("input", np.nan, "nan"), ("label", -np.inf, "-inf"), ("input", 1e39, "1e+39")):
            before, (x, y) = bits(model), (X.copy(), Y.copy())
            rows, column = (x, 1) if what == "input" else (y, 0)
            rows[90, column] = bad
            why = "is too large for float32" if bad == 1e39 else "is not finite"
            message = f"Row {{}}, column {column} of the {what}, is {told}, which {why}. Nothing was learned".replace(
                "+", "\\+"
            )
            with pytest.raises(ValueError, match=message.format(90)):
                model.learn_many(x[start:], y[start:])
            with pytest.raises(ValueError, match=message.format(start)):
                model.learn_one(x[90], y[90])
            assert bits(model) == before
        with pytest.raises(ValueError, match=f"Row {start}, column 0 of the input, is nan"):
            model.predict_one([np.nan, 1])
        assert bits(model) == before
        untouched = rc.Online(step)
        untouched.learn_many(X[:start], Y[:start])
        assert (model.learn_many(X[start:], Y[start:]) == untouched.learn_many(X[start:], Y[start:])).all()


def test_a_first_row_too_large_is_no_origin():
    """Numbers are rounded after the first row was subtracted. It must not hide that it is too large, nor others be."""
    model = rc.Online(full_step(3))
    for told in ("1e+39", "1e+30", "-2e+19"):
        what = f"Row 0, column 0 of the input, is {re.escape(told)}, which is too large for float32"
        for take in (model.predict_one, lambda x: model.learn_one(x, [1.0]), lambda x: model.learn_many([x], [[1.0]])):
            with pytest.raises(ValueError, match=what):
                take([float(told), 0.0])
    with pytest.raises(ValueError, match=r"Row 0, column 0 of the label, is 1e\+30, which is too large"):
        model.learn_one([1.0, 0.0], [1e30])
    model.learn_one([-9e18, 0.0], [1.0])
    model.learn_one([9e18, 0.0], [1.0])  # as far from the first row as can be
    model.learn_one([1.0, 0.0], [1.0])
    with pytest.raises(ValueError, match=r"Row 3, column 0 of the input, is 3e\+38, which is too large for float32"):
        model.learn_one([3e38, 0.0], [1.0])
    with pytest.raises(ValueError, match=r"Row 3, column 0 of the label, is 1e\+300, which is too large"):
        model.learn_one([1.0, 0.0], [1e300])


@pytest.mark.parametrize(
    ("large", "specialise", "row"),
    [(1024, True, 31), (1024, False, 27), pytest.param(16, False, 63, marks=pytest.mark.slow)],
    ids=["at the end of a span", "by the gradient", "now and then"],
)
def test_what_a_large_state_keeps_is_judged_without_labels_too(large, specialise, row, monkeypatch):
    """In arrays of 4 MB this takes seconds, so smaller ones count as large here. M grows 30-fold with every row."""
    monkeypatch.setattr(program, "LARGE", large)
    program._program.cache_clear()
    step, X = plain_step(learner=rc.RTRL(), n=7, optimizer=rc.Adam(1e-3)), np.zeros((100, 2))
    weights = step.learning.network.init(jax.random.key(0))
    weights = weights._replace(cell=jax.tree.map(lambda leaf: 30 * leaf, weights.cell))
    make = lambda: rc.Online(step, weights=weights, specialise=specialise)
    is_finite = lambda model: all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model.learning))
    many, loop = make(), make()
    assert not many._packing.is_small
    with pytest.raises(rc.Diverged) as error:
        many.learn_many(X)
    with pytest.raises(rc.Diverged) as other:
        one_by_one(loop, X, [None] * len(X))
    assert error.value.row == other.value.row == loop.rows == row
    assert is_finite(loop) == (row < 63)
    monkeypatch.setattr(program, "_large_are_finite", lambda *_: True)  # the control
    program._program.cache_clear()
    silent = make()
    silent.learn_many(X)
    assert not is_finite(silent)
    program._program.cache_clear()


def test_what_is_missing_may_be_anything():
    X, Y = stream(30)
    masked = np.ma.array(Y, mask=np.zeros(Y.shape, bool))
    masked[3] = masked[20] = np.ma.masked
    other = masked.copy()
    other.data[3], other.data[20] = np.nan, np.inf
    models = [rc.Online(STEPS["full"]) for _ in range(3)]
    usual = models[0].learn_many(X, masked)
    assert (models[1].learn_many(X, other) == usual).all()
    found = [models[2].learn_one(x, None if t in (3, 20) else y) for t, (x, y) in enumerate(zip(X, Y, strict=True))]
    assert (np.stack(found) == usual).all()
    assert bits(models[0]) == bits(models[1]) == bits(models[2])


def test_divergence_is_found_at_the_same_row_however_rows_are_cut():
    X, Y = stream(200)
    loop = rc.Online(WILD)
    with pytest.raises(rc.Diverged) as error:
        one_by_one(loop, X, Y)
    row = error.value.row
    assert 1 < row == loop.rows < 190
    start = rc.Online(WILD)
    before = bits(start)
    with pytest.raises(
        rc.Diverged, match=rf"diverged at row {row}: the norm of the .* went from [\d.e+]+ to (nan|inf)"
    ) as error:
        start.learn_many(X, Y)
    assert "as it was before this call. Try a lower learning rate" in str(error.value)
    assert (error.value.row, bits(start)) == (row, before)
    pieces = rc.Online(WILD)
    with pytest.raises(rc.Diverged) as error:
        in_cuts(pieces, X, Y, range(3, 200, 3))
    assert (error.value.row, pieces.rows) == (row, row // 3 * 3)
    # All rows before are fine in one call, and so is the next row without its label.
    start.learn_many(X[:row], Y[:row])
    assert bits(start) == bits(loop)
    assert np.isfinite(start.learn_one(X[row])).all()
    assert all(np.isfinite(norm) for norm in start.norms().values())


def test_a_row_that_is_wrong_after_the_model_went_wrong():
    """The first of both is said, however rows are cut."""
    X, Y = stream(60)
    with pytest.raises(rc.Diverged) as error:
        rc.Online(WILD).learn_many(X, Y)
    row = error.value.row
    for at, expected in ((row - 1, ValueError), (row + 1, rc.Diverged)):
        x = X.copy()
        x[at] = np.nan
        for learn in (one_by_one, lambda model, X, Y: model.learn_many(X, Y)):
            with pytest.raises(expected):
                learn(rc.Online(WILD), x, Y)


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (None, TypeError, "must hold numbers, and is None"),
        ("abc", TypeError, "must hold numbers, and is 'abc'"),
        ([1.0, "x"], TypeError, "must hold numbers"),
        (np.array(["a", "b"]), TypeError, "must hold numbers"),
        (np.array([1j, 1]), TypeError, "must hold numbers"),
        ([1.0, 2.0, 3.0], ValueError, r"must have shape \(2,\), and has \(3,\)"),
        (1.0, ValueError, r"must have shape \(2,\), and has \(\)"),
        ([[1.0], [2.0]], ValueError, r"must have shape \(2,\), and has \(2, 1\)"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), ValueError, "every row needs its inputs"),
    ],
    ids=str,
)
def test_a_row_that_is_none(bad, kind, message):
    model = rc.Online(STEPS["plain"])
    for call in (model.predict_one, model.observe_one, lambda x: model.learn_one(x, np.array([1.0]))):
        with pytest.raises(kind, match="`x` .*" + message):
            call(bad)
    assert model.rows == 0


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (None, None, "`X` must hold numbers, and is None"),
        (1.0, [1.0], r"`X` must have shape \(rows, 2\), and has \(\)"),
        ([1.0, 2.0], [1.0], r"`X` must have shape \(rows, 2\), and has \(2,\)"),
        (np.ones((4, 3)), np.ones((4, 1)), r"`X` must have shape \(rows, 2\), and has \(4, 3\)"),
        (np.ones((4, 2)), np.ones((3, 1)), r"`Y` must have shape \(rows, 1\), and has \(3, 1\)"),
        (np.ones((4, 2)), np.ones((1, 4)), r"`Y` must have shape \(rows, 1\), and has \(1, 4\)"),
        (np.ones((4, 2)), np.ones((4, 2)), r"`Y` must have shape \(rows, 1\), and has \(4, 2\)"),
        (np.ones((4, 2)), 1.0, r"`Y` must have shape \(rows, 1\), and has \(\)"),
        (np.ones((4, 2)), "abc", "`Y` must hold numbers, and is 'abc'"),
    ],
)
def test_rows_that_are_none(X, Y, message):
    for kind in (rc.Online, lambda step: rc.Race({"a": rc.Online(step)})):
        with pytest.raises((TypeError, ValueError), match=message):
            kind(STEPS["plain"]).learn_many(X, Y)


def test_shapes_with_several_streams():
    """Rows come first, then streams: what has them the other way round is no matter of taste."""
    model = rc.Online(full_step(1, streams=2, difference=False))
    with pytest.raises(ValueError, match=r"`X` must have shape \(rows, 2, 2\), and has \(2, 5, 2\)"):
        model.learn_many(np.ones((2, 5, 2)), np.ones((2, 5, 1)))
    with pytest.raises(ValueError, match=r"`Y` must have shape \(rows, 2, 1\), and has \(2, 5, 1\)"):
        model.learn_many(np.ones((5, 2, 2)), np.ones((2, 5, 1)))
    with pytest.raises(ValueError, match=r"`x` must have shape \(2, 2\), and has \(4,\)"):
        model.learn_one(np.ones(4), np.ones(2))
    with pytest.raises(ValueError, match="Credit is needed for 1 state variables"):
        model.learn_one(np.ones((2, 2)), rc.GivenCredit((None, None)))
    masked = np.ma.array(np.ones((5, 2)), mask=np.arange(10).reshape(5, 2) == 5)
    with pytest.raises(ValueError, match="row 2 of `Y` is masked in part"):
        rc.Online(plain_step(n_out=2)).learn_many(np.ones((5, 2)), masked)


# Several models on one stream


def a_race(**kwargs):
    """One that learns, one that diverges, and one that does not learn."""
    return rc.Race(
        {"wild": rc.Online(WILD), "b": rc.Online(STEPS["plain"]), "a": rc.Online(plain_step(optimizer=0.0))}, **kwargs
    )


def combined(predictions, Y, horizon, memory, sharpness):
    """What a race should predict, from the predictions of its models, (model, row), nan where one has left."""
    out = []
    for t in range(len(Y)):
        known = [s for s in range(len(Y)) if s + max(horizon, 1) <= t and not np.ma.is_masked(Y[s + horizon])]
        loss, weight = np.zeros(len(predictions)), 0
        for s in known:
            weight = min(weight + 1, memory)
            loss = loss + ((predictions[:, s] - Y.data[s + horizon]) ** 2 - loss) / weight
        there = np.isfinite(predictions[:, t])
        share = np.where(there, 1.0, 0.0)
        if weight:
            share = np.where(there, (np.nanmin(np.where(there, loss, np.inf)) / loss) ** sharpness, 0)
        out.append(np.sum(share / share.sum() * np.where(there, predictions[:, t], 0)))
    return np.array(out)


@pytest.mark.parametrize("memory", [200, 5])
def test_a_race_goes_on_without_the_one_that_diverged(memory):
    X, Y = stream(100, missing=0.1)
    whole, loop, pieces = (a_race(memory=memory, sharpness=2.0) for _ in range(3))
    found = whole.learn_many(X, Y)
    assert (one_by_one(loop, X, Y) == found).all()
    assert (in_cuts(pieces, X, Y, (2, 11, 40, 77)) == found).all()
    assert bits(whole) == bits(loop) == bits(pieces)
    with pytest.raises(rc.Diverged) as error:
        rc.Online(WILD).learn_many(X, Y)
    row = error.value.row
    assert whole.left == {"wild": row}
    assert whole.notes()[0].startswith(f"wild left the race at row {row}. The model diverged")
    assert whole.shares()["wild"] == 0
    # The oracle: each model by itself.
    each = np.full((3, 100), np.nan)
    each[0, :row] = rc.Online(WILD).learn_many(X[:row], Y[:row])[:, 0]
    each[1] = rc.Online(STEPS["plain"]).learn_many(X, Y)[:, 0]
    each[2] = rc.Online(plain_step(optimizer=0.0)).learn_many(X, Y)[:, 0]
    np.testing.assert_allclose(found[:, 0], combined(each, Y, 0, memory, 2.0), rtol=1e-12)
    assert np.abs(found[:, 0] - combined(each, Y, 0, memory, 4.0)).max() > 1e-3
    ahead = loop.predict_one(X[0])
    assert bits(whole) == bits(loop)
    assert (ahead == loop.learn_one(X[0], Y[0])).all()


def test_a_race_in_which_a_row_is_wrong_or_all_diverge():
    X, Y = stream(60)
    race = a_race()
    race.learn_many(X[:10], Y[:10])
    before = bits(race)
    for what, at, told in (("input", (5, 1), "is nan"), ("label", (5, 0), "is too large for float32")):
        x, y = X.copy(), Y.copy()
        (x if what == "input" else y)[at] = np.nan if what == "input" else 1e39
        with pytest.raises(ValueError, match=f"Row 15, column {at[1]} of the {what}, .*{told}"):
            race.learn_many(x, y)
        assert bits(race) == before
        with pytest.raises(ValueError, match=f"Row 10, column {at[1]} of the {what}, .*{told}"):
            race.learn_one(x[5], y[5])
        assert bits(race) == before
    wild = lambda: rc.Race({"b": rc.Online(WILD), "a": rc.Online(plain_step(optimizer=30.0))})
    many, loop = wild(), wild()
    before = bits(many)
    with pytest.raises(rc.Diverged, match="All models of the race have diverged, the last at row") as error:
        many.learn_many(X, Y)
    assert bits(many) == before
    with pytest.raises(rc.Diverged) as other:
        one_by_one(loop, X, Y)
    assert error.value.row == other.value.row == loop.rows
    assert len(loop.left) == 1
    many.learn_many(X[: loop.rows], Y[: loop.rows])
    assert bits(many) == bits(loop)


def test_an_error_is_no_label():
    X, _ = stream(4)
    for given in (rc.GivenError(np.ones((4, 1))), rc.GivenCredit((np.ones((4, 3)),))):
        labels, present = labels_of(many_rows(STEPS["plain"], X, given), (1,))
        assert labels.shape == (4, 1)
        assert not present.any()


def test_models_that_cannot_race():
    with pytest.raises(TypeError, match="`models` must map names to models"):
        rc.Race({})
    with pytest.raises(
        ValueError, match="must have the same number of inputs and outputs, horizon and number of streams"
    ):
        rc.Race({"a": rc.Online(STEPS["plain"]), "b": rc.Online(STEPS["full"])})
    model = rc.Online(STEPS["plain"])
    with pytest.raises(ValueError, match="'b' and 'a' of a race are one and the same model"):
        rc.Race({"a": model, "b": model})
    for sharpness in (np.nan, -4.0, np.inf):
        with pytest.raises(ValueError, match=r"`sharpness` of Race must be at least 0\.0 and finite, and is"):
            rc.Race({"a": model}, sharpness=sharpness)


@pytest.mark.parametrize("key", [-1, 2**32, 2**40])
def test_numbers_that_would_be_the_key_of_another_number(key):
    for make in (lambda: rc.Online(STEPS["plain"], key=key), lambda: rc.forecaster(n_in=1, key=key)):
        with pytest.raises(ValueError, match=rf"`key` must be a whole number in 0\.\.2³²-1, and is {key}"):
            make()


def test_keys_may_be_numbers_or_keys_of_jax():
    last = 2**32 - 1
    wanted = bits(rc.Online(STEPS["plain"], key=last))
    for key in (jax.random.key(last), jax.random.PRNGKey(last)):
        assert bits(rc.Online(STEPS["plain"], key=key)) == wanted
    with pytest.raises(TypeError, match="`key` must be a whole number, and is True"):
        rc.forecaster(n_in=1, key=True)


def test_names_that_a_forecaster_does_not_know():
    with pytest.raises(ValueError, match=r"`cell` must be 'alif', .* and is 'transformer'"):
        rc.forecaster(n_in=1, cell="transformer")
    with pytest.raises(ValueError, match=r"`learner` must be 'rtrl', 'uoro', .* and is 'adam'"):
        rc.forecaster(n_in=1, learner="adam")


@pytest.mark.parametrize("cell", ["min-gru", pytest.param("lif", marks=pytest.mark.slow)])
def test_a_forecaster_has_any_registered_cell(cell):
    model = rc.forecaster(n_in=1, cell=cell, n=4, lags=2)
    assert isinstance(model.step.learning.network.cell, rc.CELLS[cell])
    series = np.sin(np.arange(200) / 7)[:, None]
    predictions = model.learn_many(series, series)
    assert np.abs(predictions[150:-1] - series[151:]).max() < 0.1
