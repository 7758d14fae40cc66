"""Gates and state variables have names, which mean what they say, and which are those of the documentation."""

import re
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from reference_pages import DOCS

OPEN, CLOSED = 50.0, -50.0


class Plain(rc.UnitwiseCell):
    """A cell whose author names nothing."""

    n_in: int
    n: int
    w_rec: object = eqx.field(static=True, default=rc.cells.orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states: ClassVar[int] = 2
    listens: ClassVar = ((True, True, True), (False, True, True), (False, False, True))
    first_bias: ClassVar = (0.0, 0.0, 0.0)

    def unit(self, a, z):
        return jnp.tanh(z[0] + a[1]), jax.nn.sigmoid(z[1] + z[2]) * a[1]


class Named(Plain):
    gates: ClassVar = ("drive", "fade", "level")
    variables: ClassVar = ("rate", "trace")


@pytest.mark.parametrize("kind", rc.CELLS.values(), ids=lambda kind: kind.__name__)
def test_every_gate_and_variable_has_a_name_of_its_own(kind):
    cell = kind(2, 3)
    assert len(cell.gates) == len(set(cell.gates)) == len(cell.listens) == len(cell.init_weights(jax.random.key(0)))
    assert len(cell.variables) == len(set(cell.variables)) == len(cell.init_state())
    assert all(name.isidentifier() for name in (*cell.gates, *cell.variables))


def test_the_table_of_names_is_that_of_the_classes():
    table = (DOCS / "cells.md").read_text("utf-8").partition("| cell | gates | state variables |")[2]
    rows = re.findall(r"^\| (`rc[^|]*) \| ([^|]*) \| ([^|]*) \|$", table.partition("\n\n")[0], re.M)
    names = lambda text: tuple(re.findall(r"`(\w+)`", text))
    found = {
        cell: (names(gates), names(states)) for cells, gates, states in rows for cell in re.findall(r"rc\.(\w+)", cells)
    }
    assert found == {kind.__name__: (kind.gates, kind.variables) for kind in rc.CELLS.values()}


def test_names_that_nobody_gives_are_numbers():
    for cell in (Plain, Plain(2, 3)):
        assert cell.gates == ("0", "1", "2")
        assert cell.variables == ("0", "1")
    assert Named(2, 3).gates == ("drive", "fade", "level")


@pytest.mark.parametrize(
    ("which", "names"), [("gates", ("a", "b")), ("variables", ("a",)), ("gates", "abc"), ("variables", (0, 1))]
)
def test_names_that_do_not_fit_are_refused(which, names):
    kind = type("Odd", (Plain,), {which: names, "__annotations__": {which: ClassVar}})
    count = {"gates": 3, "variables": 2}[which]
    with pytest.raises(
        TypeError, match=f"`{which}` of Odd must be a tuple with a name for each of its {count} {which}"
    ):
        kind(2, 3)


def test_optimizers_tell_gates_apart_by_name():
    """The others stand still; names that there are not are told with those that there are."""
    network = rc.Network(Named(2, 3), 2)
    for cell, name in ((Named(2, 3), "fade"), (Plain(2, 3), "1")):
        step = rc.LearningStep(rc.Network(cell, 2), rc.RFLO(), rc.PerGate(cell, 0.0, {name: 0.5}))
        first = state = step.init(jax.random.key(0))
        first = state = state._replace(a=(jnp.ones(3), jnp.ones(3)))
        for _ in range(3):
            seen, _ = step.observe(state, jnp.ones(2))
            state, _ = step.learn(seen, jnp.array([1.0, 0.0]))
        moved = [
            any(np.abs(v - w).max() > 0 for v, w in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True))
            for before, after in zip(first.weights.cell, state.weights.cell, strict=True)
        ]
        assert moved == [False, True, False]
    with pytest.raises(ValueError, match="'1', and the gates of the cell are drive, fade, level"):
        rc.PerGate(network.cell, 0.1, {"1": 0.01})


def after(cell, biases, state, x=0.7):
    """The next state by variable, where some gates have these biases and no weights, and the input is x."""
    weights = {name: gate for name, gate in zip(cell.gates, cell.init_weights(jax.random.key(1)), strict=True)}
    for name, bias in biases.items():
        weights[name] = jax.tree.map(jnp.zeros_like, weights[name])._replace(bias=jnp.full((cell.n, 1), bias))
    given = tuple(jnp.asarray(state[name], cell.dtype) for name in cell.variables)
    found, _ = cell.forward(tuple(weights.values()), given, jnp.full(cell.n_in, x))
    return dict(zip(cell.variables, map(np.asarray, found), strict=True))


A, B = np.array([0.3, -0.2, 0.5]), np.array([0.9, 0.4, -0.7])


@pytest.mark.parametrize("kind", [rc.LSTM, rc.ColumnarLSTM])
def test_the_names_of_an_lstm_mean_what_they_say(kind):
    state, cell = {"h": A, "c": B}, kind(2, 3)
    own = {} if kind is rc.LSTM else {f"u_{gate}": 0.0 for gate in "ifgo"}
    kept = after(cell, {"i": CLOSED, "f": OPEN, "o": OPEN, **own}, state)
    np.testing.assert_allclose(kept["c"], B)
    np.testing.assert_allclose(kept["h"], np.tanh(B))
    new = after(cell, {"i": OPEN, "f": CLOSED, "g": 0.4, "o": CLOSED, **own}, state)
    np.testing.assert_allclose(new["c"], np.full(3, np.tanh(0.4)))
    np.testing.assert_allclose(new["h"], np.zeros(3), atol=1e-12)


def test_the_names_of_a_gru_mean_what_they_say():
    cell, state = rc.GRU(2, 3), {"a": A}
    np.testing.assert_allclose(after(cell, {"u": OPEN}, state)["a"], A)
    shut = after(cell, {"u": CLOSED, "r": CLOSED, "h_n": 3.0, "x_n": 0.0}, state)
    np.testing.assert_allclose(shut["a"], np.zeros(3), atol=1e-12)
    wide = after(cell, {"u": CLOSED, "r": OPEN, "h_n": 0.2, "x_n": 0.1}, state)
    np.testing.assert_allclose(wide["a"], np.full(3, np.tanh(0.3)))


def test_the_names_of_the_other_gated_cells_mean_what_they_say():
    np.testing.assert_allclose(after(rc.MinGRU(2, 3), {"u": OPEN, "h": 0.4}, {"a": A})["a"], np.full(3, 0.4))
    np.testing.assert_allclose(after(rc.MinGRU(2, 3), {"u": CLOSED, "h": 0.4}, {"a": A})["a"], A)
    quiet = {"w_f": 0.0, "w_z": 0.0}
    np.testing.assert_allclose(after(rc.ELSTM(2, 3), {"f": OPEN, "z": 0.4, **quiet}, {"c": A})["c"], A)
    np.testing.assert_allclose(
        after(rc.ELSTM(2, 3), {"f": CLOSED, "z": 0.4, **quiet}, {"c": A})["c"], np.full(3, np.tanh(0.4))
    )


def test_the_names_of_rotations_mean_what_they_say():
    """λ = exp(-exp(ν) + i exp(ω)): its length and its phase are each of one gate."""
    h = A + 1j * B
    turned = np.exp(-np.exp(-1.0) + 1j * np.exp(0.5)) * h
    own = {"nu": -1.0, "omega": 0.5}
    lru = after(rc.LRU(2, 3), {**own, "gamma": CLOSED}, {"h_re": A, "h_im": B})
    np.testing.assert_allclose(lru["h_re"] + 1j * lru["h_im"], turned)
    rtu = after(rc.RTU(2, 3), own, {"h_1": A, "h_2": B, "phi_1": A, "phi_2": B}, x=0.0)
    np.testing.assert_allclose(rtu["h_1"] + 1j * rtu["h_2"], turned)
    np.testing.assert_allclose(
        rtu["phi_1"] + 1j * rtu["phi_2"], np.maximum(turned.real, 0) + 1j * np.maximum(turned.imag, 0)
    )
    nonlinear = after(rc.NonlinearRTU(2, 3, phi=jnp.tanh), own, {"h_1": A, "h_2": B}, x=0.0)
    np.testing.assert_allclose(nonlinear["h_1"], np.tanh(turned.real))


def test_the_names_of_a_spiking_unit_mean_what_they_say():
    """v leaks, z tells who is above the threshold, r counts down after it, f is a mean of z, and b rises with z."""
    none = np.zeros(3)
    quiet = {"w": None}
    for kind in (rc.LIF, rc.ALIF):
        cell = kind(2, 3, tau_v=10.0, tau_out=5.0)
        assert tuple(quiet) == cell.gates
        state = {**dict.fromkeys(cell.variables, none), "v": np.array([0.2, 2.0, 2.0]), "r": np.array([0.0, 0.0, 3.0])}
        found = after(cell, {}, state, x=0.0)
        np.testing.assert_allclose(found["v"], np.exp(-1 / 10) * state["v"])
        np.testing.assert_array_equal(found["z"], [0, 1, 0])
        np.testing.assert_allclose(found["f"], (1 - np.exp(-1 / 5)) * np.array([0, 1, 0]))
        np.testing.assert_array_equal(found["r"], [0, 4, 2])
        assert "b" not in found or found["b"].tolist() == [0, 1, 0]


def test_the_names_of_a_plain_network_mean_what_they_say():
    np.testing.assert_allclose(after(rc.RNN(2, 3, 0.25), {"w": 0.4}, {"a": A})["a"], 0.75 * A + 0.25 * np.tanh(0.4))
