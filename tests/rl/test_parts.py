"""Normalisation against NumPy over all rows, first weights, and the rolling window against autodiff of its steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance
from recurra.step.online_grad import OnlineGrad
from unrolled import CELLS


class Mirror(rc.rl.Agent):
    """Keeps what it is given."""

    actions: object = None

    @property
    def n_in(self):
        return 2

    def init(self, key):
        return jnp.zeros(2), jnp.zeros(()), jnp.zeros(2)

    def act(self, state, observation, key):
        return (observation, *state[1:]), observation

    def learn(self, state, reward, observation, terminated, truncated=False):
        return state[0], reward, observation

    def delta(self, state):
        return state[1]

    def outputs(self, state):
        return state[0]


def test_normalisation_is_that_of_all_rows_so_far():
    rng = np.random.default_rng(0)
    agent, gamma = rc.rl.Normalised(Mirror(), gamma=0.9), 0.9
    state, seen, totals, total = agent.init(jax.random.key(0)), [], [], 0.0
    act, learn = jax.jit(agent.act), jax.jit(agent.learn)
    for _ in range(3):
        x = 1e4 + rng.normal(size=2) * np.array([1e3, 1e-3])
        seen.append(x)
        for t in range(5):
            state, given = act(state, jnp.asarray(x), jax.random.key(0))
            rows = np.array(seen)
            deviation = np.sqrt(rows.var(axis=0, ddof=1) + 1e-8) if len(rows) > 1 else 1.0
            np.testing.assert_allclose(given, (x - rows.mean(axis=0)) / deviation, rtol=1e-6, atol=1e-8)
            x, reward = 1e4 + rng.normal(size=2) * np.array([1e3, 1e-3]), 1e6 * rng.normal()
            seen.append(x)
            total = gamma * total + reward
            totals.append(total)
            state = learn(state, jnp.asarray(reward), jnp.asarray(x), jnp.array(t == 4))
            scale = np.sqrt(np.var(totals, ddof=1) + 1e-8) if len(totals) > 1 else 1.0
            np.testing.assert_allclose(state.agent[1], reward / scale, rtol=1e-9)
            rows = np.array(seen)
            told = (x - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0, ddof=1) + 1e-8)
            np.testing.assert_allclose(state.agent[2], told, rtol=1e-6, atol=1e-8)
        total = 0.0


def test_either_part_of_normalisation_can_be_left_out():
    x, key = jnp.array([3.0, 4.0]), jax.random.key(0)
    plain = rc.rl.Normalised(Mirror(), observations=False, rewards=False)
    state, given = plain.act(plain.init(key), x, key)
    assert given.tolist() == [3.0, 4.0]
    state = plain.learn(state, jnp.array(1e6), x, jnp.array(False))
    assert state.agent[1] == 1e6
    with pytest.raises(TypeError):
        rc.rl.Normalised("agent")


def test_sparse_weights_have_their_share_of_zeros_and_their_range():
    W = np.asarray(rc.rl.sparse(jax.random.key(0), (50, 30), sparsity=0.9))
    assert ((W != 0).sum(axis=1) == 3).all()
    kept = W[W != 0]
    assert np.abs(kept).max() <= 30**-0.5
    assert np.abs(kept).max() > 0.9 * 30**-0.5
    assert len({tuple(np.flatnonzero(row)) for row in W}) > 40, "each row has zeros of its own"
    assert (np.asarray(rc.rl.sparse(jax.random.key(0), (5, 30), sparsity=0.0)) != 0).all()


def test_layers_compute_what_they_say():
    module = rc.rl.layers(4, 3, hidden=(6,), sparsity=0.5)
    params = module.init_params(jax.random.key(1))
    x = np.array([1.0, -2.0, 3.0, 0.5])
    z = np.asarray(params[0]["W"]) @ x
    z = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
    expected = np.asarray(params[1]["W"]) @ np.where(z > 0, z, 0.01 * z)
    np.testing.assert_allclose(module(params, jnp.asarray(x)), expected, atol=1e-10)
    other = module.init_params(jax.random.key(2))
    assert distance(params, other) > 0.1


def in_window(step, a0, xs, weights, T):
    """The state after all steps, where the weights of the last T steps are these, and the state before has no part."""
    cut = max(len(xs) - T, 0)
    before = unrolled.states(step, [weights] * cut, a0, xs[:cut])[-1] if cut else a0
    return lambda W: unrolled.states(step, [W] * (len(xs) - cut), before, xs[cut:])[-1]


@pytest.mark.parametrize("cell", ["lstm", pytest.param("leaky rnn", marks=pytest.mark.slow)])
def test_a_rolling_window_is_autodiff_of_its_steps(cell):
    make, step = CELLS[cell]
    cell, T = make(2, 3), 3
    weights = cell.init_weights(jax.random.key(0))
    xs = jax.random.normal(jax.random.key(1), (7, 2))
    grad = OnlineGrad(cell, rc.rl.TruncatedBPTT(T))
    state, c = grad.init(weights, jax.random.key(2)), jnp.array([1.0, -2.0, 0.5])
    observe, since = jax.jit(grad.observe), 0
    for t, x in enumerate(xs):
        reset = t == 4
        since = t if reset else since
        state = observe(weights, state, x, reset=jnp.array(reset))
        value = in_window(step, cell.init_state(), xs[since : t + 1], weights, T)
        expected = jax.grad(lambda W, value=value: c @ value(W)[0])(weights)
        found = grad.gradient(weights, state, c)
        assert distance(found, expected) < 1e-10
        if t == 3:  # Control: a longer window is another gradient.
            longer = in_window(step, cell.init_state(), xs[: t + 1], weights, T + 1)
            assert distance(found, jax.grad(lambda W, f=longer: c @ f(W)[0])(weights)) > 1e-4


@pytest.mark.slow
def test_a_window_of_one_step_is_immediate():
    cell, x, c = rc.GRU(2, 3), jnp.ones(2), jnp.ones(3)
    weights = cell.init_weights(jax.random.key(0))
    found = []
    for learner in (rc.rl.TruncatedBPTT(1), rc.Immediate()):
        grad = OnlineGrad(cell, learner)
        state = grad.init(weights, jax.random.key(0))
        for _ in range(3):
            state = grad.observe(weights, state, x)
        found.append(grad.gradient(weights, state, c))
    assert distance(*found) < 1e-14


@pytest.mark.slow
def test_a_window_trains_networks_with_labels_too():
    network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2)
    result = rc.train(network, rc.rl.TruncatedBPTT(4), rc.Add(t1=1, t2=2), steps=200, progress=False)
    assert np.isfinite(result.loss).all()
