"""One row at a time, many at once, in any cuts, or through the pure functions: the same predictions, the same model."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER
from online_models import CELLS, bits, full_step, in_cuts, one_by_one, plain_step, stream

ROWS = 150  # more than two calls of a program, and more than one block of random numbers
PLAIN = plain_step()
LEARNERS = {**FOR_ONE_LAYER, "r-ok": lambda: rc.ROK(2)}


def check_cuts(step, X, Y, seed=0):
    """The predictions, which are the same however the stream is cut."""
    whole, loop, pieces = (rc.Online(step, key=seed) for _ in range(3))
    predictions = whole.learn_many(X, Y)
    assert np.isfinite(predictions).all()
    assert (one_by_one(loop, X, Y) == predictions).all()
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(X)), 6, replace=False))
    assert (in_cuts(pieces, X, Y, cuts) == predictions).all()
    assert bits(whole) == bits(loop) == bits(pieces)
    assert whole.rows == len(X)
    return predictions


@pytest.mark.parametrize(
    "step",
    [pytest.param(PLAIN, marks=pytest.mark.slow), pytest.param(full_step(0), marks=pytest.mark.slow), full_step(3)],
    ids=["plain", "full, 0", "full, 3"],
)
def test_cuts(step):
    X, Y = stream(ROWS, missing=0.2)
    predictions = check_cuts(step, X, Y)
    assert len(np.unique(predictions)) > 100


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", LEARNERS)
def test_cuts_for_every_learner_and_cell(name, cell):
    i = list(LEARNERS).index(name) + list(CELLS).index(cell)  # every horizon with every learner, and with every cell
    kwargs = {"learner": LEARNERS[name](), "cell": cell}
    check_cuts(plain_step((0, 1, 4)[i % 3], **kwargs), *stream(ROWS, missing=0.2))
    streams = 1 + i % 2
    check_cuts(full_step((1, 4, 0)[i % 3], streams=streams, **kwargs), *stream(ROWS, missing=0.2, streams=streams))


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (rc.GivenCredit, PLAIN),
        (rc.GivenError, full_step(3)),
        pytest.param(rc.GivenError, PLAIN, marks=pytest.mark.slow),
        pytest.param(rc.GivenCredit, full_step(3), marks=pytest.mark.slow),
    ],
    ids=["credit", "errors, late", "errors", "credit, late"],
)
def test_errors_and_credit_in_the_place_of_labels(kind, step):
    rng = np.random.default_rng(0)
    X, given = rng.normal(size=(20, 2)), rng.normal(size=(20, 1 if kind is rc.GivenError else 3))
    of = lambda rows: kind(rows) if kind is rc.GivenError else kind((rows,))
    loop, many = rc.Online(step), rc.Online(step)
    one = np.stack([loop.learn_one(x, of(e)) for x, e in zip(X, given, strict=True)])
    assert (many.learn_many(X, of(given)) == one).all()
    assert bits(loop) == bits(many)


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [0, 2])
def test_errors_and_credit_of_several_streams(horizon):
    """An LSTM has two state variables; credit of the second may be None, which is zero."""
    rng = np.random.default_rng(0)
    X, E, C = (rng.normal(size=(20, 2, k)) for k in (2, 1, 3))
    zero = np.zeros_like(C)
    for one, many in (
        (rc.GivenError, rc.GivenError(E)),
        (lambda e: rc.GivenCredit((e, None)), rc.GivenCredit((C, zero))),
    ):
        step = plain_step(horizon, cell="lstm", streams=2)
        loop, whole = rc.Online(step), rc.Online(step)
        given = E if one is rc.GivenError else C
        found = np.stack([loop.learn_one(x, one(e)) for x, e in zip(X, given, strict=True)])
        assert (whole.learn_many(X, many) == found).all()
        assert bits(loop) == bits(whole) != bits(rc.Online(step))


def test_an_error_is_a_label_that_is_so_far_away():
    X, Y = stream(40)
    labelled, told = rc.Online(PLAIN), rc.Online(PLAIN)
    for x, y in zip(X, Y, strict=True):
        z = told.predict_one(x)
        np.testing.assert_allclose(labelled.learn_one(x, y), z, atol=1e-5)
        told.learn_one(x, rc.GivenError(z - y))
    assert np.abs(z - rc.Online(PLAIN).learn_many(X, Y)[-1]).max() < 1e-5
    assert np.abs(z - rc.Online(PLAIN).learn_many(X)[-1]).max() > 1e-2  # without labels nothing is learned


@pytest.mark.parametrize("step", [PLAIN, full_step(0), full_step(3)], ids=["plain", "full, 0", "full, 3"])
def test_looking_changes_nothing(step):
    X, Y = stream(30, missing=0.2)
    model, untouched = rc.Online(step), rc.Online(step)
    for x, y in zip(X, Y, strict=True):
        before = bits(model)
        seen = model.predict_one(x)
        model.predict_one(100 * x)
        assert bits(model) == before
        said = model.learn_one(x, y)
        assert bits(model) != before
        if not step.horizon:
            assert (seen == said).all()  # before the first label, too
    untouched.learn_many(X, Y)
    assert bits(model) == bits(untouched)


@pytest.mark.parametrize("horizon", [0, pytest.param(1, marks=pytest.mark.slow), 3])
def test_no_prediction_knows_what_comes_after_it(horizon):
    """A label that comes with row r is known to predictions from row r on; with a horizon of 0, only after that."""
    X, Y = stream(60, missing=0.1)
    Y[:5] = np.ma.masked  # the very first label comes late
    step = full_step(horizon)
    usual = rc.Online(step).learn_many(X, Y)
    for r in (0, 5, 6, 20, 40):
        other = Y.copy()
        other[r:] = other[r:] * 3 + 100  # what was masked stays so
        first = r + (0 if horizon else 1)
        changed = rc.Online(step).learn_many(X, other)
        assert (changed[:first] == usual[:first]).all()
        known = np.flatnonzero(~Y.mask[r:, 0])[0] + r + (0 if horizon else 1)
        assert (changed[:known] == usual[:known]).all()
        assert (changed[known] != usual[known]).all()  # the control: there it is known
        later = X.copy()
        later[r:] = stream(60, seed=1)[0][r:]
        changed = rc.Online(step).learn_many(later, Y)
        assert (changed[:r] == usual[:r]).all()
        assert (changed[max(r, 25) :] != usual[max(r, 25) :]).any()


@pytest.mark.parametrize("horizon", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_rows_and_labels_that_come_apart(horizon):
    """`observe_one` and `label_one`, in the order in which `learn_one` does both."""
    X, Y = stream(40, missing=0.2)
    labels = [None if np.ma.is_masked(y) else y for y in Y]
    step = full_step(horizon)
    together, apart = rc.Online(step), rc.Online(step)
    wanted, found = together.learn_many(X, Y), []
    for t, (x, y) in enumerate(zip(X, labels, strict=True)):
        if t < horizon:  # the first labels are no row's
            found.append(apart.learn_one(x, y))
            continue
        if horizon:
            apart.label_one(y)
        found.append(apart.observe_one(x))
        if not horizon:
            apart.label_one(y)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert apart.rows == together.rows == 40
    if horizon:
        with pytest.raises(ValueError, match="3 rows wait for their labels, and there is no room for more"):
            apart.observe_one(X[0])
        for _ in range(3):
            apart.label_one(None)
    else:
        apart.observe_one(X[0])
        with pytest.raises(ValueError, match="A row waits for its label: call `label_one`"):
            apart.learn_one(X[0], labels[0])
        apart.label_one()
    with pytest.raises(ValueError, match="No row waits for its label: call `observe_one` first"):
        apart.label_one(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [PLAIN, full_step(0, dtype="float64"), full_step(2, dtype="float64")],
    ids=["plain", "full, 0", "full, 2"],
)
def test_the_pure_functions_compiled_and_mapped_over_members(step):
    horizon, dtype = step.horizon, step.learning.network.cell.dtype
    X, Y = stream(40)
    X, Y = X - X[0], Y - Y[0]  # as the model does with its first row

    def run(key):
        def row(state, row):
            x, y, t = row
            late = lambda state: step.learn(state, y, jnp.asarray(True))[0]
            if horizon:
                told = lambda state: step.told(state, y, jnp.asarray(True))
                return step.observe(jax.lax.cond(t < horizon, told, late, state), x)
            state, output = step.observe(state, x)
            return late(state), output

        return jax.lax.scan(row, step.init(key), (jnp.asarray(X, dtype), jnp.asarray(Y, dtype), jnp.arange(len(X))))

    keys = jax.vmap(lambda k: jax.random.fold_in(jax.random.key(k), 0))(jnp.arange(2))
    states, outputs = jax.jit(jax.vmap(run))(keys)
    for k in range(2):
        model = rc.Online(step, key=k, specialise=False)
        atol = 1e-8 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(model.learn_many(X, Y), outputs[k], atol=atol)
        for found, wanted in zip(jax.tree.leaves(model.state), jax.tree.leaves(states), strict=True):
            np.testing.assert_allclose(np.asarray(found, "float64"), np.asarray(wanted[k], "float64"), atol=atol)
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


def test_keys_and_shapes_that_mean_the_same():
    X, Y = stream(10)
    step = PLAIN
    first = rc.Online(step, key=5)
    typed = rc.Online(step, key=jax.random.key(5))
    predictions = first.learn_many(X, Y)
    assert (typed.learn_many(X.tolist(), Y[:, 0]) == predictions).all()
    loop = rc.Online(step, key=5)
    as_given = lambda i, y: (y, y[0], y.tolist(), y[None], y.astype("float64")[:1])[i % 5]
    found = [
        loop.learn_one(list(x) if i % 2 else x[None], as_given(i, y)) for i, (x, y) in enumerate(zip(X, Y, strict=True))
    ]
    assert (np.stack(found) == predictions).all()
    assert bits(first) == bits(typed) == bits(loop)
    given = rc.Online(step, key=7, weights=rc.Online(step, key=5).weights)
    assert (given.learn_one(X[0], Y[0]) == predictions[0]).all()
    assert first.learn_many(X[:0], Y[:0]).shape == (0, 1)
    assert bits(first) == bits(typed)


@pytest.mark.slow
def test_labels_of_two_streams_that_begin_at_different_times():
    """Each stream's level is its own, wherever its first label comes."""
    X, Y = stream(40, streams=2)
    Y = np.ma.array(Y, mask=np.zeros(Y.shape, bool))
    Y[:10, 0] = np.ma.masked
    step = full_step(1, streams=2, difference=False)
    level = np.array([0.0, 2.0**30])[:, None]
    low, high = rc.Online(step).learn_many(X, Y), check_cuts(step, X, Y + level)
    np.testing.assert_allclose(high[2:] - level, low[2:], atol=1e-3)
    x = X[0].copy()
    x[1, 0] = np.nan
    with pytest.raises(ValueError, match="Row 0, column 0 of the input of stream 1, is nan"):
        rc.Online(step).learn_one(x, Y[0])
    assert (high[0] == Y[0, 1] * np.array([[0], [1]]) + level).all()  # of the first stream nothing is known yet


@pytest.mark.slow
def test_a_model_too_large_to_be_packed():
    step = plain_step(2, n=800)
    X, Y = stream(12, missing=0.2)
    check_cuts(step, X, Y)
    model = rc.Online(step)
    assert not model._packing.is_small
    model.learn_many(X, Y)
    before = bits(model)
    model.predict_one(X[0])
    x = X.copy()
    x[5] = np.nan
    with pytest.raises(ValueError, match="Row 17, column 0 of the input, is nan"):
        model.learn_many(x, Y)
    assert bits(model) == before
    wild = rc.Online(plain_step(2, n=800, optimizer=1e6))
    with pytest.raises(rc.Diverged) as error:
        wild.learn_many(*stream(60))
    loop = rc.Online(plain_step(2, n=800, optimizer=1e6))
    with pytest.raises(rc.Diverged) as other:
        one_by_one(loop, *stream(60))
    assert error.value.row == other.value.row == loop.rows
    assert all(np.isfinite(norm) for norm in loop.norms().values())


@pytest.mark.parametrize("horizon", [0, 1])
def test_where_labels_come_with_their_rows_the_cell_runs_once(horizon):
    """Counted in the compiled program: an LSTM multiplies its four recurrent matrices once, or for both states."""
    network = rc.Network(rc.LSTM(2, 33), 1, rc.SquaredError())
    step = rc.OnlineStep(rc.LearningStep(network, rc.Fixed(), 0.1), horizon)
    model = rc.Online(step)
    model.learn_many(np.ones((3, 2)), np.ones((3, 1)))
    program = model._program(model._kind).lower(*model._packed, model._buffer).compile().as_text()
    products = len(re.findall(r"\[33\]\S* (?:dot|custom-call)\(", program)) or program.count("dot(")
    assert products == (4 if horizon == 0 else 8), products
