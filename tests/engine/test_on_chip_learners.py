"""A step of learning inside a kernel is the step outside of it: every learner that a kernel can hold.

Kernels are played by Pallas' interpreter, and lowered to Triton, which needs no GPU.
"""

import functools

import jax
import pytest

import recurra as rc
from on_chip_steps import apart, lower, lowered
from recurra.engine.forms import LateRFLO, SharedRFLO
from recurra.engine.on_chip.rules import RULES, UnsupportedError
from recurra.linalg import dense, scale

slow = pytest.mark.slow

#: Kernels add in another order. Their rounding, 1e-7 of a number, grows to 5e-5 of the largest in 20 steps of the
#: noisiest learners, and in most to 1e-6. A gradient that is a thousandth too long leads a thousandth away.
CLOSE, WRONG = 1e-4, 5e-4

PAPER = ("fixed", "rflo", "uoro", "kf-rtrl", "r-kf-rtrl", "kernl", "dni", "dni-b", "e-bptt", "f-bptt")
AFTER = (
    "immediate", "snap-1", "pp-prop", "preuoro", "e-prop-3", "edge-bptt", "diagonal-uoro", "column-uoro",
    "receiver-uoro",
)  # fmt: skip
GATED = {"lstm": rc.LSTM, "gru": rc.GRU}
sparse = functools.partial(rc.RNN, w_rec=rc.cells.Sparsely(density=0.4))
sparser = functools.partial(rc.RNN, w_rec=rc.cells.Sparsely(density=0.3))
OTHERS = {
    "lif": rc.LIF, "alif": rc.ALIF, "elstm": rc.ELSTM, "columnar lstm": rc.ColumnarLSTM, "mingru": rc.MinGRU,
    "sparse": sparse, "sparse gru": functools.partial(rc.GRU, w_rec=rc.cells.Sparsely(density=0.4)),
}  # fmt: skip


def made(kind, n_in=2, n=8):
    return kind(n_in, n, dtype="float32")


def learner(name):
    return rc.LEARNERS[name]()


@pytest.mark.parametrize("name", [*PAPER, *(pytest.param(name, marks=slow) for name in AFTER)])
def test_a_kernel_takes_the_steps_that_are_taken_outside_it(name):
    assert apart(made(rc.RNN), learner(name)) < CLOSE


@slow
@pytest.mark.parametrize("cell", GATED)
@pytest.mark.parametrize("name", PAPER + AFTER)
def test_gated_cells(cell, name):
    assert apart(made(GATED[cell]), learner(name)) < CLOSE


@slow
@pytest.mark.parametrize("name", PAPER + AFTER)
def test_sizes_that_are_no_powers_of_two(name):
    assert apart(made(rc.RNN, n_in=3, n=11), learner(name), n_out=5) < CLOSE


@slow
@pytest.mark.parametrize("cell", OTHERS)
@pytest.mark.parametrize("name", ["rflo", "uoro", "snap-1"])
def test_other_cells(cell, name):
    assert apart(made(OTHERS[cell], n=11), learner(name)) < CLOSE


@slow
@pytest.mark.parametrize(("cell", "form"), [(rc.LSTM, LateRFLO()), (rc.LIF, SharedRFLO())])
def test_forms_that_engines_put_in_the_place_of_rflo(cell, form):
    assert apart(made(cell), form) < CLOSE


@slow
@pytest.mark.parametrize("inner", [rc.RFLO(), rc.SnAp1(), rc.UORO()], ids=lambda inner: inner.about.id)
def test_layers(inner):
    stack = rc.Stack(made(rc.GRU, n=5), made(rc.RNN, n_in=5, n=8))
    assert apart(stack, rc.Layered(inner)) < CLOSE


@slow
@pytest.mark.parametrize("x64", [False, True])
def test_whether_64_bits_are_allowed_changes_nothing(x64):
    with jax.enable_x64(x64):
        assert apart(made(rc.RNN, n=11), rc.FutureBPTT(T=5)) < CLOSE


class TooLong(rc.RFLO):
    """Gradients a thousandth too long."""

    def contract(self, cell, weights, c, state):
        return scale(1.001, dense(super().contract(cell, weights, c, state)))


def test_a_kernel_that_takes_other_steps_is_noticed():
    assert apart(made(rc.RNN), TooLong(), rc.RFLO()) > WRONG


#: what no kernel can hold, and what is said of it
REFUSED = {
    "r-ok": (rc.ROK(), rc.RNN, r"reshapes axes \(4, 121\) to \(44, 11\), and 121 is no power of two"),
    "sk-rtrl": (rc.SKRTRL(), rc.RNN, "uses 'tile', which has no form inside a kernel"),
    "bp-lambda": (rc.BPLambda(), rc.RNN, "uses 'scatter-add'"),
    "bp-lambda-local": (rc.LocalBPLambda(), rc.RNN, "uses 'scatter-add'"),
    "lru": (rc.RFLO(), rc.LRU, "uses 'complex'"),
    "rtu": (rc.RFLO(), rc.RTU, "uses 'complex'"),
    "sparse e-bptt": (rc.EfficientBPTT(), sparse, "reshapes axes|gathers scattered entries"),
    "three of eleven": (rc.RFLO(), sparser, r"reshapes axes \(33,\) to \(11, 3\), and 3 is no power of two"),
    "sparse snap-n": (rc.SnAp(2), sparse, "reshapes axes|gathers scattered entries"),
}


@pytest.mark.parametrize("name", ["r-ok", *(pytest.param(name, marks=slow) for name in list(REFUSED)[1:])])
def test_what_no_kernel_can_hold_is_refused(name):
    kind, cell, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        apart(made(cell, n=11), kind)


LOWERED = [
    pytest.param(name, cell, marks=() if cell == "rnn" and name in PAPER else slow)
    for cell in ("rnn", *GATED)
    for name in PAPER + AFTER
]


@lowered
@pytest.mark.parametrize(("name", "cell"), LOWERED)
def test_a_kernel_lowers_to_triton(name, cell):
    with jax.enable_x64(False):
        lower(made({"rnn": rc.RNN, **GATED}[cell], n=16), learner(name))


@slow
@lowered
@pytest.mark.parametrize("cell", OTHERS)
@pytest.mark.parametrize("name", ["rflo", "uoro"])
def test_kernels_of_other_cells_lower(cell, name):
    with jax.enable_x64(False):
        lower(made(OTHERS[cell], n=11), learner(name))


@lowered
def test_a_kernel_that_does_not_lower_is_noticed(monkeypatch):
    """JAX's own way to write a row into a ring is played well, and has no form in Triton."""
    bare = lambda site, *operands: site.primitive.bind(*operands, **site.params)
    monkeypatch.setitem(RULES, "scatter", bare)
    with jax.enable_x64(False), pytest.raises(NotImplementedError, match="scatter"):
        lower(made(rc.RNN), rc.FutureBPTT())
