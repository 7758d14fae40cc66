"""Parts that users write: what they return is checked once, before anything runs, and named if it does not fit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER
from small_runs import network, train


class Steady(rc.Task):
    """The same row at every step, and a state that counts blocks."""

    data: np.ndarray = eqx.field(default_factory=lambda: np.ones((200, 2)))
    rows: int = rc.BLOCK
    n_in, n_out = 2, 2

    def init(self, key, dtype):
        return jnp.zeros((), dtype)

    def block(self, state, key, number, dtype):
        x = jnp.asarray(self.data, dtype)[: self.rows]
        return rc.Rows(x, jnp.full((self.rows, 2), 0.5, dtype)), state + 1


class Half(rc.PastFacing):
    """Half of the immediate influence: enough of a learner to be wrong in many ways."""

    scale: float = 0.5

    about = rc.About("half", "Half")

    def init(self, cell, weights, key, n_out):
        return jax.tree.map(jnp.zeros_like, weights)

    def noise(self, cell, key, steps):
        return jax.random.normal(key, (steps, 2), cell.dtype)

    def advance(self, tick, state, noise):
        return jax.tree.map(lambda w: self.scale * w, tick.weights)

    def contract(self, cell, weights, c, state):
        return state


class Absolute(rc.Loss):
    """Σ |z - y*|."""

    def __call__(self, z, label):
        return jnp.sum(jnp.abs(z - label)), jnp.sign(z - label)


class Spread(rc.UnitwiseCell):
    """Units that hear their input alone."""

    n_in: int
    n: int
    w_rec: object = eqx.field(static=True, default=rc.cells.gaussian)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states = 1
    listens = ((False, True, True),)
    first_bias = (0.0,)

    def unit(self, a, z):
        return (0.5 * a[0] + jnp.tanh(z[0]),)


def changed(base, **methods):
    """A subclass with other methods or fields, under the same name."""
    return type(base.__name__, (base,), methods)


def test_parts_that_fit_are_trained():
    assert np.isfinite(train(task=Steady()).loss).all()
    assert np.isfinite(train(Half()).loss).all()
    assert np.isfinite(train(net=rc.Network(rc.RNN(2, 4), 2, Absolute())).loss).all()
    for learner in (rc.RTRL(), rc.RKFRTRL()):
        assert np.isfinite(train(learner, net=rc.Network(Spread(2, 4), 2)).loss).all()


def returns(value):
    return lambda self, *arguments: value


nothing = jnp.zeros(())
TASKS = {
    "too few rows": (Steady(rows=100), r"Steady.block.*recurra.BLOCK.* float64\[128,2\] at .x.* float64\[100,2\]"),
    "too many rows": (Steady(rows=150), r"Steady.block.* returns float64\[150,2\]"),
    "no Rows": (changed(Steady, block=returns((1, 2, 3)))(), r"Steady.block must return recurra.Rows"),
    "another state": (
        changed(Steady, block=lambda self, s, k, n, d: (Steady.block(self, s, k, n, d)[0], (s, s)))(),
        "Steady.block, as the next state",
    ),
    "a number as state": (changed(Steady, init=returns(0))(), "Steady.init must return arrays, and returns 0"),
    "another type": (
        changed(Steady, block=lambda self, s, k, n, d: Steady.block(self, s, k, n, jnp.dtype("float32")))(),
        "float64.*float32",
    ),
}
LEARNERS = {
    "no name": ({"about": None}, "Half must say what it is: give it `about"),
    "no such lag": ({"about": rc.About("half", "Half", lag="T")}, "names 'T' as its lag, which must be a whole number"),
    "a number as state": ({"init": returns(0)}, "Half.init must return arrays, and returns 0"),
    "rows of noise": ({"noise": returns(jnp.zeros((7, 2)))}, r"Half.noise must return a row for each of the 3 steps"),
    "a gradient that would be broadcast": (
        {"contract": lambda self, cell, weights, c, state: jax.tree.map(lambda w: w[:, :1], weights)},
        r"Half.step, as the gradient, must return float64\[4,4\] at \[0\].rec, and returns float64\[4,1\]",
    ),
    "a gradient of another structure": (
        {"contract": returns(nothing)},
        r"Half.step, as the gradient, must return \(Sou",
    ),
    "a state that grows": (
        {"advance": lambda self, tick, state, noise: (state, noise)},
        "Half.advance must return",
    ),
    "no pair": ({"step": returns(nothing)}, "Half.step must return a gradient, or None, and the next state"),
    "emits": ({"emits": returns(jnp.ones(3))}, "Half.emits must return"),
}
LOSSES = {
    "no scalar": (returns((jnp.zeros(2), jnp.zeros(2))), r"Absolute.__call__ must return float64\[\] at \[0\]"),
    "no error": (returns(nothing), r"Absolute.__call__ must return"),
    "another error": (returns((nothing, jnp.zeros(3))), r"returns float64\[3\]"),
}


@pytest.mark.parametrize("case", TASKS)
def test_what_a_task_returns(case):
    task, message = TASKS[case]
    with pytest.raises(TypeError, match=message):
        train(task=task)


@pytest.mark.parametrize("case", LEARNERS)
def test_what_a_learner_returns(case):
    methods, message = LEARNERS[case]
    learner = changed(Half, **methods)()
    with pytest.raises(TypeError, match=message):
        train(learner, record={"state": rc.record.state})
    if "about" not in methods:
        with pytest.raises(TypeError, match=message):
            train(probes={"own": learner}, record={"state": rc.record.state})
        with pytest.raises(TypeError, match=message):
            rc.LearningStep(network(), learner, 0.1)


@pytest.mark.parametrize("case", LOSSES)
def test_what_a_loss_returns(case):
    method, message = LOSSES[case]
    with pytest.raises(TypeError, match=message):
        train(net=rc.Network(rc.RNN(2, 4), 2, changed(Absolute, __call__=method)()))


def test_what_a_general_cell_returns():
    whole = rc.cell_of(eqx.nn.GRUCell(2, 4, key=jax.random.key(0)), carry=jnp.zeros(4), x=2, unitwise=False)
    assert np.isfinite(train(rc.RTRL(), net=rc.Network(whole, 2)).loss).all()
    methods = {
        "init_state": lambda self: (jnp.zeros(5),),
        "pull": lambda self, weights, trace, c: (jnp.zeros(3),),
        "deposit": lambda self, weights, trace, c: jnp.zeros(3),
        "push": lambda self, weights, trace, v: (jnp.zeros((4, 1)),),
    }
    for name, method in methods.items():
        cell = changed(rc.GeneralCell, **{name: method})(whole.step)
        with pytest.raises(TypeError, match=f"GeneralCell.{name} must return"):
            train(rc.RTRL(), net=rc.Network(cell, 2))


def test_what_a_subclass_of_a_part_of_the_library_returns():
    first = lambda self, weights, a, x: (*rc.Network.forward(self, weights, a, x)[:2], jnp.zeros(1))
    with pytest.raises(TypeError, match=r"Network\.forward, as the output, must return"):
        train(net=changed(rc.Network, forward=first)(rc.RNN(2, 4), 2))
    small = lambda self, weights, trace, c: jax.tree.map(lambda w: w[:1, :1], weights)
    with pytest.raises(TypeError, match=r"RNN\.deposit must return"):
        train(rc.DNI(), net=rc.Network(changed(rc.RNN, deposit=small)(2, 4), 2))
    late = lambda self, t, unlabelled=None: True if unlabelled is None else jnp.ones(3, bool)
    with pytest.raises(TypeError, match=r"Half\.emits must return"):
        train(changed(Half, emits=late)())


@pytest.mark.slow
def test_what_a_subclass_of_a_cell_changes_is_what_rtrl_uses():
    """The faster form of RTRL has products of its own, and would not know."""
    half = lambda self, weights, trace, v: jax.tree.map(lambda u: u / 2, rc.RNN.push(self, weights, trace, v))
    net = rc.Network(changed(rc.RNN, push=half)(2, 4), 2)
    run = lambda specialise: train(rc.RTRL(), net=net, engine=rc.ScanEngine(specialise=specialise)).loss
    np.testing.assert_array_equal(run(True), run(False))
    assert not np.allclose(run(True), train(rc.RTRL()).loss)


def test_fields_that_cannot_be_hashed_are_named():
    class Choosy(Steady):
        choices: set = eqx.field(default_factory=lambda: {1, 2}, static=True)

    with pytest.raises(TypeError, match=r"`choices` of Choosy holds \[\{1, 2\}\], which cannot be hashed"):
        train(task=Choosy())


def test_cells_and_learners_that_cannot_go_together():
    with pytest.raises(ValueError, match="DNIb learns the Jacobian of recurrent weights, and Spread has none"):
        train(rc.DNIb(), net=rc.Network(Spread(2, 4), 2))
    with pytest.raises(TypeError, match="no weights to learn"):
        changed(Spread, listens=((False, False, False),))(2, 4)

    class Silent(eqx.Module):
        def __call__(self, x, state):
            return jnp.tanh(state)

    with pytest.raises(TypeError, match="Silent has no floating-point arrays"):
        rc.cell_of(Silent(), carry=jnp.zeros(4), x=2, unitwise=False)


#: the others are for `make test-all`
FEW = ("rtrl", "uoro", "rflo", "e-bptt", "dni")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in FOR_ONE_LAYER])
def test_broadcasting_is_never_left_to_jax(name):
    """Programs that forbid it for themselves can use the library."""
    with jax.numpy_rank_promotion("raise"):
        step = rc.LearningStep(rc.Network(rc.LSTM(2, 3), 2), FOR_ONE_LAYER[name](), 0.1)

        def first(key):
            row = jax.tree.map(lambda leaf: leaf[0], step.noise(key, 2))
            seen, _ = step.observe(step.init(key), jnp.zeros(2), row)
            return step.learn(seen, jnp.zeros(2), jnp.array(True))

        jax.eval_shape(first, jax.random.key(0))
        if name == "rflo":
            train(FOR_ONE_LAYER[name](), net=rc.Network(rc.LSTM(2, 3), 2), task=rc.Add(1, 2), steps=3)
