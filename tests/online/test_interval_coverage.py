"""Ranges hold the truth as often as they are asked to, and are as wide as the noise of the data says."""

from statistics import NormalDist

import numpy as np
import pytest

import recurra as rc
from online_models import plain_step

BURN_IN, ROWS = 600, 3000
#: the noise of each output
SIGMA = np.array([0.3, 2.0])


def inside(coverage, horizon):
    """Whether each label was in its range, and half-widths of ranges, where labels are noise around a constant."""
    step = plain_step(horizon, learner=rc.Fixed(), optimizer=0.0, n_out=2)
    x, y = np.zeros((ROWS, 2)), SIGMA * np.random.default_rng(0).normal(size=(ROWS, 2))
    model = rc.Intervals(rc.Online(step), coverage)
    low, prediction, high = model.learn_many(x, y)
    assert np.all((low <= prediction) & (prediction <= high) | np.isnan(low))
    rows = slice(BURN_IN, ROWS - horizon)
    label = y[horizon:][BURN_IN:]
    return (low[rows] <= label) & (label <= high[rows]), (high - low)[rows] / 2


@pytest.mark.parametrize(("coverage", "horizon"), [(0.5, 0), (0.8, 3), (0.95, 0)])
def test_ranges_hold_the_truth_as_often_as_they_are_asked_to(coverage, horizon):
    is_inside, widths = inside(coverage, horizon)
    bound = 3 * np.sqrt(coverage * (1 - coverage) / len(is_inside))
    assert bound < 0.04, "another coverage, 0.05 away, would be noticed"
    np.testing.assert_allclose(is_inside.mean(axis=0), coverage, atol=bound)
    quantile = NormalDist().inv_cdf((1 + coverage) / 2)
    np.testing.assert_allclose(widths.mean(axis=0), quantile * SIGMA, rtol=0.1)
