"""What the compiled programs hold, whatever the clock says: memory, state, and no way back to the host."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import recurra as rc
from driving import experiment
from recurra.engine.fold import advance
from recurra.engine.forms import LazyRTRL
from recurra.engine.specialise import specialised
from recurra.engine.tuning import SPAN
from recurra_paper.setup import LEARNERS as PAPER

HORIZON = 10


def lowered(learner, n, record=None):
    """The program that takes one seed through a chunk on a core, before it is compiled."""
    network = rc.Network(rc.RNN(2, n, dtype="float32"), 2)
    whole = specialised(experiment(network, learner, rc.Add(), record=record).traced, "cpu")
    carry, keys = eqx.filter_eval_shape(whole.init, jax.random.key(0))  # nothing runs: shapes are enough
    bounds = jnp.array(0, "int32"), jnp.array(100, "int32")
    return jax.jit(lambda *run: advance(whole, *run, 128)).lower(carry, keys, *bounds)


def scratch(learner, n):
    """Bytes a program needs besides its arguments and results."""
    return lowered(learner, n).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("name", ["uoro", "rflo", "kernl", "dni", "e-bptt", "f-bptt"])
def test_cheap_learners_never_form_a_tensor_of_third_order(name):
    """Twice the units, four times the memory; with a tensor of n × n × m somewhere it would be eight times."""
    small, large = (scratch(rc.LEARNERS[name](), n) for n in (96, 192))
    assert large < 5 * small
    assert large < 4 * 192 * 192 * 20  # and no more than twenty matrices


def test_the_test_above_sees_a_tensor_of_third_order():
    small, large = (scratch(rc.RTRL(), n) for n in (48, 96))
    assert large > 6 * small


def expected_numbers(name, n, m):
    """How many numbers each representation needs, with n units and m = n + n_in + 1 sources."""
    history = n + (m - 1) + n  # D, ahat without its constant, and credit
    synthesizer = n * (n + 2 + 1)
    return {
        "rtrl": n * n * m,
        "lazy rtrl": n * n * m + SPAN * (n * n + n + m),  # M before a span, and each of its steps: J, D and ahat
        "uoro": n + n * m,
        "kf-rtrl": m + n * n,
        "r-kf-rtrl": n + n * m,
        "r-ok": 4 * (m + n * n),
        "kernl": n * n + n * m + 4 * n,
        "rflo": n * m,
        "e-bptt": HORIZON * history,
        "f-bptt": (HORIZON + 1) * history,
        "dni": 2 * synthesizer,
        "dni-b": 2 * synthesizer + n * n + 2 * n,
        "fixed": 0,
    }[name]


@pytest.mark.parametrize("name", [*PAPER, "lazy rtrl"])
def test_a_state_is_no_larger_than_its_representation(name):
    n, n_in = 48, 2
    network = rc.Network(rc.RNN(n_in, n, dtype="float32"), 2)
    weights = network.init(jax.random.key(0))
    kind = LazyRTRL if name == "lazy rtrl" else rc.LEARNERS[name]
    state = kind().init(network.cell, weights.cell, jax.random.key(0), 2)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(state))
    assert numbers <= 1.1 * expected_numbers(name, n, n + n_in + 1)


#: one of each kind; the others are slow
FEW = ("rtrl", "uoro", "r-ok", "kernl", "e-bptt", "f-bptt", "dni-b", "bp-lambda")
AFTER = ("snap-1", "pp-prop", "diagonal-uoro", "bp-lambda", "e-prop-3")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in (*PAPER, *AFTER)]
)
def test_nothing_leaves_for_the_host_inside_a_chunk(name):
    text = lowered(rc.LEARNERS[name](), 8, {"norms": rc.record.gradient_norms}).as_text()
    assert not [word for word in ("callback", "infeed", "outfeed", "send(", "recv(") if word in text]


def test_the_test_above_sees_a_callback():
    program = lowered(rc.RFLO(), 8, {"seen": lambda outcome: jax.debug.callback(print, outcome.loss) or outcome.loss})
    assert "callback" in program.as_text()
