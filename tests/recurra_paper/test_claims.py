"""Every claim of the ledger can hold, can fail and can stay open, and does so when it should."""

import json
from operator import ne
from typing import NamedTuple

import numpy as np
import pytest

import recurra as rc
from recurra_paper.analysis import Estimate
from recurra_paper.claims import CLAIMS, ledger
from recurra_paper.claims.across import axes_of
from recurra_paper.claims.base import Part, conjunction
from recurra_paper.claims.losses import LEARNABLE
from recurra_paper.claims.memory import WORTH
from recurra_paper.claims.rule import Alike, Difference, More, NoMore, Within
from recurra_paper.claims.sentences import CLAIMED
from recurra_paper.claims.table import ORDERS
from recurra_paper.figures import FIGURES
from synthetic_paper_data import full_data, lattice, world


class Size(NamedTuple):
    name: str


QUICK = Size("quick")
BY_ID = {claim.id: claim for claim in CLAIMS}
#: claims with tests of their own
APART = ("clusters", "align-clusters", "align-predicts-not")


def decide(name, data):
    return BY_ID[name].decide(data, QUICK)


def changed(path, value):
    """A world with one thing changed."""
    w = world()
    *inner, last = path
    place = w
    for key in inner:
        place = place[key]
    place[last] = value
    return w


def loss(condition, learner, value):
    return changed(("loss", condition, learner), value)


def cosine(task, learner, *pair):
    return changed(("alignment", task, learner), pair)


def predictive():
    """Learners that are better aligned where they learn better, on both tasks."""
    found = lambda task: {x: 1.2 - world()["loss"][f"{task}/1"][x] / 2 for x in world()["alignment"][task]}
    return {task: {x: (cosine, cosine) for x, cosine in found(task).items()} for task in ("add", "mimic")}


def with_shares(**share):
    """A world in which learners stand between RTRL and fixed W as given, in every condition."""
    w = world()
    for losses in w["loss"].values():
        low, high = losses["rtrl"], losses["fixed"]
        losses |= {x.replace("_", "-"): low + part * (high - low) for x, part in share.items()}
    return w


#: Learners that are alike on the axes end far apart, and those that differ end together.
UNCLUSTERED = with_shares(
    uoro=0.54, kf_rtrl=0.13, r_kf_rtrl=0.4, rflo=0.26, kernl=0.62, f_bptt=0.45, dni=0.14, dni_b=0.42,
)  # fmt: skip
#: And the other way round: the line along which their distances on the axes are best laid out.
CLUSTERED = with_shares(
    uoro=-0.37, kf_rtrl=-0.37, r_kf_rtrl=-0.37, r_ok=-0.14, kernl=0.24, rflo=0.01, e_bptt=0.22, f_bptt=0.36, dni=0.63,
    dni_b=0.63,
)  # fmt: skip
#: A world in which each claim is false. Most have something the wrong way round in one condition alone.
WRONG = {
    "rtrl-bptt": changed(("small-rate",), 0.5),
    "unbiased": changed(("enumerated", "r-kf-rtrl"), 1e-3),
    "lowest-variance": changed(("bias", "uoro"), (0.0, 1.5)),
    "biased": changed(("held", "dni"), (0.0, 0.05)),
    "add-tie-1": loss("add/1", "kf-rtrl", 0.49),
    "add-tie-0.5": loss("add/0.5", "f-bptt", 0.42),
    "add-lead-1": loss("add/1", "dni", 0.42),
    "add-lead-0.5": loss("add/0.5", "uoro", 0.42),
    "add-noisy-alike": loss("add/0.5", "r-kf-rtrl", 0.52),
    "add-noisy-behind": loss("add/1", "uoro", 0.43),
    "add-noisy-near": loss("add/0.5", "r-kf-rtrl", 0.52),
    "add-kernl-rflo": loss("add/1", "kernl", 0.55),
    "add-kernl-released-rflo": loss("add/0.5", "kernl-released", 0.54),
    "add-dni-between-1": loss("add/1", "dni", 0.62),
    "add-dni-between-0.5": loss("add/0.5", "rflo", 0.50),
    "add-local-cluster": loss("add/1", "rflo", 0.54),
    "add-difficulty": loss("add/0.5", "rtrl", 0.51),
    "mimic-local-cluster": loss("mimic/0.5", "dni", 1.12),
    "mimic-order": loss("mimic/0.5", "uoro", 0.7),
    "add-dni-b": loss("add/1", "dni-b", 0.50),
    "add-dni-b-slightly": loss("add/0.5", "dni-b", 0.60),
    "add-beats-fixed-1": loss("add/1", "kernl", 0.66),
    "add-beats-fixed-0.5": loss("add/0.5", "r-ok", 0.66),
    "mimic-tie-1": loss("mimic/1", "kf-rtrl", 0.9),
    "mimic-tie-0.5": loss("mimic/0.5", "f-bptt", 0.9),
    "mimic-horizon": changed(("horizon",), 0.9),
    "clusters": UNCLUSTERED,
    "mimic-lead-1": loss("mimic/1", "rflo", 0.2),
    "mimic-lead-0.5": loss("mimic/0.5", "uoro", 0.1),
    "mimic-noisy-alike": loss("mimic/1", "uoro", 1.2),
    "mimic-noisy-worse": loss("mimic/1", "uoro", 0.5),
    "mimic-local-better": loss("mimic/0.5", "dni-b", 2.1),
    "mimic-beats-fixed-1": loss("mimic/1", "uoro", 2.6),
    "mimic-beats-fixed-0.5": loss("mimic/0.5", "dni", 2.3),
    "align-past": cosine("mimic", "kf-rtrl", 0.2, 0.4),
    "align-future": cosine("add", "dni", 0.5, 0.3),
    "align-deterministic": cosine("add", "kernl", 0.2, 0.1),
    "align-closest": changed(("pairs", ("kernl", "rflo")), 0.3),
    "align-weakest": cosine("mimic", "dni", 0.05, 0.3),
    "align-none": cosine("mimic", "uoro", 0.7, 0.02),
    "align-orthogonal": cosine("mimic", "r-kf-rtrl", 0.2, 0.02),
    "align-even-kf-rtrl": cosine("add", "kf-rtrl", 0.55, 0.15),
    "align-stochastic": changed(("pairs", ("r-kf-rtrl", "uoro")), 0.4),
    "align-predicts-not": changed(("alignment",), predictive()),
    "align-uoro-add": cosine("add", "uoro", 0.08, 0.02),
    "align-uoro-mimic": cosine("mimic", "uoro", 0.04, 0.02),
    "align-r-kf-rtrl-add": cosine("add", "r-kf-rtrl", 0.1, 0.02),
    "align-r-kf-rtrl-mimic": cosine("mimic", "r-kf-rtrl", 0.2, 0.02),
    "norm-uoro-add": changed(("correlation", "add", "uoro"), -0.2),
    "norm-uoro-mimic": changed(("correlation", "mimic", "uoro"), -0.2),
    "norm-r-kf-rtrl-add": changed(("correlation", "add", "r-kf-rtrl"), -0.2),
    "norm-r-kf-rtrl-mimic": changed(("correlation", "mimic", "r-kf-rtrl"), -0.2),
    "memory-jumps": changed(("jumps",), {-9: 0.19, -6: 0.75}),
    "norm-weak": changed(("correlation", "mimic", "r-kf-rtrl"), 0.5),
    "memory-decay-symmetric": changed(("memory", "symmetric"), 0.99),
    "memory-decay-diagonal": changed(("memory",), world()["memory"] | {"diagonal": 0.99, "diagonal-positive": 0.99}),
    "memory-rflo": changed(("rflo", "symmetric"), 0.62),
    "memory-mechanism": changed(("memory", "diagonal"), 1.0),
    "align-dissociates": loss("add/1", "kernl", 0.47),
    "summed-unbiased": changed(("summed", "uoro"), 0.2),
    "summed-biased": changed(("summed", "rflo"), 0.9),
    **{f"table-memory-{x}": changed(("orders", x), (world()["orders"][x][0] + 0.4, 2)) for x in ORDERS},
    **{f"table-time-{x}": changed(("orders", x), (2, world()["orders"][x][1] - 0.4)) for x in ORDERS},
}


@pytest.fixture(scope="module")
def data():
    return full_data()


@pytest.mark.parametrize("seed", range(3))
def test_every_claim_holds_where_it_is_true(seed):
    rows = ledger(CLAIMS, full_data(seed), QUICK)
    found = {row["id"]: row["status"] for row in rows}
    # In this world learners do not cluster along the axes, which has tests of its own, and what cannot hold is open.
    assert found["align-predicts-not"] == "not decided"
    assert {**found, **dict.fromkeys(APART, "holds")} == dict.fromkeys(BY_ID, "holds")
    assert [row["id"] for row in rows] == [claim.id for claim in CLAIMS]
    assert len(BY_ID) == len(CLAIMS)


@pytest.mark.parametrize("name", [claim.id for claim in CLAIMS if claim.id not in ("facings", "align-clusters")])
def test_a_claim_does_not_hold_where_it_is_false(name):
    verdict = decide(name, full_data(world=WRONG[name]))
    assert verdict.status == "does not hold", verdict.measured
    assert np.isfinite(verdict.number)


@pytest.mark.parametrize("learner", ["rtrl", "f-bptt", "e-bptt"])
def test_a_gradient_that_sums_other_terms_is_found_out(data, learner):
    for other in {"rtrl", "f-bptt", "e-bptt", "rflo"} - {learner}:
        assert decide("facings", data | {f"lattice/{learner}": lattice(other)}).status == "does not hold"


#: Worlds too noisy, too poorly sampled or too close to a border to tell.
OPEN = {
    "add-tie-1": loss("add/1", "kf-rtrl", 0.479),
    "align-none": cosine("add", "uoro", 0.5, 0.02),
    "align-orthogonal": cosine("add", "uoro", 0.1, 0.02),
    "align-uoro-add": cosine("add", "uoro", 0.043 * 1.5, 0.02),
    "add-local-cluster": changed(("spread",), 0.05),
    "add-difficulty": loss("add/0.5", "rtrl", 0.46 + LEARNABLE),
    "mimic-local-cluster": changed(("spread",), 0.1),
    "mimic-order": loss("mimic/1", "uoro", 0.92) | {"spread": 0.05},
    "summed-biased": changed(("summed", "dni"), 0.5),
    "norm-weak": changed(("correlation", "mimic", "uoro"), 0.3),
    "memory-rflo": changed(("rflo", "symmetric"), 0.662 - WORTH),
    "mimic-noisy-alike": loss("mimic/1", "uoro", 1.72),
}


@pytest.mark.parametrize("name", OPEN)
def test_a_claim_stays_open_where_the_interval_straddles_the_border(name):
    verdict = decide(name, full_data(world=OPEN[name]))
    assert verdict.status == "not decided", verdict.measured
    assert "quick profile" in verdict.measured
    assert verdict.details["open"]


#: A difference that has a direction and is too small to matter, and one that has neither.
SMALL = {
    "add-dni-b": (loss("add/1", "dni-b", 0.54), "holds", "above zero, too small to matter"),
    "add-noisy-behind": (loss("add/1", "uoro", 0.462), "does not hold", "no direction, too small to matter"),
    "add-kernl-rflo": (loss("add/1", "kernl", 0.58), "does not hold", "below zero, too small to matter"),
    "mimic-lead-1": (loss("mimic/1", "dni", 0.45), "does not hold", "below zero, too small to matter"),
    "biased": (changed(("held", "dni"), (0.02, 0.05)), "holds", "above zero, too small to matter"),
    "memory-rflo": (changed(("rflo", "symmetric"), 0.66), "holds", "above zero, too small to matter"),
    "norm-uoro-add": (
        changed(("correlation", "add", "uoro"), 0.0),
        "does not hold",
        "no direction, too small to matter",
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_verdict_tells_direction_and_size_apart(name):
    w, status, finding = SMALL[name]
    verdict = decide(name, full_data(world=w, seeds=20))
    assert (verdict.status, finding) == (status, finding), verdict.measured
    assert finding in {part.get("finding") for part in verdict.details["parts"]}, verdict.details["parts"]


def test_learners_that_are_alike_on_the_axes_and_learn_alike_cluster():
    verdict = decide("clusters", full_data(world=CLUSTERED))
    assert verdict.status == "holds", verdict.measured
    assert decide("clusters", full_data()).status == "not decided"


@pytest.mark.parametrize(("sign", "status"), [(-1, "holds"), (1, "does not hold")])
def test_gradients_cluster_where_those_of_learners_alike_on_the_axes_align(data, sign, status):
    """Cosines that fall, or rise, with the number of axes on which two learners differ."""
    rng, found = np.random.default_rng(0), dict(data)
    for name in ("gradients/add/1", "gradients/mimic/1"):
        learners = [str(x) for x in data[name]["learners"]]
        apart = np.array([[sum(map(ne, axes_of(x), axes_of(y))) for y in learners] for x in learners])
        mean = np.where(apart > 0, 0.5 + 0.1 * sign * apart, 0.5 + 0.1 * sign)
        mean[range(len(learners)), range(len(learners))] = 1
        found[name] = data[name] | {"mean": mean + 0.01 * rng.normal(size=(5, *mean.shape))}
    verdict = decide("align-clusters", found)
    assert verdict.status == status, verdict.measured
    assert decide("align-clusters", data).status == "not decided"


def test_what_is_not_found_in_six_learners_is_not_shown_to_be_absent(data):
    verdict = decide("align-predicts-not", data)
    assert verdict.status == "not decided"
    assert "cannot show that there is none" in verdict.measured
    deciding, *reported = verdict.details["parts"]
    assert "6 learners, single steps" in deciding["part"]
    assert deciding["p"] > 0.05
    assert [("8 learners" in part["part"], "p" in part) for part in reported] == [
        (True, True),
        (False, True),
        (True, True),
    ]


def test_a_claim_whose_readings_disagree_depends_on_the_reading():
    verdict = decide("memory-decay-diagonal", full_data(world=changed(("memory", "diagonal"), 0.99)))
    assert verdict.status == "not decided"
    assert verdict.details["readings"] == {"U[-1, 1]": "does not hold", "U[0, 1]": "holds"}
    assert verdict.measured.startswith("U[-1, 1]: does not hold; U[0, 1]: holds.")
    assert verdict.finding == "depends on the reading"


def test_a_stated_number_is_compared_with_another_seed_of_ours():
    """Its interval is wider than that of the mean."""
    rng = np.random.default_rng(0)
    data = full_data(seeds=20)
    run = data["gradients/add/1"]
    learners = list(run["learners"])
    place = learners.index("uoro"), learners.index("rtrl")
    for centre, spread, status in (
        (0.043, 0.003, "holds"),
        (0.05, 0.003, "holds"),
        (0.05, 0.01, "not decided"),  # the mean would lie well inside
        (0.08, 0.003, "does not hold"),
    ):
        mean = run["mean"].copy()
        mean[:, place[0], place[1]] = centre + spread * rng.standard_normal(20)
        assert decide("align-uoro-add", data | {"gradients/add/1": run | {"mean": mean}}).status == status


def test_sums_that_are_aligned_already_are_not_fitted(data):
    """Their error has reached rounding, and falls no further."""
    run = data["gradients/add/1"]
    cosine = run["window_cosine"].copy()
    cosine[:, list(run["learners"]).index("r-ok"), 0] = 1 - 1e-5
    verdict = decide("summed-unbiased", data | {"gradients/add/1": run | {"window_cosine": cosine}})
    assert verdict.status == "holds", verdict.measured
    assert any("largest squared error" in part["part"] for part in verdict.details["parts"])


def test_sums_too_short_to_align_may_still_show_that_they_will(data):
    run = data["gradients/add/1"]
    short = run | {"windows": run["windows"][:5], "window_cosine": run["window_cosine"][..., :5]}
    assert short["window_cosine"][:, 3, 0, -1].max() < 0.3
    assert decide("summed-unbiased", data | {"gradients/add/1": short}).status == "holds"
    opposed = run | {"window_cosine": -run["window_cosine"]}
    verdict = decide("summed-unbiased", data | {"gradients/add/1": opposed})
    assert verdict.status == "not decided"
    assert "opposes" in verdict.measured


def test_one_seed_decides_nothing_that_depends_on_seeds():
    rows = ledger(CLAIMS, full_data(seeds=1), QUICK)
    decided = {row["id"] for row in rows if row["status"] != "not decided"}
    assert decided == {claim.id for claim in CLAIMS if claim.counted}


def test_missing_experiments_leave_claims_open_and_are_named():
    for row in ledger(CLAIMS, {}, QUICK):
        assert row["status"] == "not decided"
        assert "was not run" in row["measured"]
        assert row["number"] is None
    data = full_data()
    del data["loss/add/1/uoro"]
    statuses = {row["id"]: row for row in ledger(CLAIMS, data, QUICK)}
    assert "loss/add/1/uoro" in statuses["add-noisy-behind"]["measured"]
    assert statuses["add-noisy-near"]["status"] == "holds"


def test_what_is_only_reported_may_be_missing(data):
    for name in ("loss/add/1/e-bptt", "loss/add/1/kernl-released"):
        data = {key: value for key, value in data.items() if key != name}
    assert decide("add-tie-1", data).status == "holds"
    assert decide("add-lead-1", data).status == "holds"


def test_learners_and_lags_missing_from_an_experiment_are_named(data):
    few = {key: value[:1] for key, value in data["bias/add"].items() if value.ndim}
    assert "KF-RTRL" in decide("lowest-variance", data | {"bias/add": few}).measured
    late = {"lag": np.arange(-5, 6), "r2": np.ones((5, 11))}
    assert "-11, -10, -9" in decide("memory-jumps", data | {"memory/gaussian": late}).measured
    never = data["gradients/add/1"] | {"mean": np.full_like(data["gradients/add/1"]["mean"], np.nan)}
    assert "never emitted" in decide("align-past", data | {"gradients/add/1": never}).measured


def test_without_a_gap_nothing_about_losses_is_decided():
    w = world()
    w["loss"]["add/1"] = dict.fromkeys(w["loss"]["add/1"], 0.65)
    verdict = decide("add-tie-1", full_data(world=w))
    assert verdict.status == "not decided"
    assert "not yet ahead of fixed W" in verdict.measured


def test_a_learner_that_diverged_has_learnt_nothing(data):
    run = data["loss/add/1/kf-rtrl"]
    gone = run | {"loss": np.where(np.arange(100) < 50, run["loss"], np.nan), "diverged": np.full(5, 500_000)}
    verdict = decide("add-tie-1", data | {"loss/add/1/kf-rtrl": gone})
    assert verdict.status == "does not hold"
    assert "KF-RTRL diverged at 5 seeds" in verdict.measured
    assert decide("add-beats-fixed-1", data | {"loss/add/1/kf-rtrl": gone}).status == "does not hold"


@pytest.mark.parametrize("wrong", [-0.5, 0.5])
def test_an_order_is_tested_from_both_sides(wrong):
    w = changed(("orders", "rtrl"), (3, 4 + wrong))
    assert decide("table-time-rtrl", full_data(world=w)).status == "does not hold"


def test_the_table_s_orders_are_those_of_the_learners():
    assert {x: (rc.LEARNERS[x].about.memory, rc.LEARNERS[x].about.time) for x in ORDERS} == ORDERS


def test_the_ledger_is_json(data):
    for profile_data in (data, full_data(seeds=1), {}):
        assert json.loads(json.dumps(ledger(CLAIMS, profile_data, QUICK), allow_nan=False))


@pytest.mark.parametrize(
    ("interval", "more", "no_more", "alike"),
    [
        ((0.2, 0.5), "holds", "holds", "does not hold"),
        ((0.01, 0.05), "holds", "holds", "holds"),
        ((0.05, 0.5), "holds", "holds", "not decided"),
        ((-0.05, 0.05), "does not hold", "holds", "holds"),
        ((-0.05, 0.5), "not decided", "holds", "not decided"),
        ((-0.5, 0.5), "not decided", "not decided", "not decided"),
        ((-0.05, -0.01), "does not hold", "does not hold", "holds"),
        ((-0.5, -0.2), "does not hold", "does not hold", "does not hold"),
        ((-np.inf, np.inf), "not decided", "not decided", "not decided"),
    ],
)
def test_the_rule_of_every_comparison(interval, more, no_more, alike):
    assert More(0.1).judge(*interval) == more
    assert NoMore(0.1).judge(*interval) == no_more
    assert Alike(0.1).judge(*interval) == alike


def test_a_region_judges_by_the_whole_interval():
    region = Within(0.0, 1.0)
    intervals = [(0.1, 0.9), (-0.1, 0.5), (0.5, 1.5), (1.1, 1.5), (-np.inf, np.inf)]
    expected = ["holds", "not decided", "not decided", "does not hold", "not decided"]
    assert [region.judge(*interval) for interval in intervals] == expected


def test_a_criterion_says_what_matters():
    """Every claim about a difference that is no count states the smallest one that matters, as its parts have it."""
    data = full_data()
    for claim in CLAIMS:
        for part in claim.parts(data):
            if isinstance(part.relation, Difference):
                said = [f"{part.relation.matters:{form}}" for form in ("g", ".3f")] + ["1.1", "0.25²"]
                assert any(number in claim.criterion for number in said), (claim.id, claim.criterion)


def test_a_conjunction_is_stricter_with_its_parts_and_as_strong_as_the_weakest():
    positive = Within(0.0)
    part = lambda value, decides=True: Part(f"{value}", Estimate(value, 1.0, 1e6), positive if decides else None)
    assert conjunction([part(2.3)], "tiny").status == "holds"
    several = conjunction([part(2.3), *[part(9.0)] * 9, part(-7.0, decides=False)], "tiny")
    assert several.status == "not decided"  # at 99.5 % each
    assert (several.number, several.details["open"]) == (2.3, ["2.3"])
    assert len(several.details["parts"]) == 11
    assert conjunction([part(9.0), part(1.0), part(-9.0)], "tiny").status == "does not hold"


@pytest.mark.slow
def test_chance_alone_rarely_decides():
    rng = np.random.default_rng(0)
    region = Within(0.0)
    verdicts = []
    for x in rng.normal(size=(1000, 4, 5)):
        parts = [Part("", Estimate(float(v.mean()), float(v.std(ddof=1) / np.sqrt(5)), 4.0), region) for v in x]
        verdicts.append(conjunction(parts, "tiny").status)
    assert verdicts.count("does not hold") < 50
    assert verdicts.count("holds") < 50


def test_every_claim_stands_beside_a_figure():
    assert {claim.figure for claim in CLAIMS} <= set(FIGURES)


@pytest.mark.parametrize(("size", "least", "most"), [(0.1, 0.0, 0.05), (0.0, 0.0, 1.0), (-0.1, 0.9, 1.0)])
def test_a_difference_that_matters_is_rarely_misjudged(size, least, most):
    """How often `More` does not hold, for a true difference of this size; of one too small to matter it may often."""
    rng, relation = np.random.default_rng(1), More(0.1)
    rows = size + 0.05 * rng.normal(size=(2000, 8))
    estimates = [Estimate(float(row.mean()), float(row.std(ddof=1) / np.sqrt(8)), 7.0) for row in rows]
    failed = np.mean([relation.judge(*e.interval()) == "does not hold" for e in estimates])
    assert least <= failed <= most


def test_every_claim_is_named_beside_a_sentence_of_the_paper_and_every_name_is_a_claim():
    named = {name for sentences in CLAIMED.values() for each in sentences for name in each.claims}
    assert named - {"table-*"} <= set(BY_ID)
    assert {name for name in BY_ID if not name.startswith("table-")} <= named
    assert all(each.claims or each.why for sentences in CLAIMED.values() for each in sentences)
