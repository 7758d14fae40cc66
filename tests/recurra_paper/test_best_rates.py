"""Learners at their best rates: what is compared, and by which seeds."""

import numpy as np
import pytest

from recurra_paper.beyond import best_rates
from recurra_paper.beyond.best_rates.measure import CONDITIONS, at_best, behind, best_rate, regrets
from recurra_paper.beyond.grids import AT_MOST, RATED, SCALES, Condition, grid_name
from recurra_paper.beyond.profiles import PROFILES
from recurra_paper.experiments.sweep import Sweep

FULL = PROFILES["full"]
GRID = np.array([1e-5, 1e-4, 1e-3, 1e-2])
#: losses at these rates in units of an untrained network's, by task; all others are as RTRL
LEVELS = {
    "add": {"fixed": (0.95, 0.94, 0.93, 0.92), "rflo": (0.9, 0.85, 0.8, 0.8), "kernl": (0.9, 0.85, 0.8, 0.8),
            "dni": (0.9, 0.8, 0.75, 0.7), "rtrl": (0.8, 0.7, 0.6, 0.5)},
    "mimic": {"fixed": (0.95, 0.94, 0.93, 0.92), "uoro": (0.9, 0.8, 0.9, 0.95), "r-kf-rtrl": (0.9, 0.8, 0.7, 0.9),
              "kf-rtrl": (0.9, 0.8, 0.6, 0.9), "rtrl": (0.9, 0.7, 0.6, 0.5)},
}  # fmt: skip


def ran(seeds=20, spread=0.002, own=0.1, missing=(), **changed):
    """Every learner over rates in every condition; `changed` are levels that hold in every condition."""
    rng, data = np.random.default_rng(0), {}
    same = rng.normal(size=seeds)
    for condition in CONDITIONS:
        known = {**LEVELS[condition.task], **changed}
        for learner in RATED:
            level = np.array(known.get(learner, known["rtrl"]))
            loss = level[:, None] + spread * (same + own * rng.normal(size=(len(GRID), seeds)))
            loss = np.concatenate([np.ones((len(GRID), seeds, 1)), np.repeat(loss[..., None], 10, axis=-1)], axis=-1)
            count = min(seeds, AT_MOST.get(learner, seeds))
            data[grid_name(condition, learner)] = {
                "rate": GRID, "loss": loss[None, None, :, :count],
                "diverged": np.full((1, 1, len(GRID), count), -1), "step": 100 * np.arange(1, 12),
            }  # fmt: skip
    return {name: run for name, run in data.items() if name.split("/")[-1] not in missing}


def decide(name, data):
    return next(claim for claim in best_rates.CLAIMS if claim.id == name).decide(data, FULL)


#: levels with which a claim fails
WRONG = {
    "mimic-local": {"rflo": (0.9, 0.8, 0.7, 0.7)},
    "mimic-noisy": {"kf-rtrl": (0.9, 0.8, 0.6, 0.5)},
    "add-lead": {"dni": (0.8, 0.7, 0.6, 0.5)},
    "paper-rate": {"kernl": (0.9, 0.5, 0.6, 0.7)},
}


@pytest.mark.parametrize("claim", best_rates.CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_about_best_rates_holds_fails_or_stays_open(claim):
    wrong = next(levels for ending, levels in WRONG.items() if claim.id.endswith(ending))
    assert decide(claim.id, ran()).status == "holds"
    assert decide(claim.id, ran(**wrong)).status == "does not hold"
    assert decide(claim.id, ran(spread=0.2, own=2)).status == "not decided"
    missing = decide(claim.id, ran(missing=("rtrl",)))
    assert missing.status == "not decided"
    assert "was not run" in missing.measured


def test_rates_are_found_on_some_seeds_and_judged_by_others():
    data, condition = ran(), Condition("mimic", "0.5", "adam")
    run = data[grid_name(condition, "uoro")]
    run["loss"][0, 0, 3, 0::2] = 0.1  # the even seeds like the largest rate, the odd ones do not
    run["loss"][0, 0, 3, 1::2] = 0.97
    assert best_rate(data, condition, "uoro") == 1e-2
    np.testing.assert_allclose(at_best(data, condition, "uoro"), 0.97)
    assert behind(data, condition, "uoro", "rtrl").value == pytest.approx((0.97 - 0.5) / (0.92 - 0.5), abs=0.02)


def test_the_regret_of_a_rate_is_what_it_loses_to_the_best_of_all():
    data = ran(spread=1e-9)
    found = regrets(data, [("add", "1"), ("mimic", "1")], ["rtrl", "dni", "uoro"])
    assert set(found) == {(optimizer, rate) for optimizer in ("descent", "adam") for rate in GRID}
    gap = 0.92 - 0.5
    expected = np.array([[0.1, 0.05, 0.1], [0.1, 0.1, 0.1]]) / gap
    expected[1, 2] = (0.9 - 0.8) / gap
    np.testing.assert_allclose(found["adam", 1e-3], expected, atol=1e-6)


def test_grids_of_all_scales():
    for profile, count in (("tiny", 2), ("quick", 20), ("full", 2 * 2 * 2 * len(RATED))):
        wanted = best_rates.experiments(PROFILES[profile])
        assert len({each.name for each in wanted}) == len(wanted) == count
        assert all(isinstance(each, Sweep) for each in wanted)
    seeds = {each.name.rpartition("/")[2]: each.seeds for each in wanted}
    assert seeds["rtrl"] == 16
    assert seeds["uoro"] == SCALES["full"].seeds == 64


def test_adam_is_what_it_says(tmp_path):
    import recurra as rc
    from recurra_paper.setup import learner_of, network_of, task_of

    task = task_of("add", "1")
    parts = network_of(task, "1"), {"rflo": learner_of("rflo", "add", "1")}, {"add": task}
    found = Sweep("a", *parts, (1e-3, 1e-2), 2, 200, rc.Adam).run(tmp_path / "kept", lambda _: None)
    alone = rc.train(parts[0], parts[1]["rflo"], task, optimizer=rc.Adam(1e-2), steps=200, seeds=2, progress=False)
    np.testing.assert_allclose(found["loss"][0, 0, 1], alone.loss, rtol=1e-5)
    assert found["rate"].tolist() == [1e-3, 1e-2]


def test_the_figure_shows_all_conditions_or_what_there_is():
    drawn = best_rates.draw(ran())
    assert drawn is not None
    assert len(drawn.figure.axes) == 12
    assert len(drawn.table["seed"]) == 8 * len(GRID) * (20 * (len(RATED) - 1) + 16)
    assert len(drawn.rows[0]) == 9
    assert drawn.rows[0]["learner"] == "RTRL"
    assert drawn.rows[0]["Add, α = 1, plain descent"] == "0 at 0.01"
    some = {name: run for name, run in ran(missing=("rtrl",)).items() if name.startswith("grid/descent/add/1/")}
    part = best_rates.draw(some)
    assert part is not None
    assert len(part.figure.axes) == 1
    assert part.rows == []
    assert best_rates.draw({}) is None
