"""Whatever the points of a sweep, and however orders cut them, each result stands at the point it belongs to."""

import itertools

import numpy as np
import pytest

import recurra as rc
from recurra.training import orders
from small_runs import network

SEEDS = [5, 2]
HOW = {
    "steps": 40,
    "window": 10,
    "progress": False,
    "record": {"loss": lambda outcome: outcome.loss},
    "record_every": 9,
}
HELD_OUT = {"evaluate": rc.Add(1, 2), "evaluate_every": 20, "evaluate_steps": 10}
LEARNERS = {"rflo": rc.RFLO(), "uoro": rc.UORO()}
RATES, ALPHAS, LAGS = (0.01, 0.1, 0.3), (0.4, 0.7, 1.0), (1, 2, 3)
slow = pytest.mark.slow


@pytest.fixture(autouse=True)
def orders_of_few(monkeypatch):
    """Orders have three networks at most: they end in the middle of a point's seeds, and of a program's points."""
    for name, number in {"FIRST_STEPS": 1, "SECONDS": 0.0, "LEAST": 3, "MOST": 3}.items():
        monkeypatch.setattr(orders, name, number)


def swept(vary, seeds=SEEDS, **how):
    return rc.sweep(network(), LEARNERS["rflo"], rc.Add(1, 2), vary=vary, seeds=seeds, **HOW, **how)


def is_alone(here, point, **how):
    """Whether this part of a data set has the bits of each network computed by itself."""
    learner, rate, alpha, lag = point
    for seed in SEEDS:
        alone = rc.train(
            network(alpha=alpha), LEARNERS[learner], rc.Add(lag, 2), seeds=[seed], optimizer=rate,
            engine=rc.ScanEngine(alike=True), **HOW, **how,
        )  # fmt: skip
        own = here.sel(seed=seed)
        np.testing.assert_array_equal(own.loss, alone.loss[0])
        np.testing.assert_array_equal(own.final_loss, alone.final_loss()[0])
        np.testing.assert_array_equal(own["record.loss"], alone.records["loss"][0])
        if how:
            np.testing.assert_array_equal(own.evaluated_loss, alone.evaluated_loss[0])


def written(points):
    names = "learner", "optimizer", "network.cell.alpha", "task.t1"
    return [dict(zip(names, (LEARNERS[learner], *numbers), strict=True)) for learner, *numbers in points]


@pytest.mark.parametrize(
    ("draw", "how"), [(0, {}), pytest.param(1, HELD_OUT, marks=slow), pytest.param(2, {}, marks=slow)]
)
def test_points_of_a_list(draw, how, tmp_path):
    """Also from a folder that had some of them, in another sequence, for other seeds."""
    rng = np.random.default_rng(draw)
    every = [*itertools.product(LEARNERS, RATES, ALPHAS, LAGS)]
    points = [every[number] for number in rng.permutation(len(every))[:6]]
    assert [learner for learner, *_ in points] != sorted(learner for learner, *_ in points), "programs alternate"
    data = swept(written(points), **how)
    assert len(np.unique(data.final_loss)) == len(points) * len(SEEDS), "all networks differ"
    for number in rng.permutation(len(points))[:3]:
        is_alone(data.isel(point=number), points[number], **how)
    some = [points[number] for number in rng.permutation(len(points))[:3]]
    swept(written(some), seeds=[9, *SEEDS[::-1]], folder=tmp_path, **how)
    assert swept(written(points), folder=tmp_path, **how).identical(data)


@pytest.mark.parametrize("draw", [0, pytest.param(1, marks=slow)])
def test_points_of_a_grid(draw):
    """The setting that needs another program is neither the first nor the last."""
    rng = np.random.default_rng(draw)
    alphas, learners, rates, lags = ([*rng.permutation([*each])[:2]] for each in (ALPHAS, LEARNERS, RATES, LAGS))
    vary = {"alpha": alphas, "learner": [LEARNERS[name] for name in learners], "optimizer": rates, "task.t1": lags}
    data = swept(
        {name: [each.item() if hasattr(each, "item") else each for each in values] for name, values in vary.items()}
    )
    assert len(np.unique(data.final_loss)) == 2**4 * len(SEEDS), "all networks differ"
    every = [*itertools.product(alphas, learners, rates, lags)]
    for number in rng.permutation(len(every))[:2]:
        alpha, learner, rate, lag = every[number]
        here = data.sel({"alpha": alpha, "learner": learner, "optimizer": rate, "task.t1": lag})
        is_alone(here, (str(learner), float(rate), float(alpha), int(lag)))
