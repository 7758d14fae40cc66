"""Every learner on cells that were read: the gradients of the same cell written by hand, in the user's own tree."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import recurra as rc
from driving import FOR_ONE_LAYER, distance, drive, flat, problem
from recurra.cells import Sources, UnitwiseCell
from taking_steps import gradients, take_steps

pytest.importorskip("flax")

from foreign_cells import ZOO, M, N, sigmoid

CLOSE = 1e-10
ALL, REC, INP = (True, True, True), (True, False, True), (False, True, True)


class ByHand(UnitwiseCell):
    """A cell of the given equations, with its gates in the given order."""

    n_in: int
    n: int
    dtype: jnp.dtype = eqx.field(static=True)
    equations: object = eqx.field(static=True)
    order: tuple[str, ...] = eqx.field(static=True)
    heard: tuple[tuple[bool, bool, bool], ...] = eqx.field(static=True)
    count: int = eqx.field(static=True)

    w_rec = staticmethod(rc.cells.orthogonal)
    states = property(lambda self: self.count)
    listens = property(lambda self: self.heard)
    gates = property(lambda self: self.order)
    variables = property(lambda self: tuple(map(str, range(self.count))))
    first_bias = property(lambda self: (0.0,) * len(self.heard))

    def unit(self, a, z):
        return self.equations(a, **dict(zip(self.order, z, strict=True)))


def column(b):
    return b[:, None]


def thirds(W):
    return jnp.split(W, 3)


def gru_of_equinox(own):
    (hr, hu, hn), (ir, iu, i_n), (br, bu, bn) = map(thirds, (own.weight_hh, own.weight_ih, own.bias))
    return {
        "r": Sources(hr, ir, column(br)),
        "u": Sources(hu, iu, column(bu)),
        "h_n": Sources(hn, None, column(own.bias_n)),
        "x_n": Sources(None, i_n, column(bn)),
    }


def lstm_of_equinox(own):
    each = zip("ifgo", *(jnp.split(w, 4) for w in (own.weight_hh, own.weight_ih, own.bias)), strict=True)
    return {name: Sources(h, i, column(b)) for name, h, i, b in each}


def gru_of_linen(own):
    own = own["params"]
    both = lambda name: Sources(
        own[f"h{name}"]["kernel"].T, own[f"i{name}"]["kernel"].T, column(own[f"i{name}"]["bias"])
    )
    return {
        "r": both("r"),
        "u": both("z"),
        "h_n": Sources(own["hn"]["kernel"].T, None, column(own["hn"]["bias"])),
        "x_n": Sources(None, own["in"]["kernel"].T, column(own["in"]["bias"])),
    }


def gru_of_nnx(own):
    leaf = lambda layer, name: jax.tree.leaves(own[layer][name])[0]
    (hr, hu, hn), (ir, iu, i_n) = (thirds(leaf(layer, "kernel").T) for layer in ("dense_h", "dense_i"))
    br, bu, bn = thirds(leaf("dense_i", "bias"))
    return {
        "r": Sources(hr, ir, column(br)),
        "u": Sources(hu, iu, column(bu)),
        "h_n": Sources(hn, None, None),
        "x_n": Sources(None, i_n, column(bn)),
    }


def interleaved(own):
    A, B = own["A"].reshape(N, 2, N), own["B"].reshape(N, 2, M)
    return {"keep": Sources(A[:, 0], B[:, 0], None), "new": Sources(A[:, 1], B[:, 1], None)}


def gru(a, r, u, h_n, x_n):
    u = sigmoid(u)
    return (u * a[0] + (1 - u) * jnp.tanh(x_n + sigmoid(r) * h_n),)


def lstm(a, i, f, g, o):
    c = sigmoid(f) * a[1] + sigmoid(i) * jnp.tanh(g)
    return sigmoid(o) * jnp.tanh(c), c


def keeping(a, keep, new):
    return (sigmoid(keep) * a[0] + jnp.tanh(new),)


#: name -> (the gates of the user's parameters, the equations)
BY_HAND = {
    "eqx.nn.GRUCell": (gru_of_equinox, gru),
    "eqx.nn.LSTMCell": (lstm_of_equinox, lstm),
    "linen.GRUCell": (gru_of_linen, gru),
    "nnx.GRUCell": (gru_of_nnx, gru),
    "interleaved": (interleaved, keeping),
}


class Pair:
    """A cell that was read and the same one by hand, in networks with the same weights, and a few rows."""

    def __init__(self, name, steps=12):
        self.foreign = ZOO[name]()
        to_gates, equations = BY_HAND[name]
        self.read = self.foreign.cell()
        named, first = to_gates(self.foreign.own), self.read.init_weights(jax.random.key(0))
        same = lambda a, b: jax.tree.structure(a) == jax.tree.structure(b) and np.array_equal(flat(a), flat(b))
        # Gates have the same order, since learners may draw numbers for each of them.
        order = tuple(next(name for name, gate in named.items() if same(gate, found)) for found in first)
        assert sorted(order) == sorted(named)
        heard = tuple(tuple(block is not None for block in gate) for gate in first)
        self.hand = ByHand(M, N, self.read.dtype, equations, order, heard, self.foreign.states)
        self.gates = lambda own: tuple(to_gates(own)[name] for name in order)
        self.network, self.weights, self.xs, self.ys = problem(lambda n_in, n: self.read, n=N, n_in=M, steps=steps)
        self.by_hand = rc.Network(self.hand, 2)
        self.weights_by_hand = self.with_gates(self.weights)

    def with_gates(self, weights):
        return weights._replace(cell=self.gates(self.read.parameters(weights.cell)))

    def own(self, gradient):
        """A gradient of the cell by hand, in the user's tree."""
        return jax.linear_transpose(self.gates, self.foreign.own)(gradient)[0]


FEW = ("rflo", "snap-1", "rtrl", "uoro", "kf-rtrl", "e-bptt")
OFTEN = [("eqx.nn.GRUCell", "rtrl"), ("nnx.GRUCell", "rflo"), ("eqx.nn.LSTMCell", "uoro"), ("linen.GRUCell", "kf-rtrl")]
OFTEN += [("interleaved", name) for name in ("snap-1", "e-bptt")]
MATRIX = [
    pytest.param(cell, name, marks=() if (cell, name) in OFTEN else pytest.mark.slow)
    for cell in BY_HAND
    for name in FOR_ONE_LAYER
]


@pytest.mark.parametrize(("cell", "name"), MATRIX)
def test_gradients_are_those_of_the_cell_written_by_hand(cell, name):
    pair, learner = Pair(cell), FOR_ONE_LAYER[name]()
    ours = drive(pair.network, learner, pair.weights, pair.xs, pair.ys)
    theirs = drive(pair.by_hand, learner, pair.weights_by_hand, pair.xs, pair.ys)
    sizes = []
    for (gradient, _, tick), (by_hand, _, other) in zip(ours, theirs, strict=True):
        assert distance(tick.state, other.state) < CLOSE
        found = pair.read.parameters(gradient)
        assert jax.tree.structure(found) == jax.tree.structure(pair.foreign.own)
        assert distance(found, pair.own(by_hand)) < CLOSE or np.abs(flat(found)).max() < 1e-300
        sizes.append(np.abs(flat(found)).max())
    assert name == "fixed" or max(sizes) > 1e-6


def test_gradients_of_other_gates_are_noticed():
    """A negative control: two gates that hear the same change places."""
    pair = Pair("linen.GRUCell")
    a, b = (pair.hand.order.index(name) for name in ("r", "u"))
    swapped = [*pair.hand.order]
    swapped[a], swapped[b] = swapped[b], swapped[a]
    wrong = rc.Network(dataclasses.replace(pair.hand, order=tuple(swapped)), 2)
    ours = drive(pair.network, rc.RFLO(), pair.weights, pair.xs, pair.ys)[-1]
    theirs = drive(wrong, rc.RFLO(), pair.weights_by_hand, pair.xs, pair.ys)[-1]
    assert distance(pair.read.parameters(ours[0]), pair.own(theirs[0])) > 1e-3


# Cells whose gates are computed from the parameters.


def unrolled(foreign, params, readout, xs, ys, first=0):
    """The loss of each step, with no credit through states before the step `first`."""
    carry, unravel, found = foreign.carry, ravel_pytree(foreign.x)[1], []
    for t, (x, y) in enumerate(zip(xs, ys, strict=True)):
        carry = jax.lax.stop_gradient(carry) if t == first else carry
        carry = foreign.step(params if t >= first else jax.lax.stop_gradient(params), carry, unravel(x))
        found.append(-jnp.sum(y * jax.nn.log_softmax(readout.W @ jax.tree.leaves(carry)[0] + readout.b)))
    return jnp.stack(found)


def converting(name, steps=6):
    foreign = ZOO[name]()
    cell = foreign.cell()
    assert cell.converts
    network, weights, xs, ys = problem(lambda n_in, n: cell, n_in=cell.n_in, steps=steps)
    return foreign, network, weights, xs, ys


def steps_of(network, learner, weights, *rows, **settings):
    start = learner.init(network.cell, network.cell.applied(weights.cell), jax.random.key(1), network.n_out)
    return take_steps(network, learner, weights, *rows, start=start, **settings)


CONVERTING = (
    "tied",
    "shared_between_gates",
    "one_gate_for_all",
    "ctrnn_with_time_constants",
    "time_between_rows",
    "zoneout",
)
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in CONVERTING[1:4:2] else pytest.mark.slow) for name in CONVERTING]
)


@EACH
def test_rtrl_follows_the_loss_in_the_user_s_parameters(name):
    foreign, network, weights, xs, ys = converting(name)
    of_losses = jax.jit(jax.jacrev(lambda params: unrolled(foreign, params, weights.readout, xs, ys)))(weights.cell)
    for t, gradient in enumerate(gradients(steps_of(network, rc.RTRL(), weights, xs, ys))):
        assert distance(gradient, jax.tree.map(lambda rows, t=t: rows[t], of_losses)) < CLOSE


def test_influence_is_that_of_the_user_s_parameters():
    foreign, network, weights, xs, ys = converting("tied")
    _, state = steps_of(network, rc.RTRL(), weights, xs, ys)[-1]
    found = rc.RTRL().influence(network.cell, weights.cell, state.learners["applied"])

    def last(params):
        carry = foreign.carry
        for x in xs:
            carry = foreign.step(params, carry, x)
        return carry

    assert distance(found, jax.jacrev(last)(weights.cell)) < CLOSE


@EACH
def test_e_bptt_follows_the_segment_in_the_user_s_parameters(name):
    foreign, network, weights, xs, ys = converting(name)
    visited = steps_of(network, rc.EfficientBPTT(T=3), weights, xs, ys)
    for last in (2, 5):
        rows = xs[: last + 1], ys[: last + 1]
        segment = lambda p, rows=rows, last=last: unrolled(foreign, p, weights.readout, *rows, last - 2)[
            last - 2 :
        ].sum()
        assert distance(gradients(visited)[last], jax.grad(segment)(weights.cell)) < CLOSE


def test_gradients_of_tied_weights_are_sums():
    """Of an approximate learner too: it approximates in the gates."""
    _, network, weights, xs, ys = converting("tied")
    plain = rc.Network(rc.RNN(M, network.cell.n, dtype="float64"), 2)
    tied = lambda own: (Sources(own["W"] + own["W"].T, own["U"], jnp.zeros((N, 1))),)
    ours = gradients(steps_of(network, rc.RFLO(), weights, xs, ys))
    theirs = drive(plain, rc.RFLO(), weights._replace(cell=tied(weights.cell)), xs, ys)
    for gradient, (by_hand, _, _) in zip(ours, theirs, strict=True):
        assert distance(gradient, jax.vjp(tied, weights.cell)[1](by_hand)[0]) < CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["tied", "ctrnn_with_time_constants", "lif", "columns"])
@pytest.mark.parametrize("name", FOR_ONE_LAYER)
def test_every_learner_takes_every_kind_of_cell(cell, name):
    foreign, learner = ZOO[cell](), FOR_ONE_LAYER[name]()
    read = foreign.cell()
    network, weights, xs, ys = problem(lambda n_in, n: read, n_in=M, steps=24)
    if name == "kernl" and not read.smooth:
        with pytest.raises(TypeError, match="which the spikes of lif do not notice"):
            rc.LearningStep(network, learner, 1e-3)
        return
    visited = steps_of(network, learner, weights, xs, ys, optimizer=1e-3)
    assert all(np.isfinite(flat(each)).all() for each in gradients(visited))
    assert name == "fixed" or any(np.abs(flat(each)).max() > 0 for each in gradients(visited))
    assert jax.tree.structure(read.parameters(visited[-1][1].weights.cell)) == jax.tree.structure(foreign.own)


# Labels that are missing, states that are set back, streams.


@pytest.mark.parametrize("name", ["rflo", pytest.param("e-bptt", marks=pytest.mark.slow)])
def test_missing_labels_and_resets(name):
    pair, learner = Pair("interleaved", steps=8), FOR_ONE_LAYER[name]()
    events = {
        "reset": np.arange(8) == 4,
        "present": np.array([1, 1, 0, 1, 1, 0, 0, 1], bool),
        "optimizer": 0.1,
    }
    ours = take_steps(pair.network, learner, pair.weights, pair.xs, pair.ys, **events)
    theirs = take_steps(pair.by_hand, learner, pair.weights_by_hand, pair.xs, pair.ys, **events)
    for (outcome, state), (other, by_hand) in zip(ours, theirs, strict=True):
        assert np.array_equal(np.isnan(outcome.loss), np.isnan(other.loss))
        assert np.isnan(outcome.loss) or distance(outcome.loss, other.loss) < CLOSE
        assert distance(pair.with_gates(state.weights), by_hand.weights) < CLOSE
    assert distance(pair.weights_by_hand, by_hand.weights) > 1e-3


def test_streams():
    pair = Pair("eqx.nn.LSTMCell", steps=6)
    xs, ys = (jnp.stack([rows, rows[::-1]], axis=1) for rows in (pair.xs, pair.ys))
    how = {"optimizer": 0.1, "streams": 2}
    _, ours = take_steps(pair.network, rc.SnAp1(), pair.weights, xs, ys, **how)[-1]
    _, theirs = take_steps(pair.by_hand, rc.SnAp1(), pair.weights_by_hand, xs, ys, **how)[-1]
    assert distance(pair.with_gates(ours.weights), theirs.weights) < CLOSE
    assert distance(pair.weights_by_hand, theirs.weights) > 1e-3
