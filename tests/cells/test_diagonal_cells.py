"""Cells whose units hear only themselves: RTRL is exact there at the memory of the weights, and RFLO is RTRL."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, flat, problem
from recurra.cells.columnar import ColumnarLSTM
from recurra.cells.elstm import ELSTM
from recurra.cells.lru import LRU
from recurra.cells.min_gru import MinGRU
from recurra.cells.rtu import RTU, NonlinearRTU
from recurra.engine.forms import LateRFLO, OwnRTRL
from recurra.engine.specialise import fastest
from recurra.learners.immediate import Immediate
from recurra.learners.snap_1 import SnAp1
from unrolled import sigmoid

N, N_IN, STEPS = 3, 2, 4


# The same cells from their equations: (weights, state, x) -> (state, what the readout sees). Weights are
# only read here, as gates of (recurrent, input, bias).


def inp(gate, x):
    return jnp.einsum("ij,j->i", gate.inp, x)


def own(gate):
    return gate.bias[:, 0]


def lru(W, h, x):
    lam = jnp.exp(jax.lax.complex(-jnp.exp(own(W[2])), jnp.exp(own(W[3]))))
    Bx = jax.lax.complex(inp(W[0], x), inp(W[1], x))
    h = lam * h + jnp.exp(own(W[4])).astype(complex) * Bx
    return h, jnp.concatenate([h.real, h.imag])


def before_phi(W, h, x):
    r, theta = jnp.exp(-jnp.exp(own(W[2]))), jnp.exp(own(W[3]))
    gamma, wx = jnp.sqrt(1 - r**2), jax.lax.complex(inp(W[0], x), inp(W[1], x))
    return jax.lax.complex(r * jnp.cos(theta), r * jnp.sin(theta)) * h + gamma.astype(complex) * wx


def rtu(W, h, x):
    h = before_phi(W, h, x)
    return h, jnp.tanh(jnp.concatenate([h.real, h.imag]))


def nonlinear_rtu(W, h, x):
    h = before_phi(W, h, x)
    h = jax.lax.complex(jnp.tanh(h.real), jnp.tanh(h.imag))
    return h, jnp.concatenate([h.real, h.imag])


def elstm(W, c, x):
    f = sigmoid(inp(W[0], x) + own(W[0]) + own(W[2]) * c)
    c = f * c + (1 - f) * jnp.tanh(inp(W[1], x) + own(W[1]) + own(W[3]) * c)
    return c, c


def columnar(W, state, x):
    h, c = state
    i, f, g, o = (inp(W[k], x) + own(W[k]) + own(W[k + 4]) * h for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
    h = sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def min_gru(W, h, x):
    u = sigmoid(inp(W[0], x) + own(W[0]))
    h = (1 - u) * h + u * (inp(W[1], x) + own(W[1]))
    return h, h


ZERO, ORIGIN = jnp.zeros(N), jnp.zeros(N, complex)
#: name -> (the library's cell, the same cell by hand, its first state)
CELLS = {
    "lru": (LRU, lru, ORIGIN),
    "rtu": (lambda n_in, n: RTU(n_in, n, jnp.tanh), rtu, ORIGIN),
    "nonlinear rtu": (lambda n_in, n: NonlinearRTU(n_in, n, jnp.tanh), nonlinear_rtu, ORIGIN),
    "elstm": (ELSTM, elstm, ZERO),
    "columnar lstm": (ColumnarLSTM, columnar, (ZERO, ZERO)),
    "minimal gru": (MinGRU, min_gru, ZERO),
}


@functools.cache
def gradients(name):
    """Of each step's loss: by autodiff through all steps before it, and as learners find them."""
    make, by_hand, first = CELLS[name]
    network, weights, xs, ys = problem(make, n=N, n_in=N_IN, steps=STEPS)

    def losses(W):
        def one(a, row):
            a, shown = by_hand(W, a, row[0])
            z = jnp.einsum("ij,j->i", weights.readout.W, shown) + weights.readout.b
            return a, -jnp.sum(row[1] * (z - jnp.log(jnp.sum(jnp.exp(z)))))

        return jax.lax.scan(one, first, (xs, ys))[1]

    cheap = fastest(rc.RTRL(), network.cell, "cpu")
    learners = {"rtrl": rc.RTRL(), "rflo": rc.RFLO(), "snap-1": SnAp1(), "cheap": cheap, "immediate": Immediate()}
    step = rc.LearningStep(network, rc.Fixed(), 0.0, probes=learners)

    def take(state, row):
        seen, _ = step.observe(state, row[0], {name: None for name in step.learners})
        state, outcome = step.learn(seen, row[1])
        return state, outcome.gradients

    start = step.start_from(weights, jax.random.key(0))
    found = jax.jit(lambda *given: jax.lax.scan(take, *given)[1])(start, (xs, ys))
    return jax.jit(jax.jacfwd(losses))(weights.cell), {name: found[name] for name in learners}


def at(rows, t):
    return jax.tree.map(lambda leaf: leaf[t], rows)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("rtu", "lru") else pytest.mark.slow) for n in CELLS]
)
def test_rtrl_is_autodiff_at_every_step_and_so_are_rflo_and_snap_1(name):
    exact, found = gradients(name)
    for learner in ("rtrl", "rflo", "snap-1", "cheap"):
        for gradient, wanted in zip(jax.tree.leaves(found[learner]), jax.tree.leaves(exact), strict=True):
            assert np.abs(wanted).max() > 1e-4
            np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_a_rule_without_memory_is_not_autodiff(name):
    """The control of the test above: it is exact at the first step, and nowhere else."""
    exact, found = gradients(name)
    away = [distance(at(found["immediate"], t), at(exact, t)) for t in range(STEPS)]
    assert away[0] < 1e-12
    assert min(away[1:]) > 1e-3


@pytest.mark.parametrize("name", CELLS)
def test_what_rtrl_carries_is_a_few_times_the_weights(name):
    size = lambda tree: sum(leaf.size for leaf in jax.tree.leaves(tree))

    def sizes(cell):
        both = lambda key: (W := cell.init_weights(key), rc.RTRL().init(cell, W, key, 2))
        return map(size, jax.eval_shape(both, jax.random.key(0)))

    for n in (5, 50):
        cell = CELLS[name][0](N_IN, n)
        weights, carried = sizes(cell)
        assert carried == cell.states * weights
        assert weights <= len(cell.listens) * n * (N_IN + 1)
    weights, carried = sizes(rc.RNN(N_IN, 50))
    assert carried == 50 * weights  # where units hear each other


@pytest.mark.parametrize("name", CELLS)
def test_engines_use_the_cheap_form(name):
    cell = CELLS[name][0](N_IN, N)
    for platform, streams in (("cpu", 1), ("cpu", 3), ("gpu", 1)):
        # φ(h) of an RTU is read by the readout alone; λ of an LRU is a function of its parameters alone
        is_late = name == "rtu" or (name == "lru" and (platform, streams) == ("cpu", 1))
        assert type(fastest(rc.RTRL(), cell, platform, streams)) is (LateRFLO if is_late else OwnRTRL)


#: learners that need recurrent weights, or a stack of cells
REFUSED = ("dni-b", "layered")


def trained(kind, learner):
    cell = CELLS[kind][0](2, 3)
    return rc.train(rc.Network(cell, 2), learner, rc.Add(1, 2), steps=30, optimizer=0.005, progress=False).weights


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lru", "rtu", "columnar lstm"])
@pytest.mark.parametrize("name", [name for name in rc.LEARNERS if name not in REFUSED])
def test_every_learner_trains_them(name, kind):
    after, untrained = trained(kind, rc.LEARNERS[name]()), trained(kind, rc.Fixed())
    assert np.isfinite(flat(after)).all()
    assert name == "fixed" or distance(after.cell, untrained.cell) > 0


def test_dni_b_says_that_there_is_no_jacobian_to_learn():
    with pytest.raises(ValueError, match="LRU has none: use DNI"):
        rc.train(rc.Network(LRU(2, 3), 2), rc.DNIb(), rc.Add(1, 2), steps=10, progress=False)


# How they start.


def test_the_eigenvalues_of_an_lru_fill_a_ring():
    cell = LRU(2, 20_000, r_min=0.5, r_max=0.9, max_phase=1.0)
    W = cell.init_weights(jax.random.key(0))
    squared = np.exp(-2 * np.exp(W[2].bias[:, 0]))
    phase = np.exp(W[3].bias[:, 0])
    assert squared.min() >= 0.25
    assert squared.max() <= 0.81
    assert abs(squared.mean() - (0.25 + 0.81) / 2) < 0.005  # uniform over the area
    assert abs(squared.std() - (0.81 - 0.25) / 12**0.5) < 0.005
    assert 0 < phase.min() < phase.max() < 1
    assert abs(phase.mean() - 0.5) < 0.01
    np.testing.assert_allclose(np.exp(W[4].bias[:, 0]) ** 2, 1 - squared, rtol=1e-12)
    for gate in W[:2]:
        assert abs(gate.inp.std() - (2 * 2) ** -0.5) < 0.01
    assert distance(W[0].inp, W[1].inp) > 0.5  # two draws


def test_a_ring_on_the_unit_circle_is_finite():
    """|λ| that rounds to 1 would have an infinite logarithm."""
    for dtype in ("float32", "float16"):
        cell = LRU(2, 5000, r_min=1.0, r_max=1.0, dtype=dtype)
        assert np.isfinite(flat(cell.init_weights(jax.random.key(0)))).all()


@pytest.mark.parametrize("kind", [LRU, RTU, NonlinearRTU])
def test_too_few_digits_for_long_memories(kind):
    with pytest.warns(UserWarning, match=rf"{kind.__name__} will be poor in bfloat16: so few digits round"):
        kind(2, 3, dtype="bfloat16")
    kind(2, 3, dtype="float32")  # a warning would be an error


def test_trace_units_start_as_published():
    for kind in (RTU, NonlinearRTU):
        W = kind(2, 20_000).init_weights(jax.random.key(1))
        squared, phase = np.exp(-2 * np.exp(W[2].bias[:, 0])), np.exp(W[3].bias[:, 0])
        for drawn in (squared, phase / 6.28):
            assert abs(drawn.mean() - 0.5) < 0.01
            assert abs(drawn.std() - 12**-0.5) < 0.01
            assert 0 < drawn.min() < drawn.max() < 1


def test_own_weights_are_drawn_and_biases_are_not():
    W = ELSTM(2, 5000).init_weights(jax.random.key(0))
    assert not np.any(W[0].bias)
    assert not np.any(W[1].bias)
    assert abs(W[2].bias.std() - 0.1) < 0.005
    assert distance(W[2].bias, W[3].bias) > 0.5
    W = ColumnarLSTM(2, 5000).init_weights(jax.random.key(0))
    assert [float(gate.bias.mean()) for gate in W[:4]] == [0, 1, 0, 0]
    assert all(abs(gate.bias.std() - 0.1) < 0.005 for gate in W[4:])


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"`r_min` of LRU must be at least 0\.0 and at most 0\.5, and is 0\.9"):
        LRU(2, 3, r_min=0.9, r_max=0.5)
    with pytest.raises(ValueError, match="`r_max` of LRU"):
        LRU(2, 3, r_max=1.5)
    with pytest.raises(ValueError, match="`max_phase` of LRU"):
        LRU(2, 3, max_phase=0.0)


def test_the_ring_may_be_an_argument_of_a_compiled_program():
    start = jax.jit(lambda r: LRU(2, 9, r_min=r, r_max=r + 0.1).init_weights(jax.random.key(0)))
    for r in (0.1, 0.8):
        size = np.exp(-np.exp(start(r)[2].bias))
        assert r < size.min() < size.max() < r + 0.1
