"""Alignment as a predictor, and gated networks: what is measured, and claims that hold, fail and stay open."""

import dataclasses
import json
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from recurra_paper.beyond import gated, predictor
from recurra_paper.beyond.gated import runs as gated_runs
from recurra_paper.beyond.gated.measure import length_correlation
from recurra_paper.beyond.predictor import measure
from recurra_paper.beyond.predictor import runs as predictor_runs
from recurra_paper.beyond.profiles import PROFILES
from recurra_paper.claims.base import Undecided, ledger
from recurra_paper.experiments.gradients import LEARNERS, Alignments, Gradients
from unrolled import summed_cosine

QUICK = PROFILES["quick"]
#: of the approximate learners, the best first
BEST_FIRST = ("r-ok", "kf-rtrl", "uoro", "r-kf-rtrl", "dni", "dni-b", "rflo", "kernl")
UP, DOWN = list(range(8)), list(range(8))[::-1]
#: an order that has next to nothing to do with that of the losses
MIXED = [3, 6, 1, 4, 7, 0, 5, 2]
WINDOWS = np.array([1, 4, 16_384])


def decide(question, name, data):
    (claim,) = [claim for claim in question.CLAIMS if claim.id == name]
    return claim.decide(data, QUICK)


def curve(rng, final, start=0.8, seeds=5, spread=0.001, steps=100_000):
    """Losses that fall to `final`, and vary from seed to seed."""
    level = final + spread * rng.normal(size=(seeds, 1))
    loss = level + (start - level) * np.exp(-np.arange(100) / 10)
    return {"step": steps // 100 * np.arange(1, 101), "loss": loss, "diverged": np.full(seeds, -1)}


class World(NamedTuple):
    """For each task the ranks of the learners' alignments, from the best to the worst, at the ends of the windows."""

    single: dict
    summed: dict
    conditions: tuple = tuple(predictor_runs.CONDITIONS)
    windows: np.ndarray = WINDOWS
    gap: float = 0.2
    seeds: int = 5


#: what the paper found on Add and on Mimic, and what its Discussion hopes for
TRUE = World({"add": UP, "mimic": DOWN}, {"add": DOWN, "mimic": [7, 6, 4, 5, 3, 2, 0, 1]})


def predicting(world=TRUE, seed=0):
    """The experiments of the question about predictors, as the world has it."""
    rng, data = np.random.default_rng(seed), {}
    compared = ["rtrl", "f-bptt", *BEST_FIRST]
    for name in world.conditions:
        task = predictor_runs.CONDITIONS[name].task
        single, summed = ((np.array(ranks[task]) + 1) / 10 for ranks in (world.single, world.summed))
        cosine = np.full((world.seeds, 10, 10, len(world.windows)), 0.5)
        for w, share in enumerate(np.linspace(0, 1, len(world.windows))):
            mean = (1 - share) * single + share * summed
            for row, learner in enumerate(BEST_FIRST):
                exact = 1 if learner.startswith("dni") else 0
                cosine[:, row + 2, exact, w] = mean[row] + 0.002 * rng.normal(size=world.seeds)
        histogram = np.full((10, 10, 4), 1_000 * world.seeds)
        arrays = {"learners": np.array(compared), "windows": world.windows, "window_cosine": cosine}
        data[predictor_runs.gradients_name(name)] = {**arrays, "histogram": histogram}
        finals = {"rtrl": 0.46, "fixed": 0.46 + world.gap}
        finals |= {learner: 0.47 + 0.02 * i for i, learner in enumerate(BEST_FIRST)}
        for learner, final in finals.items():
            data[predictor_runs.loss_name(name, learner)] = curve(rng, final, seeds=world.seeds)
    return data


@pytest.mark.parametrize("seed", range(3))
def test_what_predicts_is_found_to(seed):
    rows = ledger(predictor.CLAIMS, predicting(seed=seed), QUICK)
    assert {row["id"]: row["status"] for row in rows} == dict.fromkeys((c.id for c in predictor.CLAIMS), "holds")
    assert json.loads(json.dumps(rows, allow_nan=False))


BOTH = lambda ranks: {"add": ranks, "mimic": ranks}
#: worlds in which a claim is false, and in which the data leave it open
PREDICTOR_WRONG = {
    "predictor-single": TRUE._replace(single=BOTH(DOWN)),
    "predictor-summed": TRUE._replace(summed=BOTH(UP)),
    "predictor-gain": TRUE._replace(single=BOTH(DOWN), summed=BOTH(UP)),
}
PREDICTOR_OPEN = {
    "predictor-single": TRUE._replace(seeds=1),
    "predictor-summed": TRUE._replace(summed=BOTH(MIXED)),
    "predictor-gain": TRUE._replace(single=BOTH(MIXED), summed=BOTH(MIXED[::-1])),
}


@pytest.mark.parametrize("name", PREDICTOR_WRONG)
def test_a_claim_about_predictors_can_fail_and_can_stay_open(name):
    wrong = decide(predictor, name, predicting(PREDICTOR_WRONG[name]))
    assert wrong.status == "does not hold", wrong.measured
    left = decide(predictor, name, predicting(PREDICTOR_OPEN[name]))
    assert left.status == "not decided", left.measured


def test_alignment_is_with_the_exact_gradient_of_the_same_facing_summed_over_the_window():
    rng = np.random.default_rng(0)
    learners = ("rtrl", "f-bptt", "uoro", "dni")
    gradients = rng.normal(size=(2, 90, 4, 7)) + rng.normal(size=(1, 1, 1, 7))
    alignments = Alignments(learners, seeds=2, steps=90)
    for piece in (gradients[:, :50], gradients[:, 50:]):
        alignments.take(piece)
    losses = {name: curve(rng, 0.5, seeds=2) for name in ("fixed", "rtrl", "uoro", "dni")}
    data = {predictor_runs.loss_name("add/1", name): run for name, run in losses.items()}
    found = measure.measured(data | {predictor_runs.gradients_name("add/1"): alignments.arrays()}, "add/1")
    assert found.learners == ("uoro", "dni")
    assert list(found.windows) == [1, 4, 16]
    for s, (w, window) in product(range(2), enumerate(found.windows)):
        expected = summed_cosine(gradients[s], int(window))
        np.testing.assert_allclose(found.alignment[s, :, w], [expected[2, 0], expected[3, 1]], atol=1e-6)


def test_rho_is_one_where_the_better_aligned_end_lower_and_tasks_count_alike():
    found = measure.collected(predicting(TRUE._replace(single={"add": DOWN, "mimic": UP})))
    assert found["add/1"].rho(1) == pytest.approx(1)
    assert found["mimic/1"].rho(1) == pytest.approx(-1)
    assert measure.overall(found, 1) == pytest.approx(0)  # four conditions of Add, two of Mimic
    assert measure.over_seeds(found, 1).value == pytest.approx(0)


def test_the_bootstrap_draws_losses_and_alignments_each_from_their_own_seeds():
    """Against many samples that are drawn anew: 4 seeds of alignments and 20 of losses."""
    rng, of_seeds = np.random.default_rng(2), np.ones(20)
    windows, levels = np.array([1]), np.arange(8.0)
    sample = lambda: {
        name: measure.Measured(
            BEST_FIRST,
            windows,
            (levels + 1.0 * rng.normal(size=(4, 8)))[..., None],
            -levels + 4.0 * rng.normal(size=(20, 8)),
            of_seeds,
            of_seeds,
        )
        for name in ("add/1", "mimic/1")
    }
    found = [measure.over_seeds(sample(), 1) for _ in range(60)]
    assert {e.dof for e in found} == {3.0}
    spread = np.std([measure.overall(sample(), 1) for _ in range(400)])
    # Ranks are drawn towards disorder twice, in the sample and in the bootstrap: the error is rather too large.
    assert spread < np.mean([e.error for e in found]) < 2 * spread
    exact = {name: dataclasses.replace(m, loss=np.tile(-levels, (20, 1))) for name, m in sample().items()}
    fewer = {name: dataclasses.replace(m, loss=m.loss[:4], gap=m.gap[:4], rtrl=m.rtrl[:4]) for name, m in exact.items()}
    assert measure.over_seeds(exact, 1).error == pytest.approx(measure.over_seeds(fewer, 1).error, rel=0.1)


def test_the_caption_tells_seeds_of_training_from_those_of_the_comparison():
    data = predicting()
    for name in predictor_runs.CONDITIONS:
        run = data[predictor_runs.gradients_name(name)]
        data[predictor_runs.gradients_name(name)] = run | {"window_cosine": run["window_cosine"][:3]}
    assert "5 seeds of training, and over 3 of the comparison" in predictor.draw(data).caption
    assert decide(predictor, "predictor-single", data).status == "holds"


def test_the_jackknife_over_learners_covers_what_new_learners_would_show():
    rng = np.random.default_rng(1)
    true, inside = 6 / np.pi * np.arcsin(0.6 / 2), []  # Spearman's ρ of normal variables of correlation 0.6
    one = np.ones(1)
    for _ in range(200):
        shared = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=8)
        own = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=(2, 8))
        found = {}
        for name, z in zip(("add/1", "mimic/1"), np.sqrt(0.7) * shared + np.sqrt(0.3) * own, strict=True):
            arrays = z[None, :, :1], -z[None, :, 1]
            found[name] = measure.Measured(BEST_FIRST, np.array([1]), *arrays, one, one)
        low, high = measure.over_learners(found, 1).interval()
        inside.append(low <= true <= high)
    assert 0.87 <= np.mean(inside) <= 0.99


def test_a_condition_in_which_nothing_was_learnt_is_left_out_and_named():
    data = predicting()
    where = "add/1/lags-9-15"
    data[predictor_runs.loss_name(where, "rtrl")] = data[predictor_runs.loss_name(where, "fixed")]
    verdict = decide(predictor, "predictor-single", data)
    assert verdict.status == "holds"
    assert "Left out, since RTRL is not ahead of fixed W: Add 9, 15, α = 1." in verdict.measured
    nothing = decide(predictor, "predictor-single", predicting(TRUE._replace(gap=-0.01)))
    assert nothing.status == "not decided"
    assert "no condition of Add and of Mimic" in nothing.measured


def test_short_windows_few_learners_and_missing_runs_decide_nothing():
    short = predicting(TRUE._replace(windows=np.array([1, 4, 256])))
    assert "256 steps" in decide(predictor, "predictor-summed", short).measured
    assert decide(predictor, "predictor-single", short).status == "holds"
    data = predicting()
    missing = predictor_runs.loss_name("mimic/1", "uoro")
    without = {name: run for name, run in data.items() if name != missing}
    assert missing in decide(predictor, "predictor-single", without).measured
    drawn = predictor.draw(without)
    assert set(drawn.table["condition"]) == {*predictor_runs.CONDITIONS, "mean"} - {"mimic/1"}
    for claim in (*predictor.CLAIMS, *gated.CLAIMS):
        assert claim.decide({}, QUICK).status == "not decided"


def test_a_learner_that_diverged_counts_as_the_worst():
    data = predicting()
    name = predictor_runs.loss_name("add/1", "r-ok")
    data[name] = data[name] | {"diverged": np.full(5, 70)}
    before, after = (measure.measured(d, "add/1") for d in (predicting(), data))
    assert before.loss[:, before.learners.index("r-ok")].max() < before.loss.min() + 0.02
    assert np.all(after.loss.argmax(axis=1) == after.learners.index("r-ok"))


def test_the_runs_of_the_predictor_reach_as_far_as_their_labels():
    names = [e.name for e in predictor.experiments(PROFILES["full"])]
    assert len(set(names)) == len(names) == 6 * 11
    for e in predictor.experiments(PROFILES["full"]):
        assert e.settings()
        if isinstance(e, Gradients):
            horizon = e.learners["f-bptt"].T
            assert horizon >= getattr(e.task, "t2", 0) * getattr(e.task, "stretch", 1)
            long_enough = Alignments(tuple(e.learners), e.seeds, e.steps - horizon).windows[-1]
            assert long_enough == (65_536 if e.name == "predictor/add/1/gradients" else 16_384)
    assert min(map(len, (predictor.experiments(PROFILES[p]) for p in ("quick", "tiny")))) > 2


# Gated networks.

FINALS = {
    "rtrl": 0.460, "f-bptt": 0.461, "e-bptt": 0.462, "kf-rtrl": 0.463, "r-ok": 0.47, "uoro": 0.50, "r-kf-rtrl": 0.503,
    "dni": 0.53, "dni-b": 0.55, "rflo": 0.58, "kernl": 0.59, "fixed": 0.66,
}  # fmt: skip
#: cosines with RTRL and with F-BPTT
COSINES = {
    "rtrl": (1.0, 0.4), "f-bptt": (0.4, 1.0), "e-bptt": (0.5, 0.5), "uoro": (0.06, 0.03), "kf-rtrl": (0.35, 0.2),
    "r-kf-rtrl": (0.05, 0.02), "r-ok": (0.8, 0.4), "kernl": (0.6, 0.4), "rflo": (0.65, 0.4), "dni": (0.3, 0.5),
    "dni-b": (0.1, 0.3),
}  # fmt: skip
LENGTHS = {"uoro": 0.3, "r-kf-rtrl": 0.25}
EVERYWHERE = tuple(product(gated_runs.CELLS, ("add", "mimic")))


def gating(finals=None, cosines=None, lengths=None, where=EVERYWHERE, only=EVERYWHERE, seeds=6, spread=0.001):
    """The experiments on gated networks; what is given as changed is so in the conditions `where`."""
    rng, data = np.random.default_rng(0), {}
    for condition in only:
        changed = condition in where
        for learner, final in (FINALS | (finals or {}) if changed else FINALS).items():
            count = seeds if learner != "r-ok" else max(seeds // 2, 1)
            run = curve(rng, final, seeds=count, spread=spread)
            data[gated_runs.loss_name(*condition, learner)] = run
        pairs = COSINES | (cosines or {}) if changed else COSINES
        mean = np.full((seeds, len(LEARNERS), len(LEARNERS)), 0.1)
        for row, learner in enumerate(LEARNERS):
            mean[:, row, :2] = np.array(pairs[learner]) + 0.001 * rng.normal(size=(seeds, 2))
        z = rng.normal(size=(2, 2, seeds, 400))
        r = np.array([(LENGTHS | (lengths or {}) if changed else LENGTHS)[x] for x in LENGTHS])[:, None, None]
        data[gated_runs.gradients_name(*condition)] = {
            "learners": np.array(LEARNERS),
            "noisy": np.array(list(LENGTHS)),
            "mean": mean,
            "histogram": np.full((11, 11, 4), 100 * seeds),
            "pair_cosine": 0.1 * z[0],
            "pair_log_norm": r * z[0] + np.sqrt(1 - r**2) * z[1],
        }
    return data


def test_the_paper_s_findings_are_found_with_gated_cells():
    rows = ledger(gated.CLAIMS, gating(), QUICK)
    assert {row["id"]: row["status"] for row in rows} == dict.fromkeys((c.id for c in gated.CLAIMS), "holds")
    assert json.loads(json.dumps(rows, allow_nan=False))
    for name in ("gated-tie", "gated-facing"):  # r-OK is reported, with fewer seeds
        told = decide(gated, name, gating()).details["parts"]
        assert sum("r-OK" in part["part"] and "status" not in part for part in told) == 4


HERE = (("lstm", "mimic"),)
#: worlds in which a claim is false in one condition, and in which it stays open there
GATED_WRONG = {
    "gated-tie": {"finals": {"kf-rtrl": 0.50}},
    "gated-noisy": {"finals": {"r-kf-rtrl": 0.55}},
    "gated-local": {"cosines": {"kernl": (0.3, 0.2)}},
    "gated-facing": {"cosines": {"kf-rtrl": (0.2, 0.35)}},
    "gated-norm": {"lengths": {"uoro": -0.3}},
}
GATED_OPEN = {
    "gated-tie": {"finals": {"kf-rtrl": 0.48}, "spread": 0.004},
    "gated-noisy": {"finals": {"r-kf-rtrl": 0.52}, "spread": 0.004},
    "gated-local": {"seeds": 1},
    "gated-facing": {"seeds": 1},
    "gated-norm": {"lengths": {"uoro": 0.08}},
}


@pytest.mark.parametrize("name", GATED_WRONG)
def test_a_claim_about_gated_cells_can_fail_in_one_condition_and_can_stay_open(name):
    wrong = decide(gated, name, gating(where=HERE, **GATED_WRONG[name]))
    assert wrong.status == "does not hold", wrong.measured
    assert "LSTM on Mimic" in wrong.measured
    left = decide(gated, name, gating(where=HERE, **GATED_OPEN[name]))
    assert left.status == "not decided", left.measured


def test_a_part_of_the_conditions_decides_for_itself_and_without_a_gap_nothing_is():
    few = gating(only=(("gru", "add"),))
    assert {row["status"] for row in ledger(gated.CLAIMS, few, QUICK)} == {"holds"}
    flat = gating(finals=dict.fromkeys(FINALS, 0.66), where=HERE)
    assert "not yet ahead of fixed W" in decide(gated, "gated-tie", flat).measured
    less = {name: run for name, run in few.items() if name != "gated/gru/add/loss/kf-rtrl"}
    assert "gated/gru/add/loss/kf-rtrl was not run" in decide(gated, "gated-tie", less).measured
    with pytest.raises(Undecided, match="without RFLO"):
        length_correlation(few, ("gru", "add"), "rflo")


def test_who_diverged_is_told_and_has_learnt_nothing():
    data = gating(only=(("gru", "add"),))
    name = gated_runs.loss_name("gru", "add", "kf-rtrl")
    verdict = decide(gated, "gated-tie", data | {name: data[name] | {"diverged": np.full(6, 50)}})
    assert verdict.status == "does not hold"
    assert "KF-RTRL diverged at 6 seeds" in verdict.measured


@pytest.mark.parametrize(
    ("question", "data"),
    [
        pytest.param(predictor, predicting(), marks=pytest.mark.slow),
        (predictor, predicting(TRUE._replace(conditions=("mimic/1",), gap=-0.01))),
        (gated, gating()),
        (gated, {name: run for name, run in gating(only=HERE).items() if "loss" in name}),
        (gated, {name: run for name, run in gating(only=HERE).items() if "gradients" in name}),
    ],
    ids=["predictor", "one condition", "gated", "losses", "gradients"],
)
def test_figures_show_what_was_run(question, data):
    drawn = question.draw(data)
    assert drawn.caption
    assert drawn.alt
    for table in drawn.tables.values():
        assert len({len(column) for column in table.values()}) <= 1
    assert question.draw({}) is None
    assert all(name.startswith(tuple(question.needs(PROFILES["full"]))) for name in data)
    assert {claim.figure for claim in question.CLAIMS} == {question.NAME}


def test_the_runs_of_gated_cells_share_their_tasks_and_hyperparameters():
    names = [e.name for e in gated.experiments(PROFILES["full"])]
    assert len(set(names)) == len(names) == 4 * 13
    for profile in PROFILES.values():
        for e in gated.experiments(profile):
            assert e.settings()
            assert e.rate == gated_runs.RATE
