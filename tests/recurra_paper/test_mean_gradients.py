"""Bias, variance, mean gradients and horizons, against what is known or computed in another way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra_paper.experiments.bias import Bias, errors
from recurra_paper.experiments.enumeration import Enumeration
from recurra_paper.experiments.held import Held, Sums, squared_mean, window_cosines
from recurra_paper.experiments.horizon import effects

TASK = rc.Add(3, 5)
NETWORK = rc.Network(rc.RNN(2, 4), 2)


def nothing(part):
    return None


@pytest.mark.slow
def test_sums_are_those_of_recorded_gradients():
    learners = {"rtrl": rc.RTRL(), "f-bptt": rc.FutureBPTT(T=4), "rflo": rc.RFLO()}
    before, stretches, length = 30, 3, 20
    probes = {name: learners[name] for name in ("f-bptt", "rflo")}
    how = dict(record={"gradients": rc.record.gradients}, probes=probes, progress=False, seeds=2, steps=120)
    in_pieces = dict(
        engine=rc.ScanEngine(chunk=7), record_into=(sums := Sums(tuple(learners), before, stretches, length))
    )
    rc.train(NETWORK, rc.RTRL(), TASK, **how, **in_pieces)
    recorded = rc.train(NETWORK, rc.RTRL(), TASK, **how).records["gradients"]

    def expected(name, first):
        leaves = jax.tree.leaves(recorded["applied" if name == "rtrl" else name])
        rows = np.concatenate([np.asarray(leaf)[1].reshape(len(leaf[1]), -1) for leaf in leaves], axis=1)
        return rows[first : first + stretches * length].reshape(stretches, length, -1).sum(1)

    for name, found in sums.of_seed(1).items():
        np.testing.assert_allclose(found, expected(name, before), rtol=1e-4, atol=1e-6)
        assert np.abs(found - expected(name, before + 1)).max() > 1e-3  # the control: stretches that begin a step late


def test_products_of_different_stretches_have_no_bias():
    rng = np.random.default_rng(0)
    true = rng.normal(size=20)
    found = [squared_mean(true + 3 * rng.normal(size=(8, 20))) for _ in range(4000)]
    assert abs(np.mean(found) - true @ true) < 5 * np.std(found) / np.sqrt(len(found))
    naive = [np.sum((true + 3 * rng.normal(size=(8, 20))).mean(0) ** 2) for _ in range(4000)]
    assert np.mean(naive) > true @ true + 10  # the control: a mean's own square is biased by the noise


def test_cosines_of_longer_and_longer_sums():
    exact = np.ones((8, 3))
    noisy = exact + np.tile([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]], (4, 1))
    first, *later = window_cosines(noisy, exact)
    assert first == pytest.approx(3 / np.sqrt(5) / np.sqrt(3))
    np.testing.assert_allclose(later, 1.0)
    assert len(later) == 2


def test_errors_of_replicas():
    exact = np.array([[3.0, 4.0], [3.0, 4.0]])
    sample = exact + np.array([[[1.0, 0.0]], [[-1.0, 0.0]], [[1.0, 0.0]], [[-1.0, 0.0]]]) + np.array([0.0, 2.0])
    bias, noise, std = errors(sample, exact)
    assert bias == pytest.approx(2 / 5)
    assert std == pytest.approx(np.sqrt(4 / 3) / 5)
    assert noise == pytest.approx(std / 2)
    assert errors(exact[None], exact) == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_bias_of_small_runs(tmp_path):
    arrays = Bias("add", networks=2, replicas=64, steps=16).run(tmp_path / "part", nothing)
    names = list(arrays["learners"])
    assert arrays["bias"].shape == (len(names), 2)
    # What is unbiased is as far from the exact gradient as sampling explains; RFLO is not random, and off.
    for name in ("uoro", "kf-rtrl", "r-kf-rtrl"):
        ratio = arrays["bias"][names.index(name)] / arrays["bias_noise"][names.index(name)]
        assert np.all((ratio > 0.5) & (ratio < 2.0)), name
    assert np.all(arrays["std"][names.index("rflo")] == 0)
    assert np.all(arrays["bias"][names.index("rflo")] > 0.1)


def test_an_input_does_nothing_where_nothing_is_remembered():
    forgets = lambda key, n, dtype: jnp.zeros((n, n), dtype)
    task = rc.Mimic(rc.RNN(8, 16, w_rec=forgets), outputs=4)
    found = np.asarray(effects(task, jax.random.key(0)))
    assert found[0] > 0.1
    assert np.all(found[1:] == 0)
    kept = np.asarray(effects(rc.Mimic(rc.RNN(8, 16), outputs=4), jax.random.key(0)))
    assert kept[0] > kept[3] > kept[10] > 0


@pytest.mark.slow
def test_of_held_weights_f_bptt_and_rtrl_have_the_same_mean(tmp_path):
    with jax.numpy_dtype_promotion("standard"):  # which Optax's schedules need
        arrays = Held("add", networks=2, learning=500, settling=500, steps=4096).run(tmp_path / "part", nothing)
    relative = dict(zip(arrays["learners"], arrays["error"].mean(1) / arrays["exact"].mean(1), strict=True))
    assert abs(relative["f-bptt"]) < 1e-3
    assert relative["rflo"] > 0.1


def test_an_enumeration_is_exact(tmp_path):
    arrays = Enumeration("kf-rtrl").run(tmp_path / "part", nothing)
    assert arrays["distance"] < 1e-12
    assert arrays["std"] > 0.1
    assert arrays["patterns"] == 2 ** (2 * int(arrays["steps"]))
