"""SnAp-n, SnAp-1, RFLO and pp_prop against recorded runs of other people's programs, step by step.

The recordings are of snapjax (RTRL and SnAp with dense masks) and braintrace (compiled from a network's program). Both
hold the weights, but for those of gradient descent.
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
from recurra.cells.initial import At
from recurra.learners.base import About, PastFacing
from recurra.learners.pp_prop import PPProp
from recurra.learners.snap import SnAp
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import Listed, Sparse, dense
from recurra.network import NetworkWeights, Readout

FOLDER = Path(__file__).parents[1] / "data" / "after-2019"
SNAPJAX, BRAINTRACE = (dict(np.load(FOLDER / f"{name}_A.npz")) for name in ("snapjax", "braintrace"))


def run(network, learner, weights, xs, ys, moved=None):
    """Each step's gradients of the cell and of the readout's W, its state and its loss; and the last weights.

    `moved(weights, gradient, gradient of the readout)` are the weights after a step; without it they are held.
    """

    @jax.jit
    def step(weights, a, state, x, y):
        loss, tick = one_step(network, weights, a, x, y, jnp.array(0, "int32"))
        gradient, state = learner.step(tick, state, None)
        shown = jnp.outer(tick.error, network.cell.show(tick.state))
        after = weights if moved is None else moved(weights, dense(gradient), shown)
        return after, tick.state, state, (dense(gradient), shown, tick.state, loss)

    a, state = network.cell.init_state(), learner.init(network.cell, weights.cell, jax.random.key(0), network.n_out)
    rows = []
    for x, y in zip(jnp.asarray(xs), jnp.asarray(ys), strict=True):
        weights, a, state, row = step(weights, a, state, x, y)
        rows.append(row)
    return *jax.tree.map(lambda *each: np.stack(each), *rows), weights


def same(found, recorded):
    np.testing.assert_allclose(found, recorded, rtol=1e-10, atol=1e-12)


def differ(found, recorded):
    assert np.linalg.norm(found - recorded) > 1e-3 * np.linalg.norm(recorded)


def readout(W):
    return Readout(jnp.array(W), jnp.zeros(len(W)))


class SumOfSquares(rc.Loss):
    """Σ (z - y*)², without the half."""

    def __call__(self, z, label):
        return jnp.sum((z - label) ** 2), 2 * (z - label)


class Rate(rc.UnitwiseCell):
    """h(t) = (1 - dt) h(t-1) + dt (W tanh(h(t-1)) + U x(t)), with a = (tanh(h), h)."""

    n_in: int
    n: int
    w_rec: At = eqx.field(static=True)
    dt: float = 1.0
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states: ClassVar[int] = 2
    listens: ClassVar = ((True, True, False),)
    first_bias: ClassVar = (0.0,)

    def unit(self, a, z):
        h = (1 - self.dt) * a[1] + self.dt * z[0]
        return jnp.tanh(h), h


def rate_network(name):
    """snapjax's `fr` or `gen`: the network, its weights, and by what its U and C are multiplied here."""
    d, place = SNAPJAX, SNAPJAX[f"{name}_W_idx"]
    n, n_in = d[f"{name}_U"].shape
    places = Listed(place[:, 0], place[:, 1], (n, n))
    assert np.array_equal(places.rows, place[:, 0])
    assert np.array_equal(places.columns, place[:, 1])
    dt, by = (float(d["fr_dt"]), np.sqrt(n)) if name == "fr" else (1.0, 1.0)
    cell = (Sources(Sparse(jnp.array(d[f"{name}_W"]), places), jnp.array(by * d[f"{name}_U"]), None),)
    network = rc.Network(Rate(n_in, n, At(places), dt), 2, SumOfSquares())
    return network, NetworkWeights(cell, readout(d[f"{name}_C"] / np.sqrt(n)), None), by, 1 / np.sqrt(n)


@pytest.mark.parametrize("name", [pytest.param("fr", marks=pytest.mark.slow), "gen"])
def test_snapjax_sparse_networks(name):
    d = SNAPJAX
    network, weights, by, _ = rate_network(name)
    xs, ys = d[f"{name}_x"], d[f"{name}_y"]
    learners = {"snap1": SnAp(1), "snap2": SnAp(2), "snap3": SnAp(3), "rtrl": rc.RTRL(), "bptt": SnAp(9)}
    for key, learner in {**learners, "snap1 again": SnAp1()}.items():
        recorded = d[f"{name}_{key.split()[0]}_g_W"]
        (gate,), _, (_, h), loss, _ = run(network, learner, weights, xs, ys)
        same(gate.rec.values, recorded)
        same(h, d[f"{name}_h"])
        same(loss, d[f"{name}_loss_t"])
        if key in ("snap1", "snap2", "snap3"):
            differ(gate.rec.values, d[f"{name}_rtrl_g_W"])
        if key in ("rtrl", "bptt") or (name == "gen" and key == "snap1"):  # where U is masked as W is, or not at all
            same(by * gate.inp, d[f"{name}_{key}_g_U"])


class FullForInputs(PastFacing):
    """SnAp-2 for recurrent weights, and RTRL for input weights, as snapjax does it."""

    about = About("full-for-inputs", "SnAp-2, full for inputs", unitwise=True)

    def init(self, cell, weights, key, n_out):
        return SnAp(2).init(cell, weights, key, n_out), rc.RTRL().init(cell, weights, key, n_out)

    def advance(self, tick, state, noise):
        return SnAp(2).advance(tick, state[0], None), rc.RTRL().advance(tick, state[1], None)

    def contract(self, cell, weights, c, state):
        (sparse,), (full,) = (
            SnAp(2).contract(cell, weights, c, state[0]),
            rc.RTRL().contract(cell, weights, c, state[1]),
        )
        return (sparse._replace(inp=full.inp),)


def test_snapjax_sparse_network_that_learns():
    d, rate = SNAPJAX, float(SNAPJAX["lr"])
    network, weights, by, shown = rate_network("fr")

    def moved(weights, gradient, of_readout):
        (gate,), (g,) = weights.cell, gradient
        rec = Sparse(gate.rec.values - rate * g.rec.values, gate.rec.places)
        cell = (Sources(rec, gate.inp - rate * by**2 * g.inp, None),)  # U and C are kept here with factors
        W = weights.readout.W - rate * shown**2 * of_readout
        return weights._replace(cell=cell, readout=weights.readout._replace(W=W))

    (gate,), of_readout, (_, h), _, last = run(network, FullForInputs(), weights, d["fr_x"], d["fr_y"], moved)
    same(h, d["fr_snap2_sgd_h"])
    same(gate.rec.values, d["fr_snap2_sgd_g_W"])
    same(by * gate.inp, d["fr_snap2_sgd_g_U"])
    same(shown * of_readout, d["fr_snap2_sgd_g_C"])
    same(last.cell[0].rec.values, d["fr_snap2_sgd_final_W"])
    same(last.readout.W / shown, d["fr_snap2_sgd_final_C"])


def test_snapjax_dense_rnn():
    d = SNAPJAX
    cell = (
        Sources(*(jnp.array(w) for w in (d["rnn_weights_hh"], d["rnn_weights_ih"], d["rnn_weights_hh_bias"][:, None]))),
    )
    network = rc.Network(rc.RNN(3, 6), 2, SumOfSquares())
    for key, learner in {"snap1": SnAp1(), "rtrl": rc.RTRL()}.items():
        (gate,), *_ = run(network, learner, NetworkWeights(cell, readout(d["rnn_C"]), None), d["rnn_x"], d["rnn_y"])
        same(gate.rec, d[f"rnn_{key}_g_weights_hh"])
        same(gate.inp, d[f"rnn_{key}_g_weights_ih"])
        same(gate.bias[..., 0], d[f"rnn_{key}_g_weights_hh_bias"])


def gru_weights(d, prefix):
    """The GRU of snapjax: its update gate is one minus ours, and only the recurrent candidate has a bias."""
    w = lambda name: jnp.array(d[f"{prefix}_{name}"])
    b = lambda name: w(name)[..., None]
    none = jnp.zeros((*w("W_ia").shape[:-1], 1))
    return (
        Sources(w("W_hr"), w("W_ir"), b("W_hr_bias")),
        Sources(-w("W_hz"), -w("W_iz"), -b("W_hz_bias")),
        Sources(w("W_ha"), None, b("W_ha_bias")),
        Sources(None, w("W_ia"), none),
    )


def test_snapjax_gru():
    d, rate = SNAPJAX, float(SNAPJAX["lr"])
    network = rc.Network(rc.GRU(3, 5), 2, SumOfSquares())
    weights = NetworkWeights(gru_weights(d, "gru"), readout(d["gru_C"]), None)
    without_bias = lambda gates: (*gates[:3], gates[3]._replace(bias=jnp.zeros_like(gates[3].bias)))

    def moved(weights, gradient, of_readout):
        cell = jax.tree.map(lambda w, g: w - rate * g, weights.cell, without_bias(gradient))
        return weights._replace(cell=cell, readout=weights.readout._replace(W=weights.readout.W - rate * of_readout))

    flat = lambda gates: np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(without_bias(gates))])
    found = {}
    for key, learner in {"snap1": SnAp1(), "rtrl": rc.RTRL(), "snap1_sgd": SnAp1()}.items():
        descends = moved if key.endswith("sgd") else None
        gates, of_readout, (h,), _, last = run(network, learner, weights, d["gru_x"], d["gru_y"], descends)
        same(flat(gates), flat(gru_weights(d, f"gru_{key}_g")))
        found[key] = flat(gates)
        if descends is not None:
            same(h, d["gru_snap1_sgd_h"])
            same(of_readout, d["gru_snap1_sgd_g_C"])
            same(flat(last.cell), flat(gru_weights(d, "gru_snap1_sgd_final")))
            same(last.readout.W, d["gru_snap1_sgd_final_C"])
    differ(found["snap1"], found["rtrl"])


def leaky(w_rec=None):
    """braintrace's dense leaky network, whose matrix has the input rows first; with `w_rec`, sparse with all places."""
    d, W = BRAINTRACE, BRAINTRACE["leaky_W"]
    rec = jnp.array(W[3:].T) if w_rec is None else Sparse(jnp.array(W[3:].T.ravel()), w_rec.places)
    cell = (
        rc.RNN(3, 6, float(d["leaky_alpha"])) if w_rec is None else rc.RNN(3, 6, float(d["leaky_alpha"]), w_rec=w_rec)
    )
    weights = (Sources(rec, jnp.array(W[:3].T), jnp.array(d["leaky_b"])[:, None]),)
    network = rc.Network(cell, 2, rc.SquaredError())
    return network, NetworkWeights(weights, readout(d["leaky_Wout"].T), None)


def leaky_matrix(gate):
    rec = gate.rec.values.reshape(*gate.rec.values.shape[:-1], 6, 6) if isinstance(gate.rec, Sparse) else gate.rec
    return np.concatenate([np.swapaxes(gate.inp, -1, -2), np.swapaxes(rec, -1, -2)], axis=-2)


BY_NAME = {"drtrl": rc.RFLO(), "snap1": SnAp1(), "pp": PPProp(float(BRAINTRACE["decay"]))}


def test_braintrace_dense_network():
    d = BRAINTRACE
    everywhere = At(Listed(*map(np.ravel, np.indices((6, 6))), (6, 6)))
    found = {}
    for key, learner in {**BY_NAME, "snap2": rc.RTRL(), "bptt": SnAp(2)}.items():
        network, weights = leaky(everywhere if isinstance(learner, SnAp) else None)
        (gate,), _, (h,), loss, _ = run(network, learner, weights, d["leaky_x"], d["leaky_y"])
        same(leaky_matrix(gate), d[f"leaky_{key}_g_W"])
        same(gate.bias[..., 0], d[f"leaky_{key}_g_b"])
        same(h, d["leaky_state_h"])
        same(loss, d["leaky_loss"])
        found[key] = leaky_matrix(gate)
    for one, other in (("drtrl", "snap1"), ("snap1", "bptt"), ("pp", "drtrl")):
        differ(found[one], found[other])


@pytest.mark.parametrize("key", BY_NAME)
def test_braintrace_dense_network_that_learns(key):
    d, rate = BRAINTRACE, float(BRAINTRACE["lr"])
    descended = lambda weights, gradient: jax.tree.map(lambda w, g: w - rate * g, weights.cell, gradient)
    moved = lambda weights, gradient, _: weights._replace(cell=descended(weights, gradient))
    network, weights = leaky()
    (gate,), _, (h,), loss, last = run(network, BY_NAME[key], weights, d["leaky_x"], d["leaky_y"], moved)
    same(leaky_matrix(gate), d[f"leaky_{key}_sgd_g_W"])
    same(gate.bias[..., 0], d[f"leaky_{key}_sgd_g_b"])
    same(h, d[f"leaky_{key}_sgd_state_h"])
    same(loss, d[f"leaky_{key}_sgd_loss"])
    same(leaky_matrix(last.cell[0]), d[f"leaky_{key}_sgd_final_W"])
    same(last.cell[0].bias[:, 0], d[f"leaky_{key}_sgd_final_b"])


def test_braintrace_sparse_network():
    """Its matrix has sender by receiver, and its weights are sorted by sender; ours are by receiver."""
    d = BRAINTRACE
    sender, receiver = np.nonzero(d["sparse_mask"])
    places, order = Listed(receiver, sender, (7, 7)), np.lexsort((sender, receiver))
    rec = Sparse(jnp.array(d["sparse_w"][order]), places)
    cell = (Sources(rec, jnp.array(d["sparse_Win"].T), jnp.zeros((7, 1))),)
    network = rc.Network(rc.RNN(2, 7, float(d["sparse_alpha"]), w_rec=At(places)), 3, rc.SquaredError())
    weights = NetworkWeights(cell, readout(d["sparse_Wout"].T), None)
    found = {}
    snap = {"snap1 again": SnAp(1), "snap2": SnAp(2), "snap3": SnAp(3), "bptt": SnAp(8)}
    for key, learner in {**BY_NAME, **snap, "bptt again": rc.RTRL()}.items():
        (gate,), _, (h,), loss, _ = run(network, learner, weights, d["sparse_x"], d["sparse_y"])
        same(gate.rec.values, d[f"sparse_{key.split()[0]}_g_w"][:, order])
        same(np.swapaxes(gate.inp, -1, -2), d[f"sparse_{key.split()[0]}_g_Win"])
        same(h, d["sparse_state_h"])
        same(loss, d["sparse_loss"])
        found[key] = gate.rec.values
    for one, other in (("drtrl", "snap1"), ("snap1", "snap2"), ("snap2", "snap3"), ("snap3", "bptt")):
        differ(found[one], found[other])
