"""Learners meant for a second engine, one GPU kernel that holds a whole network, use only what lowers there.

Three checks: the primitives of a traced step are on a list, the step really lowers through Pallas to Triton, which
needs no GPU at hand, and the kernel, run by Pallas' interpreter, takes the steps that are taken outside of it.
"""

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.triton as triton
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import flat
from recurra.engine.late_rflo import LateRFLO
from recurra.linalg import dense, inside_kernel, scale
from recurra.linalg.products import is_inside_kernel
from recurra.paper.setup import LEARNERS as PAPER
from recurra.step import APPLIED

SCAN_ONLY = {"rtrl", "r-ok", "e-bptt", "f-bptt"}
PAPERS = {name: rc.LEARNERS[name] for name in PAPER if name not in SCAN_ONLY} | {"late rflo": LateRFLO}
#: of what came after the paper, those that hold no more than vectors and matrices of the weights' own shapes
AFTER = {name: rc.LEARNERS[name] for name in ("immediate", "pp-prop", "preuoro", "e-prop-3")}
KERNEL = PAPERS | AFTER
CELLS = {"rnn": rc.RNN, "lstm": rc.LSTM, "gru": rc.GRU}
STEPS = 5

ELEMENTWISE = {
    "add", "sub", "mul", "div", "neg", "abs", "max", "min", "sqrt", "rsqrt", "square", "integer_pow", "exp", "log",
    "log1p", "expm1", "tanh", "logistic", "select_n", "clamp", "convert_element_type", "rem", "and", "or", "not",
    "eq", "ne", "lt", "le", "gt", "ge", "is_finite", "stop_gradient", "copy",
}  # fmt: skip
SHAPE = {"broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "iota"}
REDUCE = {"reduce_sum", "reduce_max", "reduce_min"}
CONTROL = {"jit", "pjit", "closed_call", "custom_jvp_call", "cond"}
LOWERS = ELEMENTWISE | SHAPE | REDUCE | CONTROL


def setting(cell, learner, n=16):
    """A step of learning, its first state and some rows of inputs, labels and noise."""
    step = rc.LearningStep(rc.Network(cell(2, n, dtype="float32"), 2), {APPLIED: learner}, 1.0)
    key_x, key_y, key_noise = jax.random.split(jax.random.key(1), 3)
    x = jax.random.normal(key_x, (STEPS, 2), "float32")
    y = jax.nn.softmax(jax.random.normal(key_y, (STEPS, 2), "float32"))
    return step, step.init(jax.random.key(0)), (x, y, step.noise(key_noise, STEPS))


def take(step, state, row):
    """A whole step of training, in the form that is asked for where it is traced."""
    x, y, noise = row
    seen, _ = step.observe(state, x, noise)
    return step.learn(seen, y)[0]


def take_inside(step, state, row):
    """A whole step of training as the kernel would take it."""
    with inside_kernel():
        return take(step, state, row)


def primitives(jaxpr):
    """Every equation, those of inner functions too."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from primitives(inner)


def offenders(cell, learner):
    step, state, rows = setting(cell, learner)
    first = jax.tree.map(lambda rows: rows[0], rows)
    found = set()
    for equation in primitives(jax.make_jaxpr(lambda *arguments: take_inside(step, *arguments))(state, first).jaxpr):
        name = equation.primitive.name
        matrices = all(len(operand.aval.shape) == 2 for operand in equation.invars)
        if name not in LOWERS and not (name == "dot_general" and matrices):
            found.add(name)
    return found


def kernel_of(step, state, rows, **options):
    """All steps in a loop inside one kernel: a function of the first state and the rows."""
    leaves, treedef = jax.tree.flatten(state)
    row_leaves, row_tree = jax.tree.flatten(rows)

    def kernel(*refs):
        row_refs, refs = refs[: len(row_leaves)], refs[len(row_leaves) :]
        inputs, outputs = refs[: len(leaves)], refs[len(leaves) :]

        def body(t, state):
            row = [ref[t] if len(ref.shape) == 1 else ref[t, :] for ref in row_refs]
            return take_inside(step, state, jax.tree.unflatten(row_tree, row))

        start = jax.tree.unflatten(treedef, [ref[...] for ref in inputs])
        end = jax.lax.fori_loop(jnp.int32(0), jnp.int32(STEPS), body, start)
        for ref, value in zip(outputs, jax.tree.leaves(end), strict=True):
            ref[...] = value

    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    call = pl.pallas_call(kernel, out_shape=shapes, **options)
    return lambda state, rows: jax.tree.unflatten(treedef, call(*jax.tree.leaves(rows), *jax.tree.leaves(state)))


def lower(cell, learner):
    """The kernel, lowered for a GPU."""
    step, state, rows = setting(cell, learner)
    kernel = kernel_of(step, state, rows, compiler_params=triton.CompilerParams(num_warps=4))
    jax.jit(kernel).trace(state, rows).lower(lowering_platforms=("cuda",))


def apart(cell, learner):
    """How far the kernel's steps lead from those taken outside it: of any array, relative to its largest entry.

    How far the weights went from their start counts by itself, since weights hardly differ from it.
    """
    step, start, rows = setting(cell, learner, n=8)
    inside = jax.jit(kernel_of(step, start, rows, interpret=True))(start, rows)
    outside, one = start, jax.jit(lambda state, row: take(step, state, row))
    for t in range(STEPS):
        outside = one(outside, jax.tree.map(lambda rows, t=t: rows[t], rows))
    way = lambda end, part: flat(part(end.weights)) - flat(part(start.weights))
    ways = lambda end: [way(end, lambda weights: weights.cell), way(end, lambda weights: weights.readout)]
    assert isinstance(learner, rc.Fixed) or largest(ways(outside)[0]) > 0.01
    pairs = zip(*([*jax.tree.leaves(end), *ways(end)] for end in (inside, outside)), strict=True)
    return max(largest(here - there) / max(largest(there), 1e-30) for here, there in pairs)


def largest(array):
    return float(np.abs(array).max())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", KERNEL)
def test_step_holds_only_what_lowers(name, cell):
    assert offenders(CELLS[cell], KERNEL[name]()) == set()


PAIRS = [
    pytest.param(name, cell, marks=() if cell == "rnn" or (cell == "lstm" and name in PAPERS) else pytest.mark.slow)
    for cell in CELLS
    for name in KERNEL
]


@pytest.mark.parametrize(("name", "cell"), PAIRS)
def test_step_lowers_to_a_kernel(name, cell):
    with jax.enable_x64(False):
        lower(CELLS[cell], KERNEL[name]())


def test_a_learner_that_does_not_lower_is_noticed():
    assert "concatenate" in offenders(rc.RNN, rc.RTRL())
    with jax.enable_x64(False), pytest.raises((NotImplementedError, ValueError)):
        lower(rc.RNN, rc.RTRL())


@pytest.mark.parametrize(("name", "cell"), PAIRS)
def test_the_kernel_takes_the_steps_that_are_taken_outside_it(name, cell):
    with jax.enable_x64(False):
        assert apart(CELLS[cell], KERNEL[name]()) < 1e-4


class WrongInside(rc.RFLO):
    """Gradients a thousandth too long, inside the kernel alone."""

    def contract(self, cell, weights, c, state):
        return scale(1.001 if is_inside_kernel() else 1.0, dense(super().contract(cell, weights, c, state)))


@pytest.mark.parametrize("cell", CELLS)
def test_a_kernel_that_takes_other_steps_is_noticed(cell):
    with jax.enable_x64(False):
        assert apart(CELLS[cell], WrongInside()) > 5e-4
