"""Learners that keep M to a low rank without randomness: exact at full rank, the closest of their kind below it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, drive, flat, problem
from recurra.cells.initial import Sparsely, WithoutSelf
from recurra.learners.sk_rtrl import SKRTRL, dominant, largest_singular_value
from recurra.learners.snap_1 import SnAp1
from recurra.learners.truncated_ok import TruncatedOK
from unrolled import CELLS

EXACT = 1e-10


def quick(first, *others):
    """Cells to try: the first always, the others with what takes long."""
    return pytest.mark.parametrize("cell", [first, *(pytest.param(cell, marks=pytest.mark.slow) for cell in others)])


def tensor(network, learner, weights, state):
    """M as [k, (i, j)], with every gate's weights side by side."""
    M = learner.influence(network.cell, weights.cell, state)
    blocks = [block for gate in M for block in gate if block is not None]
    return np.concatenate([np.asarray(block).reshape(len(block), -1) for block in blocks], axis=1)


def gradients(network, learner, weights, xs, ys):
    return [gradient for gradient, _, _ in drive(network, learner, weights, xs, ys)]


@quick("leaky rnn", "lstm", "gru")
def test_at_full_rank_both_are_rtrl(cell):
    network, weights, xs, ys = problem(CELLS[cell][0], n=2, n_in=1, steps=6)
    size = sum(network.cell.widths)
    expected = gradients(network, rc.RTRL(), weights, xs, ys)
    for kind, r in ((TruncatedOK, 4), (SKRTRL, size)):  # ahat has n + n_in + 1 = 4 entries
        assert max(map(distance, gradients(network, kind(r=r), weights, xs, ys), expected)) < EXACT
        assert distance(gradients(network, kind(r=1), weights, xs, ys)[-1], expected[-1]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("w_rec", [Sparsely(0.7), WithoutSelf()])
@pytest.mark.parametrize("learner", [TruncatedOK(r=4), SKRTRL(r=2)])
def test_at_full_rank_they_are_rtrl_with_weights_at_some_places_too(learner, w_rec):
    network, weights, xs, ys = problem(lambda n_in, n: rc.RNN(n_in, n, w_rec=w_rec), n=2, n_in=1)
    weights = weights._replace(cell=network.init(jax.random.key(0)).cell)  # without weights elsewhere
    found, expected = (gradients(network, each, weights, xs, ys) for each in (learner, rc.RTRL()))
    assert max(map(distance, found, expected)) < EXACT


@quick("leaky rnn", "lstm", "gru")
def test_sk_rtrl_of_rank_zero_is_snap_1(cell):
    network, weights, xs, ys = problem(CELLS[cell][0], n=3)
    snap = gradients(network, SnAp1(), weights, xs, ys)
    assert max(map(distance, gradients(network, SKRTRL(r=0), weights, xs, ys), snap)) < EXACT
    assert distance(gradients(network, SKRTRL(r=1), weights, xs, ys)[-1], snap[-1]) > 1e-3


def closest(matrix, r):
    U, sigma, V = np.linalg.svd(matrix, full_matrices=False)
    return (U[:, :r] * sigma[:r]) @ V[:r]


@pytest.mark.parametrize("r", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_truncated_ok_cuts_to_the_closest_sum(r):
    """After r steps M is a sum of r Kronecker products. The first cut is the next step's, and NumPy's is the same."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=3, n_in=2, steps=r + 1)
    exact, found = (
        tensor(network, learner, weights, drive(network, learner, weights, xs, ys)[-1][1])
        for learner in (rc.RTRL(), TruncatedOK(r=r))
    )
    n, m = 3, 6
    sides = [block.reshape(n, n, -1) for block in np.split(exact, [n * n, n * (n + 2)], axis=1)]
    by_source = np.concatenate(sides, axis=2).reshape(n * n, m)
    expected = closest(by_source, r).reshape(n, n, m)
    expected = np.concatenate([part.reshape(n, -1) for part in np.split(expected, [n, n + 2], axis=2)], axis=1)
    assert distance(found, expected) < EXACT
    assert distance(found, exact) > 1e-3


@quick("rnn", "lstm", "gru")
def test_sk_rtrl_cuts_to_the_closest_rest(cell):
    """Nothing spreads between units before the second step, so the first cut is then; NumPy's is the same."""
    network, weights, xs, ys = problem(CELLS[cell][0], steps=2)
    learners = rc.RTRL(), SnAp1(), SKRTRL(r=2)
    exact, own, found = (
        tensor(network, each, weights, drive(network, each, weights, xs, ys)[-1][1]) for each in learners
    )
    assert distance(found, own + closest(exact - own, 2)) < EXACT
    assert distance(found, exact) > 1e-6


def test_sk_rtrl_s_cut_is_close_to_the_best_one():
    """From a start that says nothing, and of a matrix whose singular values differ little; then from its own result."""
    N = np.random.default_rng(1).standard_normal((32, 36))
    best = np.linalg.norm(N - closest(N, 4))
    V, cut = jnp.zeros((4, 36)), jax.jit(dominant)
    for most in (1.1, 1.04, 1.03):
        L, V = cut(jnp.asarray(N), V)
        assert 1 - EXACT < np.linalg.norm(N - L.T @ V) / best < most
        assert distance(V @ V.T, np.eye(4)) < EXACT


@pytest.mark.parametrize("J", [np.linalg.qr(np.random.default_rng(0).standard_normal((20, 20)))[0], np.eye(3) * 1e-3])
def test_the_largest_singular_value_is_bounded_from_above(J):
    bound, exact = float(largest_singular_value(jnp.asarray(J))), np.linalg.norm(J, 2)
    assert exact * (1 - EXACT) <= bound < 1.02 * exact
    assert float(largest_singular_value(jnp.zeros((3, 3)))) == 0


def bounds(cell, r, seed):
    """Errors of SK-RTRL's M at each step, its bounds on them, and J's largest singular values."""
    network, weights, xs, ys = problem(CELLS[cell][0], n=3, n_in=1, steps=12, seed=seed)
    learner, errors = SKRTRL(r=r), []
    rtrl, sk = (drive(network, each, weights, xs, ys) for each in (rc.RTRL(), learner))
    influence = [
        jax.jit(lambda state, each=each: flat_influence(network, each, weights, state)) for each in (rc.RTRL(), learner)
    ]
    for (_, exact, _), (_, found, tick) in zip(rtrl, sk, strict=True):
        J = network.cell.jacobian(weights.cell, tick.trace)
        off = np.linalg.norm(influence[0](exact) - influence[1](found))
        errors.append((off, float(found.error), np.linalg.svd(J, compute_uv=False)[0]))
    return np.array(errors).T


def flat_influence(network, learner, weights, state):
    return jnp.concatenate(
        [leaf.ravel() for leaf in jax.tree.leaves(learner.influence(network.cell, weights.cell, state))]
    )


CASES = [("rnn", 1, 0)]
SLOW = [("leaky rnn", 0, 1)] + [
    (cell, r, seed) for cell in ("rnn", "lstm", "gru") for r in (0, 1, 2) for seed in (2, 3)
]


@pytest.mark.parametrize(("cell", "r", "seed"), CASES + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW])
def test_the_bound_on_the_error_holds_at_every_step(cell, r, seed):
    errors, found, norms = bounds(cell, r, seed)
    assert np.all(errors <= found * (1 + EXACT) + EXACT)
    assert errors[-1] > 1e-3
    # The bound is not idle: what was cut off at the last step alone, or carried on without J, is too little.
    cut = found - norms * np.concatenate([[0], found[:-1]])
    assert np.any(errors > cut + 1e-6)


def test_a_reset_forgets_the_error():
    network, weights, xs, ys = problem(CELLS["rnn"][0])
    state = drive(network, SKRTRL(r=1), weights, xs, ys)[-1][1]
    assert float(state.error) > 0
    assert not flat(SKRTRL(r=1).forget(network.cell, state)).any()


@pytest.mark.parametrize("kind", [TruncatedOK, SKRTRL])
def test_a_rank_above_what_there_is_is_refused(kind):
    with pytest.raises(ValueError, match="it is exact: use at most"):
        kind(r=9).check(rc.RNN(2, 3))
    with pytest.raises(ValueError, match="must be at least"):
        kind(r=-1)
