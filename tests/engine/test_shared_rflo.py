"""RFLO that keeps the trace of a shared variable once gives the gradients of RFLO, and is chosen where it can be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, drive, problem
from recurra.cells import Sparsely
from recurra.cells.unitwise import UnitwiseCell
from recurra.engine.forms import LateRFLO, SharedRFLO
from recurra.engine.specialise import fastest
from recurra.linalg import dense
from taking_steps import gradients, take_steps

N_IN, N, STEPS = 2, 4, 12
#: Units spike often at this threshold, and rest for one step.
FAST = {"threshold": 0.2, "refractory": 1}
CELLS = {
    "lif": lambda n_in, n, dtype=None: rc.LIF(n_in, n, **FAST, dtype=dtype),
    "alif": lambda n_in, n, dtype=None: rc.ALIF(n_in, n, tau_a=9.0, beta=0.1, **FAST, dtype=dtype),
    "sparse": lambda n_in, n, dtype=None: rc.ALIF(
        n_in, n, tau_a=9.0, beta=jnp.linspace(0.01, 0.1, n), w_rec=Sparsely(0.6), **FAST, dtype=dtype
    ),
    "whole": lambda n_in, n, dtype=None: rc.LIF(n_in, n, w_rec=rc.cells.gaussian, **FAST, dtype=dtype),
    "linear": lambda n_in, n, dtype=None: rc.RNN(n_in, n, 0.6, phi=lambda h: h / 2, dtype=dtype),
}


QUICK = ("alif", "linear")


@pytest.mark.parametrize(
    "cell", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CELLS]
)
def test_it_is_rflo(cell):
    network, weights, xs, ys = problem(CELLS[cell], N, N_IN, steps=STEPS)
    both = [drive(network, learner, weights, xs, ys) for learner in (SharedRFLO(), rc.RFLO())]
    found, wanted = ([gradient for gradient, _, _ in each] for each in both)
    assert distance(found, wanted) < 1e-12
    assert all(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(wanted[-1])), "nothing is tested"


@pytest.mark.parametrize("form", [SharedRFLO(), LateRFLO()], ids=lambda form: type(form).__name__)
def test_what_a_step_alone_needs_may_be_kept_as_well(form):
    """Traces that no later step reads change nothing if they are not dropped, whichever variables credit comes from."""
    network, weights, xs, ys = problem(CELLS["alif"], N, N_IN, steps=6)
    start = lambda learner: learner.init(network.cell, weights.cell, jax.random.key(0), 2)
    both = {learner: start(learner) for learner in (form, rc.RFLO())}
    credit = network.cell.split(jax.random.normal(jax.random.key(1), (sum(network.cell.widths),)))
    for _, _, tick in drive(network, rc.RFLO(), weights, xs, ys):
        both = {learner: learner.advance(tick, M, None) for learner, M in both.items()}
        found, wanted = (dense(learner.contract(network.cell, weights.cell, credit, M)) for learner, M in both.items())
        assert distance(found, wanted) < 1e-12


@pytest.mark.parametrize(
    ("streams", "dtype", "near"), [pytest.param(1, "float32", 1e-5, marks=pytest.mark.slow), (3, "float64", 1e-12)]
)
def test_with_streams_resets_and_learning(streams, dtype, near):
    """Weights change from step to step, and every stream is set back at a time of its own."""
    network = rc.Network(CELLS["alif"](N_IN, N, dtype), 2)
    key_x, key_y, key_W = jax.random.split(jax.random.key(4), 3)
    shape = (STEPS, streams)[: 1 + (streams > 1)]
    xs = 2 * jax.random.normal(key_x, (*shape, N_IN), dtype)
    ys = jax.nn.softmax(jax.random.normal(key_y, (*shape, 2), dtype))
    reset = np.zeros(shape, bool)
    reset[5], reset[-2] = True, np.arange(streams) == 0 if streams > 1 else True
    drawn = network.init(key_W)
    run = lambda learner, reset: gradients(
        take_steps(network, learner, drawn, xs, ys, optimizer=0.05, reset=reset, streams=streams)
    )
    found, wanted, others = run(SharedRFLO(), reset), run(rc.RFLO(), reset), run(rc.RFLO(), np.zeros_like(reset))
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype(dtype)}
    assert distance(found, wanted) < near
    assert distance(found, others) > 1e-3


def test_it_keeps_a_matrix_less():
    """What is carried: of ALIF, traces of b and of f for each weight, and a number for each source."""
    cell = rc.ALIF(N_IN, N)
    weights = cell.init_weights(jax.random.key(0))
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in (weights, *_states(cell, weights))]
    assert sizes[1:] == [2 * sizes[0] + N + N_IN, 3 * sizes[0]]


def _states(cell, weights):
    return [learner.init(cell, weights, jax.random.key(0), 2) for learner in (SharedRFLO(), rc.RFLO())]


def test_a_wrong_leak_is_noticed():
    """The control: b that is not filtered, as if v had no memory."""
    network, weights, xs, ys = problem(CELLS["alif"], N, N_IN, steps=STEPS)
    forgets = lambda self, tick, state, noise: SharedRFLO.advance(
        self, tick, state._replace(b=jax.tree.map(jnp.zeros_like, state.b)), noise
    )
    wrong = type("Wrong", (SharedRFLO,), {"advance": forgets})()
    assert distance(*(drive(network, learner, weights, xs, ys)[-1][0] for learner in (wrong, rc.RFLO()))) > 1e-3


class Two(UnitwiseCell):
    """v' = leak v + z and h' = h / 2 + s, where a subclass says what s is."""

    n_in: int = N_IN
    n: int = N
    dtype: jnp.dtype = jnp.dtype("float64")
    w_rec = staticmethod(rc.cells.gaussian)
    states = 2
    listens = ((True, True, False),)
    first_bias = (0.0,)

    def unit(self, a, z):
        v = self.leak(*a) * a[1] + z[0]
        return a[0] / 2 + self.read(a[1], v, z[0]), v

    def leak(self, h, v):
        return 0.9

    def read(self, before, v, z):
        return jnp.tanh(v)


def two(**methods):
    return type("Other", (Two,), {name: staticmethod(method) for name, method in methods.items()})()


def test_a_shared_variable_is_found_where_there_is_one():
    assert [make(N_IN, N).shared for make in CELLS.values()] == [1, 1, 1, 1, 0]
    assert Two().shared == 1
    others = {
        "a leak of its own in every unit": {"leak": lambda h, v: jnp.linspace(0.1, 0.9, N)},
        "a leak that depends on the state": {"leak": lambda h, v: jnp.tanh(h)},
        "a gate that is read beside it": {"read": lambda before, v, z: jnp.tanh(v) + z},
        "an old value that is read beside it": {"read": lambda before, v, z: jnp.tanh(v) * before},
    }
    assert {what for what, methods in others.items() if two(**methods).shared is not None} == set()
    cells = (rc.RNN, rc.GRU, rc.LSTM, rc.LRU, rc.RTU, rc.MinGRU)
    assert {make.__name__ for make in cells if make(N_IN, N).shared is not None} == set()


def test_engines_choose_it():
    for platform in ("cpu", "gpu"):
        assert {type(fastest(rc.RFLO(), make(N_IN, N), platform)) for make in CELLS.values()} == {SharedRFLO}
        assert type(fastest(rc.RFLO(), rc.LSTM(N_IN, N), platform)) is LateRFLO
        assert type(fastest(rc.RFLO(), rc.RNN(N_IN, N), platform)) is rc.RFLO
    own = type("Own", (rc.RFLO,), {})()
    assert fastest(own, rc.LIF(N_IN, N), "cpu") is own
