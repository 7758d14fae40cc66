"""Unbiased learners from after the paper: every sign pattern, and the limits in which they are another learner."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, drive, exact, problem
from recurra.learners import column_uoro, diagonal_uoro, receiver_uoro
from recurra.learners.column_uoro import ColumnUORO
from recurra.learners.diagonal_uoro import DiagonalUORO
from recurra.learners.preuoro import PREUORO
from recurra.learners.receiver_uoro import ReceiverUORO
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import Hollow, Listed, Sparse, full
from recurra_paper.experiments.enumeration import estimates
from unrolled import CELLS

EXACT = 1e-10
LEARNERS = {
    "diagonal": DiagonalUORO(),
    "preuoro": PREUORO(),
    "column": ColumnUORO(),
    "receiver": ReceiverUORO(),
}


QUICK = {("diagonal", "leaky rnn"), ("preuoro", "leaky rnn"), ("column", "leaky rnn"), ("receiver", "leaky rnn")}
each_pair = pytest.mark.parametrize(
    ("name", "cell"),
    [
        pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.slow)
        for pair in itertools.product(LEARNERS, CELLS)
    ],
)


def quick(first, *others):
    """Cells to try: the first always, the others with what takes long."""
    return pytest.mark.parametrize("cell", [first, *(pytest.param(cell, marks=pytest.mark.slow) for cell in others)])


@each_pair
def test_expectation_is_rtrl_s_tensor(name, cell):
    n = 1 if (name, cell) == ("receiver", "lstm") else 2  # a random number for each entry of J
    network, weights, xs, ys = problem(CELLS[cell][0], n=n, n_in=1, steps=3)
    every, steps = estimates(LEARNERS[name], network, weights, xs, ys, 2**16)
    assert steps >= 2
    assert distance(every.mean(axis=0), exact(network, weights, xs, ys, steps)) < EXACT
    assert every.std(axis=0).max() > 1e-3  # and not because nothing was random


def twice(balanced):
    """ρ in the place of 1/ρ too."""
    return lambda *lengths: (balanced(*lengths)[0],) * 2


def common(grown, shrunk):
    """One ρ for all columns: the one that balances the whole. Lengths of zero are left to the rule itself."""
    rho = jnp.sqrt(jnp.linalg.norm(grown) / jnp.linalg.norm(shrunk))
    rho = jnp.where(jnp.isfinite(rho) & (rho > 0), rho, 1)
    return jnp.full(grown.shape, rho), jnp.full(grown.shape, 1 / rho)


def by_pre_activation(tick, nu):
    """Mbar split the other way: D and ahat on A's side."""
    D, ahat = tick.trace.D, jnp.concatenate(tick.trace.ahat)
    A = tuple(sum(v * d for v, d in zip(nu, row, strict=True) if d is not None)[:, None] * ahat[None] for row in D)
    return A, tuple(
        jax.tree.map(lambda w, v=v: v[:, None] * jnp.ones_like(w), gate)
        for gate, v in zip(tick.weights, nu, strict=True)
    )


def to_all(tick, v):
    """J v, with the part within each unit, which SnAp-1 has already."""
    return tick.push((v, *(jnp.zeros_like(v) for _ in range(tick.cell.states - 1))))


class SignlessPREUORO(PREUORO):
    def advance(self, tick, state, noise):
        return super().advance(tick, state, jax.tree.map(jnp.abs, noise))


WRONG = {
    "diagonal, g on both sides": (DiagonalUORO(), diagonal_uoro, "balanced", twice(diagonal_uoro.balanced)),
    "diagonal, own units twice": (DiagonalUORO(), diagonal_uoro, "to_others", to_all),
    "column, ρ on both sides": (ColumnUORO(), column_uoro, "balanced", twice(column_uoro.balanced)),
    "receiver, P on both sides": (ReceiverUORO(), receiver_uoro, "balanced", twice(receiver_uoro.balanced)),
    "preuoro without signs": (SignlessPREUORO(), column_uoro, "balanced", None),
}


SLOW = ("diagonal, g on both sides",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in WRONG])
def test_biased_rules_fail(name, monkeypatch):
    learner, *patch = WRONG[name]
    monkeypatch.setattr(*patch)
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=2, n_in=1, steps=3)
    every, steps = estimates(learner, network, weights, xs, ys, 2**14)
    assert distance(every.mean(axis=0), exact(network, weights, xs, ys, steps)) > 1e-3


def every_gradient(network, learner, weights, xs, ys, noise=None):
    """Compiled anew, since tests change functions of `column_uoro`."""
    return [gradient for gradient, _, _ in drive(network, learner, weights, xs, ys, noise=noise, anew=True)]


@quick("rnn", "lstm", "gru")
def test_column_uoro_with_a_common_balance_is_uoro(cell, monkeypatch):
    network, weights, xs, ys = problem(CELLS[cell][0])
    uoro = every_gradient(network, rc.UORO(initial_scale=0.0), weights, xs, ys)
    assert (
        distance(every_gradient(network, ColumnUORO(), weights, xs, ys)[-1], uoro[-1]) > 1e-3
    )  # with its own it is not
    monkeypatch.setattr(column_uoro, "balanced", common)
    assert max(map(distance, every_gradient(network, ColumnUORO(), weights, xs, ys), uoro)) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["rnn", "lstm"])  # all of their gates hear all sources
def test_column_uoro_with_the_immediate_influence_on_the_other_side_is_r_kf_rtrl(cell, monkeypatch):
    network, weights, xs, ys = problem(CELLS[cell][0])
    reverse = rc.RKFRTRL(initial_scale=0.0)
    noise = reverse.noise(network.cell, jax.random.key(3), len(xs))
    expected = every_gradient(network, reverse, weights, xs, ys, noise)
    monkeypatch.setattr(column_uoro, "immediate", by_pre_activation)
    assert distance(every_gradient(network, ColumnUORO(), weights, xs, ys, noise)[-1], expected[-1]) > 1e-3
    monkeypatch.setattr(column_uoro, "balanced", common)
    assert max(map(distance, every_gradient(network, ColumnUORO(), weights, xs, ys, noise), expected)) < EXACT


def test_preuoro_of_a_linear_network_is_uoro():
    """D = 1, so noise is the same on both sides of it; with tanh it is not."""
    for phi, is_same in ((lambda z: z, True), (jnp.tanh, False)):
        network, weights, xs, ys = problem(lambda n_in, n, phi=phi: rc.RNN(n_in, n, phi=phi))
        uoro = rc.UORO(initial_scale=0.0)
        noise = uoro.noise(network.cell, jax.random.key(3), len(xs))
        both = [every_gradient(network, learner, weights, xs, ys, noise) for learner in (PREUORO(), uoro)]
        assert (max(map(distance, *both)) < EXACT) == is_same


def with_own_weights_alone(weights):
    keep = lambda gate: gate if gate.rec is None else gate._replace(rec=gate.rec * jnp.eye(len(gate.rec)))
    return weights._replace(cell=tuple(map(keep, weights.cell)))


@quick("leaky rnn", "lstm", "gru")
def test_diagonal_uoro_of_units_that_hear_themselves_alone_is_rtrl(cell):
    network, weights, xs, ys = problem(CELLS[cell][0])
    last = lambda learner, weights: drive(network, learner, weights, xs, ys)[-1][0]
    alone = with_own_weights_alone(weights)
    assert distance(last(DiagonalUORO(), alone), last(rc.RTRL(), alone)) < EXACT
    assert distance(last(DiagonalUORO(), weights), last(rc.RTRL(), weights)) > 1e-3


@quick("leaky rnn", "lstm")
def test_diagonal_uoro_keeps_snap_1_s_trace(cell):
    network, weights, xs, ys = problem(CELLS[cell][0])
    snap = drive(network, SnAp1(), weights, xs, ys)
    for (_, state, tick), (expected, _, _) in zip(drive(network, DiagonalUORO(), weights, xs, ys), snap, strict=True):
        without_rest = state._replace(C=jax.tree.map(jnp.zeros_like, state.C))
        assert distance(DiagonalUORO().contract(network.cell, weights.cell, tick.cbar, without_rest), expected) < EXACT


PLACES = np.array([0, 1, 1, 2]), np.array([1, 1, 2, 0])


def patterned(weights, kind):
    """The same weights, without those of units on themselves, or at a few places."""
    rows, columns = PLACES

    def cut(gate):
        if gate.rec is None:
            return gate
        listed = Sparse(gate.rec[rows, columns], Listed(rows, columns, gate.rec.shape))
        return gate._replace(rec=Hollow(gate.rec) if kind == "hollow" else listed)

    return weights._replace(cell=tuple(map(cut, weights.cell)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    list(itertools.product(("diagonal", "column", "preuoro"), ("hollow", "sparse"))),
)
def test_weights_at_some_places_only(name, kind):
    """The expectation is RTRL's tensor for the same weights in a whole matrix, at these places."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=3, n_in=1, steps=3)
    some = patterned(weights, kind)
    whole = weights._replace(cell=tuple(gate._replace(rec=full(gate.rec)) for gate in some.cell))
    every, steps = estimates(LEARNERS[name], network, some, xs, ys, 2**12)
    (M,) = rc.RTRL().influence(
        network.cell, whole.cell, drive(network, rc.RTRL(), whole, xs[:steps], ys[:steps])[-1][1]
    )
    hollow = np.asarray(M.rec) * (1 - np.eye(3))  # it is kept as a whole matrix
    rec = hollow if kind == "hollow" else np.asarray(M.rec)[:, PLACES[0], PLACES[1]]
    assert distance(every.mean(axis=0), M._replace(rec=rec)) < EXACT


@pytest.mark.parametrize("name", LEARNERS)
def test_silence_is_finite(name):
    """No weights and no input: much that is to be balanced has length zero."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], steps=3)
    silent = weights._replace(cell=jax.tree.map(jnp.zeros_like, weights.cell))
    for gradient, state, _ in drive(network, LEARNERS[name], silent, 0 * xs, ys):
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((gradient, state)))


def test_diagonal_uoro_starts_with_no_influence_wherever_the_network_starts():
    class Started(rc.RNN):
        def init_state(self):
            return (jnp.ones(self.n, self.dtype),)

    cell = Started(2, 3)
    weights = cell.init_weights(jax.random.key(0))
    state = rc.DiagonalUORO().init(cell, weights, jax.random.key(1), 2)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(state))
