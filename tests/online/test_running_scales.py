"""Running standardisation, and a readout whose units change under it: beside NumPy, and regression on raw data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from online_models import full_step, learning_step, stream
from recurra.network import Readout
from recurra.online.program import _program
from recurra.online.step import OnlineStep, Running, nothing_seen, of_inputs, of_target, seen, standardised


@pytest.mark.parametrize("memory", [10, 1000])
def test_running_mean_and_variance(memory):
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(60, 3)) * [1, 100, 1e-3] + [0, 50, 7]
    counts = rng.random(60) < 0.7
    step, stats, rows = (
        jax.jit(lambda stats, x, c: seen(stats, x, memory, c)),
        nothing_seen(3, jnp.dtype("float64")),
        [],
    )
    for x, c in zip(xs, counts, strict=True):
        before = stats
        stats = step(stats, jnp.asarray(x), jnp.asarray(c))
        if not c:
            assert all(np.array_equal(*pair) for pair in zip(before, stats, strict=True))
            continue
        rows.append(x)
        # All rows alike up to `memory`; then the weight of what was before falls with each row.
        later = np.arange(memory, len(rows))
        weight = np.full(len(rows), (1 - 1 / memory) ** len(later) / min(len(rows), memory))
        weight[memory:] = (1 - 1 / memory) ** (len(rows) - 1 - later) / memory
        mean = weight @ np.array(rows)
        np.testing.assert_allclose(weight.sum(), 1)
        np.testing.assert_allclose(stats.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(stats.variance, weight @ (np.array(rows) - mean) ** 2, rtol=1e-9, atol=1e-15)
    if memory == 1000:
        np.testing.assert_allclose(stats.variance, np.var(xs[counts], axis=0), rtol=1e-9)


def test_standardised():
    stats = Running(jnp.array(5.0), jnp.array([1.0, 2.0, 3.0]), jnp.array([4.0, 0.0, 1e-6]))
    np.testing.assert_allclose(standardised(stats, jnp.array([3.0, 9.0, 3.5])), [1.0, 0.0, 10.0])  # as far as it goes
    many = standardised(stats, jnp.ones((4, 3)))
    np.testing.assert_allclose(many, np.repeat([[0.0, 0.0, -10.0]], 4, axis=0))


def test_a_readout_in_other_units():
    """What it predicts stays the same, and so does what least squares know, in the new units."""
    rng = np.random.default_rng(0)
    readout = Readout(*(jnp.asarray(rng.normal(size=shape)) for shape in ((2, 3), (2,), (2, 4))))
    a, x, S = rng.normal(size=3), rng.normal(size=4), rng.normal(size=(8, 8))
    said = lambda readout, x: readout.W @ a + readout.V @ x + readout.b
    before, after = ((rng.normal(size=2), rng.random(2) + 0.5) for _ in range(2))
    moved = of_target(readout, *(tuple(map(jnp.asarray, units)) for units in (before, after)))
    np.testing.assert_allclose(after[0] + after[1] * said(moved, x), before[0] + before[1] * said(readout, x))
    r, c = rng.random(4) + 0.5, rng.normal(size=4)
    moved, root = of_inputs(readout, jnp.asarray(S), jnp.asarray(r), jnp.asarray(c))
    np.testing.assert_allclose(said(moved, r * x + c), said(readout, x))
    T = np.eye(8)  # u' = T u
    T[4:, 4:], T[4:, 0] = np.diag(r), c
    back = np.linalg.inv(T)
    np.testing.assert_allclose(root @ root.T, back.T @ (S @ S.T) @ back, atol=1e-12)
    u = np.concatenate([[1], a, x])
    np.testing.assert_allclose((T @ u) @ np.asarray(root @ root.T) @ (T @ u), u @ S @ S.T @ u)  # its own uncertainty


def raw_data(rows=300):
    """Three columns whose levels and spreads differ and drift, and a target that is linear in them."""
    rng = np.random.default_rng(0)
    drift = np.linspace(1, 3, rows)[:, None]
    X = rng.normal(size=(rows, 3)) * [1.0, 30.0, 0.01] * drift + [0.0, 1000.0, 5.0] + drift * [2.0, 20.0, -0.01]
    y = X @ [2.0, 0.1, 100.0] + 3 * np.sin(np.arange(rows) / 3) + rng.normal(size=rows)
    return X, y[:, None]


def a_reservoir(forgetting=1.0, warmup=8):
    """A network that does not learn, whose readout is fitted by least squares with next to no penalty."""
    step = learning_step(
        rc.Fixed(), n=2, n_in=3, readout=rc.RLS(forgetting, 1e-8), skip=True, optimizer=0.0, dtype="float64"
    )
    return rc.Online(OnlineStep(step, memory=100, warmup=warmup))


def beside_regression(model, rows=300):
    """How far its predictions are from those of regression on raw inputs and the network's own states.

    No prediction is further from the mean than 1.5 times the furthest label so far.
    """
    X, Y = raw_data(rows)
    found, U, away = [], [], []
    for x, y in zip(X, Y, strict=True):
        found.append(model.learn_one(x, y)[0])
        (a,) = model.state.delayed.learning.a
        U.append([1, *np.asarray(a), *x])
    U = np.array(U)
    means = np.array([Y[max(t - 100, 0) : t].mean() for t in range(1, rows + 1)])
    reach = np.maximum.accumulate(np.abs(Y[:, 0] - means))
    for t in range(40, rows):
        centre, spread = U[8:t].mean(0) * (np.arange(6) > 0), U[8:t].std(0) + (np.arange(6) == 0)
        w = np.linalg.lstsq((U[8:t] - centre) / spread, Y[8:t, 0], rcond=None)[0]
        said = (U[t] - centre) / spread @ w
        if abs(said - means[t - 1]) < 1.3 * reach[t - 1]:
            away.append(found[t] - said)
    assert len(away) > 0.9 * (rows - 40)
    return np.abs(away).max() / np.std(Y)


def test_least_squares_do_not_notice_that_units_change():
    """With next to no prior they are regression on the raw inputs of all rows after the warm-up."""
    assert beside_regression(a_reservoir()) < 1e-4


@pytest.mark.slow
def test_least_squares_would_notice(monkeypatch):
    """The control: coefficients that stay as they are while the units of their inputs change."""
    monkeypatch.setattr(OnlineStep, "_in_new_inputs", lambda self, delayed, before, after: delayed)
    _program.cache_clear()
    assert beside_regression(a_reservoir(), 120) > 1e-2
    _program.cache_clear()


STEPS = {
    "least squares": full_step(3),
    "descent": full_step(1, lags=1, readout=None),
    "no difference": full_step(0, lags=1, difference=False),
}


@pytest.mark.parametrize(
    "name", [next(iter(STEPS)), *(pytest.param(each, marks=pytest.mark.slow) for each in list(STEPS)[1:])]
)
def test_other_units_and_levels(name):
    """Times a power of two nothing is rounded in another way. Another level is as if it were not there."""
    X, Y = stream(200, missing=0.1)
    step = STEPS[name]
    usual = rc.Online(step).learn_many(X, Y)
    for factor in (2.0**-20, 2.0**12):
        units = np.array([1 / factor, 4.0])
        np.testing.assert_array_equal(rc.Online(step).learn_many(X * units, Y * factor) / factor, usual)
    known = 0 if step.horizon else np.flatnonzero(~Y.mask[:, 0])[0] + 1  # before its first label it has no level
    level = rc.Online(step).learn_many(X + np.array([1e9, -3e8]), Y + 1e9) - 1e9
    assert np.abs(level - usual)[known:].max() < 1e-3 * np.std(Y)


@pytest.mark.slow
def test_a_memory_shorter_than_the_warm_up():
    """The count of rows stops at `memory`, and learning begins all the same."""
    step = learning_step(readout=rc.RLS(), skip=True)
    model = rc.Online(OnlineStep(step, memory=10, warmup=20))
    X, Y = stream(30)
    model.learn_many(X, Y)
    assert np.abs(np.asarray(model.weights.readout.V)).max() > 0


@pytest.mark.slow
def test_short_numbers():
    """In bfloat16, 0.999 would be 1: the numbers of Adam and of least squares are kept in single precision."""
    X, Y = stream(100)
    model = rc.Online(full_step(1, lags=1, dtype="bfloat16"))
    assert np.isfinite(model.learn_many(X, Y)).all()
    assert model.step.traced.learning.optimizer.b2.dtype == "float32"
