"""Trajectories recorded from public programs: trace units, linear recurrent units, and trained time constants."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.cells import Sources, UnitwiseCell, orthogonal
from recurra.cells.lru import LRU
from recurra.cells.rtu import RTU, NonlinearRTU
from recurra.learners.immediate import Immediate
from recurra.learners.snap_1 import SnAp1
from recurra.network import NetworkWeights, Readout
from recurra.step import APPLIED


def recorded(name):
    return dict(np.load(Path(__file__).parents[1] / "data" / "after-2019" / f"{name}_A.npz"))


def held(P, g, kept):
    return P, kept


def program(network, learner, ours: Callable, d, move=held, first=None):
    """A function of the recorded parameters P. `ours` makes the network's weights of them.

    It returns the last P, and each step's loss, state, credit, what the learner carries, and the gradient of P. `move`
    returns the next P and what the learner goes on with.
    """
    step = rc.LearningStep(network, learner, 1.0)  # so that a step takes away the gradient

    def take(carry, row):
        P, state = carry
        weights, back = jax.vjp(ours, P)
        seen, _ = step.observe(state._replace(weights=weights), row[0], {APPLIED: None})
        after, outcome = step.learn(seen, row[1])
        (g,) = back(jax.tree.map(jnp.subtract, weights, after.weights))
        credit, kept = network.credit(weights, outcome.output - row[1], after.a, row[0]), after.learners[APPLIED]
        P, carried = move(P, g, kept)
        return (P, after._replace(learners={APPLIED: carried})), (outcome.loss, after.a, credit, kept, g)

    @jax.jit
    def run(P):
        start = step.start_from(ours(P), jax.random.key(0))
        start = start if first is None else start._replace(a=first)
        (last, _), found = jax.lax.scan(take, (P, start), (jnp.array(d["x"]), jnp.array(d["y"])))
        return last, *found

    return lambda P: jax.tree.map(np.asarray, run(P))


def close(found, wanted, to):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=to * np.abs(wanted).max())


def parameters(d, *names):
    return {name: jnp.array(d[name]) for name in names}


# Trace units.

TRACE = {"linear": RTU, "nonlinear": NonlinearRTU}


def trace_units(kind):
    d = recorded("rtu")
    P = parameters(d, "nu_log", "theta_log", "W1", "W2")
    readout = Readout(jnp.array(d["W_out"].T), jnp.array(d["b_out"]))

    def ours(P):
        # The program adds 1e-8 to γ. Weights that are as much larger do the same.
        gamma = jnp.sqrt(1 - jnp.exp(-2 * jnp.exp(P["nu_log"])))
        inp = [Sources(None, (P[name] * (1 + d["eps_norm"] / gamma)).T, None) for name in ("W1", "W2")]
        own = [Sources(None, None, P[name][:, None]) for name in ("nu_log", "theta_log")]
        return NetworkWeights((*inp, *own), readout, None)

    return d, rc.Network(TRACE[kind](3, 6, jnp.tanh), 2, rc.SquaredError()), P, ours


@pytest.mark.parametrize("kind", TRACE)
def test_trace_units(kind):
    d, network, P, ours = trace_units(kind)
    _, loss, a, credit, M, g = program(network, rc.RTRL(), ours, d)(P)
    close(loss, d[f"{kind}_loss"], 1e-14)
    close(a[0], d[f"{kind}_h1"], 1e-14)
    close(a[1], d[f"{kind}_h2"], 1e-14)
    close(np.concatenate(a[-2:], axis=1), d[f"{kind}_out"], 1e-14)
    close(np.concatenate(credit[-2:], axis=1), d[f"{kind}_dout"], 1e-14)
    for name in P:
        close(g[name], d[f"{kind}_bptt_g_{name}"], 1e-13)
    theta = np.exp(d["theta_log"])
    close(g["theta_log"] / theta, d[f"{kind}_g_theta_log"], 1e-13)  # the program's is a derivative in θ itself
    close(g["nu_log"], d[f"{kind}_g_nu_log"], 1e-7)
    for p, h in enumerate(("h1", "h2")):
        W_1, W_2, nu, omega = (gate[p] for gate in M)
        for name, found in (("W1", W_1), ("W2", W_2)):
            close(found.swapaxes(1, 2), d[f"{kind}_S_d{h}_d{name}"], 1e-6)  # the program's has its 1e-8 in it
        close(nu[..., 0], d[f"{kind}_S_d{h}_dnu"], 1e-6)
        close(omega[..., 0] / theta, d[f"{kind}_S_d{h}_dtheta"], 1e-13)


@pytest.mark.parametrize("kind", TRACE)
def test_trace_units_while_they_learn(kind):
    d, network, P, ours = trace_units(kind)
    rate = float(d["lr"])

    def move(P, g, M):
        """The program carries derivatives in θ, and takes them for those in its logarithm."""
        theta = jnp.exp(P["theta_log"])
        P = jax.tree.map(lambda p, g: p - rate * g, P, {**g, "theta_log": g["theta_log"] / theta})
        other = (jnp.exp(P["theta_log"]) / theta)[:, None]
        return P, (*M[:3], tuple(m * other for m in M[3]))

    last, loss, a, *_ = program(network, rc.RTRL(), ours, d, move)(P)
    close(loss, d[f"{kind}_sgd_loss"], 1e-7)
    close(a[0], d[f"{kind}_sgd_h1"], 1e-7)
    for name in P:
        close(last[name], d[f"{kind}_sgd_final_{name}"], 1e-7)
    assert np.abs(last["theta_log"] - P["theta_log"]).max() > 1e-3


# Linear recurrent units.

NAMES = ("nu", "theta", "gamma_log", "B_re", "B_im", "C_re", "C_im", "D")


def linear_units():
    d = recorded("lru")

    def ours(P):
        inp = [Sources(None, P[name], None) for name in ("B_re", "B_im")]
        own = [Sources(None, None, P[name][:, None]) for name in ("nu", "theta", "gamma_log")]
        W = jnp.concatenate([P["C_re"], -P["C_im"]], axis=1)
        return NetworkWeights((*inp, *own), Readout(W, jnp.zeros(3), jnp.diag(P["D"])), None)

    return d, rc.Network(LRU(3, 6), 3, rc.SquaredError(), skip=True), parameters(d, *NAMES), ours


def test_linear_recurrent_units():
    d, network, P, ours = linear_units()
    _, loss, (re, im), (c_re, c_im), M, g = program(network, rc.RTRL(), ours, d)(P)
    close(loss, d["loss"], 1e-14)
    close(re + 1j * im, d["h"], 1e-14)
    close(c_re - 1j * c_im, d["credit_h"], 1e-14)
    for name in NAMES:
        close(g[name], d[f"online_full_g_{name}"], 1e-13)
        close(g[name], d[f"bptt_g_{name}"], 1e-13)
    b_re, b_im, nu, omega, gamma = (re + 1j * im for re, im in M)
    lam = np.exp(-np.exp(d["nu"]) + 1j * np.exp(d["theta"]))
    close(b_re, d["trace_B"], 1e-13)
    close(b_im, 1j * d["trace_B"], 1e-13)
    close(gamma[..., 0], d["trace_gamma"] * np.exp(d["gamma_log"]), 1e-13)
    close(nu[1:, :, 0], d["trace_lambda"] * -np.exp(d["nu"]) * lam, 1e-13)
    close(omega[1:, :, 0], d["trace_lambda"] * 1j * np.exp(d["theta"]) * lam, 1e-13)


def test_shortened_rules_for_linear_recurrent_units():
    """The program's `online_1truncated` is the gradient of the present step; other modes use it for some parameters."""
    d, network, P, ours = linear_units()
    g = program(network, Immediate(), ours, d)(P)[-1]
    for name in NAMES:
        close(g[name], d[f"online_1truncated_g_{name}"], 1e-13)
        if name not in ("nu", "theta"):
            close(g[name], d[f"online_spatial_g_{name}"], 1e-13)
    for name in ("B_re", "B_im"):
        close(g[name], d[f"online_full_rec_g_{name}"], 1e-13)
        close(g[name], d[f"online_full_rec_simpleB_g_{name}"], 1e-13)
        assert np.abs(g[name] - d[f"online_full_g_{name}"]).max() > 0.01  # the control: which rule it is matters


def test_linear_recurrent_units_while_they_learn():
    d, network, P, ours = linear_units()
    one_pass = program(network, rc.RTRL(), ours, d)
    for wanted in d["seqsgd_loss"]:
        _, loss, *_, g = one_pass(P)
        close(np.sum(loss), wanted, 1e-13)
        P = jax.tree.map(lambda p, g: p - float(d["lr"]) * jnp.sum(g, axis=0), P, g)
    for name in NAMES:
        close(P[name], d[f"seqsgd_final_{name}"], 1e-13)


# Time constants.


class OwnTimes(UnitwiseCell):
    """a(t) = a(t-1) + (tanh(W ahat) - a(t-1)) / τ, where every unit learns its own τ."""

    n_in: int
    n: int
    w_rec: Any = eqx.field(static=True, default=orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states: ClassVar[int] = 1
    gates: ClassVar = ("w", "tau")
    listens: ClassVar = ((True, True, True), (False, False, True))
    first_bias: ClassVar = (0.0, 2.0)

    def unit(self, a, z):
        return (a[0] + (jnp.tanh(z[0]) - a[0]) / z[1],)


def own_times():
    d = recorded("jaxrtrl_ctrnn")

    def ours(P):
        W = P["W"]
        gates = Sources(W[:, 3:9], W[:, :3], W[:, 9:]), Sources(None, None, P["tau"][:, None])
        return NetworkWeights(gates, Readout(jnp.array(d["Wout"].T), jnp.zeros(2)), None)

    first = (jnp.array(d["h0"]),)
    return d, rc.Network(OwnTimes(3, 6), 2, rc.SquaredError()), parameters(d, "W", "tau"), ours, first


LEARNERS = {"rtrl": rc.RTRL(), "rflo": rc.RFLO(), "eprop": SnAp1()}  # the program's "eprop" is SnAp-1


@pytest.mark.parametrize("name", LEARNERS)
def test_time_constants(name):
    d, network, P, ours, first = own_times()
    _, loss, a, _, kept, g = program(network, LEARNERS[name], ours, d, first=first)(P)
    close(loss, d["loss_t"], 1e-14)
    close(a[0], d["h"], 1e-14)
    for each in P:
        close(g[each], d[f"{name}_g_{each}"], 1e-13)
    if name == "rtrl":
        close(g["W"], d["bptt_g_W"], 1e-13)
        assert np.abs(g["tau"] - d["rflo_g_tau"]).max() > 1e-3  # the control
        return
    (W, tau), *_ = kept
    close(np.concatenate([W.inp, W.rec, W.bias], axis=2), d[f"{name}_trace_W"], 1e-13)
    close(tau.bias[..., 0], d[f"{name}_trace_tau"], 1e-13)


@pytest.mark.parametrize("name", ["rflo", "eprop"])
def test_time_constants_while_they_learn(name):
    d, network, P, ours, first = own_times()
    move = lambda P, g, kept: (jax.tree.map(lambda p, g: p - float(d["lr"]) * g, P, g), kept)
    last, loss, a, _, _, g = program(network, LEARNERS[name], ours, d, move, first)(P)
    close(loss, d[f"{name}_sgd_loss_t"], 1e-13)
    close(a[0], d[f"{name}_sgd_h"], 1e-13)
    for each in P:
        close(g[each], d[f"{name}_sgd_g_{each}"], 1e-12)
        close(last[each], d[f"{name}_sgd_final_{each}"], 1e-13)
