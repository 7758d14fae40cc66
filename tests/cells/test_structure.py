"""What is found out about a unit from its program: that it is one, what it reads, and where its leak is a number."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER, distance, drive, flat, one_step, problem
from recurra.cells import UnitwiseCell
from recurra.cells.initial import MatrixInit, orthogonal
from recurra.engine.forms import LateRFLO, LazyRTRL

N = 4


class Written(UnitwiseCell):
    """A cell of two variables and a gate, whose unit is any function."""

    n_in: int
    n: int
    equations: Any = eqx.field(static=True)
    w_rec: MatrixInit = eqx.field(static=True, default=orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states: ClassVar[int] = 2
    listens: ClassVar = ((True, True, True),)
    first_bias: ClassVar = (0.0,)

    def unit(self, a, z):
        return self.equations(*a, *z)


MATRIX = jnp.arange(16.0).reshape(4, 4)
ORDER = jnp.array([2, 0, 3, 1])

#: a function that mixes units, and what of it JAX calls how
MIXES = {
    "roll": (lambda v: jnp.roll(v, 1), ("slice",)),
    "sum": (lambda v: v + jnp.sum(v), ("reduce_sum",)),
    "mean": (lambda v: v - jnp.mean(v), ("reduce_sum",)),
    "softmax": (jax.nn.softmax, ("reduce_max",)),
    "cumsum": (jnp.cumsum, ("cumsum",)),
    "cumprod": (jnp.cumprod, ("cumprod",)),
    "one index": (lambda v: v * v[0], ("slice", "dynamic_slice", "gather")),
    "a slice": (lambda v: v.at[1:].add(v[:-1]), ("slice",)),
    "an index of all": (lambda v: v[ORDER], ("gather",)),
    "backwards": (lambda v: v[::-1], ("rev",)),
    "sort": (jnp.sort, ("sort",)),
    "order": (lambda v: v * jnp.argsort(v).astype(v.dtype), ("sort",)),
    "largest first": (lambda v: jax.lax.top_k(v, N)[0], ("top_k",)),
    "matrix": (lambda v: MATRIX @ v, ("dot_general",)),
    "matrix from the right": (lambda v: v @ MATRIX, ("dot_general",)),
    "outer": (lambda v: jnp.outer(v, v)[0], ("broadcast_in_dim", "reshape")),
    "padding": (lambda v: jax.lax.pad(v, jnp.zeros((), v.dtype), [(1, -1, 0)]), ("pad",)),
    "window": (
        lambda v: jax.lax.reduce_window(v, -jnp.inf, jax.lax.max, (3,), (1,), "SAME"),
        ("reduce_window_max", "reduce_window"),
    ),
    "set": (lambda v: v.at[0].set(1.0), ("scatter",)),
    "multiply one": (lambda v: v.at[0].multiply(v[1]), ("slice", "dynamic_slice", "gather", "scatter_mul")),
    "multiply by order": (lambda v: v.at[ORDER].multiply(v), ("scatter_mul", "scatter-mul")),
    "largest at": (lambda v: v.at[ORDER].max(v), ("scatter_max", "scatter-max")),
    "loop": (lambda v: jax.lax.fori_loop(0, 2, lambda i, w: w + v[i], v), ("scan", "while")),
    "inside a function": (jax.jit(lambda v: jnp.tanh(v) + jnp.cumsum(v)), ("cumsum",)),
    "inside a branch": (lambda v: jax.lax.cond(True, lambda v: jnp.roll(v, 1), lambda v: v, v), ("slice",)),
    "out of the program": (
        lambda v: jax.pure_callback(lambda v: np.roll(v, 1), jax.ShapeDtypeStruct(v.shape, v.dtype), v),
        ("pure_callback",),
    ),
}


@pytest.mark.parametrize("where", ["state", "gate"])
@pytest.mark.parametrize("name", MIXES)
def test_a_unit_that_mixes_units_is_refused(name, where):
    mix, called = MIXES[name]
    equations = {
        "state": lambda a, b, z: (jnp.tanh(z), mix(b)),
        "gate": lambda a, b, z: (mix(jnp.tanh(z) + a), 0.5 * b),
    }[where]
    with pytest.raises(TypeError, match="must act on one unit at a time") as error:
        Written(2, N, equations)
    assert "`unit` of Written" in str(error.value)
    assert "recurra.cell_of" in str(error.value)
    assert any(f"uses {operation!r}" in str(error.value) for operation in called), str(error.value)


TAU = jnp.linspace(0.1, 0.9, N)

#: functions that are elementwise, though not by plain arithmetic alone
KEEPS_APART = {
    "plain": lambda v: 0.5 * v + 1,
    "a number for each unit": lambda v: TAU * v,
    "a mixture of numbers": lambda v: jnp.cumsum(TAU) * v + jnp.sum(TAU) + MATRIX @ TAU,
    "sigmoid": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "where": lambda v: jnp.where(v > 0, v, jnp.expm1(v)),
    "clip": lambda v: jnp.clip(v, -1, 1),
    "power": lambda v: jnp.tanh(v) ** 3 + (1 + v * v) ** 0.5,
    "inside a function": jax.jit(lambda v: jnp.sin(v)),
    "inside a branch": lambda v: jax.lax.cond(True, jnp.tanh, lambda v: v, v),
    "without its derivative": lambda v: jax.lax.stop_gradient(v),
    "computed again": jax.checkpoint(jnp.tanh),
}


#: those that differ most in what a traced program holds
TAKEN = ("a number for each unit", "a mixture of numbers", "inside a branch", "where", "without its derivative")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in TAKEN else pytest.mark.slow) for n in KEEPS_APART])
def test_a_unit_that_keeps_units_apart_is_taken(name):
    """And with its derivatives: RTRL's gradient is that of autodiff."""
    apart = KEEPS_APART[name]
    make = lambda n_in, n: Written(n_in, n, lambda a, b, z: (jnp.tanh(z) + 0.3 * apart(a + b), 0.5 * b + apart(z)))
    network, weights, xs, ys = problem(make, n=N)
    assert distance(drive(network, rc.RTRL(), weights, xs, ys)[-1][0], by_autodiff(network, weights, xs, ys)) < 1e-10


def by_autodiff(network, weights, xs, ys):
    """The derivative of the last loss, through all steps."""

    def loss(cell):
        a = network.cell.init_state()
        for x, y in zip(xs, ys, strict=True):
            found, tick = one_step(network, weights._replace(cell=cell), a, x, y, jnp.array(0, "int32"))
            a = tick.state
        return found

    return jax.grad(loss)(weights.cell)


WRONG_STATES = {
    "one variable": lambda a, b, z: (jnp.tanh(z),),
    "three variables": lambda a, b, z: (jnp.tanh(z), b, b),
    "a vector alone": lambda a, b, z: jnp.tanh(z),
    "a list": lambda a, b, z: [jnp.tanh(z), b],
    "a number": lambda a, b, z: (jnp.tanh(z), jnp.zeros((), z.dtype)),
    "a longer vector": lambda a, b, z: (jnp.tanh(z), jnp.zeros(N + 1, z.dtype)),
    "a matrix": lambda a, b, z: (jnp.tanh(z), jnp.zeros((N, 1), z.dtype)),
    "another precision": lambda a, b, z: (jnp.tanh(z), b.astype("float32")),
    "whole numbers": lambda a, b, z: (jnp.tanh(z), jnp.zeros(N, "int32")),
}


@pytest.mark.parametrize("name", WRONG_STATES)
def test_a_unit_that_returns_another_state_is_refused(name):
    with pytest.raises(TypeError, match="`unit` of Written must return a state like the one it takes"):
        Written(2, N, WRONG_STATES[name])


def test_a_unit_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="could not be called with 2 state variables and 1 gates"):
        Written(2, N, lambda a, b: (a, b))
    with pytest.raises(TypeError, match="could not be called"):
        Written(2, N, lambda a, b, z: (a, b) if z[0] > 0 else (b, a))  # a choice that the program cannot hold


def test_a_bias_for_each_gate():
    class Short(rc.LSTM):
        first_bias: ClassVar = (0.0, 1.0)

    with pytest.raises(TypeError, match="one number for each of its 4 gates, and has 2"):
        Short(2, N)


def trace_of(cell):
    weights = cell.init_weights(jax.random.key(0))
    a = tuple(jax.random.normal(jax.random.key(p), (width,), cell.dtype) for p, width in enumerate(cell.widths))
    return cell.forward(weights, a, jnp.ones(cell.n_in, cell.dtype))[1]


def shapes(blocks):
    return [[None if block is None else block.shape for block in row] for row in blocks]


def test_the_leak_of_a_plain_network_is_one_number():
    for alpha in (1.0, 0.3):
        trace = trace_of(rc.RNN(2, N, alpha))
        assert shapes(trace.H) == [[(1,)]]
        np.testing.assert_allclose(trace.H[0][0], 1 - alpha, atol=1e-15)
        assert shapes(trace.D) == [[(N,)]]
    assert shapes(trace_of(rc.RNN(2, N, jnp.array(0.3))).H) == [[(1,)]]  # also where it is an array


def test_the_leaks_of_gated_networks_differ():
    assert shapes(trace_of(rc.GRU(2, N)).H) == [[(N,)]]
    assert shapes(trace_of(rc.LSTM(2, N)).H) == [[None, (N,)], [None, (N,)]]
    assert shapes(trace_of(rc.LSTM(2, N)).D) == [[(N,)] * 4, [(N,), (N,), (N,), None]]


def test_what_units_read():
    assert rc.LSTM(2, N).read == {1}
    assert rc.GRU(2, N).read == {0}
    assert rc.RNN(2, N).read == {0}
    assert Written(2, N, lambda a, b, z: (jnp.tanh(z), z)).read == set()
    assert Written(2, N, lambda a, b, z: (jnp.tanh(z + b), a)).read == {0, 1}
    assert Written(2, N, lambda a, b, z: (jnp.tanh(z), jax.jit(jnp.tanh)(b))).read == {1}


def two_leaks(n_in, n):
    """One leak is the same number for all units at all times, the other depends on the gate."""
    return Written(n_in, n, lambda a, b, z: (0.7 * a + jnp.tanh(z) * b, jax.nn.sigmoid(z) * b + 0.2 * z))


def linear(n_in, n):
    """Nothing differs between units or steps but what they hear."""
    return Written(n_in, n, lambda a, b, z: (0.4 * a + 0.3 * b + 0.5 * z, 0.9 * b + z))


def test_each_leak_is_a_number_or_a_vector_by_itself():
    trace = trace_of(two_leaks(2, N))
    assert shapes(trace.H) == [[(1,), (N,)], [None, (N,)]]
    assert float(trace.H[0][0][0]) == 0.7
    assert shapes(trace.D) == [[(N,)], [(N,)]]
    trace = trace_of(linear(2, N))
    assert shapes(trace.H) == [[(1,), (1,)], [None, (1,)]]
    assert shapes(trace.D) == [[(N,)], [(N,)]]  # what gates do is always told for each unit


EXACT = [rc.RTRL(), LazyRTRL(span=4)]


@pytest.mark.parametrize("make", [two_leaks, linear])
@pytest.mark.parametrize("learner", EXACT, ids=lambda learner: type(learner).__name__)
def test_gradients_are_exact_whatever_the_shapes_of_leaks(learner, make):
    network, weights, xs, ys = problem(make, n=N, steps=10)
    found = drive(network, learner, weights, xs, ys)[-1][0]
    assert distance(found, by_autodiff(network, weights, xs, ys)) < 1e-10


def test_a_leak_that_is_off_by_a_thousandth_is_noticed():
    """The control of the test above."""
    network, weights, xs, ys = problem(two_leaks, n=N, steps=10)
    other = rc.Network(
        Written(2, N, lambda a, b, z: (0.7007 * a + jnp.tanh(z) * b, jax.nn.sigmoid(z) * b + 0.2 * z)), 2
    )
    found = drive(other, rc.RTRL(), weights, xs, ys)[-1][0]
    assert distance(found, by_autodiff(network, weights, xs, ys)) > 1e-4


LEARNERS = {**FOR_ONE_LAYER, "late rflo": LateRFLO}
#: one of each way in which a trace or credit goes through a leak
TRIED = ("rtrl", "uoro", "kf-rtrl", "r-ok", "kernl", "rflo", "e-bptt", "dni", "late rflo", "snap-1")


@pytest.mark.parametrize("make", [two_leaks, pytest.param(linear, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in TRIED else pytest.mark.slow) for n in LEARNERS])
def test_every_learner_takes_leaks_of_any_shape(name, make):
    network, weights, xs, ys = problem(make, n=N, steps=12)
    learner = LEARNERS[name]()
    visited = drive(network, learner, weights, xs, ys)
    first = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
    for gradient, state, _ in visited:
        assert jax.tree.map(jnp.shape, gradient) == jax.tree.map(jnp.shape, weights.cell)
        assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, first)
        assert np.isfinite(flat(gradient)).all()
    assert name == "fixed" or any(np.abs(flat(gradient)).max() > 0 for gradient, _, _ in visited)
