"""Each gate follows its own optimizer: against rates written out by hand, and against Optax's on single gates."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from driving import distance, experiment, problem
from recurra.cells.initial import Sparsely
from recurra.cells.lru import LRU
from recurra.engine.programs import programs
from recurra.saved import parts
from recurra.step.optimizers import descend, init_optimizer
from recurra.step.per_gate import PerGate
from taking_steps import take_steps

CELL = LRU(2, 3)
NAMES = ("b_re", "b_im", "nu", "omega", "gamma")


def walked(optimizer):
    """The weights before each step and after the last, each step's gradient, and each step's error and state."""
    network, weights, xs, ys = problem(LRU, steps=5)
    visited = take_steps(network, rc.RTRL(), weights, xs, ys, optimizer)
    outcomes = [outcome for outcome, _ in visited]
    errors = [jax.nn.softmax(outcome.output) - y for outcome, y in zip(outcomes, ys, strict=True)]
    shown = [jnp.concatenate(state.a) for _, state in visited]
    gradients = [outcome.gradients["applied"] for outcome in outcomes]
    return [weights, *(state.weights for _, state in visited)], gradients, errors, shown


def test_rates_by_hand():
    rates = {"b_re": 0.1, "b_im": 0.1, "nu": 0.02, "omega": 0.0, "gamma": 0.1}
    weights, gradients, errors, shown = walked(PerGate(CELL, 0.1, {"nu": 0.02, "omega": 0.0}))
    for t, g in enumerate(gradients):
        for gate, name in enumerate(NAMES):
            (before,), (after,) = (jax.tree.leaves(w.cell[gate]) for w in weights[t : t + 2])
            (slope,) = jax.tree.leaves(g[gate])
            np.testing.assert_allclose(after, before - rates[name] * slope, rtol=0, atol=1e-15)
        readout, then = weights[t].readout, weights[t + 1].readout
        np.testing.assert_allclose(then.W, readout.W - 0.1 * np.outer(errors[t], shown[t]), rtol=0, atol=1e-15)
        np.testing.assert_allclose(then.b, readout.b - 0.1 * errors[t], rtol=0, atol=1e-15)
    assert distance(weights[-1].cell[2], weights[0].cell[2]) > 1e-4
    np.testing.assert_array_equal(weights[-1].cell[3].bias, weights[0].cell[3].bias)


#: one that is the library's own, and the same from Optax
SLOW = [rc.Adam(0.003, clip=0.01), optax.chain(optax.clip_by_global_norm(0.01), optax.adam(0.003))]


@pytest.mark.parametrize("slow", SLOW, ids=["described", "optax"])
def test_adam_on_single_gates(slow):
    """As if each gate had an optimizer to itself; so `clip` sees the gradient of its own gate."""
    optimizer = PerGate(CELL, rc.Adam(0.05), {"nu": slow})
    weights, gradients, *_ = walked(optimizer)

    def alone(rule, gates):
        w = [weights[0].cell[g] for g in gates]
        state = rule.init(w)
        for g in gradients:
            updates, state = rule.update([g[i] for i in gates], state, w)
            w = optax.apply_updates(w, updates)
        return w

    with jax.numpy_dtype_promotion("standard"):  # which Optax needs
        others, nu = alone(optax.adam(0.05), (0, 1, 3, 4)), alone(SLOW[1], (2,))
        wrong = alone(optax.adam(0.05), (2,))
    last = weights[-1].cell
    assert distance([last[g] for g in (0, 1, 3, 4)], others) < 1e-13
    assert distance([last[2]], nu) < 1e-13
    assert distance([last[2]], wrong) > 1e-3  # the control


@pytest.mark.slow
def test_the_rest_alone_is_the_optimizer_itself():
    alike, *_ = walked(PerGate(CELL, rc.Adam(0.05, clip=0.1), {}))
    plain, *_ = walked(rc.Adam(0.05, clip=0.1))
    assert distance(alike[-1], plain[-1]) < 1e-14


def test_gates_of_all_kinds_of_cells():
    """By name; of a general cell it is the path of a parameter."""
    for cell, name, counts in (
        (rc.LSTM(2, 3), "f", 3),
        (rc.RNN(2, 4, w_rec=Sparsely(0.5)), "w", 3),  # weights at some places
        (
            rc.cell_of(eqx.nn.GRUCell(2, 3, key=jax.random.key(0)), carry=jnp.zeros(3), x=2, unitwise=False),
            "weight_hh",
            1,
        ),
    ):
        optimizer = PerGate(cell, 0.0, {name: rc.SGD(0.5, 0.0)})
        weights = cell.init_weights(jax.random.key(0))
        gradient = jax.tree.map(jnp.ones_like, weights)
        after, _ = descend(optimizer, gradient, init_optimizer(optimizer, weights), weights)
        moved = [np.abs(a - b).max() for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(weights), strict=True)]
        assert [m > 0 for m in moved] == [label == name for label in jax.tree.leaves(cell.labels(weights))]
        assert sum(m > 0 for m in moved) == counts


def test_short_numbers_stay_short():
    cell = LRU(2, 3, dtype="bfloat16")
    optimizer = jax.tree.map(jnp.float32, PerGate(cell, rc.Adam(0.1), {"nu": rc.SGD(0.1, 0.9), "omega": 0.1}))
    weights = cell.init_weights(jax.random.key(0))
    state = init_optimizer(optimizer, weights)
    found = jax.eval_shape(lambda: descend(optimizer, weights, state, weights))
    kinds = lambda tree: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]
    assert kinds(found) == kinds((weights, state))


def test_errors_say_which_gates_there_are():
    with pytest.raises(
        ValueError, match="optimizer for 'nuu', and the gates of the cell are b_re, b_im, nu, omega, ga"
    ):
        PerGate(CELL, 0.1, {"nuu": 0.01})
    with pytest.raises(ValueError, match="for a cell with 5 arrays of weights, and this one has 3"):
        init_optimizer(PerGate(CELL, 0.1, {"nu": 0.01}), rc.RNN(2, 3).init_weights(jax.random.key(0)))
    with pytest.raises(ValueError, match="A learning rate must be finite and at least 0"):
        PerGate(CELL, 0.1, {"nu": -0.01})


def test_numbers_alone_make_no_other_program():
    network = rc.Network(CELL, 2)
    run = lambda rest, nu: experiment(network, rc.RTRL(), rc.Add(1, 2), PerGate(CELL, rest, {"nu": nu}))
    alike = [run(rc.Adam(rate), rc.Adam(nu)) for rate in (1e-3, 1e-2) for nu in (1e-5, 1e-4)]
    assert len(programs(alike)) == 1
    assert len(programs([*alike, run(rc.Adam(1e-3), rc.SGD(1e-3, 0.9)), run(rc.Adam(1e-3), 1e-3)])) == 3


@pytest.mark.slow
def test_rates_of_gates_in_a_sweep():
    network, task, optimizer = (
        rc.Network(CELL, 2),
        rc.Add(1, 2),
        PerGate(CELL, rc.Adam(0.01), {"nu": rc.SGD(0.01, 0.9)}),
    )
    settings = {"steps": 200, "progress": False}
    vary = {"optimizer.gates.nu.learning_rate": [0.01, 1.0], "optimizer.rest.learning_rate": [0.01, 0.03]}
    found = rc.sweep(network, rc.RTRL(), task, optimizer=optimizer, vary=vary, **settings)
    for i, nu in enumerate(vary["optimizer.gates.nu.learning_rate"]):
        for j, rate in enumerate(vary["optimizer.rest.learning_rate"]):
            one = PerGate(CELL, rc.Adam(rate), {"nu": rc.SGD(nu, 0.9)})
            alone = rc.train(network, rc.RTRL(), task, optimizer=one, **settings)
            np.testing.assert_allclose(found.final_loss[i, j, 0], alone.final_loss()[0], rtol=1e-9)
    assert len(set(np.ravel(found.final_loss))) == 4


def test_it_can_be_described_in_a_file():
    parts.register(PerGate)
    optimizer = PerGate(CELL, rc.Adam(0.01), {"nu": rc.SGD(0.3, 0.9), "omega": 0.5})
    found = parts.rebuilt(json.loads(json.dumps(parts.described(optimizer))))
    assert found == optimizer
    assert dataclasses.replace(optimizer, rest=0.1).gates == optimizer.gates
    assert hash(found) == hash(optimizer)
    assert dataclasses.replace(optimizer, rest=0.1) != optimizer
