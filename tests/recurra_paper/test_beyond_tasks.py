"""Two questions of the study: what a task demands, and what learning rates do."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.tasks import BLOCK
from recurra_paper.beyond import demands, rates
from recurra_paper.beyond.demands.reach import capacity, crossing, reach, scores
from recurra_paper.beyond.demands.runs import SCALES as DEMANDS
from recurra_paper.beyond.demands.task import MOST, Recall
from recurra_paper.beyond.grids import RATED, Condition, grid_losses
from recurra_paper.beyond.profiles import PROFILES
from recurra_paper.beyond.rates.runs import LONG, PAPERS_OWN, halves
from recurra_paper.beyond.rates.runs import SCALES as RATES
from recurra_paper.beyond.rates.usable import best, own_losses, usable, width
from recurra_paper.experiments.base import described
from recurra_paper.experiments.sweep import Sweep
from recurra_paper.setup import LEARNERS, TASKS

FULL = PROFILES["full"]


def decide(question, name, data):
    return next(claim for claim in question.CLAIMS if claim.id == name).decide(data, FULL)


# The task


def stream(task, blocks=3):
    """Inputs and labels of the first blocks."""
    state, rows = task.init(jax.random.key(0), jnp.dtype("float64")), []
    for number in range(blocks):
        key = jax.random.fold_in(jax.random.key(1), number)
        block, state = task.block(state, key, jnp.asarray(number, "int32"), jnp.dtype("float64"))
        rows.append(block)
    return (np.concatenate([np.asarray(getattr(row, name)) for row in rows]) for name in ("x", "label"))


@pytest.mark.parametrize(("bits", "lag"), [(1, 0), (1, 2), (3, 40), (8, MOST)])
def test_the_label_is_all_coins_of_some_steps_ago(bits, lag):
    x, label = stream(Recall(bits, lag))
    assert x.shape == label.shape == (3 * BLOCK, bits)
    assert set(np.unique(x)) == {-1.0, 1.0}
    expected = np.zeros_like(x)  # before the first step there was no coin
    expected[lag:] = x[: len(x) - lag]
    np.testing.assert_array_equal(label, expected)


def test_coins_are_fair_and_independent():
    x, label = stream(Recall(2, 5), blocks=40)
    steps = len(x)
    assert abs(x.mean()) < 4 / np.sqrt(x.size)
    together = np.concatenate([x[5:], label[5:]], axis=1)
    off_diagonal = (together.T @ together / steps)[~np.eye(4, dtype=bool)]
    assert np.abs(off_diagonal).max() < 4 / np.sqrt(steps)


def test_all_lags_share_one_program():
    built, first = [], (jnp.zeros((MOST, 2)), jax.random.key(1), jnp.asarray(0, "int32"), jnp.dtype("float64"))

    @eqx.filter_jit
    def labels(task):
        built.append(task)
        return task.block(*first)[0].label

    for lag in (3, 17, MOST):
        plain = Recall(2, lag).block(*first)[0].label
        np.testing.assert_array_equal(np.asarray(labels(Recall(2, lag).traced())), np.asarray(plain))
    assert len(built) == 1


def test_a_network_that_does_nothing_explains_nothing_and_one_that_holds_the_coin_explains_it():
    """At lag 0 a readout of what the network sees is enough; at a lag of 40 fixed weights are not."""
    network = rc.Network(rc.RNN(n_in=1, n=16), n_out=1, loss=rc.SquaredError())
    explained = {}
    for lag in (0, 40):
        result = rc.train(network, rc.Fixed(), Recall(1, lag), steps=2_000, optimizer=0.02, progress=False)
        explained[lag] = 1 - float(result.final_loss()[0]) / 0.5
    assert explained[0] > 0.9
    assert explained[40] < 0.1


# The sweep


def test_every_point_of_a_sweep_is_the_run_it_says(tmp_path):
    network = rc.Network(rc.RNN(n_in=1, n=4), n_out=1, loss=rc.SquaredError())
    learners = {"a": rc.DNI(0.0), "b": rc.DNI(0.02)}
    tasks = {str(lag): Recall(1, lag) for lag in (1, 3)}
    sweep = Sweep("demands/test", network, learners, tasks, (1e-3, 1e-2), 2, 200)
    told = []
    arrays = sweep.run(tmp_path / "unused", told.append)
    assert arrays["loss"].shape == (2, 2, 2, 2, 100)
    assert arrays["diverged"].shape == (2, 2, 2, 2)
    assert told == sorted(told)
    assert told[-1] == 1.0
    for i, j, k in ((0, 0, 0), (1, 0, 1), (0, 1, 0)):
        learner, task = list(learners.values())[i], list(tasks.values())[j]
        alone = rc.train(network, learner, task, steps=200, seeds=2, optimizer=sweep.rates[k], progress=False)
        np.testing.assert_array_equal(arrays["loss"][i, j, k], alone.loss)
    assert not np.array_equal(arrays["loss"][0, 0, 0], arrays["loss"][1, 0, 0])
    assert "DNI(learning_rate=0.02" in described(learners)
    assert sweep.cost == pytest.approx(4 + 8 * 400e-6)


# Reach

LAGS = np.array([2.0, 4.0, 8.0])


def test_reach_is_where_straight_lines_between_scores_cross_a_half():
    assert crossing(LAGS, np.array([1.0, 0.8, 0.2])) == pytest.approx(6.0)
    assert crossing(LAGS, np.array([0.0, 0.0, 0.0])) == pytest.approx(1.0)  # from score 1 at lag 0
    assert crossing(LAGS, np.array([0.9, 0.9, 0.6])) == 8.0  # never: the longest lag
    assert crossing(LAGS, np.array([0.7, 0.3, 0.9])) == pytest.approx(3.0)  # the first time


def test_a_learner_counts_at_its_best_rate_and_diverged_seeds_explain_nothing():
    loss = np.full((1, 2, 2, 3, 100), 1.0)  # of 2 bits: a score of 0
    loss[0, 0, 0] = 0.25  # lag 2 is learned at the first rate
    loss[0, 1, 1] = 0.5  # lag 4 in part at the second
    loss[0, 0, 0, 1] = np.nan
    diverged = np.full((1, 2, 2, 3), -1)
    diverged[0, 0, 0, 1] = 17
    run = {"loss": loss, "diverged": diverged, "tasks": np.array(["2", "4"]), "rate": np.array([1e-3, 1e-2])}
    lags, share = scores({"demands/2/dni": run}, 2, "dni")
    np.testing.assert_array_equal(lags, [2, 4])
    np.testing.assert_allclose(share, [[0.75, 0.5], [0.0, 0.5], [0.75, 0.5]])
    worse = run | {"loss": np.where(loss == 0.25, 40.0, loss)}  # than the answer 0
    np.testing.assert_allclose(scores({"demands/2/dni": worse}, 2, "dni")[1][:, 0], 0.0)
    np.testing.assert_allclose(reach({"demands/2/dni": run}, 2, "dni"), [4, 1, 4])


def test_capacity_is_what_a_shift_register_can_hold():
    """With half of each coin's variance kept for lag + 1 steps, the shares add up to the number of units."""
    bits = np.array([1.0, 2.0, 8.0])
    np.testing.assert_allclose(0.5 * bits * (capacity(bits) + 1), 32)


REACHES = {
    "rtrl": (17, 11, 9, 6.5), "uoro": (9.5, 6, 3.6, 2.1), "kf-rtrl": (14, 10, 8, 5), "r-kf-rtrl": (9.4, 6, 3.5, 2.0),
    "r-ok": (15, 10, 8, 5.5), "kernl": (6.8, 4.5, 3.2, 2.1), "rflo": (6.9, 4.6, 3.2, 2.2),
    "e-bptt": (10.2, 8, 6, 4), "f-bptt": (10.6, 9, 7, 5), "dni": (8.2, 6, 4.5, 2.9), "dni-b": (6.3, 5, 3.9, 2.5),
    "fixed": (6, 4.2, 2.9, 1.8),
}  # fmt: skip


def demanded(changes=None, spread=0.02, seeds=6, missing=()):
    """Runs of learners with these reaches; at the second rate nobody learns."""
    rng, data, scale = np.random.default_rng(0), {}, DEMANDS["full"]
    true = REACHES | (changes or {})
    for column, (bits, lags) in enumerate(scale.lags.items()):
        for learner in LEARNERS:
            if learner in missing:
                continue
            count = 2 if learner == "r-ok" else 4 if learner == "rtrl" else seeds
            each = true[learner][column] * np.exp(spread * rng.normal(size=count))
            share = 1 / (1 + np.exp(2.5 * np.log2(np.array(lags)[:, None] / each)))
            loss = np.repeat(0.5 * bits * (1 - np.stack([share, 0 * share - 0.1], axis=1))[None, ..., None], 100, -1)
            data[f"demands/{bits}/{learner}"] = {
                "learners": np.array([learner]), "tasks": np.array([str(lag) for lag in lags]),
                "rate": np.array([1e-4, 1e-3]), "step": 2_000 * np.arange(1, 101), "loss": loss,
                "diverged": np.full(loss.shape[:-1], -1),
            }  # fmt: skip
    return data


DEMAND_CLAIMS = [claim.id for claim in demands.CLAIMS]
WRONG_DEMANDS = {
    "demands-horizon": {"dni": (12, 8, 6, 4)},
    "demands-information": {"dni": (8.2, 4, 2, 1.2)},
    "demands-truncation": {"f-bptt": (15, 9, 7, 5)},
}


@pytest.mark.parametrize("name", DEMAND_CLAIMS)
def test_a_claim_about_demands_holds_fails_or_stays_open(name):
    assert decide(demands, name, demanded()).status == "holds"
    assert decide(demands, name, demanded(WRONG_DEMANDS[name])).status == "does not hold"
    assert decide(demands, name, demanded(spread=0.8)).status == "not decided"
    missing = decide(demands, name, demanded(missing=("dni-b", "f-bptt")))
    assert missing.status == "not decided"
    assert "was not run" in missing.measured


def test_rtrl_that_stops_where_truncation_does_refutes_the_claim():
    alike = {"rtrl": REACHES["f-bptt"]}
    assert decide(demands, "demands-truncation", demanded(alike, spread=0.005)).status == "does not hold"


# Rates

GRID = np.array([1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3])
#: losses at the rates of the grid
FALL = {"add": (0.64, 0.60, 0.55, 0.50, 0.47, 0.46), "mimic": (3.0, 2.0, 1.3, 0.9, 0.6, 0.5)}
STILL = {"add": (0.66, 0.65, 0.64, 0.63, 0.62, 0.61), "mimic": (3.1, 2.8, 2.5, 2.4, 2.3, 2.3)}
UNTRAINED = {"add": 0.75, "mimic": 5.0}


def windows(final, untrained, rng, spread):
    """(point, seed, window): losses that start untrained and end at `final`, (point, seed)."""
    fall = np.exp(-np.arange(100) / 8)
    level = np.asarray(final) + spread * rng.normal(size=np.shape(final))
    return level[..., None] + (untrained - level[..., None]) * fall


def rated(seeds=6, spread=0.002, missing=(), uoro=None, own=None, rflo=0.52, broken=None):
    """Every learner falls like RTRL, but UORO at larger rates; `broken` diverges at 1e-4."""
    rng, data = np.random.default_rng(1), {}
    same = rng.normal(size=seeds)  # a seed is easy or hard for all
    for task in TASKS:
        scale = UNTRAINED[task]
        for learner in RATED:
            levels = np.array(STILL[task] if learner == "fixed" else FALL[task])
            if learner == "uoro":
                levels[3:] = uoro if uoro is not None else scale
            final = levels[:, None] + spread * scale * same
            loss = windows(final, scale, rng, spread * scale / 3)
            diverged = np.full(final.shape, -1)
            if learner == broken:
                loss[2, 1, 40:], diverged[2, 1] = np.nan, 40_000
            data[f"grid/descent/{task}/1/{learner}"] = {
                "learners": np.array([learner]), "tasks": np.array([task]), "rate": GRID,
                "step": 3_000 * np.arange(1, 101), "loss": loss[None, None], "diverged": diverged[None, None],
            }  # fmt: skip
    worth = {"dni": (-4.5, -1.0, 0.5), "kernl": (-2.0, 0.5, 1.5)} | (own or {})
    for learner, (first, low, high) in worth.items():
        powers = np.array(halves(first, first + 6))
        level = 0.62 if learner == "dni" else 0.57
        final = np.where((powers >= low) & (powers <= high), 0.50, level)
        points = np.concatenate([[level], final])[:, None] + spread * same
        names = ["0", *(f"{PAPERS_OWN[learner] * 10**power:.3g}" for power in powers)]
        data[f"rates/own/{learner}"] = owned(names, windows(points, 0.75, rng, spread / 3))
    fixed = windows(np.array([[0.62]]) + spread * same, 0.75, rng, spread / 3)
    data["rates/own/fixed"] = owned(["fixed"], fixed)
    for learner in LONG:
        final = {"fixed": 0.60, "rtrl": 0.46, "rflo": rflo}.get(learner, 0.5)
        steps = 10_000 if learner == "rtrl" else 100_000
        loss = windows(final + spread * same, 0.75, rng, spread / 3)
        data[f"rates/long/{learner}"] = {
            "step": steps * np.arange(1, 101), "loss": loss, "diverged": np.full(seeds, -1),
        }  # fmt: skip
    return {name: arrays for name, arrays in data.items() if name.split("/")[-1] not in missing}


def owned(names, loss):
    return {
        "learners": np.array(names), "tasks": np.array(["add"]), "rate": np.array([1e-4]),
        "step": 10_000 * np.arange(1, 101), "loss": loss[:, None, None], "diverged": np.full((len(names), 1, 1, 6), -1),
    }  # fmt: skip


@pytest.mark.parametrize("name", [claim.id for claim in rates.CLAIMS])
def test_a_claim_about_rates_holds_fails_or_stays_open(name):
    wrong = {
        "rates-stable": {"broken": "kernl"},
        "rates-fastest": {"uoro": 0.45},
        "rates-space": {"own": {"kernl": (-2.0, -1.5, 1.5)}},
        "rates-patience": {"rflo": 0.455},
    }
    assert decide(rates, name, rated()).status == "holds"
    assert decide(rates, name, rated(**wrong[name])).status == "does not hold"
    missing = decide(rates, name, rated(missing=("rtrl",)))
    assert missing.status == "not decided"
    assert "was not run" in missing.measured


@pytest.mark.parametrize(
    ("name", "unclear"),
    [
        ("rates-stable", {"spread": 0.2}),
        ("rates-fastest", {"uoro": (0.63, 0.62, 0.61), "spread": 0.05}),
        ("rates-patience", {"rflo": 0.465, "spread": 0.05}),
        ("rates-space", {"spread": 0.1}),
    ],
)
def test_unclear_data_leave_a_claim_about_rates_open(name, unclear):
    assert decide(rates, name, rated(**unclear)).status == "not decided"


def test_a_learner_that_ends_behind_fixed_w_is_not_stable_without_diverging():
    data = rated()
    run = data["grid/descent/mimic/1/dni"]
    run["loss"][0, 0, 2] = 2.9
    verdict = decide(rates, "rates-stable", data)
    assert verdict.status == "does not hold"
    assert "DNI ahead of fixed W on Mimic" in verdict.measured


def test_what_diverged_or_lost_more_than_untrained_counts_as_untrained():
    data = rated(broken="kernl")
    run = data["grid/descent/add/1/kernl"]
    run["loss"][0, 0, 5, 2] = 1e30
    run["loss"][0, 0, 4, 2, -1] = np.inf
    losses = grid_losses(data, Condition("add"), "kernl")
    untrained = data["grid/descent/add/1/fixed"]["loss"][0, 0, 0, :, 0]
    assert losses[1, 2] == untrained[1]
    assert losses[2, 5] == losses[2, 4] == untrained[2]
    assert np.isfinite(losses).all()


def test_the_usable_range_is_within_a_tenth_of_the_gap_of_the_best():
    losses = np.array([[0.50, 0.47, 0.46, 0.468, 0.60]])
    np.testing.assert_array_equal(usable(losses, 0.1), [[False, True, True, True, False]])
    np.testing.assert_array_equal(usable(losses, 0.05), [[False, False, True, False, False]])
    data = rated(spread=1e-6)
    # the gap on Add is 0.61 - 0.46: RTRL's two largest rates end within 0.015 of its best, fixed W's two within 0.61
    np.testing.assert_allclose(width(data, "add", "rtrl"), 2 * np.log10(300) / 5)
    assert best(grid_losses(data, Condition("add"), "rtrl")) == 5


def test_own_rates_start_at_zero():
    own, losses = own_losses(rated(), "dni")
    assert own[0] == 0
    np.testing.assert_allclose(own[-1] / own[1], 1e6, rtol=0.01)
    assert losses.shape == (6, 14)


# Both


#: seconds of a core: the full grids of rates are for a GPU
BUDGETS = {demands: (80, 110, 1_900), rates: (80, 110, 60_000)}


@pytest.mark.parametrize("question", [demands, rates])
def test_a_question_keeps_to_its_interface(question):
    for profile, budget in zip(("tiny", "quick", "full"), BUDGETS[question], strict=True):
        wanted = question.experiments(PROFILES[profile])
        names = [experiment.name for experiment in wanted]
        assert len(set(names)) == len(names)
        assert all(name.startswith(tuple(question.needs(PROFILES[profile]))) for name in names)
        assert sum(experiment.cost for experiment in wanted) < budget
        assert all(isinstance(experiment.settings(), dict) for experiment in wanted)
    assert all(claim.figure == question.NAME and claim.id.startswith(question.NAME) for claim in question.CLAIMS)
    assert question.draw({}) is None


def test_figures_show_all_learners_or_what_there_is():
    drawn = demands.draw(demanded())
    assert drawn is not None
    assert len(drawn.figure.axes) == 5
    assert set(drawn.table["learner"]) == set(LEARNERS)
    assert "2 to 6 seeds" in drawn.caption
    part = demands.draw({"demands/4/dni": demanded()["demands/4/dni"]})
    assert part is not None
    assert len(part.figure.axes) == 2
    data = rated()
    drawn = rates.draw(data)
    assert drawn is not None
    assert len(drawn.figure.axes) == 6
    assert [row["learner"] for row in drawn.rows][-1] == "Fixed W"
    for prefix in ("grid/descent/add", "rates/own", "rates/long/rflo"):
        some = rates.draw({name: arrays for name, arrays in data.items() if name.startswith(prefix)})
        assert some is not None
    assert rates.draw({"grid/descent/add/1/rtrl": data["grid/descent/add/1/rtrl"]}) is None
    assert RATES["full"].long_steps == 10 * RATES["full"].own_steps
