"""Spiking networks recorded from two public programs: the e-prop paper authors' own, and braintrace.

Both have six units and 20 steps. States, losses and the gradients of every step agree to 1e-12. Their numbers are of
order 1. Both programs multiply weights from the right, so theirs are the transposes of ours.
"""

from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import one_step
from recurra.cells import Sources
from recurra.cells.alif import ALIF
from recurra.cells.initial import MatrixInit, gaussian
from recurra.cells.spiking import triangular
from recurra.engine.forms import LateRFLO
from recurra.learners.eligibility import no_eligibility
from recurra.learners.pp_prop import PPProp
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import Hollow, dense
from recurra.network import NetworkWeights, Readout

FOLDER = Path(__file__).parents[1] / "data" / "after-2019"
EPROP, BRAINTRACE = (dict(np.load(FOLDER / f"{name}.npz")) for name in ("eprop_alif_A", "braintrace_A"))
CLOSE = {"rtol": 0, "atol": 1e-12}


@eqx.filter_jit
def follow(network, learner, weights, xs, ys):
    """Each step's gradient, the learner's state, and what the learner saw; leading axis time. Weights are held."""

    def step(carry, row):
        (a, state), (x, y, t) = carry, row
        _, tick = one_step(network, weights, a, x, y, t)
        gradient, state = learner.step(tick, state, None)
        return (tick.state, state), (None if gradient is None else dense(gradient), state, tick.state, tick.error)

    first = network.cell.init_state(), learner.init(network.cell, weights.cell, jax.random.key(0), network.n_out)
    return jax.lax.scan(step, first, (xs, ys, jnp.arange(len(xs), dtype="int32")))[1]


# ---- the e-prop paper authors' program: three LIF and three ALIF units that do not hear themselves ----

LEARNED = ("w_in", "w_rec")


class WithReset(ALIF):
    """The same cell, with the derivative of the reset."""

    def unit(self, a, z):
        spiked, v, *others = a
        nothing = spiked - jax.lax.stop_gradient(spiked)  # but for its derivative
        v = v - self.threshold / self.decay(self.tau_v) * nothing
        return super().unit((spiked, v, *others), z)


def eprop_network(make=ALIF, random_feedback=False, **changed):
    d = EPROP
    settings = {"tau_v": "tau_v", "tau_a": "tau_a", "tau_out": "tau_out", "threshold": "thr", "dampening": "dampening"}
    numbers = {ours: d[theirs] for ours, theirs in settings.items()} | {"beta": d["beta"]}
    traced = {name: jnp.array(changed.get(name, number)) for name, number in numbers.items()}
    cell = make(3, 6, **traced, refractory=changed.get("refractory", int(d["n_ref"])))
    return rc.Network(cell, 2, rc.SquaredError(), random_feedback)


def eprop_weights(w_in=EPROP["w_in"], w_rec=EPROP["w_rec"], random_feedback=False):
    gate = Sources(Hollow(jnp.array(w_rec.T * (1 - np.eye(6)))), jnp.array(w_in.T), None)
    feedback = jnp.array(EPROP["B_fb"].T) if random_feedback else None
    return NetworkWeights((gate,), Readout(jnp.array(EPROP["w_out"].T), jnp.zeros(2)), feedback)


def eprop(learner, make=ALIF, random_feedback=False, **changed):
    """What `follow` returns on the recorded inputs. All settings are traced."""
    network, weights = eprop_network(make, random_feedback, **changed), eprop_weights(random_feedback=random_feedback)
    return follow(network, learner, weights, jnp.array(EPROP["x"]), jnp.array(EPROP["y"]))


def their_layout(gates):
    """One gate's blocks as the recording has them: (step, from, to)."""
    return {"w_in": gates[0].inp.swapaxes(1, 2), "w_rec": gates[0].rec.matrix.swapaxes(1, 2)}


def recorded(key):
    """Without self-connections, which the program ignores but keeps traces of."""
    return EPROP[key] * (1 - np.eye(6)) if key.endswith("rec") else EPROP[key]


def test_states_and_losses_are_the_recorded_ones():
    _, _, (z, v, b, f, _), error = eprop(rc.RFLO())
    for ours, name in ((z, "z"), (v, "v"), (f, "z_filtered")):
        np.testing.assert_allclose(ours, EPROP[name], **CLOSE)
    rho = np.exp(-1 / EPROP["tau_a"])
    np.testing.assert_allclose(b, rho * EPROP["b"] + EPROP["z"], **CLOSE)  # our b is theirs of the next step
    np.testing.assert_allclose((error**2).sum(1) / 2, EPROP["loss_t"], **CLOSE)
    assert 0.1 < EPROP["z"].mean() < 0.5
    assert EPROP["b"].max() > 2


@pytest.mark.parametrize(
    ("rule", "learner"), [("eprop", rc.RFLO()), ("eprop", LateRFLO()), ("random_eprop", rc.RFLO())]
)
def test_rflo_is_e_prop(rule, learner):
    found = their_layout(eprop(learner, random_feedback=rule == "random_eprop")[0])
    for name in LEARNED:
        np.testing.assert_allclose(found[name], recorded(f"{rule}_g_{name}"), **CLOSE)
        assert np.abs(EPROP[f"{rule}_g_{name}"]).max() > 0.5


def test_traces_are_the_recorded_ones():
    B = eprop(rc.RFLO())[1]
    assert B[0] == B[4] == (Sources(None, None, None),)  # those of spikes and of the refractory counter are not kept
    rho = np.exp(-1 / EPROP["tau_a"])
    for name, source in (("w_in", "in"), ("w_rec", "rec")):
        eps_v, eps_b, ebar = (their_layout(B[p])[name] for p in (1, 2, 3))
        np.testing.assert_allclose(eps_v, recorded(f"eps_v_{source}"), **CLOSE)
        np.testing.assert_allclose(eps_b, rho * recorded(f"eps_a_{source}") + recorded(f"e_{source}"), **CLOSE)
        np.testing.assert_allclose(ebar, recorded(f"ebar_{source}"), **CLOSE)


#: settings that differ from the recorded ones, the smallest by a thousandth
OTHERS = {
    "threshold": 0.6201,
    "beta": np.full(6, 0.17),  # all units adapt
    "refractory": 1,
    "dampening": 0.3003,
    "tau_out": 20.02,
    "tau_a": 210.0,
}


QUICK = ("dampening", "tau_a")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in OTHERS])
def test_another_setting_is_noticed(name):
    found = their_layout(eprop(rc.RFLO(), **{name: OTHERS[name]})[0])["w_in"]
    assert np.abs(found - EPROP["eprop_g_w_in"]).max() > 1e-4


@pytest.mark.slow
def test_rules_that_are_not_e_prop():
    found = their_layout(eprop(rc.RTRL())[0])["w_in"]
    assert np.abs(found - EPROP["eprop_g_w_in"]).max() > 1e-2
    found = their_layout(eprop(rc.RFLO(), WithReset)[0])["w_in"]
    assert np.abs(found - EPROP["eprop_g_w_in"]).max() > 1e-2


@pytest.mark.slow
def test_exact_credit_through_spikes_is_back_propagation():
    """Theirs has the surrogate everywhere, and so a derivative of the reset too."""
    summed = {name: g.sum(0) for name, g in their_layout(eprop(rc.RTRL(), WithReset)[0]).items()}
    cell, W, learner = eprop_network(WithReset).cell, eprop_weights().cell, rc.EfficientBPTT(T=20)
    _, states, *_ = eprop(learner, WithReset)
    last = jax.tree.map(lambda rows: rows[-1], states)
    emitted = their_layout(jax.tree.map(lambda g: g[None], dense(learner.due(cell, W, last)[0])))
    without = their_layout(eprop(rc.RTRL())[0])
    for name in LEARNED:
        np.testing.assert_allclose(summed[name], recorded(f"bptt_{name}"), **CLOSE)
        np.testing.assert_allclose(emitted[name][0], recorded(f"bptt_{name}"), **CLOSE)
        assert np.abs(without[name].sum(0) - recorded(f"bptt_{name}")).max() > 0.1


def test_five_passes_of_learning():
    """One step of gradient descent after each pass, with the sum of e-prop's gradients."""
    rows = jnp.array(EPROP["x"]), jnp.array(EPROP["y"])
    network, w_in, w_rec, losses = eprop_network(), EPROP["w_in"], EPROP["w_rec"], []
    for _ in range(5):
        gradients, _, _, error = follow(network, rc.RFLO(), eprop_weights(w_in, w_rec), *rows)
        summed = {name: g.sum(0) for name, g in their_layout(gradients).items()}
        w_in, w_rec = w_in - EPROP["lr"] * summed["w_in"], w_rec - EPROP["lr"] * summed["w_rec"]
        losses.append((error**2).sum() / 2)
    np.testing.assert_allclose(losses, EPROP["seqsgd_loss"], **CLOSE)
    np.testing.assert_allclose(w_in, EPROP["seqsgd_final_w_in"], **CLOSE)
    np.testing.assert_allclose(w_rec * (1 - np.eye(6)), recorded("seqsgd_final_w_rec"), **CLOSE)
    assert np.abs(w_in - EPROP["w_in"]).max() > 0.05


# ---- braintrace: six ALIF units that hear themselves, are never refractory, and show their spikes unfiltered ----

ALPHA, RHO, BETA, THETA, GAMMA = (
    float(BRAINTRACE[f"alif_{name}"]) for name in ("alpha", "rho", "beta", "thr", "gamma")
)


def braintrace_network(cell=None):
    settings = {"tau_v": -1 / np.log(ALPHA), "tau_a": -1 / np.log(RHO), "threshold": THETA, "dampening": GAMMA}
    own = ALIF(4, 6, **settings, beta=BETA, tau_out=0.0, refractory=0, w_rec=gaussian)
    return rc.Network(own if cell is None else cell, 2, rc.SquaredError())


def braintrace_weights():
    W = jnp.array(BRAINTRACE["alif_W"].T)
    return NetworkWeights(
        (Sources(W[:, 4:], W[:, :4], None),), Readout(jnp.array(BRAINTRACE["alif_Wout"].T), jnp.zeros(2)), None
    )


def whole(gates):
    return np.concatenate([gates[0].inp, gates[0].rec], axis=-1).swapaxes(-1, -2)


def braintrace(learner):
    network, weights = braintrace_network(), braintrace_weights()
    return follow(network, learner, weights, jnp.array(BRAINTRACE["alif_x"]), jnp.array(BRAINTRACE["alif_y"]))


#: its names for rules, and ours
RULES = {"drtrl": rc.RFLO(), "snap1": SnAp1(), "snap2": rc.RTRL(), "bptt": rc.RTRL(), "pp": PPProp(decay=0.9)}


@pytest.mark.parametrize("rule", RULES)
def test_braintrace_takes_the_same_steps(rule):
    gradients, _, (z, v, b, f, _), error = braintrace(RULES[rule])
    np.testing.assert_allclose(v, BRAINTRACE["alif_state_v"], **CLOSE)
    np.testing.assert_allclose(b, RHO * BRAINTRACE["alif_state_a"] + BRAINTRACE["alif_out"], **CLOSE)
    np.testing.assert_allclose(z, BRAINTRACE["alif_out"], **CLOSE)
    np.testing.assert_allclose(f, z, **CLOSE)
    np.testing.assert_allclose((error**2).sum(1) / 2, BRAINTRACE["alif_loss"], **CLOSE)
    np.testing.assert_allclose(whole(gradients), BRAINTRACE[f"alif_{rule}_g_W"], **CLOSE)


def test_braintrace_takes_other_steps_with_another_rule():
    gradients, *_ = braintrace(rc.RFLO())
    for rule in ("snap1", "bptt", "pp"):
        assert np.abs(whole(gradients) - BRAINTRACE[f"alif_{rule}_g_W"]).max() > 1e-2


class Summed(rc.UnitwiseCell):
    """braintrace's ALIF as it stands there, with running sums of v and a: their traces are its filtered traces.

    It filters eligibilities and multiplies by the present ψ. A filtered readout, as that of `ALIF`, filters both.
    """

    n_in: int
    n: int
    kappa: float = 0.0
    w_rec: MatrixInit = eqx.field(static=True, default=gaussian)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states: ClassVar[int] = 5
    listens: ClassVar = ((True, True, False),)
    first_bias: ClassVar = (0.0,)

    def unit(self, a, z):
        spiked, v, b, sum_v, sum_b = a
        v = ALPHA * v + z[0] - THETA * jax.lax.stop_gradient(spiked)
        b = RHO * b + spiked
        spikes = triangular((v - THETA - BETA * b) / THETA, GAMMA)
        return spikes, v, b, self.kappa * sum_v + v, self.kappa * sum_b + b


def braintrace_eprop(kappa, signal=lambda L: L, lr=0.0):
    """e-prop as the package applies it: gradients, states and losses of each step, and the last weights."""
    network, weights = braintrace_network(Summed(4, 6, kappa)), braintrace_weights()
    cell, learner = network.cell, rc.RFLO()

    def step(carry, row):
        a, B, W = carry
        loss, tick = one_step(network, weights._replace(cell=W), a, *row, jnp.zeros((), "int32"))
        B = learner.advance(tick, B, None)
        _, v, b, _, _ = tick.state
        psi = GAMMA / THETA * jnp.maximum(0, 1 - jnp.abs(v - THETA - BETA * b) / THETA)
        L = signal(psi * tick.cbar[0]), signal(-BETA * psi * tick.cbar[0])
        gradient = learner.contract(cell, W, (None, None, None, *L), B)
        W = jax.tree.map(lambda w, g: w - lr * g, W, gradient)
        return (tick.state, B, W), (gradient, v, b, loss)

    first = cell.init_state(), no_eligibility(cell, weights.cell), weights.cell
    last, visited = jax.jit(lambda first, rows: jax.lax.scan(step, first, rows))(
        first, (BRAINTRACE["alif_x"], BRAINTRACE["alif_y"])
    )
    return *visited, whole(last[2])


def test_braintrace_e_prop():
    """With its running sum of traces, which has no factor 1 - κ."""
    found, *_ = braintrace_eprop(float(BRAINTRACE["kappa"]))
    np.testing.assert_allclose(whole(found), BRAINTRACE["alif_eprop_g_W"], **CLOSE)
    assert np.abs(BRAINTRACE["alif_eprop_g_W"] - BRAINTRACE["alif_drtrl_g_W"]).max() > 0.1


def test_braintrace_e_prop_while_it_learns():
    found, v, b, loss, W = braintrace_eprop(float(BRAINTRACE["kappa"]), lr=float(BRAINTRACE["lr"]))
    for ours, name in ((whole(found), "g_W"), (v, "state_v"), (b, "state_a"), (loss, "loss"), (W, "final_W")):
        np.testing.assert_allclose(ours, BRAINTRACE[f"alif_eprop_sgd_{name}"], **CLOSE)
    assert np.abs(W - BRAINTRACE["alif_W"]).max() > 0.05


def test_braintrace_e_prop_with_its_random_feedback():
    """It is applied to credit of the state, after that is brought to length 1, and not to the error."""
    signal = lambda L: L / (jnp.linalg.norm(L) + 1e-8) @ BRAINTRACE["alif_eprop_rand_B"]
    found, *_ = braintrace_eprop(0.0, signal)
    np.testing.assert_allclose(whole(found), BRAINTRACE["alif_eprop_rand_g_W"], **CLOSE)
