"""Every setting of every registered part changes what the part computes: none is read wrongly, or not at all."""

import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.forms import LazyRTRL
from recurra.linalg import dense
from recurra.step import APPLIED, LearningStep
from recurra.step.optimizers import descend, init_optimizer

STEPS = 12
slow = pytest.mark.slow

#: values of settings that are no numbers, and of numbers of which others would be no change
OTHERS = {
    "nu": rc.noise.gaussian, "phi": jnp.sin, "surrogate": rc.cells.arctan, "dtype": "float32",
    "w_rec": rc.cells.diagonal, "beta": 0.3, "clip": 0.1, "momentum": 0.5, "order": 1,
    "target": rc.GRU(2, 3), "beyond": rc.RTRL(), "learner": rc.RFLO(), "handed": rc.LocalLosses(), "cues": 3,
}  # fmt: skip


def other(name, value):
    """Another value of a setting."""
    if isinstance(value, float):
        return 0.7 * value or 0.3
    if name in OTHERS:
        return OTHERS[name]
    return not value if isinstance(value, bool) else value + 1


def settings(part):
    return [field.name for field in dataclasses.fields(part) if field.init]


def unchanged(part, compute):
    """The settings that change nothing of what the part computes: neither numbers nor their shapes and types."""
    kinds = lambda each: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(jax.eval_shape(lambda: compute(each)))]
    found, like = jax.tree.leaves(compute(part)), kinds(part)
    is_same = lambda each: kinds(each) == like and all(map(np.array_equal, found, jax.tree.leaves(compute(each))))
    assert is_same(dataclasses.replace(part)), "the same settings give the same"
    changed = {name: dataclasses.replace(part, **{name: other(name, getattr(part, name))}) for name in settings(part)}
    return [name for name, each in changed.items() if is_same(each)]


def of_learner(learner, cell):
    """Its gradients, with the same random numbers for all."""
    step = LearningStep(rc.Network(cell, 2), learner, 0.0)
    key = jax.random.key(0)
    state, rows = (
        step.init(key),
        (jax.random.normal(key, (STEPS, 2)), jnp.full((STEPS, 2), 0.5), step.noise(key, STEPS)),
    )

    def one(state, row):
        x, y, nu = row
        state, outcome = step.learn(step.observe(state, x, nu)[0], y)
        return state, outcome.gradients[APPLIED]

    return jax.jit(lambda: jax.lax.scan(one, state, rows)[1])()


SMALL = {"r": 2, "T": 4}


def small(kind):
    return kind(**{field: value for field, value in SMALL.items() if field in settings(kind)})


KINDS = {name: kind for name, kind in rc.LEARNERS.items() if settings(kind)}
#: tried every time; all others are slow
FEW = {"rnn", "add", "evidence"}
#: Together they have every kind of setting: noise, a scale, rates, a share, a flag, a rank and an interval.
LEARNERS = ("uoro", "kernl", "truncated-ok", "dni")


def some(names):
    return [pytest.param(name, marks=() if name in FEW else slow) for name in names]


@pytest.mark.parametrize("name", LEARNERS)
def test_of_a_learner_with_units_of_one_variable(name):
    assert unchanged(small(KINDS[name]), functools.partial(of_learner, cell=rc.RNN(2, 3, 0.6))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_of_a_learner(name):
    kind = KINDS[name]
    cell = rc.Stack(rc.RNN(2, 3), rc.GRU(3, 2)) if kind.about.layers else rc.LSTM(2, 3)
    cell = rc.RNN(2, 6, w_rec=rc.cells.Sparsely(0.3)) if kind.about.sparse else cell
    assert unchanged(small(kind), functools.partial(of_learner, cell=cell)) == []


@slow
def test_how_long_a_span_is_changes_nothing_but_speed():
    found = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(of_learner(LazyRTRL(n), rc.LSTM(2, 3)))])
        for n in (4, 5)
    )
    np.testing.assert_allclose(*found, rtol=0, atol=1e-12)


def of_cell(cell):
    """Its states along inputs that are the same for all cells, and at each step the products of both derivatives."""

    def run():
        weights = cell.applied(cell.init_weights(jax.random.key(0)))

        def one(a, x):
            a, trace = cell.forward(weights, a, x)
            credit = jax.tree.map(jnp.ones_like, a)
            return a, (a, cell.pull(weights, trace, credit), dense(cell.deposit(weights, trace, credit)))

        xs = 4 * jax.random.normal(jax.random.key(1), (STEPS, cell.n_in))
        return jax.lax.scan(one, cell.init_state(), xs.astype(cell.dtype))[1]

    return jax.jit(run)()


@pytest.mark.parametrize("name", some(rc.CELLS))
def test_of_a_cell(name):
    assert unchanged(rc.CELLS[name](2, 3), of_cell) == []


#: tasks of which two blocks show all that there is
TASKS = {
    "evidence": rc.Evidence(1, cue=4, pause=2, delay=4, decision=4, neurons=4, rate=300.0, noise=100.0),
    "mimic": rc.Mimic(rc.RNN(2, 3), 2),
    "pattern": rc.Pattern(20, inputs=4, rate=5.0),
    "adding": rc.Adding(10),
}


def of_task(task):
    """Two blocks."""
    key, state, found = jax.random.key(0), task.init(jax.random.key(1), jnp.dtype("float64")), []
    for number in range(2):
        rows, state = task.block(
            state, jax.random.fold_in(key, number), jnp.array(number, "int32"), jnp.dtype("float64")
        )
        found.append(rows)
    return found


@pytest.mark.parametrize("name", some(rc.TASKS))
def test_of_a_task(name):
    if name == "digits":
        pytest.importorskip("sklearn")
    assert unchanged(TASKS.get(name) or rc.TASKS[name](), of_task) == []


def test_of_arrays():
    x, y = np.arange(12.0).reshape(12, 1) / 12, np.arange(24.0).reshape(12, 2) / 24
    plain = {"inputs": x, "labels": y, "repeat": True, "horizon": 3}
    others = {
        "inputs": x + 1, "labels": y + 1, "repeat": False, "horizon": 2,
        "present": np.arange(12) % 3 > 0, "reset": np.arange(12) % 5 == 0,
    }  # fmt: skip
    rows_of = lambda given: of_task(rc.Arrays(**given))
    wanted = jax.tree.flatten(rows_of(plain))
    assert {"self", *others} == {"self", *inspect.signature(rc.Arrays.__init__).parameters}
    for name, value in others.items():
        found = jax.tree.flatten(rows_of(plain | {name: value}))
        assert found[1] != wanted[1] or not all(map(np.array_equal, found[0], wanted[0])), name


def of_network(network):
    """A step, its error, and the credit of the state."""
    weights, x = network.init(jax.random.key(0)), jnp.ones(network.cell.n_in)
    a, _, output = network.forward(weights, network.cell.init_state(), x)
    loss, error = network.loss(output, jnp.linspace(0.1, 0.9, network.n_out))
    return weights, output, loss, network.credit(weights, error, a, x)


def test_of_a_network():
    others = {
        "cell": rc.GRU(2, 3), "n_out": 3, "loss": rc.SquaredError(), "random_feedback": True, "skip": True,
        "regularizer": rc.FiringRate(), "head": rc.module_of(lambda p, a: p * a[:2], jnp.ones(()), x=3),
    }  # fmt: skip
    plain = {"cell": rc.RNN(2, 3), "n_out": 2}
    assert [*others] == settings(rc.Network(**plain))
    wanted = jax.tree.flatten(of_network(rc.Network(**plain)))
    for name, value in others.items():
        found = jax.tree.flatten(of_network(rc.Network(**plain | {name: value})))
        assert found[1] != wanted[1] or not all(map(np.array_equal, found[0], wanted[0])), name


LIVE = {
    "learning": 0.01, "horizon": 2, "lags": 3, "lagged": 0, "scale_inputs": False, "scale_target": False,
    "difference": True, "memory": 5, "warmup": 9, "resets": True,
}  # fmt: skip


@functools.cache
def of_live(name=None):
    """The predictions for some rows, with another value of one setting."""
    network = rc.Network(rc.RNN(3, 3), 1, rc.SquaredError())
    plain = {"learning": 0.1, "horizon": 1, "lags": 2, "lagged": 1, "warmup": 2}
    given = plain | ({} if name is None else {name: LIVE[name]})
    step = rc.OnlineStep(**given | {"learning": LearningStep(network, rc.RFLO(), given["learning"])})
    xs = jax.random.normal(jax.random.key(1), (2 * STEPS, step.n_in))

    def one(state, row):
        x, reset = row
        reset = reset if step.resets else None
        state, _ = step.learn(state, 3 * x[:1] + 1, jnp.array(True), reset)
        return step.observe(state, x, reset)

    rows = xs, jnp.arange(2 * STEPS) == STEPS

    @jax.jit
    def run():
        state = step.init(jax.random.key(0))
        for x in xs[: step.horizon]:
            state, _ = step.observe(state, x)
        return jax.lax.scan(one, state, rows)[1]

    return run()


@pytest.mark.parametrize("name", [pytest.param(each, marks=() if each == "memory" else slow) for each in LIVE])
def test_of_a_live_step(name):
    assert [*LIVE] == settings(rc.OnlineStep)
    assert not np.array_equal(of_live(name), of_live())


def of_optimizer(optimizer):
    """Weights after some steps along large gradients, and along small ones."""

    def after(gradient):
        weights = jnp.arange(1.0, 4.0)
        state = init_optimizer(optimizer, weights)
        for t in range(3):
            weights, state = descend(optimizer, gradient * (weights * (-1) ** t + t), state, weights)
        return weights

    return after(1.0), after(1e-3)


@pytest.mark.parametrize("name", rc.OPTIMIZERS)
def test_of_an_optimizer(name):
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes types of numbers
        assert unchanged(rc.OPTIMIZERS[name](), of_optimizer) == []


def test_of_least_squares():
    network = rc.Network(rc.RNN(2, 3), 1, rc.SquaredError())

    def weights_of(rule):
        S, readout = rule.init(network), jax.tree.map(jnp.zeros_like, network.init(jax.random.key(0)).readout)
        for u in jax.random.normal(jax.random.key(1), (3, 4)):
            readout, S = rule.follow(True, jnp.ones(1), u, S, readout)
        return readout

    assert unchanged(rc.RLS(), weights_of) == []


def test_of_a_regularizer():
    assert unchanged(rc.FiringRate(), lambda part: part.credit(jnp.arange(3.0))) == []
