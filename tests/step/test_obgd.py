"""Steps that cannot overshoot: the bound of ObGD, whatever comes in."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recurra as rc
from recurra.step.optimizers import descend, init_optimizer

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
VECTORS = st.lists(NUMBERS, min_size=1, max_size=6).map(jnp.array)
KAPPAS, RATES = st.floats(0.5, 10), st.floats(1e-3, 10)


def moved(optimizer, gradient, **known):
    zero = jnp.zeros_like(gradient)
    return descend(optimizer, gradient, init_optimizer(optimizer, zero), zero, **known)[0]


@settings(deadline=None, max_examples=30)
@given(z=VECTORS, delta=NUMBERS, kappa=KAPPAS, rate=RATES)
def test_a_step_is_plain_descent_cut_to_the_bound(z, delta, kappa, rate):
    reach = max(abs(delta), 1) * jnp.abs(z)
    step = np.asarray(moved(rc.ObGD(rate, kappa), -delta * z, reach=reach))
    bound = rate * kappa * float(reach.sum())
    np.testing.assert_allclose(step, np.asarray(rate * delta * z) / max(bound, 1), rtol=1e-12, atol=1e-300)
    assert np.abs(step).sum() <= 1 / kappa * (1 + 1e-12)
    adaptive = np.asarray(moved(rc.AdaptiveObGD(rate, kappa), -delta * z, reach=reach))
    assert np.abs(adaptive).sum() <= 1 / kappa * (1 + 1e-12)


@settings(deadline=None, max_examples=30)
@given(
    x=st.lists(st.floats(-1, 1), min_size=1, max_size=6).map(jnp.array), y=NUMBERS, kappa=st.floats(1, 10), rate=RATES
)
def test_the_error_of_a_linear_function_never_changes_its_sign(x, y, kappa, rate):
    error = lambda w: y - w @ x
    w = jnp.linspace(-1, 1, len(x))
    optimizer, before = rc.ObGD(rate, kappa), error(w)
    reach = jnp.maximum(jnp.abs(before), 1) * jnp.abs(x)
    w, _ = descend(optimizer, -before * x, None, w, reach=reach)
    after, slack = float(error(w)), 1e-9 * max(1, abs(y))
    assert after * np.sign(before) >= abs(before) * (1 - 1 / kappa) - slack
    assert abs(after) <= abs(before) + slack


def test_a_longer_step_would_overshoot():
    """The control of the test above: plain descent with the same rate."""
    x, y = jnp.ones(4), 100.0
    w, _ = descend(1.0, -y * x, None, jnp.zeros(4))
    assert y - w @ x < -y


def test_the_adaptive_one_is_the_authors_recursion():
    """AdaptiveObGD of the authors' program, in NumPy, over a few steps."""
    rng = np.random.default_rng(0)
    w, v, lr, kappa, beta, eps = np.zeros(4), np.zeros(4), 1.0, 2.0, 0.99, 1e-8
    optimizer = rc.AdaptiveObGD(lr, kappa, beta, eps)
    own, state = jnp.zeros(4), init_optimizer(optimizer, jnp.zeros(4))
    for t in range(1, 6):
        e, delta = rng.normal(size=4), rng.normal() * 3
        v = beta * v + (1 - beta) * (delta * e) ** 2
        scaled = np.sqrt(v / (1 - beta**t) + eps)
        product = max(abs(delta), 1) * np.abs(e / scaled).sum() * lr * kappa
        w = w + (lr / product if product > 1 else lr) * delta * e / scaled
        reach = max(abs(delta), 1) * np.abs(e)
        own, state = descend(optimizer, jnp.asarray(-delta * e), state, own, reach=jnp.asarray(reach))
        np.testing.assert_allclose(own, w, rtol=1e-10)


@pytest.mark.slow
def test_supervised_streams_use_them_too():
    """Inputs of 1e3 make plain descent diverge at once."""
    network = rc.Network(rc.RNN(n_in=2, n=4), n_out=1, loss=rc.SquaredError())
    xs = 1e3 * np.random.default_rng(0).normal(size=(200, 2))
    task = rc.Arrays(xs, 1e3 * xs[:, :1])
    for optimizer in (rc.ObGD(), rc.AdaptiveObGD()):
        result = rc.train(network, rc.RFLO(), task, steps=200, optimizer=optimizer, progress=False)
        assert np.isfinite(result.loss).all()
    plain = rc.train(network, rc.RFLO(), task, steps=200, optimizer=1.0, progress=False)
    assert plain.final_loss()[0] > 1e100


def test_other_optimizers_take_no_notice_of_the_reach():
    gradient = jnp.array([1.0, -2.0])
    for optimizer in (0.1, rc.Adam(0.1), rc.SGD(0.1, clip=1.0), optax.sgd(0.1)):
        assert (moved(optimizer, gradient) == moved(optimizer, gradient, reach=jnp.abs(gradient))).all()
    clipped = optax.chain(optax.clip(10.0), rc.ObGD().built())
    assert np.abs(moved(clipped, gradient, reach=100 * jnp.abs(gradient))).sum() < 0.01


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="`kappa` of ObGD must be above"):
        rc.ObGD(kappa=0.0)
    with pytest.raises(ValueError, match="`decay` of AdaptiveObGD"):
        rc.AdaptiveObGD(decay=1.0)
    assert jax.tree.leaves(rc.ObGD(1, 2)) == [1.0, 2.0]
