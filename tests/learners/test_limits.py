"""Limits in which an algorithm must coincide with another, or converge to a value known in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, drive, one_step, problem
from recurra.linalg import dense
from unrolled import CELLS


@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_rflo_is_kernl_without_learning(alpha):
    network, weights, xs, ys = problem(lambda n_in, n: rc.RNN(n_in, n, alpha))
    frozen = rc.KeRNL(learning_rate=0.0, first_alpha=alpha)
    pairs = zip(drive(network, rc.RFLO(), weights, xs, ys), drive(network, frozen, weights, xs, ys), strict=True)
    for (rflo, _, _), (kernl, _, _) in pairs:
        assert distance(rflo, kernl) < 1e-12
    other = drive(network, rc.KeRNL(learning_rate=0.0, first_alpha=0.7 * alpha), weights, xs, ys)
    assert distance(other[-1][0], drive(network, rc.RFLO(), weights, xs, ys)[-1][0]) > 1e-3


def one_step_of_backpropagation(network, step, weights, xs, ys, t):
    """The derivative of L(t) in the weights applied at t, with a(t-1) held."""
    a0 = network.cell.init_state()
    return unrolled.gradient_of_application(step, weights.cell, weights.readout, a0, xs, ys, t, t)


def test_rflo_without_leak_is_one_step_of_backpropagation():
    for cell, equal in (("rnn", True), ("leaky rnn", False)):
        make, step = CELLS[cell]
        network, weights, xs, ys = problem(make)
        gradient = drive(network, rc.RFLO(), weights, xs, ys)[5][0]
        apart = distance(gradient, one_step_of_backpropagation(network, step, weights, xs, ys, 5))
        assert apart < 1e-12 if equal else apart > 1e-3


def test_rflo_of_any_cell_is_rtrl_without_recurrent_weights():
    """With w_rec = 0 a unit hears nothing of the others, J is its own H, and the approximation is exact."""
    for make, _ in CELLS.values():
        network, weights, xs, ys = problem(make)
        alone = tuple(gate._replace(rec=None if gate.rec is None else 0 * gate.rec) for gate in weights.cell)
        weights = weights._replace(cell=alone)
        pairs = zip(drive(network, rc.RFLO(), weights, xs, ys), drive(network, rc.RTRL(), weights, xs, ys), strict=True)
        for (rflo, _, _), (rtrl, _, _) in pairs:
            assert distance(rflo, rtrl) < 1e-10


@pytest.mark.parametrize("cell", CELLS)
def test_immediate_credit_times_immediate_influence_is_one_step_of_backpropagation(cell):
    """c̄ M̄, which every future-facing rule ends in, by itself."""
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make)
    ticks = drive(network, rc.Fixed(), weights, xs, ys)
    for t in (0, 4):
        tick = ticks[t][2]
        found = dense(tick.deposit(tick.cbar))
        assert distance(found, one_step_of_backpropagation(network, step, weights, xs, ys, t)) < 1e-10


def linear_network(J, n_in=2, n_out=2, loss=None):
    """a(t) = J a(t-1) + w_in x(t): a network whose every derivative is known."""
    cell = rc.RNN(n_in, len(J), phi=lambda z: z)
    network = rc.Network(cell, n_out, loss or rc.SquaredError())
    weights = network.init(jax.random.key(0))
    return network, weights._replace(cell=(weights.cell[0]._replace(rec=jnp.array(J)),))


def run(network, learner, weights, xs, ys, state, key):
    """The learner's states along a stream, with the weights held, every step."""
    noise = learner.noise(network.cell, key, len(xs))

    @jax.jit
    def scan(state):
        def step(carry, inputs):
            a, state, t = carry
            x, y, nu = inputs
            _, tick = one_step(network, weights, a, x, y, t)
            _, state = learner.step(tick, state, nu)
            kept = state.A if hasattr(state, "A") else state
            return (tick.state, state, t + 1), kept

        start = (network.cell.init_state(), state, jnp.array(0, "int32"))
        return jax.lax.scan(step, start, (xs, ys, noise))

    return scan(state)[1]


@pytest.mark.parametrize("late", [False, True])
def test_kernl_fits_the_sensitivity_of_a_linear_network(late):
    """J = 0.7 I: the sensitivity is 0.7^Δt, so α = 0.3 and A = I.

    Perturbing the copy one step late loses the term Δt = 0 of the correlation: with α = 0.3 A would settle at 0.49, and
    a little lower once α follows. That is also the control that the test can fail.
    """
    n, steps = 3, 40_000
    network, weights = linear_network(0.7 * np.eye(n))
    learner = rc.KeRNL(learning_rate=0.003, perturbation=1.0, first_alpha=0.3, late_perturbation=late)
    state = learner.init(network.cell, weights.cell, jax.random.key(0), 2)
    wrong = ((0.2 * jnp.ones((n, n)),),)
    xs, ys = jnp.zeros((steps, 2)), jnp.zeros((steps, 2))
    held = eqx.tree_at(lambda s: s.A, state, wrong)
    visited = run(network, learner, weights, xs, ys, held, jax.random.key(1))
    A = np.asarray(visited[0][0][steps // 2 :]).mean(axis=0)
    if late:
        assert np.all((np.diag(A) > 0.35) & (np.diag(A) < 0.55))
    else:
        np.testing.assert_allclose(A, np.eye(n), atol=0.05)


def test_kernl_finds_the_timescale():
    """From the paper's start α = 0.8, A = I, the fit moves α to 0.3, where the kernel is exact."""
    n, steps = 2, 60_000
    network, weights = linear_network(0.7 * np.eye(n))
    learner = rc.KeRNL(learning_rate=0.003, perturbation=1.0)
    state = learner.init(network.cell, weights.cell, jax.random.key(0), 2)
    xs, ys = jnp.zeros((steps, 2)), jnp.zeros((steps, 2))
    noise = learner.noise(network.cell, jax.random.key(1), steps)

    def step(carry, inputs):
        a, state = carry
        x, y, nu = inputs
        _, tick = one_step(network, weights, a, x, y, jnp.array(1, "int32"))
        _, state = learner.step(tick, state, nu)
        return (tick.state, state), state.alpha[0]

    _, alphas = jax.jit(lambda s: jax.lax.scan(step, (network.cell.init_state(), s), (xs, ys, noise)))(state)
    np.testing.assert_allclose(np.asarray(alphas[0]), 0.8, atol=0.05)
    np.testing.assert_allclose(np.asarray(alphas[steps // 2 :]).mean(axis=0), 0.3, atol=0.05)


def true_credit(J, readout):
    """c(t) = P a(t) in expectation, with P = Q + Jᵀ P J and Q = W_outᵀ W_out, for labels of zero and white input."""
    Q = np.asarray(readout.W.T @ readout.W)
    P = Q.copy()
    for _ in range(500):
        P = Q + J.T @ P @ J
    return P


class Myopic(rc.DNI):
    """A target without the bootstrapped future: the negative control."""

    def credit(self, tick, state):
        frozen = eqx.tree_at(lambda s: s.A_star, state, jax.tree.map(jnp.zeros_like, state.A_star))
        return super().credit(tick, frozen)


@pytest.mark.parametrize(("learner", "right"), [(rc.DNI, True), (Myopic, False)])
def test_dni_converges_to_the_true_credit_of_a_linear_network(learner, right):
    n, steps = 3, 60_000
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    J = 0.7 * rotation
    network, weights = linear_network(J, n_in=n)
    # Labels W_out noise-free zero: cbar = a W_outᵀ W_out is linear in the state, and so is the whole future.
    weights = weights._replace(readout=weights.readout._replace(b=0 * weights.readout.b))
    xs = jax.random.normal(jax.random.key(4), (steps, n))
    ys = jnp.zeros((steps, 2))
    learner = learner(learning_rate=0.003)
    state = learner.init(network.cell, weights.cell, jax.random.key(0), 2)
    visited = run(network, learner, weights, xs, ys, state, jax.random.key(1))
    A = np.asarray(visited[0][0][steps // 2 :]).mean(axis=0)
    apart = np.linalg.norm(A - true_credit(J, weights.readout)) / np.linalg.norm(A)
    assert apart < 0.05 if right else apart > 0.2
