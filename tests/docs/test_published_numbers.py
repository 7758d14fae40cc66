"""Reproductions of published numbers: their arithmetic, their data, and that they run."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from recurra.network import Readout

FOLDER = Path(__file__).parents[2] / "benchmarks" / "published"


@pytest.fixture(scope="module", autouse=True)
def _their_folder():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def test_an_interval_and_where_its_ratio_to_a_published_mean_lies():
    from reproducing import Published, difference, interval, ratio

    ours = interval([1.0, 2.0, 3.0, np.inf])
    assert (ours["mean"], ours["seeds"], ours["not_finite"], ours["per_seed"][3]) == (2.0, 4, 1, None)
    assert ours["sem"] == pytest.approx(1 / 3**0.5)
    published = Published.of(mean=5.0, sd=2.0, seeds=5)  # a standard error of 2/√4
    assert published.sem == pytest.approx(1.0)
    assert ratio(ours, published)["verdict"] == "cannot tell"  # what did not end is no mean of seeds
    tight, loose = interval([0.99, 1.0, 1.01]), interval([0.2, 1.0, 1.8])
    exact = Published(1.0)
    assert [ratio(tight, exact._replace(mean=mean))["verdict"] for mean in (1.0, 1.4, 1.6, 0.6)] == [
        "within",
        "within",
        "outside",
        "outside",
    ]
    assert ratio(loose, exact)["verdict"] == "cannot tell"  # equal means, and no agreement
    low, high = stats.ttest_1samp([0.99, 1.0, 1.01], 0.7).confidence_interval()
    found = difference(tight, Published(0.7), 0.4)
    assert found["interval"] == pytest.approx([low - 0.7, high - 0.7])
    assert [difference(tight, Published(0.7), margin)["verdict"] for margin in (0.4, 0.3, 0.2)] == [
        "within",
        "cannot tell",
        "outside",
    ]


def test_the_interval_of_a_difference_is_welch_s():
    from reproducing import Published, difference, interval

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=10), rng.normal(1, 3, size=6)
    theirs = interval(y)
    found = difference(interval(x), Published(theirs["mean"], theirs["sem"], 6), 1.0)
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert found["interval"] == pytest.approx([expected.low, expected.high])


def test_medians_are_not_moved_by_a_few_outliers():
    from reproducing import ratio_of_medians

    rng = np.random.default_rng(1)
    x, y = 1.7 + 0.05 * rng.normal(size=30), 1 + 0.05 * rng.normal(size=30)
    far = np.where(np.arange(30) < 4, 20.0, y)
    assert np.mean(x) < np.mean(far)
    assert ratio_of_medians(x, far)["verdict"] == "outside"
    assert ratio_of_medians(x, far)["ratio"] == pytest.approx(1.7, rel=0.1)


def test_the_page_has_the_numbers_of_its_files():
    from table import rows, summary

    files = Path(__file__).parents[2] / "docs" / "published"
    page = (files.parent / "published.md").read_text()
    for row in [*rows(files), summary(files)]:
        assert row in " ".join(page.split("\n")) or row in page, row


def test_bits_are_due_when_the_marker_has_been_shown():
    from lru_copy import BitCopy

    from recurra.tasks.base import BLOCK

    task, key = BitCopy(length=5, pad=2, bits=3), jax.random.key(0)
    dtype = jnp.dtype("float32")
    state, blocks = task.init(key, dtype), []
    for number in range(3):
        rows, state = task.block(state, jax.random.fold_in(key, number), jnp.asarray(number, "int32"), dtype)
        blocks.append(rows)
    x, label, due, reset = (np.concatenate([getattr(rows, name) for rows in blocks]) for name in rows._fields)
    t = np.arange(3 * BLOCK) % 13
    assert (reset == (t == 0)).all()
    assert (due == (t >= 8)).all()
    assert (x[:, 3] == (t == 7)).all()
    assert not x[t >= 5, :3].any()
    now = np.flatnonzero(due)
    assert (label[now] == x[now - 8, :3]).all()
    assert not (label[now] == x[now - 9, :3]).all()
    assert 0.4 < label[now].mean() < 0.6


def test_series_follow_their_maps():
    import chaotic_series

    x = chaotic_series.henon(60)
    assert np.allclose(x[:, 2:], 1 - 1.4 * x[:, 1:-1] ** 2 + 0.3 * x[:, :-2])
    x = chaotic_series.mackey_glass(60)
    late = x[:, 3:-17]
    assert np.allclose(x[:, 20:], 0.9 * x[:, 19:-1] + 0.2 * late / (1 + late**10))
    task = chaotic_series.task("lorenz", steps=500, length=600)
    assert task.inputs.shape == (8, 500, 1)
    assert np.allclose(task.inputs[:, 1:], task.labels[:, :-1])
    assert np.flatnonzero(task.reset[0]).tolist() == [0, 200, 400]


def test_records_are_means_over_the_last_steps():
    from chaotic_series import at_records

    values = np.arange(1200.0)[None]
    assert at_records(values, 1200)[0].tolist() == [0.0, np.arange(301, 501).mean(), np.arange(801, 1001).mean()]


def test_the_criterion_needs_the_iterations_that_follow():
    from evidence import reached

    errors = np.full(100, 0.5)
    assert reached(errors) == np.inf
    errors[30] = 0.0  # luck
    assert reached(errors) == np.inf
    errors[55:] = 0.05
    assert reached(errors) == 60


def test_parts_move_each_in_its_own_time():
    from reproducing import every, per_part

    rule = per_part(every(2, optax.sgd(1.0)), optax.sgd(10.0))
    cell, readout = {"w": jnp.zeros(1)}, Readout(jnp.zeros((1, 1)), jnp.zeros(1))
    states = rule.init(cell), rule.init(readout)
    moved = []
    for gradient in (1.0, 3.0):
        filled = lambda like, gradient=gradient: jax.tree.map(lambda leaf: jnp.full_like(leaf, gradient), like)
        with jax.numpy_dtype_promotion("standard"):  # Optax counts in a dtype of its own
            (of_cell, first), (of_readout, second) = (
                rule.update(filled(part), state, part) for part, state in zip((cell, readout), states, strict=True)
            )
        states = first, second
        moved.append((float(of_cell["w"][0]), float(of_readout.b[0])))
    assert moved == [(0.0, -10.0), (-2.0, -30.0)]  # the cell moves once, along the mean of both gradients


@pytest.mark.slow
@pytest.mark.parametrize("script", ["chaotic_series", "evidence", "lru_copy", "sparse_copy"])
def test_every_reproduction_runs_and_leaves_a_report(script, tmp_path):
    command = [sys.executable, str(FOLDER / f"{script}.py"), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / f"{script}.json").read_text())
    assert report["quick"]
    assert report["source"]
    assert report["versions"]["jax"]
    assert report["criteria"]
    assert all("why" in found for found in report["criteria"].values())
    intervals = [value for result in report["results"].values() for value in result.values() if isinstance(value, dict)]
    assert any(value.get("per_seed") for value in intervals)
