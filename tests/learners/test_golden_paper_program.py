"""Trajectories recorded from the paper authors' own program: every gradient, every state, the final weights."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.cells import Sources
from recurra.learners.dni_b import BiologicalState
from recurra.learners.kf_rtrl import Kronecker
from recurra.learners.r_kf_rtrl import ReverseKronecker
from recurra.learners.synthetic import Synthesizer
from recurra.learners.uoro import RankOne
from recurra.linalg import dense, scale
from recurra.network import NetworkWeights, Readout
from recurra.step import APPLIED

CASES = {name: dict(np.load(Path(__file__).parents[1] / "data" / f"{name}.npz")) for name in ("case1", "case2")}


def blocks(W, n):
    """[w_rec, w_in, b] as one gate."""
    return (Sources(jnp.array(W[:, :n]), jnp.array(W[:, n:-1]), jnp.array(W[:, -1:])),)


def matrix(gates):
    return np.concatenate([np.asarray(block) for block in gates[0]], axis=1)


def features(A, n):
    """A synthetic-gradient matrix, columns (a, y*, 1), as blocks."""
    return ((jnp.array(A[:, :n]), jnp.array(A[:, n:-1]), jnp.array(A[:, -1:])),)


def setup(case, algorithm):
    """The learner, its recorded initial state and its recorded noise, one entry a step."""
    d, n = case, len(case["a0"])
    steps, T = len(d["x"]), int(d["T"])
    none = [None] * steps
    zero_credit = (jnp.zeros(n),)
    A0 = features(d["dni_A0"], n)
    nothing_seen = (jnp.zeros(n), jnp.zeros(len(d["W_out"])), jnp.ones(1))
    synthesizer = Synthesizer(A0, A0, nothing_seen, zero_credit)
    rates = {"learning_rate": float(d["dni_lr"]), "target_interval": int(d["dni_target_interval"])}
    sources = lambda v: Sources(jnp.array(v[:n]), jnp.array(v[n:-1]), jnp.array(v[-1:]))
    nu = lambda name: jnp.array(d[f"{name}_nu"])
    match algorithm:
        case "rtrl":
            return rc.RTRL(), None, none
        case "uoro":
            state = RankOne((jnp.array(d["uoro_A0"]),), blocks(d["uoro_B0"], n))
            return rc.UORO(), state, [(v,) for v in nu("uoro")]
        case "kf_rtrl":
            state = Kronecker(sources(d["kf_A0"]), ((jnp.array(d["kf_B0"]),),))
            return rc.KFRTRL(), state, [(v[0], v[1]) for v in nu("kf_rtrl")]
        case "r_kf_rtrl":
            B = blocks(d["rkf_B0"], n)[0]
            return (
                rc.RKFRTRL(),
                ReverseKronecker((jnp.array(d["rkf_A0"]),), tuple((b,) for b in B)),
                [(v,) for v in nu("r_kf_rtrl")],
            )
        case "rflo":
            return rc.RFLO(), None, none
        case "e_bptt":
            return rc.EfficientBPTT(T=T), None, none
        case "f_bptt":
            return rc.FutureBPTT(T=T), None, none
        case "fixed":
            return rc.Fixed(), None, none
        case "dni":
            return rc.DNI(**rates), synthesizer, none
        case "dnib":
            learner = rc.DNIb(jacobian_rate=float(d["dnib_J_lr"]), **rates)
            return learner, BiologicalState(synthesizer, ((jnp.array(d["W"][:, :n]),),), jnp.array(d["W_fb"])), none


def damaged(learner, factor):
    """A learner of the same kind whose gradients are too long by a factor."""

    class Damaged(type(learner)):
        def step(self, tick, state, noise):
            return longer(super().step(tick, state, noise))

        def due(self, cell, weights, state):
            return longer(super().due(cell, weights, state))

    longer = lambda found: (None if found[0] is None else scale(factor, dense(found[0])), found[1])
    return Damaged(**{field.name: getattr(learner, field.name) for field in dataclasses.fields(learner)})


def replay(case, algorithm, factor=None):
    """Run the recorded inputs and return gradients, states and final weights."""
    d, n = case, len(case["a0"])
    learner, first, noise = setup(case, algorithm)
    learner = learner if factor is None else damaged(learner, factor)
    loss = rc.SoftmaxCrossEntropy() if "softmax" in str(d["loss"]) else rc.SquaredError()
    network = rc.Network(rc.RNN(d["x"].shape[1], n, float(d["alpha"])), d["y"].shape[1], loss)
    learning = rc.LearningStep(network, learner, float(d["lr"]))
    readout = Readout(jnp.array(d["W_out"][:, :-1]), jnp.array(d["W_out"][:, -1]))
    state = learning.init(jax.random.key(0))
    state = state._replace(
        weights=NetworkWeights(blocks(d["W"], n), readout, None),
        a=(jnp.array(d["a0"]),),
        learners=state.learners if first is None else {APPLIED: first},
    )

    @jax.jit
    def step(state, x, y, nu):
        seen, _ = learning.observe(state, x, {APPLIED: nu})
        return learning.learn(seen, y)

    gradients, states = [], []
    for t, nu in enumerate(noise):
        state, outcome = step(state, jnp.array(d["x"][t]), jnp.array(d["y"][t]), nu)
        gradients.append(matrix(outcome.gradients[APPLIED]))
        states.append(np.asarray(outcome.state[0]))
    readout = np.concatenate([state.weights.readout.W, state.weights.readout.b[:, None]], axis=1)
    return np.array(gradients), np.array(states), matrix(state.weights.cell), readout


ALGORITHMS = ["rtrl", "uoro", "kf_rtrl", "r_kf_rtrl", "rflo", "e_bptt", "f_bptt", "fixed", "dni", "dnib"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_takes_the_recorded_steps(case, algorithm):
    d = CASES[case]
    gradients, states, W, W_out = replay(d, algorithm)
    np.testing.assert_allclose(gradients, d[f"{algorithm}_grads"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(states, d[f"{algorithm}_a"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(W, d[f"{algorithm}_W_final"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(W_out, d[f"{algorithm}_W_out_final"], rtol=0, atol=1e-8)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "fixed"])
def test_a_gradient_off_by_a_thousandth_is_noticed(algorithm):
    gradients, *_ = replay(CASES["case1"], algorithm, factor=1.001)
    assert np.abs(gradients - CASES["case1"][f"{algorithm}_grads"]).max() > 1e-6
