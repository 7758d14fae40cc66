"""Learners against dense tensors in NumPy, on every cell: KeRNL, DNI and DNI(b) have no other step-by-step oracle."""

import jax
import numpy as np
import pytest

import dense
import recurra as rc
from dense_comparison import STEPS, compare, setting, side_by_side
from driving import distance
from taking_steps import fixed_noise, gradients, take_steps
from unrolled import CELLS


def often(*cells):
    """All cells; those that are not named are slow."""
    marks = lambda cell: () if cell in cells else pytest.mark.slow
    return pytest.mark.parametrize("cell", [pytest.param(cell, marks=marks(cell)) for cell in CELLS])


@pytest.mark.parametrize("late", [False, True])
@often("leaky rnn", "lstm")
def test_kernl(cell, late):
    network, weights, xs, ys, path = setting(cell)
    learner = rc.KeRNL(learning_rate=2.0, perturbation=0.1, late_perturbation=late)
    ours = gradients(take_steps(network, learner, weights, xs, ys))
    zeta = np.concatenate(fixed_noise(learner, network.cell, STEPS), axis=1)
    theirs = dense.kernl(path, zeta, rate=2.0, late=late)
    assert compare(path, ours, theirs) < 1e-10
    assert compare(path, ours, dense.kernl(path, zeta, rate=2.0, late=not late)) > 1e-3  # the control
    assert compare(path, ours, dense.kernl(path, zeta, rate=1.9, late=late)) > 1e-3


@often("leaky rnn", "gru")
def test_dni(cell):
    network, weights, xs, ys, path = setting(cell)
    learner = rc.DNI(learning_rate=0.1, target_interval=3)
    start = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
    ours = gradients(take_steps(network, learner, weights, xs, ys, start=start))
    A = side_by_side(start.A)
    assert compare(path, ours, dense.dni(path, A, 0.1, 3)) < 1e-10
    for wrong in ((0.1, 4), (0.09, 3)):
        assert compare(path, ours, dense.dni(path, A, *wrong)) > 1e-3


@often("rnn", "lstm")
def test_dni_b(cell):
    network, weights, xs, ys, path = setting(cell)
    learner = rc.DNIb(learning_rate=0.1, jacobian_rate=0.2, target_interval=3)
    start = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
    ours = gradients(take_steps(network, learner, weights, xs, ys, start=start))
    A, J, W_fb = side_by_side(start.synthesizer.A), np.asarray(start.J[0][0]), np.asarray(start.W_fb)
    heard = [np.asarray(gate.rec) for gate in weights.cell if gate.rec is not None]
    np.testing.assert_allclose(J, sum(heard) / len(heard), rtol=1e-12)
    assert compare(path, ours, dense.dni_b(path, A, J, W_fb, 0.1, 0.2, 3)) < 1e-10
    for wrong in ((0.1, 0.19, 3), (0.09, 0.2, 3), (0.1, 0.2, 4)):
        assert compare(path, ours, dense.dni_b(path, A, J, W_fb, *wrong)) > 1e-3


@often("lstm", "gru")
def test_bptt_and_rtrl(cell):
    """These have autodiff for an oracle already; here they test the dense tensors that the others rest on."""
    network, weights, xs, ys, path = setting(cell)
    for learner, theirs in (
        (rc.RTRL(), dense.rtrl(path)),
        (rc.FutureBPTT(T=3), dense.future_bptt(path, 3)),
        (rc.EfficientBPTT(T=4), dense.efficient_bptt(path, 4)),
    ):
        assert compare(path, gradients(take_steps(network, learner, weights, xs, ys)), theirs) < 1e-10
    assert distance(dense.rtrl(path)[5], dense.future_bptt(path, 3)[5]) > 1e-3
