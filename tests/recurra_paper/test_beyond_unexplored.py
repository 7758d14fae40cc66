"""The unexplored decompositions: measures against oracles, claims that can fail, and a figure of what there is."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.pages import plots
from recurra_paper.beyond import unexplored
from recurra_paper.beyond.profiles import PROFILES
from recurra_paper.beyond.unexplored.measures import growth, less_variance, sizes
from recurra_paper.beyond.unexplored.replicas import Contracting, Expectation, Replicas, moments
from recurra_paper.beyond.unexplored.runs import (
    COLUMN,
    COMPARED,
    DIAGONAL,
    EARLY,
    NEW,
    PRE,
    RECEIVER,
    STOCHASTIC,
    TRAINED,
    WEIGHTS,
    bias_name,
    expectation_name,
    gradients_name,
    growth_name,
    loss_name,
)
from recurra_paper.claims.base import ledger
from recurra_paper.setup import TASKS

FULL = PROFILES["full"]
nothing = lambda part: None


# Measures


@pytest.mark.parametrize("n", [2, 8, 32])
def test_weights_of_the_control_have_the_norm_they_say_without_their_signs(n):
    W = np.asarray(Contracting()(jax.random.key(n), n, jnp.dtype("float64")))
    assert np.linalg.norm(np.abs(W), 2) == pytest.approx(0.8, rel=1e-6)
    np.testing.assert_allclose(W @ W.T, np.eye(n) * (W @ W.T)[0, 0], atol=1e-12)  # they are still orthogonal
    assert np.linalg.norm(np.abs(rc.cells.orthogonal(jax.random.key(n), n, jnp.dtype("float64"))), 2) > 1


def test_moments_of_replicas_at_each_step():
    exact = np.array([[3.0, 4.0], [0.0, 2.0]])
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    sample = np.repeat(exact[None], 4, axis=0)
    sample[:, 0, 0] += signs  # no bias, scatter across the gradient at the first step
    sample[:, 1, 1] += 6.0  # bias along it at the second
    found = moments(sample, exact)
    np.testing.assert_allclose(found["squared_error"], [0, 36])
    np.testing.assert_allclose(found["variance"], [4 / 3, 0])
    turned = np.mean([(3 * (3 + s) + 16) / (5 * np.hypot(3 + s, 4)) for s in signs])
    np.testing.assert_allclose(found["cosine"], [turned, 1])
    np.testing.assert_array_equal(moments(exact[None], exact)["variance"], [0, 0])
    assert moments(0 * sample, exact)["cosine"].tolist() == [0, 0]


@pytest.mark.slow
def test_replicas_of_unbiased_learners_are_off_by_sampling_and_others_by_more(tmp_path):
    network = rc.Network(rc.RNN(n_in=2, n=4), n_out=2)
    learners = {"column-uoro": rc.learners.ColumnUORO(), "receiver-uoro": rc.learners.ReceiverUORO(), "rflo": rc.RFLO()}
    run = Replicas("unexplored/test", network, rc.Add(1, 2), learners, 2, 256, (2, 4, 6))
    arrays = run.run(tmp_path / "unused", nothing)
    assert arrays["variance"].shape == arrays["squared_error"].shape == (3, 2, 3)
    share = arrays["squared_error"].mean(axis=(1, 2)) / arrays["exact"].mean()
    sampling = arrays["variance"].mean(axis=(1, 2)) / 256 / arrays["exact"].mean()
    assert np.all(share[:2] < 3 * sampling[:2])
    assert sampling[2] == 0
    assert share[2] > 0.01
    np.testing.assert_array_equal(arrays["step"], [2, 4, 6])


def test_an_expectation_tells_a_biased_learner_from_an_unbiased_one(tmp_path):
    off = lambda learner: Expectation("unexplored/test", learner).run(tmp_path / "unused", nothing)["distance"]
    assert off(rc.learners.ReceiverUORO()) < 1e-12
    assert off(rc.learners.SnAp1()) > 1e-3


# Claims


def world():
    """What is true of synthetic learners, such that every claim holds."""
    return {
        "distance": dict.fromkeys(NEW, 1e-15),
        "variance": {"kf-rtrl": 4, DIAGONAL: 40, "r-kf-rtrl": 150, COLUMN: 135, "uoro": 160, PRE: 162},
        "growth": {"orthogonal": 0.75, "contracting": 0.01},  # orders of magnitude a step, of Receiver-UORO's variance
        "excess": 0.0,
        "cosine": {"kf-rtrl": 0.4, DIAGONAL: 0.2, "snap-1": 0.7, "rflo": 0.7},
        "loss": {
            "rtrl": 0.46, "kf-rtrl": 0.46, DIAGONAL: 0.48, "r-kf-rtrl": 0.5, COLUMN: 0.498, "uoro": 0.5, PRE: 0.501,
            "snap-1": 0.53, "rflo": 0.55, RECEIVER: 0.75, "fixed": 0.65,
        },
        "spread": 0.002,
    }  # fmt: skip


def study(truth=None, count=6):
    """Every experiment's arrays, drawn from a world."""
    rng, w, data = np.random.default_rng(0), truth or world(), {}
    scatter = lambda *shape: np.exp(10 * w["spread"] * rng.normal(size=shape))
    for learner, distance in w["distance"].items():
        found = {"distance": distance, "std": 1.0, "steps": 3, "patterns": 64}
        data[expectation_name(learner)] = {name: np.array(value) for name, value in found.items()}
    steps = np.arange(1, EARLY + 1)
    for weights in WEIGHTS:
        exact = scatter(count, EARLY)
        grown = 10 ** (w["excess"] + w["growth"][weights] * (steps - 1))
        variance = [np.full(EARLY, 10.0) for _ in STOCHASTIC] + [grown]
        variance = np.stack([each * scatter(count, EARLY) for each in variance])
        about = {"learners": np.array([*STOCHASTIC, RECEIVER]), "step": steps, "replicas": np.array(64)}
        rest = {"squared_error": variance / 64, "cosine": 0 * variance}
        data[growth_name(weights)] = {**about, "exact": exact, "variance": variance, **rest}
    for task in TASKS:
        shape = (len(COMPARED), count, 5)
        variance = np.array([w["variance"].get(x, 0.0) for x in COMPARED])[:, None, None] * scatter(*shape)
        about = {"learners": np.array(COMPARED), "step": np.arange(6, 11), "replicas": np.array(64)}
        rest = {"squared_error": variance / 64 + 0.5, "cosine": 0 * variance, "exact": np.ones((count, 5))}
        data[bias_name(task)] = {**about, "variance": variance, **rest}
        names = ("rtrl", *COMPARED)
        mean = np.array([1.0, *(w["cosine"].get(x, 0.05) for x in COMPARED)])[:, None, None]
        cosine = np.clip(mean + w["spread"] * rng.normal(size=(count, len(names), len(names), 3)), -1, 1)
        about = {"learners": np.array(names), "windows": np.array([1, 4, 16]), "mean": cosine[..., 0]}
        data[gradients_name(task)] = {**about, "window_cosine": cosine}
        shared = rng.normal(size=count)
        for learner, final in w["loss"].items():
            level = final + w["spread"] * (shared + 0.2 * rng.normal(size=count))
            loss = level[:, None] + (0.7 - level[:, None]) * np.exp(-np.arange(100) / 8)
            data[loss_name(task, learner)] = {
                "step": 10_000 * np.arange(1, 101), "loss": loss, "diverged": np.full(count, -1),
            }  # fmt: skip
    return data


def statuses(data):
    return {row["id"]: row["status"] for row in ledger(unexplored.CLAIMS, data, FULL)}


def changed(**parts):
    truth = world()
    return truth | {name: truth[name] | part if isinstance(part, dict) else part for name, part in parts.items()}


def test_all_claims_hold_where_they_are_true():
    assert set(statuses(study()).values()) == {"holds"}


WRONG = {
    "unexplored-unbiased": [{"distance": {PRE: 1e-3}}],
    "unexplored-column-variance": [{"variance": {COLUMN: 80}}, {"variance": {COLUMN: 180}}],
    "unexplored-column-loss": [{"loss": {COLUMN: 0.46}}, {"loss": {COLUMN: 0.55}}],
    "unexplored-receiver-explodes": [{"growth": {"orthogonal": 0.3}}, {"growth": {"orthogonal": 0.0}, "excess": 6.0}],
    "unexplored-receiver-bounded": [{"growth": {"contracting": 0.2}}, {"growth": {"orthogonal": 0.0}}],
    "unexplored-receiver-loss": [{"loss": {RECEIVER: 0.6}}, {"loss": {RECEIVER: 0.65}}],
    "unexplored-diagonal-variance": [{"variance": {DIAGONAL: 200}}, {"variance": {DIAGONAL: 160}}],
    "unexplored-diagonal-aligned": [{"cosine": {DIAGONAL: 0.01}}],
    "unexplored-diagonal-loss": [{"loss": {DIAGONAL: 0.52}}],
    "unexplored-preuoro": [{"variance": {PRE: 100}}, {"loss": {PRE: 0.48}}],
}


def test_every_claim_has_worlds_in_which_it_is_false():
    assert set(WRONG) == {claim.id for claim in unexplored.CLAIMS}


@pytest.mark.parametrize(("claim", "parts"), [(claim, parts) for claim, every in WRONG.items() for parts in every])
def test_a_claim_fails_where_it_is_false(claim, parts):
    assert statuses(study(changed(**parts)))[claim] == "does not hold"


def test_claims_stay_open_where_nothing_is_known():
    assert set(statuses({}).values()) == {"not decided"}
    counted = {"unexplored-unbiased"}  # it rests on counts
    for data in (study(count=1), study(changed(spread=0.5), count=3)):
        assert {name for name, status in statuses(data).items() if status != "not decided"} <= counted


def test_a_seed_that_diverged_has_learned_nothing():
    data = study(changed(loss={RECEIVER: 0.5}))
    assert statuses(data)["unexplored-receiver-loss"] == "does not hold"
    for task in TASKS:
        run = data[loss_name(task, RECEIVER)]
        run["loss"][:], run["diverged"][:] = np.nan, 70
    assert statuses(data)["unexplored-receiver-loss"] == "holds"


def test_what_is_read_from_the_data():
    data = study(changed(spread=0.0))
    np.testing.assert_allclose(less_variance(data, "add", DIAGONAL, "uoro"), np.log(4))
    np.testing.assert_allclose(growth(data, "orthogonal", RECEIVER, 10, 40), 22.5)
    bias, noise, std = sizes(data, "mimic", "kf-rtrl")
    np.testing.assert_allclose(std, 2)
    np.testing.assert_allclose(noise, 2 / 8)
    np.testing.assert_allclose(bias, np.sqrt(0.5 + 4 / 64))


# Figure and runs


def test_the_figure_shows_what_there_is():
    data = study(changed(loss={RECEIVER: 40.0}))
    assert unexplored.draw({}) is None
    assert unexplored.draw({loss_name("add", "uoro"): data[loss_name("add", "uoro")]}) is None
    drawn = unexplored.draw(data)
    assert len(drawn.figure.axes) == 8
    assert plots.png(drawn.figure, dpi=40).startswith(b"\x89PNG")
    assert "No run diverged." in drawn.caption
    assert set(drawn.table["learner"]) == set(TRAINED)
    panels = {"/growth/orthogonal": 1, "/growth/": 2, "/bias/": 2, "/loss/add": 1, "/gradients/mimic": 1}
    for kind, count in panels.items():
        part = unexplored.draw({name: arrays for name, arrays in data.items() if kind in name})
        assert len(part.figure.axes) == count
        assert part.caption
        assert part.alt
        assert len({len(column) for column in part.table.values()}) == 1


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_runs_have_names_and_settings_of_their_own(profile):
    runs = unexplored.experiments(profile)
    names = [run.name for run in runs]
    assert len(set(names)) == len(names)
    assert all(name.startswith(tuple(unexplored.needs(profile))) for name in names)
    assert len({json.dumps(run.settings() | {"name": ""}, sort_keys=True) for run in runs}) == len(runs)
    assert sum(run.cost for run in runs) < {"tiny": 60, "quick": 350, "full": 4_500}[profile.name]
    if profile.name != "tiny":
        assert set(names) == set(study())
    assert all(claim.figure == unexplored.NAME and claim.id.startswith("unexplored-") for claim in unexplored.CLAIMS)


@pytest.mark.slow
def test_experiments_can_be_built_where_matplotlib_is_not_installed():
    code = (
        "import sys; sys.modules |= dict.fromkeys(('matplotlib', 'xarray', 'jinja2'))\n"
        "from recurra_paper.reproduce import reproduce\n"
        "from recurra_paper.beyond.profiles import PROFILES\n"
        "from recurra_paper.beyond.unexplored import experiments\n"
        "print(len(experiments(PROFILES['full'])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(len(unexplored.experiments(FULL)))
