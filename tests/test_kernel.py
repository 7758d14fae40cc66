"""Learners meant for a second engine, one GPU kernel that holds a whole network, use only what lowers there.

Two checks: the primitives of a traced step are on a list, and the step really lowers through Pallas to Triton, which
needs no GPU at hand.
"""

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.triton as triton
import jax.extend
import jax.numpy as jnp
import pytest

import recurra as rc
from recurra.algebra import inside_kernel
from recurra.network import NetworkWeights

SCAN_ONLY = {"rtrl", "r-ok", "e-bptt", "f-bptt"}
KERNEL = [name for name in rc.LEARNERS if name not in SCAN_ONLY]
CELLS = {"rnn": rc.RNN, "lstm": rc.LSTM, "gru": rc.GRU}

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
    network = rc.Network(cell(2, n, dtype="float32"), 2)
    weights = network.init(jax.random.key(0))
    state = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
    noise = learner.noise(network.cell, jax.random.key(2), 4)
    return network, (weights, state, network.cell.init_state()), noise


def one_step(network, learner, carry, x, y, t, noise):
    """A whole step of training as the kernel would take it."""
    weights, state, a = carry
    with inside_kernel():
        _, _, readout_gradient, tick = network.step(weights, a, x, y, t)
        gradient, state = learner.step(tick, state, noise)
    descend = lambda w, g: w - jnp.float32(1e-4) * g
    cell = jax.tree.map(descend, weights.cell, gradient)
    readout = jax.tree.map(descend, weights.readout, readout_gradient)
    return NetworkWeights(cell, readout, weights.feedback), state, tick.state


def primitives(jaxpr):
    """Every equation, those of inner functions too."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from primitives(inner)


def offenders(cell, learner):
    network, carry, noise = setting(cell, learner)
    x, y, t = jnp.zeros(2, "float32"), jnp.zeros(2, "float32"), jnp.zeros((), "int32")
    first = jax.tree.map(lambda rows: rows[0], noise)
    step = lambda carry, x, y, t, noise: one_step(network, learner, carry, x, y, t, noise)
    found = set()
    for equation in primitives(jax.make_jaxpr(step)(carry, x, y, t, first).jaxpr):
        name = equation.primitive.name
        matrices = all(len(operand.aval.shape) == 2 for operand in equation.invars)
        if name not in LOWERS and not (name == "dot_general" and matrices):
            found.add(name)
    return found


def lower(cell, learner, steps=4):
    """The step inside a loop inside a kernel, lowered for a GPU."""
    network, carry, noise = setting(cell, learner)
    leaves, treedef = jax.tree.flatten(carry)
    noise_leaves, noise_tree = jax.tree.flatten(noise)

    def kernel(x_ref, y_ref, *refs):
        noise_refs, refs = refs[: len(noise_leaves)], refs[len(noise_leaves) :]
        inputs, outputs = refs[: len(leaves)], refs[len(leaves) :]

        def body(t, carry):
            rows = [ref[t] if len(ref.shape) == 1 else ref[t, :] for ref in noise_refs]
            return one_step(network, learner, carry, x_ref[t, :], y_ref[t, :], t, jax.tree.unflatten(noise_tree, rows))

        start = jax.tree.unflatten(treedef, [ref[...] for ref in inputs])
        end = jax.lax.fori_loop(jnp.int32(0), jnp.int32(steps), body, start)
        for ref, value in zip(outputs, jax.tree.leaves(end), strict=True):
            ref[...] = value

    call = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves],
        compiler_params=triton.CompilerParams(num_warps=4),
    )
    rows = jnp.zeros((steps, 2), "float32")
    jax.jit(call).trace(rows, rows, *noise_leaves, *leaves).lower(lowering_platforms=("cuda",))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", KERNEL)
def test_step_holds_only_what_lowers(name, cell):
    assert offenders(CELLS[cell], rc.LEARNERS[name]()) == set()


@pytest.mark.parametrize("name", KERNEL)
@pytest.mark.parametrize("cell", CELLS)
def test_step_lowers_to_a_kernel(name, cell):
    with jax.enable_x64(False):
        lower(CELLS[cell], rc.LEARNERS[name]())


def test_a_learner_that_does_not_lower_is_noticed():
    assert "concatenate" in offenders(rc.RNN, rc.RTRL())
    with jax.enable_x64(False), pytest.raises((NotImplementedError, ValueError)):
        lower(rc.RNN, rc.RTRL())
