"""The forecasts that a model is compared with, beside references that look at the whole past again at every row."""

import math

import numpy as np
import pytest

from recurra.cli.learning.baselines import (
    START,
    LastValue,
    LeastSquares,
    SeasonalNaive,
    baselines,
    correlations,
    described,
    find_period,
)
from recurra.cli.learning.session import restore, state_of

NAN = math.nan


def seen(baseline, values):
    return np.array([baseline.see(float(value)) for value in values])


def a_series(rows=400, seed=0, gaps=0.0):
    rng = np.random.default_rng(seed)
    time = np.arange(rows)
    values = 100 + 5 * np.sin(time / 7) + np.cumsum(rng.normal(size=rows)) * 0.3 + rng.normal(size=rows)
    values[rng.random(rows) < gaps] = NAN
    return values


def by_brute_force(values, lead, lags, ridge):
    """Ridge regression on all pairs of the past, solved anew at every row; the last value until there is a scale."""
    forecasts, filled, known = [], [], []
    scale = start = None

    def features(s):
        return np.append((np.array([filled[max(s - lag, 0)] for lag in range(lags)]) - scale[0]) / scale[1], 1.0)

    for t, value in enumerate(values):
        if not math.isnan(value):
            known.append(value)
        if not known:
            forecasts.append(NAN)
            continue
        filled.append(value if not math.isnan(value) else filled[-1])
        first = t - len(filled) + 1  # the row of the first known value
        if scale is None:
            if len(known) >= START and np.std(known) > 0:
                scale, start = (np.mean(known), np.std(known)), t
            else:
                forecasts.append(filled[-1])
                continue
        pairs = [s for s in range(start + 1, t + 1) if not math.isnan(values[s])]
        x = np.array([features(s - lead - first) for s in pairs]).reshape(-1, lags + 1)
        y = np.array([(values[s] - scale[0]) / scale[1] for s in pairs])
        prior = np.eye(lags + 1)[0]
        stacked = np.concatenate([x, math.sqrt(ridge) * np.eye(lags + 1)])
        wanted = np.concatenate([y, math.sqrt(ridge) * prior])
        weights = np.linalg.lstsq(stacked, wanted, rcond=None)[0]
        forecasts.append(float(features(t - first) @ weights) * scale[1] + scale[0])
    return np.array(forecasts)


@pytest.mark.parametrize(("lead", "gaps"), [(1, 0.0), (1, 0.1), (5, 0.0), (5, 0.1)])
def test_least_squares_is_the_fit_to_all_of_the_past_at_every_row(lead, gaps):
    values = a_series(220, lead, gaps)
    found = seen(LeastSquares(lead), values)
    np.testing.assert_allclose(found, by_brute_force(values, lead, 24, 1.0), rtol=1e-9)


def test_the_reference_tells_a_wrong_lead_and_a_wrong_ridge():
    values = a_series(220)
    found = seen(LeastSquares(1), values)
    for lead, ridge in ((2, 1.0), (1, 1.1)):
        assert not np.allclose(found, by_brute_force(values, lead, 24, ridge), rtol=1e-4)


@pytest.mark.parametrize("lead", [1, 5])
def test_least_squares_is_rivers_bayesian_regression_of_the_change(lead):
    """The prior of the weights is the last value: River's, whose prior is 0, regresses what is added to it."""
    linear_model = pytest.importorskip("river.linear_model")
    values = a_series(600, lead)
    mean, deviation = values[:START].mean(), values[:START].std()
    z = (values - mean) / deviation
    features = lambda t: {**{lag: z[max(t - lag, 0)] for lag in range(24)}, "constant": 1.0}
    river, wanted = linear_model.BayesianLinearRegression(alpha=1, beta=1), []
    for t in range(600):
        if t >= START:
            river.learn_one(features(t - lead), z[t] - z[t - lead])
        change = river.predict_one(features(t)) if t >= START else 0.0
        wanted.append((z[t] + change) * deviation + mean)
    np.testing.assert_allclose(seen(LeastSquares(lead), values), wanted, rtol=1e-12)


def test_least_squares_finds_a_linear_rule_and_nothing_leaks():
    rng = np.random.default_rng(1)
    values = [1.0, 0.5]
    while len(values) < 3000:
        values.append(1.6 * values[-1] - 0.8 * values[-2] + rng.normal())
    found = seen(LeastSquares(1), values)
    errors = np.array(values[1001:]) - found[1000:-1]
    assert 0.95 < errors.std() < 1.05  # the noise alone: less would mean that it has seen the future
    assert errors.std() < 0.7 * np.diff(values[1000:]).std()


def test_a_forecast_stays_near_what_was_seen():
    values = np.concatenate([100 + np.random.default_rng(0).normal(size=100), [0.0] * 20])
    found = seen(LeastSquares(1), values)
    assert found.min() >= -(values.max() - 0) / 2
    assert found.max() <= values.max() * 1.5


@pytest.mark.parametrize("huge", [3.4e38, -3.4e38, 1e-300])
def test_huge_values_leave_forecasts_finite(huge):
    values = a_series(300)
    values[[150, 151, 200]] = huge
    for name, baseline in baselines(3, None).items():
        assert np.isfinite(seen(baseline, values)).all(), name


def test_a_constant_series_is_forecast_exactly():
    for baseline in baselines(2, None).values():
        assert set(seen(baseline, [7.25] * 700)) == {7.25}


def test_the_last_value_is_the_latest_known_one():
    found = seen(LastValue(), [NAN, 1, NAN, NAN, 4])
    np.testing.assert_array_equal(found, [NAN, 1, 1, 1, 4])


@pytest.mark.parametrize(("lead", "period"), [(1, 4), (3, 4), (4, 4), (5, 4), (9, 4), (1, 1)])
def test_seasonal_naive_by_hand(lead, period):
    values = a_series(60, 3, gaps=0.2)
    found = seen(SeasonalNaive(lead, period), values)
    for t in range(len(values)):
        known = [s for s in range(t + 1) if not math.isnan(values[s])]
        same = [s for s in known if (t + lead - s) % period == 0]
        wanted = values[same[-1]] if same else values[known[-1]] if known else NAN
        np.testing.assert_equal(found[t], wanted)


@pytest.mark.parametrize("period", [7, 24, 50])
def test_a_planted_period_is_found_when_it_was_seen_often_enough(period):
    rng = np.random.default_rng(period)
    season = rng.normal(size=period)
    values = 20 + np.tile(season, 200)[:1200] + 0.1 * rng.normal(size=1200) + np.linspace(0, 5, 1200)
    baseline = SeasonalNaive(1)
    found = seen(baseline, values)
    assert baseline.period == period
    assert (found[:255] == values[:255]).all()  # before the first look it is the last value
    late = slice(1024, None)
    assert np.abs(found[late][:-1] - values[late][1:]).mean() < 0.5 * np.abs(np.diff(values[late])).mean()


def test_of_two_periods_the_one_that_explains_more_is_found():
    time = np.arange(2048)
    week = np.where(time % 168 < 48, 0.0, 1.0)
    values = week * (1 + np.sin(2 * np.pi * time / 24)) + 0.05 * np.random.default_rng(0).normal(size=2048)
    assert find_period(values) == 168


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["noise", "walk", "slow"])
def test_no_period_is_found_where_there_is_none(kind, seed):
    noise = np.random.default_rng(seed).normal(size=1024)
    slow = np.convolve(noise, 0.95 ** np.arange(100), "same")
    assert find_period({"noise": noise, "walk": np.cumsum(noise), "slow": slow}[kind]) is None


def test_correlations_are_those_of_the_parts_that_overlap():
    values = a_series(200)
    time = np.arange(200.0)
    detrended = values - np.polyval(np.polyfit(time, values, 1), time)
    found = correlations(values, 60)
    for lag in range(61):
        early, late = detrended[: 200 - lag], detrended[lag:]
        assert math.isclose(found[lag], early @ late / math.sqrt((early @ early) * (late @ late)), rel_tol=1e-9)


@pytest.mark.parametrize("cut", [0, 1, 40, 49, 300, 1025])
def test_a_baseline_goes_on_as_if_it_had_never_stopped(cut):
    values = a_series(1100, 5, gaps=0.1)
    values[:3] = NAN
    for name in baselines(3, None):
        whole, first, second = (baselines(3, None)[name] for _ in range(3))
        wanted = seen(whole, values)
        start = seen(first, values[:cut])
        restore(second, state_of(first))
        np.testing.assert_array_equal(np.concatenate([start, seen(second, values[cut:])]), wanted)
        assert all(isinstance(each, np.ndarray) for each in state_of(second).values())


def test_baselines_say_what_they_found():
    found = baselines(1, 48)
    assert [described(name, each) for name, each in found.items()] == [
        "last value", "seasonal naive, period 48", "least squares, 24 lags",
    ]  # fmt: skip
    assert described("seasonal naive", SeasonalNaive(1)) == "seasonal naive, no period found"
