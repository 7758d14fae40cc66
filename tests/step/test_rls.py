"""Recursive least squares is ridge regression on the whole past: at every step, beside NumPy's solver."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from online_models import learning_step
from recurra.network import Readout


def features(weights, xs):
    """u = (1, a, x) at each step of a textbook network whose weights are held."""
    cell = jax.tree.map(lambda leaf: jnp.asarray(leaf, "float64"), weights.cell)
    start = (jnp.zeros(len(cell[0].rec)),)
    a = np.array([state[0] for state in unrolled.states(unrolled.rnn(1.0), [cell] * len(xs), start, jnp.asarray(xs))])
    return np.concatenate([np.ones((len(xs), 1)), a, xs], axis=1)


def normal_equations(U, Y, forgetting, ridge, t):
    """The coefficients after row t, from rows 0..t."""
    weight = forgetting ** np.arange(t, -1, -1.0)[:, None]
    A = U[: t + 1].T @ (weight * U[: t + 1]) + forgetting ** (t + 1) * ridge * np.eye(U.shape[1])
    return np.linalg.solve(A, U[: t + 1].T @ (weight * Y[: t + 1]))


def held(U, Y, forgetting, ridge):
    """The coefficients after each row, in terms of information A = P⁻¹: it fades, and every row adds to it.

    If a coefficient is less certain than at the start, it is observed once more, at its present value.
    """
    A, B, found = ridge * np.eye(U.shape[1]), np.zeros((U.shape[1], Y.shape[1])), []
    for u, y in zip(U, Y, strict=True):
        A, B = forgetting * A + np.outer(u, u), forgetting * B + np.outer(u, y)
        w, variance = np.linalg.solve(A, B), np.diag(np.linalg.inv(A))
        i = variance.argmax()
        if variance[i] > 1 / ridge:
            more = ridge - 1 / variance[i]
            A[i, i] += more
            B[i] += more * w[i]
        found.append(w)
    return np.array(found)


def side_by_side(readout):
    """(b, W, V) as the rows of one matrix, leading axes first."""
    parts = [readout.b[..., None], readout.W, *([] if readout.V is None else [readout.V])]
    return np.swapaxes(np.concatenate([np.asarray(part) for part in parts], axis=-1), -1, -2)


def followed(step, xs, ys, present=None):
    """The state at the start, and the readout and S after each row, with the recurrent weights held."""
    state = step.init(jax.random.key(3))
    present = np.ones(ys.shape[:-1], bool) if present is None else present

    @jax.jit
    def run(state, rows):
        def one(state, row):
            x, y, present = row
            state, _ = step.learn(step.observe(state, x, {"applied": None})[0], y, present)
            return state, (state.weights.readout, state.optimizers[1])

        return jax.lax.scan(one, state, rows)[1]

    dtype = step.network.cell.dtype
    readout, S = run(state, (jnp.asarray(xs, dtype), jnp.asarray(ys, dtype), jnp.asarray(present)))
    return state, side_by_side(readout), np.asarray(S, "float64")


def problem(rows=120, n_out=2, streams=1, seed=0):
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(rows, streams, 2))
    ys = xs @ rng.normal(size=(2, n_out)) + np.sin(np.cumsum(xs, axis=0)) @ rng.normal(size=(2, n_out)) + 1
    return (xs[:, 0], ys[:, 0]) if streams == 1 else (xs, ys)


def least_squares(forgetting=1.0, ridge=0.3, dtype="float64", **kwargs):
    kwargs = {"n_out": 2, "skip": True, **kwargs}
    return learning_step(rc.Fixed(), optimizer=0.0, readout=rc.RLS(forgetting, ridge), dtype=dtype, **kwargs)


@pytest.mark.parametrize(("forgetting", "skip"), [(1.0, True), (1.0, False), (0.97, True)], ids=str)
def test_ridge_regression_at_every_step(forgetting, skip):
    xs, ys = problem()
    step = least_squares(forgetting, skip=skip)
    state, found, S = followed(step, xs, ys)
    U = features(state.weights, xs)[:, : None if skip else -2]
    wanted = held(U, ys, forgetting, 0.3)
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    if forgetting == 1:
        for t in (0, 5, 119):
            np.testing.assert_allclose(found[t], normal_equations(U, ys, 1.0, 0.3, t), atol=1e-8)
        P = np.linalg.inv(U.T @ U + 0.3 * np.eye(U.shape[1]))
        np.testing.assert_allclose(S[-1] @ S[-1].T, P, atol=1e-8)
    # A rule that is wrong in one place: another penalty, or rows that count alike.
    assert np.abs(found - held(U, ys, forgetting, 0.4)).max() > 1e-3
    assert np.abs(found - held(U, ys, 0.96, 0.3)).max() > 1e-3


def test_exponentially_weighted_once_the_start_is_forgotten():
    xs, ys = problem(300)
    step = least_squares(0.93, 1e-3)
    state, found, _ = followed(step, xs, ys)
    U = features(state.weights, xs)
    for t in (290, 299):
        np.testing.assert_allclose(found[t], normal_equations(U, ys, 0.93, 1e-3, t), atol=1e-8)
        assert np.abs(found[t] - normal_equations(U, ys, 0.94, 1e-3, t)).max() > 1e-3


def test_single_precision():
    xs, ys = problem(200)
    state, found, _ = followed(least_squares(0.97, dtype="float32"), xs, ys)
    np.testing.assert_allclose(found, held(features(state.weights, xs), ys, 0.97, 0.3), atol=2e-4)


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_streams_count_one_after_the_other_and_without_a_label_nothing_is_forgotten(forgetting):
    xs, ys = problem(60, streams=3)
    present = np.random.default_rng(1).random((60, 3)) < 0.6
    state, found, S = followed(least_squares(forgetting, streams=3), xs, ys, present)
    U = np.stack([features(state.weights, xs[:, s]) for s in range(3)], axis=1)
    wanted = held(U[present], ys[present], forgetting, 0.3)  # in the order of rows, and of streams inside a row
    count = present.sum(axis=1).cumsum()
    assert count[0] > 0
    np.testing.assert_allclose(found, wanted[count - 1], atol=1e-8)
    in_other_order = held(U[:, ::-1][present[:, ::-1]], ys[:, ::-1][present[:, ::-1]], forgetting, 0.3)
    assert (np.abs(found - in_other_order[count - 1]).max() > 1e-6) == (forgetting < 1)
    # An absent row leaves every bit as it is.
    bare, S_bare = jnp.asarray(S[-1]), Readout(jnp.ones((2, 3)), jnp.ones(2), jnp.ones((2, 2)))
    same, S_same = rc.RLS(forgetting, 0.3).follow(jnp.asarray(False), jnp.ones(2), jnp.ones(6), bare, S_bare)
    assert (np.asarray(S_same) == S[-1]).all()
    assert all((np.asarray(leaf) == 1).all() for leaf in same)


def test_an_error_of_ones_own_and_credit():
    """An error e is the label z - e. Credit tells the readout nothing."""
    step = least_squares()
    state = step.init(jax.random.key(0))
    seen, z = step.observe(state, jnp.array([0.3, -1.0]), {"applied": None})
    error = jnp.array([0.5, -0.25])
    by_error, _ = step.learn(seen, rc.GivenError(error), jnp.asarray(True))
    by_label, _ = step.learn(seen, z - error, jnp.asarray(True))
    np.testing.assert_allclose(side_by_side(by_error.weights.readout), side_by_side(by_label.weights.readout), 1e-12)
    assert np.abs(by_error.weights.readout.V).max() > 0.01
    by_credit, _ = step.learn(seen, rc.GivenCredit((jnp.ones(3),)), jnp.asarray(True))
    for before, after in zip(
        jax.tree.leaves((state.weights.readout, state.optimizers)),
        jax.tree.leaves((by_credit.weights.readout, by_credit.optimizers)),
        strict=True,
    ):
        assert (np.asarray(before) == np.asarray(after)).all()


# Long runs: bare least squares, without a network


@functools.partial(jax.jit, static_argnums=(0, 5))
def _run(forgetting, u, y, S, w, ridge):
    """S and the coefficients w after all rows, and the predictions made before each of their labels."""
    rule = rc.RLS(forgetting, ridge)

    def one(running, row):
        S, w = running
        u, y = row
        z = jnp.sum(u * w)
        # b, W and V of one output, cut from w
        readout, S = rule.follow(True, (z - y)[None], u, S, Readout(w[None, 1:], w[:1]))
        return (S, jnp.concatenate([readout.b, readout.W[0]])), z

    return jax.lax.scan(one, (S, w), (u, y))


def run_long(forgetting, U, Y, dtype="float32", ridge=1.0, start=None):
    u, y = jnp.asarray(U, dtype), jnp.asarray(Y, dtype)
    eye = jnp.eye(U.shape[1], dtype=dtype) / jnp.sqrt(jnp.asarray(ridge, dtype))
    S, w = (eye, jnp.zeros(U.shape[1], dtype)) if start is None else start
    (S, w), z = _run(forgetting, u, y, S, w, ridge)
    return S, w, np.asarray(z, "float64")


@pytest.mark.parametrize("forgetting", [0.99, 0.9])
def test_an_input_that_stands_still(forgetting):
    """Without the bound P would grow to λ^-20000. The other coefficients go on as if it had not stood still."""
    rng = np.random.default_rng(0)
    U = np.concatenate([np.ones((20_000, 1)), rng.normal(size=(20_000, 4))], axis=1)
    U[1000:, 3:] = 0.5  # two inputs, which also say the same as the bias
    w = np.array([1.0, 2.0, -1.0, 0.5, 1.5])
    S, found, z = run_long(forgetting, U, U @ w)
    variance = np.sum(np.asarray(S, "float64") ** 2, axis=1)
    assert variance.max() <= forgetting**-3 * 1.001  # three that stand still are held in turn
    assert variance.min() > 0
    np.testing.assert_allclose(z[500:], (U @ w)[500:], atol=1e-3)
    # A change: what moves is learned anew in some 1 / (1 - λ) rows, and so is the sum of what does not.
    changed, later = np.array([4.0, -3.0, 1.0, 0.5, 1.5]), U[-2500:].copy()
    later[:, 1:3] = rng.normal(size=(2500, 2))
    S, found, z = run_long(forgetting, later, later @ changed, start=(S, found))
    np.testing.assert_allclose(np.asarray(found)[1:3], changed[1:3], atol=1e-3)
    np.testing.assert_allclose(z[-100:], (later @ changed)[-100:], atol=2e-3)
    # And what stood still can move again.
    again = np.concatenate([np.ones((2500, 1)), rng.normal(size=(2500, 4))], axis=1)
    S, found, z = run_long(forgetting, again, again @ changed, start=(S, found))
    np.testing.assert_allclose(found, changed, atol=2e-3)


def test_inputs_that_say_the_same():
    """With x twice, ridge regression gives each half of the coefficient."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 1))
    U, y = np.concatenate([np.ones((3000, 1)), x, x], axis=1), 3 * x[:, 0]
    for dtype, atol in (("float64", 1e-8), ("float32", 1e-3)):
        S, w, _ = run_long(1.0, U, y, dtype, ridge=0.1)
        wanted = np.linalg.solve(U.T @ U + 0.1 * np.eye(3), U.T @ y)
        np.testing.assert_allclose(w, wanted, atol=atol)
        P = np.asarray(S, "float64") @ np.asarray(S, "float64").T
        assert np.linalg.eigvalsh(P).min() > 0
    S, w, z = run_long(0.99, U, y, "float32", ridge=0.1)
    np.testing.assert_allclose(z[1000:], y[1000:], atol=2e-3)
    assert np.abs(w).max() < 5


@pytest.mark.slow
@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_a_million_rows_in_single_precision(forgetting):
    rng = np.random.default_rng(0)
    count = 1_000_000
    U = np.concatenate([np.ones((count, 1)), rng.normal(size=(count, 5))], axis=1).astype("float32")
    y = (U @ np.array([1.0, 2, -1, 0.5, 0, 3]) + 0.1 * rng.normal(size=count)).astype("float32")
    S, w, _ = run_long(forgetting, U, y)
    weight = forgetting ** np.arange(count - 1, -1, -1.0)[:, None]
    A = U.astype("float64").T @ (weight * U) + forgetting**count * np.eye(6)
    wanted = np.linalg.solve(A, U.astype("float64").T @ (weight[:, 0] * y))
    np.testing.assert_allclose(w, wanted, atol=1e-4)  # the standard error that noise of 0.1 leaves after a million rows
    P = np.asarray(S, "float64") @ np.asarray(S, "float64").T
    np.testing.assert_allclose(P, np.linalg.inv(A), rtol=0.05, atol=0.05 * np.abs(np.linalg.inv(A)).max())
    assert np.linalg.eigvalsh(P).min() > 0


def test_too_few_digits_or_rows_for_least_squares():
    """What the least that is allowed forgets over as many rows as there are coefficients stays far from overflow."""
    step = lambda forgetting, dtype="float64": learning_step(n=8, readout=rc.RLS(forgetting), dtype=dtype)
    with pytest.raises(ValueError, match=r"an output has 9 coefficients, which so few steps cannot tell: use at least"):
        step(0.85)
    assert step(8 / 9).readout.forgetting ** -9 < 3
    for dtype in ("bfloat16", "float16"):
        with pytest.warns(UserWarning, match=rf"RLS will be poor in {dtype}: .* Give the cell dtype='float32'"):
            step(1.0, dtype)
