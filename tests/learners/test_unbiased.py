"""Stochastic learners: the exact expectation of their estimate of M, over every sign pattern of several steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, drive, exact, one_step, problem
from recurra.learners.uoro import RankOne
from recurra.linalg import balance, combine, dense, noise
from recurra_paper.experiments.enumeration import estimates
from unrolled import CELLS

EXACT = 1e-10
#: patterns of signs that are tried at most
BUDGET = 2**14

STOCHASTIC = {
    "uoro": rc.UORO(initial_scale=0.0),
    "kf-rtrl": rc.KFRTRL(initial_scale=0.0),
    "r-kf-rtrl": rc.RKFRTRL(initial_scale=0.0),
    "r-ok 1": rc.ROK(r=1),
    "r-ok 2": rc.ROK(r=2),
}


#: every learner on the leaky cell, and each other cell with one of them
OFTEN = {*((name, "leaky rnn") for name in STOCHASTIC), ("uoro", "rnn"), ("kf-rtrl", "gru"), ("r-kf-rtrl", "lstm")}


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        pytest.param(name, cell, marks=() if (name, cell) in OFTEN else pytest.mark.slow)
        for name in STOCHASTIC
        for cell in CELLS
    ],
)
def test_expectation_is_rtrl_s_tensor(name, cell):
    network, weights, xs, ys = problem(CELLS[cell][0], n=2, n_in=1, steps=4)
    every, steps = estimates(STOCHASTIC[name], network, weights, xs, ys, 2**16)
    assert steps >= 2
    assert distance(every.mean(axis=0), exact(network, weights, xs, ys, steps)) < EXACT
    assert every.std(axis=0).max() > 1e-3  # and not because nothing was random


@pytest.mark.parametrize(
    "cell", ["leaky rnn", *(pytest.param(c, marks=pytest.mark.slow) for c in ("rnn", "gru", "lstm"))]
)
def test_full_rank_kronecker_sum_is_rtrl_without_randomness(cell):
    network, weights, xs, ys = problem(CELLS[cell][0], n=2, n_in=2, steps=8)
    learner = rc.ROK(r=5)  # ahat has n + n_in + 1 = 5 entries
    expected = rc.RTRL().influence(network.cell, weights.cell, drive(network, rc.RTRL(), weights, xs, ys)[-1][1])
    for signs in (np.ones((8, 6)), -np.ones((8, 6)), np.random.default_rng(0).choice([-1.0, 1.0], (8, 6))):
        state = drive(network, learner, weights, xs, ys, noise=jnp.array(signs))[-1][1]
        M = learner.influence(network.cell, weights.cell, state)
        assert distance(M, expected) < EXACT


def test_a_kronecker_sum_of_lower_rank_is_not_rtrl():
    """The control of the test above."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=2, n_in=2, steps=8)
    expected = rc.RTRL().influence(network.cell, weights.cell, drive(network, rc.RTRL(), weights, xs, ys)[-1][1])
    state = drive(network, rc.ROK(r=2), weights, xs, ys, noise=jnp.ones((8, 3)))[-1][1]
    assert distance(rc.ROK(r=2).influence(network.cell, weights.cell, state), expected) > 1e-3


class UnbalancedKFRTRL(rc.KFRTRL):
    """Unbiased, with ρ0 = 10 and ρ1 = 1, which balances nothing."""

    def advance(self, tick, state, noise):
        ((B,),), ((D,),) = state.B, tick.trace.D
        A = jax.tree.map(lambda a, now: 10 * noise[0] * a + noise[1] * now, state.A, tick.trace.ahat)
        return type(state)(A, ((noise[0] / 10 * tick.push((B,))[0] + noise[1] * jnp.diag(D),),))


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["rnn", "leaky rnn"])
def test_order_of_variances(cell):
    """Total variance over all sign patterns of the same steps: KF below UORO and R-KF, r-OK falling with r."""
    network, weights, xs, ys = problem(CELLS[cell][0], n=2, n_in=1, steps=3)
    variance = lambda learner: estimates(learner, network, weights, xs, ys, BUDGET)[0].var(axis=0).sum()
    kf = variance(rc.KFRTRL(initial_scale=0.0))
    assert kf < variance(rc.UORO(initial_scale=0.0))
    assert kf < variance(rc.RKFRTRL(initial_scale=0.0))
    falling = [variance(rc.ROK(r=r)) for r in (1, 2, 3)]
    assert falling[0] > falling[1] > falling[2]
    assert falling[0] <= kf + 1e-12  # optimal among rank one
    # The control: a rule that is unbiased too, but balances badly, does not keep its place.
    every, steps = estimates(UnbalancedKFRTRL(initial_scale=0.0), network, weights, xs, ys, BUDGET)
    assert distance(every.mean(axis=0), exact(network, weights, xs, ys, steps)) < EXACT
    assert every.var(axis=0).sum() > variance(rc.RKFRTRL(initial_scale=0.0))


@pytest.mark.parametrize("nu", [noise.signs, noise.gaussian, noise.uniform])
def test_noise_has_zero_mean_and_unit_variance(nu):
    sample = np.asarray(nu(jax.random.key(0), (100_000,), jnp.dtype("float64")))
    assert abs(sample.mean()) < 5 / np.sqrt(len(sample))
    assert abs((sample**2).mean() - 1) < 5 * np.sqrt(2 / len(sample))
    later = np.corrcoef(sample[:-1], sample[1:])[0, 1]
    assert abs(later) < 5 / np.sqrt(len(sample))


@pytest.mark.parametrize(
    ("learner", "nu"),
    [
        (rc.UORO, noise.gaussian),
        (rc.KFRTRL, noise.uniform),
        (rc.RKFRTRL, noise.gaussian),
        pytest.param(rc.UORO, noise.uniform, marks=pytest.mark.slow),
        pytest.param(rc.KFRTRL, noise.gaussian, marks=pytest.mark.slow),
        pytest.param(rc.RKFRTRL, noise.uniform, marks=pytest.mark.slow),
    ],
)
def test_other_noise_is_unbiased_within_its_sampling_error(learner, nu):
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=2, n_in=1, steps=3)
    learner, draws = learner(nu=nu, initial_scale=0.0), 40_000
    cell = network.cell
    first = learner.init(cell, weights.cell, jax.random.key(0), network.n_out)

    def final(key):
        rows, state, a = learner.noise(cell, key, 3), first, cell.init_state()
        for t in range(3):
            _, tick = one_step(network, weights, a, xs[t], ys[t], jnp.array(t, "int32"))
            state = learner.advance(tick, state, jax.tree.map(lambda row, t=t: row[t], rows))
            a = tick.state
        leaves = jax.tree.leaves(learner.influence(cell, weights.cell, state))
        return jnp.concatenate([leaf.ravel() for leaf in leaves])

    sample = np.asarray(jax.jit(jax.vmap(final))(jax.random.split(jax.random.key(3), draws)))
    error = sample.mean(axis=0) - exact(network, weights, xs, ys, 3)
    standard_error = sample.std(axis=0) / np.sqrt(draws)
    assert np.all(np.abs(error) < 5 * standard_error + 1e-12)


def test_a_start_at_zero_is_finite():
    network, weights, xs, ys = problem(CELLS["rnn"][0])
    for name in ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok 2"):
        for gradient, _, _ in drive(network, STOCHASTIC[name], weights, 0 * xs, ys):
            assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(gradient))


class BiasedUORO(rc.UORO):
    """B multiplied by ρ0 where it should be divided."""

    def advance(self, tick, state, noise):
        JA, nu_Mbar = tick.push(state.A), tick.deposit(noise)
        rho0, rho1 = balance(state.B, JA), balance(nu_Mbar, noise)
        return RankOne(combine(rho0, JA, rho1, noise), combine(rho0, state.B, 1 / rho1, dense(nu_Mbar)))


class SignlessKFRTRL(rc.KFRTRL):
    """Both terms added as they are: the cross terms no longer cancel."""

    def advance(self, tick, state, noise):
        return super().advance(tick, state, (noise[0] ** 2, noise[1] ** 2))


class SignlessRKFRTRL(rc.RKFRTRL):
    """ν without its signs."""

    def advance(self, tick, state, noise):
        return super().advance(tick, state, jax.tree.map(jnp.abs, noise))


class TruncatedROK(rc.ROK):
    """The best r terms, as if the rest did not matter: less variance, and a bias."""

    def advance(self, tick, state, noise):
        return super().advance(tick, state, jnp.ones_like(noise))


WRONG = {
    "uoro": BiasedUORO(initial_scale=0.0),
    "kf-rtrl": SignlessKFRTRL(initial_scale=0.0),
    "r-kf-rtrl": SignlessRKFRTRL(initial_scale=0.0),
    "r-ok": TruncatedROK(r=1),
    "right, but from a random start": rc.UORO(),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_biased_rules_fail(wrong):
    """The last starts from the paper's random tensors instead of zero, which is a bias at first."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=2, n_in=1, steps=3)
    every, steps = estimates(wrong, network, weights, xs, ys, BUDGET)
    assert distance(every.mean(axis=0), exact(network, weights, xs, ys, steps)) > 1e-3
