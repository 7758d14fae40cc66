"""SnAp-n against dense RTRL that is masked after every step, and where it must be RTRL, SnAp-1 or RFLO."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, drive, problem
from masked import EDGES, filled, flat, masked_rtrl, reach
from recurra.cells.initial import At, Sparsely, WithoutSelf
from recurra.learners.snap import SnAp
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import Listed, Sparse

N = 6
PLACES = Listed(EDGES[:, 0], EDGES[:, 1], (N, N))
HEARS = np.zeros((N, N), bool)
HEARS[tuple(EDGES.T)] = True

CELLS = {
    "leaky rnn": (lambda n_in, n: rc.RNN(n_in, n, 0.4, w_rec=At(PLACES)), unrolled.rnn(0.4)),
    "gru": (lambda n_in, n: rc.GRU(n_in, n, w_rec=At(PLACES)), unrolled.gru),
    "lstm": (lambda n_in, n: rc.LSTM(n_in, n, w_rec=At(PLACES)), unrolled.lstm),
}


def often(one):
    """All cells; those but one are slow."""
    marks = lambda name: () if name == one else pytest.mark.slow
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CELLS])


def gradients(network, learner, weights, xs, ys):
    return [flat(gradient) for gradient, _, _ in drive(network, learner, weights, xs, ys)]


def apart(x, y):
    return max(distance(a, b) for a, b in zip(x, y, strict=True))


@often("lstm")
def test_every_step_is_rtrl_masked_after_the_product(name):
    make, step = CELLS[name]
    network, weights, xs, ys = problem(make, n=N)
    oracle = lambda order, **wrong: masked_rtrl(step, network, weights, xs, ys, reach(HEARS, order), **wrong)
    found = {order: gradients(network, SnAp(order), weights, xs, ys) for order in (1, 2, 3)}
    for order, each in found.items():
        assert apart(each, oracle(order)) < 1e-12
    assert apart(found[1], oracle(2)) > 1e-3
    assert apart(found[2], oracle(3)) > 1e-5
    assert apart(found[2], oracle(2, mask_J=True)) > 1e-5


@often("leaky rnn")
def test_an_order_that_covers_the_graph_is_exact(name):
    make, step = CELLS[name]
    network, weights, xs, ys = problem(make, n=N)
    found = gradients(network, SnAp(5), weights, xs, ys)
    assert apart(found, gradients(network, rc.RTRL(), weights, xs, ys)) < 1e-12
    dense, is_weight = filled(weights), flat(jax.tree.map(jnp.ones_like, weights.cell)) > 0
    t, a0 = len(xs) - 1, network.cell.init_state()
    by_autodiff = unrolled.gradient_of_one_loss(step, dense.cell, dense.readout, a0, xs, ys, t)
    assert distance(found[t], np.where(is_weight, flat(by_autodiff), 0)) < 1e-12
    assert apart(gradients(network, SnAp(2), weights, xs, ys), found) > 1e-3


def test_with_all_places_it_is_dense_rtrl():
    everywhere = Listed(*map(np.ravel, np.indices((3, 3))), (3, 3))
    network, weights, xs, ys = problem(lambda n_in, n: rc.LSTM(n_in, n, w_rec=At(everywhere)))
    found = gradients(network, SnAp(2), weights, xs, ys)
    dense = rc.Network(rc.LSTM(2, 3), 2)
    assert apart(found, gradients(dense, rc.RTRL(), filled(weights), xs, ys)) < 1e-12


def test_an_order_that_is_rtrl_says_so():
    ring = Listed(np.arange(5), np.roll(np.arange(5), 1), (5, 5))
    halves = Listed(np.arange(4), np.array([1, 0, 3, 2]), (4, 4))  # two pairs of units that hear each other alone
    pairing = lambda order, places: rc.learners.check_pairing(SnAp(order), rc.RNN(2, places.shape[0], w_rec=At(places)))
    for order, places, pairs in ((5, ring, 25), (100, ring, 25), (3, halves, 8)):
        with pytest.warns(
            UserWarning, match=rf"SnAp\(order={order}\) keeps all {pairs} pairs of units .* is RTRL here"
        ):
            pairing(order, places)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairing(4, ring)
        pairing(1, ring)
        rc.learners.check_pairing(SnAp(3), rc.RNN(2, 4, w_rec=At(Listed(np.arange(4), np.arange(4), (4, 4)))))


@pytest.mark.slow
def test_units_that_hear_themselves_alone_need_no_more_than_order_1():
    diagonal = Listed(np.arange(4), np.arange(4), (4, 4))
    network, weights, xs, ys = problem(lambda n_in, n: rc.GRU(n_in, n, w_rec=At(diagonal)), n=4)
    exact = gradients(network, rc.RTRL(), weights, xs, ys)
    for learner in (SnAp(1), SnAp(3), SnAp1()):
        assert apart(gradients(network, learner, weights, xs, ys), exact) < 1e-12
    assert apart(gradients(network, rc.RFLO(), weights, xs, ys), exact) > 1e-3


@pytest.mark.slow
def test_without_recurrent_weights_it_is_rflo():
    network, weights, xs, ys = problem(CELLS["lstm"][0], n=N)
    silent = lambda gate: gate._replace(rec=Sparse(jnp.zeros_like(gate.rec.values), PLACES))
    without = weights._replace(cell=tuple(map(silent, weights.cell)))
    rflo = gradients(network, rc.RFLO(), without, xs, ys)
    assert apart(gradients(network, SnAp(2), without, xs, ys), rflo) < 1e-12
    assert apart(gradients(network, SnAp(2), weights, xs, ys), gradients(network, rc.RFLO(), weights, xs, ys)) > 1e-3


class TwoGraphs(rc.GRU):
    """A GRU whose gates have different connections."""

    def init_weights(self, key):
        gates = super().init_weights(key)
        chain = Listed(np.arange(1, self.n), np.arange(self.n - 1), (self.n, self.n))
        other = gates[1]._replace(rec=Sparse(jnp.linspace(0.5, 1, self.n - 1, dtype=self.dtype), chain))
        return gates[0], other, *gates[2:]


def test_gates_with_connections_of_their_own_act_together():
    network, weights, xs, ys = problem(lambda n_in, n: TwoGraphs(n_in, n, w_rec=At(PLACES)), n=N)
    together = HEARS | np.eye(N, k=-1, dtype=bool)
    found = gradients(network, SnAp(2), weights, xs, ys)
    oracle = lambda graph: masked_rtrl(unrolled.gru, network, weights, xs, ys, reach(graph, 2))
    assert apart(found, oracle(together)) < 1e-12
    assert apart(found, oracle(HEARS)) > 1e-5


@pytest.mark.parametrize("w_rec", [rc.cells.gaussian, WithoutSelf()])
def test_dense_weights_are_refused_with_what_would_fit(w_rec):
    network = rc.Network(rc.RNN(2, 4, w_rec=w_rec), 2)
    with pytest.raises(TypeError, match=r"SnAp\(order=2\).*RNN.*SnAp-2 is RTRL.*SnAp1 or RTRL.*Sparsely"):
        rc.train(network, SnAp(), rc.Add(1, 2), steps=2, progress=False)
    with pytest.raises(ValueError, match="`order` of SnAp"):
        SnAp(0)


def test_memory_follows_the_pairs_and_not_the_square_of_units():
    network, weights, _, _ = problem(lambda n_in, n: rc.RNN(n_in, n, w_rec=Sparsely(0.05)), n=60)
    (M,) = SnAp(2).init(network.cell, weights.cell, jax.random.key(0), 2)
    rows, columns = (np.asarray(each) for each in (weights.cell[0].rec.places.rows, weights.cell[0].rec.places.columns))
    assert M.shape == (60 + (rows != columns).sum(), 3 + 2 + 1)


@pytest.mark.slow
def test_seeds_and_streams():
    """Two seeds with two streams each in one run are what they are one by one."""
    network = rc.Network(rc.GRU(2, N, w_rec=At(PLACES)), 2)
    train = lambda seeds: rc.train(
        network, SnAp(2), rc.Add(1, 2), steps=12, seeds=seeds, streams=2, optimizer=0.1, progress=False
    )
    both, alone = train(2), train([1])
    second = jax.tree.map(lambda leaf: leaf[1:], both.weights)
    assert distance(second, alone.weights) < 1e-12
    first = jax.tree.map(lambda leaf: leaf[:1], both.weights)
    assert distance(first, alone.weights) > 1e-3


def test_m_is_zero_after_a_reset():
    network, weights, xs, ys = problem(CELLS["gru"][0], n=N)
    (_, M, _), (_, _, tick) = drive(network, SnAp(2), weights, xs[:2], ys[:2])
    after_reset = dataclasses.replace(tick, reset=jnp.array(True))
    anew = jax.jit(SnAp(2).step)(after_reset, M, None)[1]
    advance = jax.jit(SnAp(2).advance)
    assert distance(anew, advance(tick, jax.tree.map(jnp.zeros_like, M), None)) < 1e-12
    assert distance(anew, advance(tick, M, None)) > 1e-3


@pytest.mark.slow
def test_bfloat16():
    network = rc.Network(rc.RNN(2, N, w_rec=At(PLACES), dtype="bfloat16"), 2)
    result = rc.train(network, SnAp(2), rc.Add(1, 2), steps=5, progress=False)
    assert {leaf.dtype for leaf in jax.tree.leaves(result.weights)} == {jnp.dtype("bfloat16")}
