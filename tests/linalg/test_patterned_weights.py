"""Weights at some places only: every product against the full matrix, and learning against masked dense learning."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from driving import distance, problem
from masked import filled
from recurra.cells.initial import At, Sparsely, WithoutSelf
from recurra.learners.immediate import Immediate
from recurra.learners.pp_prop import PPProp
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import Hollow, Listed, Outer, Patterned, Sparse, dense, full, matvec, mul, own, squared, vecmat
from recurra.step import APPLIED
from taking_steps import compiled_step, gradients, take_steps

EVEN = Sparsely(0.3)(jax.random.key(0), 7, jnp.dtype("float64")).places


def drawn(rng, n, m, count):
    """Some places of an n by m matrix, in no order."""
    place = rng.choice(n * m, count, replace=False)
    return Listed(place // m, place % m, (n, m))


#: rows and columns of unequal length and empty ones, all places, one place, and rows longer than sums are written out
PATTERNS = {
    "even": EVEN,
    "uneven": Listed(np.array([0, 0, 4, 4, 4, 2, 4]), np.array([1, 3, 0, 1, 3, 2, 4]), (6, 6)),
    "one": Listed(np.array([1]), np.array([2]), (4, 4)),
    "all": Listed(*map(np.ravel, np.indices((5, 5))), (5, 5)),
    "not square": drawn(np.random.default_rng(0), 4, 9, 13),
    "long rows": drawn(np.random.default_rng(1), 3, 200, 300),
    "long columns": drawn(np.random.default_rng(2), 200, 3, 300),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_products_are_those_of_the_full_matrix(name):
    places, rng = PATTERNS[name], np.random.default_rng(0)
    n, m = places.shape
    W = Sparse(jnp.array(rng.normal(size=len(places))), places)
    A = np.zeros((n, m))
    A[places.rows, places.columns] = W.values
    shapes = {"u": n, "v": m, "d": n, "B": (m, 3), "us": (2, 4, n), "vs": (2, 4, m)}
    given = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    u, v, d, B, us, vs = given.values()

    @jax.jit  # all at once, to compile once
    def products(W, u, v, d, B, us, vs):
        return {
            "W v": matvec(W, v),
            "W B": matvec(W, B),
            "u W": vecmat(u, W),
            "diag(d) W": full(mul(d, W)),
            "0.3 W": full(mul(jnp.array([0.3]), W)),
            "W ∘ W": full(squared(W)),
            "W + W": full(W + W),
            "diag W": own(W) if n == m else jnp.zeros(0),
            "u vᵀ": full(dense(Outer(u, v, places=places))),
            "W + Σ u vᵀ": full(dense(Outer(us, vs, W, places))),
        }

    at = A != 0
    wanted = {
        "W v": A @ v,
        "W B": A @ B,
        "u W": u @ A,
        "diag(d) W": d[:, None] * A,
        "0.3 W": 0.3 * A,
        "W ∘ W": A * A,
        "W + W": 2 * A,
        "diag W": np.diagonal(A) if n == m else np.zeros(0),
        "u vᵀ": np.where(at, np.outer(u, v), 0),
        "W + Σ u vᵀ": np.where(at, A + np.einsum("abi,abj->ij", us, vs), 0),
    }
    found = products(W, **jax.tree.map(jnp.array, given))
    for name, each in wanted.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-12, atol=1e-12, err_msg=name)
    assert np.abs(found["W v"] - np.roll(A, 1, axis=0) @ v).max() > 1e-3


def test_products_under_vmap():
    places, keys = PATTERNS["uneven"], jax.random.split(jax.random.key(0), 3)
    values, v = jax.random.normal(keys[0], (3, len(places))), jax.random.normal(keys[1], (3, 6))
    W = Sparse(values, places)
    matrices = np.stack([full(Sparse(each, places)) for each in values])
    np.testing.assert_allclose(jax.vmap(matvec)(W, v), np.einsum("sij,sj->si", matrices, v), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(jax.vmap(vecmat)(v, W), np.einsum("si,sij->sj", v, matrices), rtol=1e-12, atol=1e-13)


def test_hollow_matrices_are_those_without_their_diagonal():
    A = np.array(WithoutSelf()(jax.random.key(0), 4, jnp.dtype("float64")).matrix)
    W, v = Hollow(jnp.array(A)), np.arange(4.0)
    assert np.all(np.diagonal(A) == 0)
    assert np.all(A[~np.eye(4, dtype=bool)] != 0)
    np.testing.assert_allclose(matvec(W, jnp.array(v)), A @ v)
    np.testing.assert_allclose(vecmat(jnp.array(v), W), v @ A)
    np.testing.assert_allclose(full(mul(jnp.array(v), W)), v[:, None] * A)
    assert np.all(np.asarray(own(W)) == 0)
    product = dense(Outer(jnp.array(v), jnp.array(v) + 1, W, W.places))
    np.testing.assert_allclose(full(product), A + np.outer(v, v + 1) * (1 - np.eye(4)))


def test_places_are_known_by_what_they_are():
    rows, columns = np.array([2, 0, 1]), np.array([0, 1, 1])
    one, same = Listed(rows, columns, (3, 3)), Listed(rows[::-1], columns[::-1], (3, 3))
    assert one == same
    assert hash(one) == hash(same)
    assert one != Listed(columns, rows, (3, 3))
    assert one != Listed(rows, columns, (4, 4))


def test_drawing_places_is_deterministic():
    draw = lambda seed, key=0: Sparsely(0.2, seed)(jax.random.key(key), 20, jnp.dtype("float32"))
    assert draw(0).places == draw(0, key=5).places
    assert draw(0).places != draw(1).places
    assert distance(draw(0).values, draw(0, key=5).values) > 0.1
    assert np.all(np.bincount(draw(0).places.rows, minlength=20) == 4)
    everywhere = Sparsely(1.0)(jax.random.key(0), 6, jnp.dtype("float32"))
    assert len(everywhere.places) == 36


W_REC = {
    "even": (7, Sparsely(0.3)),
    "uneven": (6, At(PATTERNS["uneven"])),
    "hollow": (4, WithoutSelf()),
}
LEARNERS = {
    "rflo": (rc.RFLO(), rc.RNN),
    "snap-1": (SnAp1(), rc.GRU),
    "immediate": (Immediate(), rc.LSTM),
    "pp": (PPProp(), rc.LSTM),
    "rtrl": (rc.RTRL(), rc.GRU),
    "bptt": (rc.EfficientBPTT(T=3), rc.LSTM),
}


def masked_learning(network, learner, weights, xs, ys, mask, rate):
    """Plain gradient descent on full matrices that is set back to zero outside the mask after each step."""
    step, one = compiled_step(network, learner, rate, 1)
    state = step.init(jax.random.key(1))._replace(weights=weights)
    only = lambda gate: gate if gate.rec is None else gate._replace(rec=gate.rec * mask)
    for x, y, nu in zip(xs, ys, [None] * len(xs), strict=True):
        state, _ = one(state, x, y, {APPLIED: nu}, None, None)
        state = state._replace(weights=state.weights._replace(cell=tuple(map(only, state.weights.cell))))
    return state.weights


PAIRS = [*(("uneven", name) for name in LEARNERS), ("even", "rflo"), ("hollow", "snap-1")]
FEW = (("uneven", "rflo"), ("uneven", "rtrl"), ("hollow", "snap-1"))


@pytest.mark.parametrize(
    ("pattern", "name"), [pytest.param(*pair, marks=() if pair in FEW else pytest.mark.slow) for pair in PAIRS]
)
def test_learning_is_dense_learning_with_a_masked_gradient(pattern, name):
    (n, w_rec), (learner, make) = W_REC[pattern], LEARNERS[name]
    network = rc.Network(make(2, n, w_rec=w_rec), 2)
    weights, (_, _, xs, ys) = network.init(jax.random.key(0)), problem(make, n=n, steps=7)
    mask = 1 - jnp.eye(n) if pattern == "hollow" else full(jax.tree.map(jnp.ones_like, weights.cell[0].rec))
    plain, start = rc.Network(make(2, n), 2), filled(weights)
    found = filled(take_steps(network, learner, weights, xs, ys, optimizer=0.3)[-1][1].weights)
    assert distance(found, masked_learning(plain, learner, start, xs, ys, mask, 0.3)) < 1e-12
    assert distance(found, masked_learning(plain, learner, start, xs, ys, jnp.ones_like(mask), 0.3)) > 1e-3
    assert distance(found, start) > 1e-3


def test_gradients_traces_and_the_optimizer_have_as_many_numbers_as_there_are_weights():
    network = rc.Network(rc.GRU(2, 6, w_rec=At(PATTERNS["uneven"])), 2)
    _, _, xs, ys = problem(rc.GRU, n=6, steps=2)
    weights = network.init(jax.random.key(0))
    with jax.numpy_dtype_promotion("standard"):  # which Optax needs
        visited = take_steps(network, SnAp1(), weights, xs, ys, optimizer=optax.adam(0.1))
    (gradient, _), (_, state) = gradients(visited), visited[-1]
    shapes = lambda tree: {leaf.shape for leaf in jax.tree.leaves(tree)}
    expected = {(7,), (6, 2), (6, 1)}
    assert shapes(weights.cell) == shapes(gradient) == shapes(state.learners) == expected
    recurrent = [gate.rec for gate in gradient if gate.rec is not None]
    assert len(recurrent) == 3
    assert all(isinstance(each, Patterned) for each in recurrent)
    assert shapes(state.optimizers) <= expected | {(), (2, 6), (2,)}
    assert (7,) in shapes(state.optimizers)
    assert gradient[3].rec is None  # the gate that hears inputs alone


@pytest.mark.slow
def test_seeds_and_streams_at_once_are_what_they_are_one_by_one():
    network = rc.Network(rc.LSTM(2, 6, w_rec=At(PATTERNS["uneven"])), 2)
    train = lambda seeds: rc.train(
        network, rc.UORO(), rc.Add(1, 2), steps=12, seeds=seeds, streams=2, optimizer=0.1, progress=False
    )
    both, alone = train(2), train([1])
    assert distance(jax.tree.map(lambda leaf: leaf[1:], both.weights), alone.weights) < 1e-12
    assert distance(jax.tree.map(lambda leaf: leaf[:1], both.weights), alone.weights) > 1e-3


def test_a_density_of_less_than_one_unit_says_what_it_is():
    draw = lambda density: Sparsely(density)(jax.random.key(0), 20, jnp.dtype("float32"))
    with pytest.warns(
        UserWarning, match=r"`density` of Sparsely is 1e-09, less than one of 20 units: each unit hears 1"
    ):
        assert len(draw(1e-9).places) == 20
    assert len(draw(0.05).places) == 20  # a warning would be an error


@pytest.mark.slow
@pytest.mark.parametrize("w_rec", [Sparsely(0.3), WithoutSelf()])
def test_bfloat16(w_rec):
    network = rc.Network(rc.RNN(2, 5, w_rec=w_rec, dtype="bfloat16"), 2)
    result = rc.train(network, rc.UORO(), rc.Add(1, 2), steps=5, progress=False)
    assert {leaf.dtype for leaf in jax.tree.leaves(result.weights)} == {jnp.dtype("bfloat16")}


def test_rtrl_of_sparse_weights_has_their_columns_alone():
    network = rc.Network(rc.RNN(2, 6, w_rec=At(PATTERNS["uneven"])), 2)
    state = rc.RTRL().init(network.cell, network.init(jax.random.key(0)).cell, jax.random.key(0), 2)
    assert [leaf.shape for leaf in jax.tree.leaves(state)] == [(6, 7 + 6 * 2 + 6)]


def test_places_outside_the_matrix_or_listed_twice_are_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 4\) has no column 4"):
        Listed(np.array([0, 1]), np.array([4, 0]), (3, 4))
    with pytest.raises(ValueError, match="no row -1"):
        Listed(np.array([-1, 1]), np.array([2, 0]), (3, 4))
    with pytest.raises(ValueError, match=r"\(1, 2\) is listed more than once"):
        Listed(np.array([1, 0, 1]), np.array([2, 0, 2]), (3, 4))


def test_a_hollow_matrix_has_no_diagonal_whatever_it_is_made_of():
    matrix = jnp.arange(1.0, 10.0).reshape(3, 3)
    hollow = Hollow(matrix)
    wanted = np.asarray(matrix) * (1 - np.eye(3))
    np.testing.assert_array_equal(full(hollow), wanted)
    v = jnp.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(matvec(hollow, v), wanted @ v)
    np.testing.assert_array_equal(jax.jit(lambda m: Hollow(m).full())(matrix), wanted)
    noisy = jax.tree.map(lambda leaf: leaf + 1, hollow)  # as an optimizer that adds noise would do
    others = wanted + 1 - np.eye(3)
    np.testing.assert_array_equal(full(noisy), others)
    np.testing.assert_allclose(matvec(noisy, v), others @ v)
    np.testing.assert_allclose(vecmat(v, noisy), v @ others)


@pytest.mark.parametrize("product", [lambda W, v: matvec(W, v), lambda W, v: vecmat(v, W), lambda W, v: full(W) @ v])
def test_gradients_do_not_move_the_diagonal_of_a_hollow_matrix(product):
    hollow, v = Hollow(jnp.ones((3, 3))), jnp.array([1.0, -2.0, 3.0])
    found = jax.grad(lambda W: jnp.sum(product(W, v) ** 2))(hollow).matrix
    masked = lambda m: product(m * (1 - np.eye(3)), v)
    np.testing.assert_allclose(found, jax.grad(lambda m: jnp.sum(masked(m) ** 2))(jnp.ones((3, 3))), rtol=1e-12)
    assert np.abs(found).max() > 1
