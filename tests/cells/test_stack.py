"""Several layers as one cell: its products against differentiation, and exact learners against the unrolled network."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest

import recurra as rc
from driving import distance, drive, exact, problem
from marks import often
from recurra.cells.initial import Sparsely
from recurra.cells.stack import Stack
from recurra.linalg import dense
from recurra.saved.parts import described, rebuilt
from recurra_paper.experiments.enumeration import estimates
from taking_steps import gradients, take_steps
from unrolled import gru, lstm, rnn

EXACT = 1e-10


class Spiking(rc.UnitwiseCell):
    """A unit with a surrogate derivative, whose readout sees a filtered spike."""

    n_in: int
    n: int
    w_rec: object = eqx.field(static=True, default=rc.cells.gaussian)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states, shown, smooth = 2, (1,), False
    listens, first_bias = ((True, True, True),), (0.0,)

    def unit(self, a, z):
        s = spike(z[0])
        return s, 0.5 * a[1] + s


@jax.custom_jvp
def spike(v):
    return (v > 0).astype(v.dtype)


@spike.defjvp
def _(primals, tangents):
    return spike(*primals), tangents[0] * 0.3 * jnp.maximum(1 - jnp.abs(primals[0]), 0)


class Elman(eqx.Module):
    """A cell that is no unit-wise one, with weights for its own state."""

    U: jax.Array
    V: jax.Array

    def __call__(self, x, h):
        return jnp.tanh(self.U @ x + self.V @ h)


def elman(n_in, n):
    keys = jax.random.split(jax.random.key(9))
    return rc.cell_of(
        Elman(jax.random.normal(keys[0], (n, n_in)), jax.random.normal(keys[1], (n, n))),
        carry=jnp.zeros(n),
        x=n_in,
        unitwise=False,
    )


#: name -> (stack, each layer's step by hand)
TWO = {
    "rnn, gru": (lambda n_in, n: Stack(rc.RNN(n_in, n, 0.4), rc.GRU(n, 2)), (rnn(0.4), gru)),
    "lstm, rnn, skip": (lambda n_in, n: Stack(rc.LSTM(n_in, n), rc.RNN(n, 2, 0.6), skip=True), (lstm, rnn(0.6))),
    "three": (
        lambda n_in, n: Stack(Stack(rc.RNN(n_in, n), rc.RNN(n, 2, 0.5)), rc.LSTM(2, 2)),
        (rnn(1.0), rnn(0.5), lstm),
    ),
}


def layers_of(weights):
    """The weights of all layers in a row, those of a stack in a stack too."""
    return [
        each
        for w in weights
        for each in (layers_of(w) if isinstance(w[0], tuple) and not hasattr(w[0], "rec") else [w])
    ]


def unrolled(steps, skip, W, first, xs):
    """What the readout sees at each step, layer above layer."""
    states, seen = list(first), []
    for x in xs:
        for l, step in enumerate(steps):
            states[l] = step(W[l], states[l], x)
            x = states[l][0]
        seen.append(jnp.concatenate([a[0] for a in states]) if skip else x)
    return seen


def start(weights, steps):
    width = lambda gates: len(gates[0].bias)
    return [
        tuple(jnp.zeros(width(w)) for _ in range(2 if step is lstm else 1))
        for w, step in zip(weights, steps, strict=True)
    ]


def losses(name, network, W, readout, xs, ys):
    steps, layers = TWO[name][1], layers_of(W)
    seen = unrolled(steps, network.cell.skip, layers, start(layers, steps), xs)
    logits = [readout.W @ h + readout.b for h in seen]
    return jnp.stack([-jnp.sum(y * jax.nn.log_softmax(z)) for z, y in zip(logits, ys, strict=True)])


@pytest.mark.parametrize("name", often(TWO, "rnn, gru"))
def test_rtrl_and_bptt_of_a_stack_are_exact(name):
    network, weights, xs, ys = problem(TWO[name][0], steps=4)
    all_losses = lambda W: losses(name, network, W, weights.readout, xs, ys)
    each = jax.jit(jax.jacrev(all_losses))(weights.cell)
    at = lambda t: jax.tree.map(lambda rows: rows[t], each)
    rtrl = gradients(take_steps(network, rc.RTRL(), weights, xs, ys))
    assert max(distance(rtrl[t], at(t)) for t in range(4)) < EXACT
    efficient = gradients(take_steps(network, rc.EfficientBPTT(4), weights, xs, ys))[-1]
    assert distance(efficient, jax.tree.map(lambda rows: rows.sum(0), each)) < EXACT
    assert distance(efficient, at(3)) > 1e-3


@pytest.mark.slow
def test_future_bptt_of_a_stack_is_exact():
    """The gradient of step 0 alone, for the losses of steps 0 to 2."""
    make, steps = TWO["rnn, gru"]
    network, weights, xs, ys = problem(make, steps=3)

    def total(applied):
        states, sum_of = start(weights.cell, steps), 0.0
        for t, (x, y) in enumerate(zip(xs, ys, strict=True)):
            W = applied if t == 0 else weights.cell
            for l, step in enumerate(steps):
                states[l] = step(W[l], states[l], x)
                x = states[l][0]
            sum_of -= jnp.sum(y * jax.nn.log_softmax(weights.readout.W @ x + weights.readout.b))
        return sum_of

    found = gradients(take_steps(network, rc.FutureBPTT(2), weights, xs, ys))
    expected = jax.jit(jax.grad(total))(weights.cell)
    assert distance(found[2], expected) < EXACT
    assert distance(gradients(take_steps(network, rc.RTRL(), weights, xs, ys))[2], expected) > 1e-3


MIXED = {
    "sparse on spiking": lambda: Stack(Spiking(2, 3), rc.RNN(3, 4, 0.5, w_rec=Sparsely(0.5)), skip=True),
    "diagonal on general": lambda: Stack(elman(2, 3), rc.cells.LRU(3, 2), rc.GRU(4, 2)),
    "stack in a stack": lambda: Stack(Stack(rc.LSTM(2, 2), elman(2, 3), skip=True), rc.RNN(5, 2)),
}


@pytest.mark.parametrize("name", often(MIXED, "diagonal on general"))
def test_products_are_those_of_the_derivatives(name):
    cell = MIXED[name]()
    weights = cell.init_weights(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 6)
    vectors = lambda key: cell.split(jax.random.normal(key, (sum(cell.widths),)))
    a, x, v, c = vectors(keys[0]), jax.random.normal(keys[1], (2,)), vectors(keys[2]), vectors(keys[3])
    dx = jax.random.normal(keys[4], (2,))
    step = lambda w, a, x: cell.forward(w, a, x)[0]
    twice = lambda vectors: tuple(jnp.stack([u, 2 * u], axis=1) for u in vectors)
    trace = cell.forward(weights, a, x)[1]

    @jax.jit
    def products(weights, trace):
        columns = jnp.stack([dx, 2 * dx], axis=1)
        up = cell.push(weights, trace, v), cell.push(weights, trace, twice(v))
        from_input = cell.push_input(weights, trace, dx), cell.push_input(weights, trace, columns)
        down = dense(cell.deposit(weights, trace, c)), cell.pull(weights, trace, c), cell.pull_input(weights, trace, c)
        return *up, *from_input, *down

    @jax.jit
    def derivatives(weights, a, x):
        along = lambda da, dx: jax.jvp(lambda a, x: step(weights, a, x), (a, x), (da, dx))[1]
        up, from_input = along(v, 0 * x), along(jax.tree.map(jnp.zeros_like, v), dx)
        return up, twice(up), from_input, twice(from_input), *jax.vjp(step, weights, a, x)[1](c)

    expected = derivatives(weights, a, x)
    for found, true in zip(products(weights, trace), expected, strict=True):
        assert distance(found, true) < EXACT
    # Layers side by side, which do not hear each other, would have no such derivatives.
    alone = tuple(
        u
        for each, w, own, part in zip(cell.cells, weights, trace, cell.by_layer(v), strict=True)
        for u in each.push(w, own, part)
    )
    assert distance(alone, expected[0]) > 1e-3


@pytest.mark.slow
def test_uoro_of_a_stack_is_unbiased():
    network, weights, xs, ys = problem(lambda n_in, n: Stack(rc.RNN(n_in, n), rc.RNN(n, 1, 0.5)), n=2, n_in=1, steps=4)
    every, steps = estimates(rc.UORO(initial_scale=0.0), network, weights, xs, ys, 2**14)
    assert steps >= 3
    assert distance(every.mean(axis=0), exact(network, weights, xs, ys, steps)) < EXACT
    assert every.std(axis=0).max() > 1e-3


@pytest.mark.slow
def test_a_stack_of_one_layer_is_the_layer():
    network, weights, xs, ys = problem(lambda n_in, n: rc.LSTM(n_in, n))
    stacked = rc.Network(Stack(rc.LSTM(2, 3)), 2)
    of_one = weights._replace(cell=(weights.cell,))
    for learner in (rc.RTRL(), rc.FutureBPTT(2)):
        alone = drive(network, learner, weights, xs, ys)
        for (found, _, _), (expected, _, _) in zip(drive(stacked, learner, of_one, xs, ys), alone, strict=True):
            assert distance(found, (expected,)) < EXACT


@pytest.mark.slow
def test_a_stack_of_every_kind_is_trained():
    task, settings = rc.Add(1, 2), {"steps": 60, "optimizer": 0.001, "progress": False}
    stack = MIXED["diagonal on general"]()
    for learner in (rc.DNI(), rc.UORO()):
        run = rc.train(rc.Network(stack, 2), learner, task, **settings)
        untrained = rc.train(rc.Network(stack, 2), rc.Fixed(), task, **settings)
        change = [distance(w, v) for w, v in zip(run.weights.cell, untrained.weights.cell, strict=True)]
        assert np.isfinite(np.asarray(run.loss)).all()
        assert min(change) > 0


def test_gates_of_layers_can_be_told_apart():
    stack = Stack(rc.RNN(2, 3), Stack(rc.cells.LRU(3, 2), rc.RNN(4, 2)))
    weights = stack.init_weights(jax.random.key(0))
    labels = stack.labels(weights)
    assert set(jax.tree.leaves(labels)) == {"0.w", "1.1.w", *(f"1.0.{gate}" for gate in rc.cells.LRU.gates)}
    rule = optax.multi_transform(
        {name: optax.sgd(float(name == "1.0.nu")) for name in set(jax.tree.leaves(labels))}, labels
    )
    updates, _ = rule.update(jax.tree.map(jnp.ones_like, weights), rule.init(weights))
    moved = [name for name, leaf in zip(jax.tree.leaves(labels), jax.tree.leaves(updates), strict=True) if leaf.any()]
    assert moved == ["1.0.nu"]


def test_the_readout_sees_the_top_or_all_layers():
    layers = (rc.RNN(2, 3), rc.cells.LRU(3, 2), Spiking(4, 2))
    a = Stack(*layers).split(jnp.arange(11.0))
    assert Stack(*layers).show(a).tolist() == [9, 10]
    assert Stack(*layers, skip=True).show(a).tolist() == [0, 1, 2, 3, 4, 5, 6, 9, 10]
    assert Stack(Stack(*layers[:2], skip=True)).show(a[:3]).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert not Stack(*layers).smooth
    assert Stack(*layers[:2]).smooth


def test_a_stack_is_described_and_built_again():
    for stack in (Stack(rc.RNN(2, 3, 0.4), rc.GRU(3, 2)), Stack(Stack(rc.LSTM(2, 3)), rc.RNN(3, 2), skip=True)):
        found = rebuilt(json.loads(json.dumps(described(rc.Network(stack, 2)))))
        assert found == rc.Network(stack, 2)
    document = described(Stack(rc.RNN(2, 3), rc.RNN(3, 2)))
    for cells, message in (
        (3, "Stack cannot be built"),
        ([], "no layers"),
        (document["fields"]["cells"][:1] * 2, "takes 2"),
    ):
        with pytest.raises(ValueError, match=message):
            rebuilt({"part": "Stack", "fields": {"cells": cells, "skip": False}})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stack(), "Stack has no layers"),
        (lambda: Stack(rc.RNN(2, 3), 4), "Layer 1 of Stack must be a recurra cell, and is 4"),
        (lambda: Stack(rc.RNN(2, 3), rc.RNN(4, 2)), "Layer 1 of Stack, RNN, takes 4 inputs .* shows 3"),
        (lambda: Stack(rc.RNN(2, 3, dtype="float32"), rc.RNN(3, 2)), "float64.*layer 0, RNN, shows 3 of float32"),
        (lambda: Stack(rc.RNN(2, 3), skip=1), "`skip` of Stack must be True or False"),
    ],
)
def test_layers_that_do_not_fit_are_one_clear_error(make, message):
    jaxtyping.config.update("jaxtyping_disable", True)  # which has an error of its own for arguments
    try:
        with pytest.raises((TypeError, ValueError), match=message):
            make()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("inp", "credit", "below"),
    [
        (np.full((4, 4), np.inf), [1.0, 2.0, 3.0, 4.0], np.isinf),
        (-np.full((4, 4), np.inf), [1.0, 2.0, 3.0, 4.0], np.isinf),
        (np.diag([1.0, 1.0, 1.0, 1.0]) - np.eye(4, k=1), [np.inf, np.inf, 0.0, -0.0], lambda down: np.isnan(down[1])),
        (np.ones((4, 4)), [1.0, np.nan, -np.inf, 0.0], np.isnan),
    ],
    ids=["infinite", "negative", "both signs", "nan above"],
)
def test_credit_that_is_not_finite_below_stays_below(inp, credit, below, dtype):
    """A layer may hand down credit that is infinite or nan, and its own credit is what it was given."""
    stack = Stack(rc.RNN(2, 4, dtype=dtype), rc.RNN(4, 4, dtype=dtype))
    layer, (above,) = stack.init_weights(jax.random.key(0))
    trace = stack.forward((layer, (above,)), stack.init_state(), jnp.ones(2, dtype))[1]
    c = (None, jnp.array(credit, dtype))
    down, own = stack.handed_down((layer, (above._replace(inp=jnp.array(inp, dtype)),)), trace, c)
    assert np.all(below(down[0]))
    np.testing.assert_array_equal(own[0], c[1])
    assert own[0].dtype == dtype
