"""RFLO's mechanism and DNI(b)'s parts: their own learners and measures against oracles, and claims that can fail."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dense
import recurra as rc
from driving import problem
from recurra.learners.synthetic import Synthesizer
from recurra.pages import plots
from recurra_paper.analysis import memory_trace
from recurra_paper.beyond import dni_b, mechanism
from recurra_paper.beyond.dni_b.claims import NAMES
from recurra_paper.beyond.dni_b.runs import SMALL_FEEDBACK, SWITCHES, VARIANTS, gradients_name, loss_name, variant_of
from recurra_paper.beyond.dni_b.variants import Variant
from recurra_paper.beyond.mechanism.claims import COIN
from recurra_paper.beyond.mechanism.reach import Reach, reachable
from recurra_paper.beyond.mechanism.runs import LEVELS, PLAIN, REACHED, horizon_of, name_of
from recurra_paper.beyond.mechanism.spectra import PAIRS, SPECTRA
from recurra_paper.beyond.profiles import PROFILES
from recurra_paper.claims.base import ledger
from taking_steps import gradients, take_steps
from unrolled import CELLS

QUICK = PROFILES["quick"]
STEPS = 12
RATES = dict(learning_rate=0.5, jacobian_rate=0.2, target_interval=3)


def statuses(question, data):
    return {row["id"]: row["status"] for row in ledger(question.CLAIMS, data, QUICK)}


# Variants of DNI


@pytest.fixture(scope="module")
def setting():
    """A small network with large credit, so that tanh is felt."""
    make, step = CELLS["rnn"]
    network, weights, xs, ys = problem(make, steps=STEPS)
    weights = weights._replace(readout=weights.readout._replace(W=4 * weights.readout.W))
    return network, weights, xs, ys, dense.Trajectory(step, weights, network.cell.init_state(), xs, ys)


def taken(setting, learner, start=None, network=None):
    own, weights, xs, ys, _ = setting
    return gradients(take_steps(network or own, learner, weights, xs, ys, start=start))


def first(setting, learner):
    network, weights, *_ = setting
    return learner.init(network.cell, weights.cell, jax.random.key(1), network.n_out)


def apart(ours, theirs):
    flat = lambda g: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)])
    size = np.mean([np.linalg.norm(flat(g)) for g in theirs])
    return max(np.linalg.norm(flat(x) - flat(y)) for x, y in zip(ours, theirs, strict=True)) / size


def by_hand(path, start, on):
    """The variants' equations in NumPy, with J from differentiating the textbook cell."""
    A, learned, W_fb = (np.asarray(part) for part in (start.A, start.J, start.W_fb))
    A_star, cbar, before, found = A.copy(), np.zeros(path.n), None, []
    for t in range(len(path.xs)):
        now = path.features(t)
        before = np.concatenate([path.before[0], now[path.n :]]) if before is None else before
        learned = learned - 0.2 * np.outer(learned @ path.before[t] - path.a[t], path.before[t])
        synthetic = np.tanh(A_star @ now) if "tanh" in on else A_star @ now
        target = cbar + synthetic @ (learned if "jacobian" in on else path.J[t])
        A = A - 0.5 * np.outer(A @ before - target, before)
        A_star = A.copy() if (t + 1) % 3 == 0 else A_star
        cbar = path.error[t] @ W_fb if "feedback" in on else path.cbar[t]
        before = now
        found.append((A @ now) @ path.Mbar[t])
    return found


def of_dni(start):
    """The state of a variant as DNI has it."""
    n = len(start.A)
    A = (tuple(jnp.split(start.A, [n, start.A.shape[1] - 1], axis=1)),)
    return Synthesizer(A, A, tuple(jnp.split(start.features, [n, len(start.features) - 1])), (start.cbar,))


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("none", "all")])
def test_every_variant_follows_its_equations_and_no_other_s(setting, name):
    *_, path = setting
    learner = Variant(**RATES, **{SWITCHES[switch]: True for switch in VARIANTS[name]})
    start = first(setting, learner)
    ours = taken(setting, learner, start)
    for other, on in VARIANTS.items():
        distance = apart(ours, by_hand(path, start, on))
        assert distance < 1e-10 if other == name else distance > 1e-4


def test_without_approximations_it_is_dni_and_with_all_of_them_dni_b(setting):
    none, dni = Variant(**RATES), rc.DNI(0.5, 3)
    start = first(setting, none)
    assert apart(taken(setting, none, start), taken(setting, dni, of_dni(start))) < 1e-12
    every, dni_b = Variant(**RATES, bounded=True, random_feedback=True, learned_jacobian=True), rc.DNIb(0.5, 0.2, 3)
    assert apart(taken(setting, every), taken(setting, dni_b)) < 1e-12
    assert apart(taken(setting, every), taken(setting, none)) > 1e-2


def test_random_feedback_alone_is_dni_in_a_network_with_random_feedback(setting):
    network, weights, xs, ys, _ = setting
    alone = Variant(**RATES, random_feedback=True)
    start = first(setting, alone)
    through = rc.Network(network.cell, network.n_out, random_feedback=True)
    changed = (through, weights._replace(feedback=start.W_fb), xs, ys, None)
    assert apart(taken(setting, alone, start), taken(changed, rc.DNI(0.5, 3), of_dni(start))) < 1e-12


def test_small_feedback_is_as_large_as_the_first_readout(setting):
    small, usual = (variant_of(name, "add") for name in (SMALL_FEEDBACK, "feedback"))
    assert (small.feedback_scale, usual.feedback_scale) == (0.25, 1.0)  # √(n_out / n) = √(2 / 32)
    assert variant_of(SMALL_FEEDBACK, "mimic").feedback_scale == 1.0
    assert (usual.learning_rate, usual.jacobian_rate) == (0.05, 0.01)
    np.testing.assert_allclose(first(setting, small).W_fb, first(setting, usual).W_fb / 4)


def test_a_variant_refuses_a_cell_with_several_variables():
    with pytest.raises(ValueError, match="one state variable and one gate, and LSTM has more"):
        rc.train(rc.Network(rc.LSTM(2, 4), 2), Variant(), rc.Add(), steps=1, progress=False)


# Spectra and reachable memory


@pytest.mark.parametrize(("name", "n"), [*((name, 32) for name in SPECTRA), ("rotations", 7)])
def test_spectra_are_what_they_are_called(name, n):
    spectrum = SPECTRA[name]
    W = np.asarray(spectrum.draw(jax.random.key(3), n, jnp.dtype("float64")))
    values = np.linalg.eigvals(W)
    assert W.shape == (n, n)
    assert (np.abs(values.imag).max() < 1e-6) == spectrum.real
    assert np.allclose(W @ W.T, W.T @ W) == spectrum.normal
    assert np.abs(values).max() < 1.3  # the edge of random spectra is blurred
    match name:
        case "orthogonal" | "reflections" | "orthogonal-0.9" | "orthogonal-0.7":
            radius = float(name.split("-")[1]) if "-" in name else 1.0
            np.testing.assert_allclose(np.abs(values), radius, rtol=1e-6)
        case "skew":
            assert np.abs(values.real).max() < 1e-12
        case "delay-line":
            assert np.abs(np.linalg.matrix_power(W, n)).max() == 0
            assert np.abs(np.linalg.matrix_power(W, n - 1)).max() == 1


def test_spectra_differ_in_name_and_pairs_in_reality():
    assert len({spectrum.draw.__name__ for spectrum in SPECTRA.values()}) == len(SPECTRA)  # runs are kept by it
    assert all(SPECTRA[real].real and not SPECTRA[other].real for real, other in PAIRS)


def test_reachable_memory_is_regression_on_a_noisy_state():
    rng = np.random.default_rng(0)
    T, scales = 40_000, np.array([1.0, 0.3, 0.02])
    hidden = rng.normal(size=(T, 3))
    states = hidden * scales @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    states = np.concatenate([states, states[:, :1]], axis=1)  # a unit that says nothing new
    labels = np.roll(hidden @ rng.normal(size=(3, 2)) + 0.5 * rng.normal(size=(T, 2)), 1, axis=0)
    variances = np.array([0.0, 1e-3, 0.1])
    found = reachable(states, labels, variances)
    np.testing.assert_allclose(found[0], memory_trace(states, labels, np.array([-1]))[0], rtol=1e-9)
    for variance, r2 in zip(variances, found, strict=True):
        noisy = states + np.sqrt(variance) * rng.normal(size=states.shape)
        assert abs(memory_trace(noisy, labels, np.array([-1]))[0] - r2) < 0.01
    assert np.all(np.diff(found) < -0.04)


def test_memory_is_measured_in_the_training_runs_networks(tmp_path):
    found = Reach("diagonal", 2, 300, (0.0, 0.1)).run(tmp_path / "x", lambda part: None)
    assert found["r2"].shape == (2, 2)
    assert np.all(found["r2"][:, 0] >= found["r2"][:, 1])
    assert np.all((found["r2"] > 0) & (found["r2"] < 1))


def test_a_horizon_of_one_step_is_rflo_where_nothing_leaks(setting):
    *_, path = setting
    at_once = [cbar @ Mbar for cbar, Mbar in zip(path.cbar, path.Mbar, strict=True)]
    for learner in (rc.EfficientBPTT(T=1), rc.RFLO()):
        assert apart(taken(setting, learner), at_once) < 1e-12
    assert apart(dense.rtrl(path), at_once) > 1e-2


# Claims


def losses(rng, levels, start=0.7, spread=0.0):
    """A run that ends at these losses, one for each seed."""
    levels = np.asarray(levels) + spread * rng.normal(size=len(levels))
    fall = np.exp(-np.arange(100) / 12)
    loss = levels[:, None] + (start - levels[:, None]) * fall
    return {"step": 1000 * np.arange(1, 101), "loss": loss, "diverged": np.full(len(levels), -1)}


def mechanism_world():
    """Gains in coins that follow reachable memory, while plain r² does not follow them as closely."""
    gains = dict(zip(SPECTRA, (0.7, 0.5, 0.2, 0.3, 0.25, 0.6, 0.05, 0.1, 0.02, 0.8), strict=True))
    plain = dict(zip(SPECTRA, (0.6, 0.7, 0.3, 0.2, 0.1, 0.5, 0.25, 0.05, 0.55, 0.65), strict=True))
    return {"gain": gains, "plain": plain, "reached": dict(gains), "e-bptt": dict.fromkeys(SPECTRA, 0.9), "noise": 0.01}


def mechanism_data(world, seeds=6, seed=0):
    rng, data = np.random.default_rng(seed), {}
    noisy = lambda value: value + world["noise"] * rng.normal(size=seeds)
    for x in SPECTRA:
        shared = 0.65 + 0.01 * rng.normal(size=seeds)
        data[name_of(x, "fixed")] = losses(rng, shared)
        data[name_of(x, "rflo")] = losses(rng, shared - COIN * noisy(world["gain"][x]))
        data[name_of(x, horizon_of(10))] = losses(rng, shared - COIN * noisy(world["e-bptt"][x]))
        r2 = np.tile(noisy(world["reached"][x])[:, None], len(LEVELS))
        r2[:, PLAIN] = noisy(world["plain"][x])
        data[f"mechanism/memory/{x}"] = {"variance": np.array(LEVELS), "r2": r2}
    return data


def test_claims_about_the_mechanism_hold_where_they_are_true():
    found = statuses(mechanism, mechanism_data(mechanism_world()))
    assert found == dict.fromkeys(found, "holds")
    assert REACHED != PLAIN


def changed(**parts):
    world = mechanism_world()
    for part, values in parts.items():
        world[part] = world[part] | values
    return world


against = {x: 1 - value for x, value in mechanism_world()["gain"].items()}
WRONG = {
    "mechanism-memory": changed(plain=against),
    "mechanism-reachable": changed(reached=against),
    "mechanism-real-spectra": changed(gain={"rotations": 0.01}),
    "mechanism-horizon": changed(**{"e-bptt": {"symmetric": 0.0}}),
}


@pytest.mark.parametrize("claim", WRONG)
def test_each_claim_about_the_mechanism_fails_where_it_is_false(claim):
    assert statuses(mechanism, mechanism_data(WRONG[claim]))[claim] == "does not hold"


def test_reachable_memory_that_tells_as_much_as_plain_memory_is_not_ahead():
    world = mechanism_world()
    data = mechanism_data(world | {"plain": world["reached"], "noise": 0.0})
    assert statuses(mechanism, data) | {"mechanism-real-spectra": ""} == {
        "mechanism-memory": "holds",
        "mechanism-reachable": "does not hold",
        "mechanism-real-spectra": "",
        "mechanism-horizon": "holds",
    }


def test_claims_about_the_mechanism_stay_open_where_nothing_is_known():
    assert set(statuses(mechanism, {}).values()) == {"not decided"}
    assert set(statuses(mechanism, mechanism_data(mechanism_world(), seeds=1)).values()) == {"not decided"}
    noisy = mechanism_data(mechanism_world() | {"noise": 3.0})
    assert statuses(mechanism, noisy)["mechanism-real-spectra"] == "not decided"
    data = mechanism_data(mechanism_world())
    del data[name_of("skew", "rflo")]
    found = {row["id"]: row["measured"] for row in ledger(mechanism.CLAIMS, data, QUICK)}
    assert "mechanism/loss/skew/rflo was not run" in found["mechanism-memory"]


def dni_b_world():
    """Costs in loss, and cosines with F-BPTT, in which everything is as expected."""
    costs = {"rtrl": -0.05, "fixed": 0.05, "none": 0.0, "tanh": 0.005, "feedback": 0.02, "jacobian": 0.01, "all": 0.035}
    cosines = {"none": 0.8, "tanh": 0.7, "feedback": 0.5, "jacobian": 0.6, "all": 0.3}
    return {"cost": costs, "cosine": cosines, "spread": 0.0003}


def dni_b_data(world, seeds=6, seed=0):
    rng, data, windows = np.random.default_rng(seed), {}, np.array([1, 4, 16])
    for task in ("add", "mimic"):
        base = 0.5 + 0.02 * rng.normal(size=seeds)
        for x, cost in world["cost"].items():
            data[loss_name(task, x)] = losses(rng, base + cost, spread=world["spread"])
        for x, cosine in world["cosine"].items():
            each = np.ones((seeds, 3, 3, 3))
            each[:, 0, 1] = (cosine + 10 * world["spread"] * rng.normal(size=seeds))[:, None] + 0.01 * np.arange(3)
            learners = {"learners": np.array([x, "f-bptt", "rtrl"]), "windows": windows, "mean": each[..., 0]}
            counts = np.full((3, 3, 4), 250 * seeds)
            data[gradients_name(task, x)] = learners | {"window_cosine": each, "histogram": counts}
    return data


def test_claims_about_dni_b_hold_where_they_are_true():
    found = statuses(dni_b, dni_b_data(dni_b_world()))
    assert found == dict.fromkeys(found, "holds")


@pytest.mark.parametrize(
    ("claim", "part", "values"),
    [
        ("dni-b-each", "cost", {"jacobian": -0.01}),
        ("dni-b-sum", "cost", {"all": 0.06}),
        ("dni-b-feedback", "cost", {"tanh": 0.03}),
        ("dni-b-aligned", "cosine", {"tanh": 0.8}),
    ],
)
def test_each_claim_about_dni_b_fails_where_it_is_false(claim, part, values):
    world = dni_b_world()
    world[part] = world[part] | values
    assert statuses(dni_b, dni_b_data(world))[claim] == "does not hold"


def test_claims_about_dni_b_stay_open_where_nothing_is_known():
    assert set(statuses(dni_b, {}).values()) == {"not decided"}
    assert set(statuses(dni_b, dni_b_data(dni_b_world(), seeds=1)).values()) == {"not decided"}
    assert set(statuses(dni_b, dni_b_data(dni_b_world() | {"spread": 0.05}, seeds=3)).values()) == {"not decided"}
    world = dni_b_world()
    world["cost"] = world["cost"] | {"fixed": -0.05}
    rows = {row["id"]: row["measured"] for row in ledger(dni_b.CLAIMS, dni_b_data(world), QUICK)}
    assert "RTRL is not yet ahead of fixed W" in rows["dni-b-each"]


# Figures and runs


@pytest.mark.parametrize(
    ("question", "data"),
    [(mechanism, mechanism_data(mechanism_world())), (dni_b, dni_b_data(dni_b_world()))],
    ids=["mechanism", "dni_b"],
)
def test_figures_show_what_there_is(question, data):
    assert question.draw({}) is None
    kinds = ("/loss/", "memory", "gradients")
    parts = [{name: arrays for name, arrays in data.items() if kind not in name} for kind in kinds]
    drawn = [question.draw(several) for several in (data, *parts)]
    assert plots.png(drawn[0].figure, dpi=40).startswith(b"\x89PNG")
    assert ("; 1,000 steps are compared, after the first 20,000" in drawn[0].caption) == (question is dni_b)
    assert (drawn[1] is None) == (question is mechanism)  # memory alone explains no gain
    for each in filter(None, drawn):
        assert each.caption
        assert each.alt
        assert len({len(column) for column in each.table.values()}) == 1


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize("question", [mechanism, dni_b], ids=["mechanism", "dni_b"])
def test_runs_have_names_of_their_own_and_serve_every_claim(question, profile):
    runs = question.experiments(profile)
    names = [run.name for run in runs]
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"{question.NAME}/") for name in names)
    assert all(name.startswith(tuple(question.needs(profile))) for name in names)
    assert len({json.dumps(run.settings() | {"name": ""}, sort_keys=True) for run in runs}) == len(runs)
    assert all(claim.figure == question.NAME for claim in question.CLAIMS)
    if profile.name == "full":
        wanted = {loss_name(task, x) for task in ("add", "mimic") for x in VARIANTS} if question is dni_b else set()
        assert wanted <= set(names)
        assert sum(run.cost for run in runs) < 3000
    assert set(VARIANTS) | {SMALL_FEEDBACK} == set(NAMES)
