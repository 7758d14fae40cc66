"""Unit-wise cells that are read from people's steps, against automatic differentiation of those steps."""

import copy
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import recurra as rc
from driving import distance, flat
from recurra.cells.foreign import ReadCell, _check_agreement
from recurra.cells.reading import NotUnitwise

pytest.importorskip("flax")

from foreign_cells import ZOO, Foreign, M, N

#: relative to the largest number
CLOSE = {8: 1e-12, 4: 1e-5}

#: those that `make test` compares; all of them are read there
OFTEN = (
    "eqx.nn.GRUCell", "linen.LSTMCell", "nnx.GRUCell", "one_kernel_with_a_one", "interleaved", "tied", "ctrnn", "lif",
    "time_between_rows", "matrix", "several_timescales_of_each_unit", "two_variables_that_meet_in_weights_alone",
)  # fmt: skip
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in ZOO]
)


def weights_of(cell, params):
    """The weights that are the user's parameters: `parameters` only reorders them, so it undoes itself transposed."""
    if cell.converts:
        return params
    like = jax.eval_shape(cell.init_weights, jax.random.key(0))
    (weights,) = jax.linear_transpose(cell.parameters, like)(params)
    assert np.array_equal(flat(cell.parameters(weights)), flat(params))
    return weights


def point(foreign, seed=0):
    """Random parameters, carry and input."""
    rng = np.random.default_rng(seed)
    near = lambda leaf, scale: leaf + jnp.asarray(scale * rng.normal(size=leaf.shape), leaf.dtype)
    params = jax.tree.map(lambda leaf: near(leaf, 0.2), foreign.own)
    carry, x = (jax.tree.map(lambda leaf: near(0 * leaf, 1.0), tree) for tree in (foreign.carry, foreign.x))
    return params, carry, x


@functools.partial(jax.jit, static_argnums=0)
def of_step(step, params, carry, x):
    """The step as a function of vectors: its value, and its derivatives in carry, input and parameters."""
    (params, of_params), (carry, of_carry), (x, of_x) = map(ravel_pytree, (params, carry, x))
    f = lambda carry, x, params: ravel_pytree(step(of_params(params), of_carry(carry), of_x(x)))[0]
    return f(carry, x, params), *jax.jacrev(f, (0, 1, 2))(carry, x, params)


def of_cell(cell, weights, carry, x):
    """The cell's value and products with its derivatives, by all of its methods."""
    applied, pull = jax.vjp(cell.applied, weights)
    flat_carry, of_carry = ravel_pytree(carry)
    a, before = cell.state(carry), jax.jacfwd(lambda carry: jnp.concatenate(cell.state(of_carry(carry))))(flat_carry)
    state, trace = cell.forward(applied, a, ravel_pytree(x)[0])
    flat_after, of_after = ravel_pytree(cell.carry(state))
    after = jax.jacfwd(lambda carry: jnp.concatenate(cell.state(of_after(carry))))(flat_after)
    eye, rows = jnp.eye(len(before), dtype=cell.dtype), jnp.eye(len(after), dtype=cell.dtype)
    own = lambda gradient: ravel_pytree(cell.parameters(pull(gradient)[0]))[0]
    return {
        "carry": flat_after,
        "round": ravel_pytree(cell.carry(a))[0],
        "derived": jnp.concatenate(state) - jnp.concatenate(cell.state(cell.carry(state))),
        "before": before,
        "after": after,
        "push": jnp.concatenate(cell.push(applied, trace, cell.split(eye))),
        "push one": jnp.concatenate(cell.push(applied, trace, cell.split(eye[:, 0]))),
        "pull": jax.vmap(lambda c: jnp.concatenate(cell.pull(applied, trace, cell.split(c))))(rows),
        "jacobian": cell.jacobian(applied, trace),
        "push_input": jnp.concatenate(cell.push_input(applied, trace, jnp.eye(cell.n_in, dtype=cell.dtype))),
        "pull_input": jax.vmap(lambda c: cell.pull_input(applied, trace, cell.split(c)))(rows),
        "deposit": jax.vmap(lambda c: own(rc_dense(cell.deposit(applied, trace, cell.split(c)))))(rows),
        "H, D": _local(cell, applied, a, x, trace),
    }


def rc_dense(gradient):
    from recurra.linalg import dense

    return dense(gradient)


def _local(cell, weights, a, x, trace):
    """How far H and D are from derivatives of `unit`, entry by entry."""
    ahat = rc.cells.Sources(a[0], ravel_pytree(x)[0], jnp.ones(1, cell.dtype))
    z = tuple(sum(w @ u for w, u in zip(gate, ahat, strict=True) if w is not None) for gate in weights)
    diagonal = lambda block: jnp.diagonal(block)
    found = []
    for blocks, which in ((trace.H, 0), (trace.D, 1)):
        for row, expected in zip(blocks, jax.jacrev(cell.unit, which)(a, z), strict=True):
            for block, each in zip(row, expected, strict=True):
                found.append(diagonal(each) - (0 if block is None else block))
    return jnp.stack(found)


def differences(foreign, cell, seed=0):
    """For each of the cell's methods how far it is from the step, relative to the largest number."""
    params, carry, x = point(foreign, seed)
    value, J, Jx, Mbar = of_step(foreign.step, params, carry, x)
    ours = jax.jit(functools.partial(of_cell, cell))(weights_of(cell, params), carry, x)
    before, after = ours.pop("before"), ours.pop("after")
    # A state may hold a function of the carry too. So tangents of it are those that the carry's have.
    pairs = {
        "carry": (ours["carry"], value),
        "round": (ours["round"], ravel_pytree(carry)[0]),
        "derived": (ours["derived"], 0),
        "H, D": (ours["H, D"], 0),
        "push": (ours["push"] @ before, after @ J),
        "push one": (ours["push one"], ours["push"][:, 0]),
        "jacobian": (ours["jacobian"] @ before, after @ J),
        "pull": (ours["pull"] @ before, after @ J),
        "push_input": (ours["push_input"], after @ Jx),
        "pull_input": (ours["pull_input"], after @ Jx),
        "deposit": (ours["deposit"], after @ Mbar),
    }
    assert pairs.keys() == ours.keys()
    return {name: np.abs(here - there).max() / max(1, np.abs(there).max()) for name, (here, there) in pairs.items()}


def wrong_parts(foreign, cell, seed=0):
    """The methods that differ."""
    found = differences(foreign, cell, seed)
    return {name for name, each in found.items() if not each < CLOSE[cell.dtype.itemsize]}


@EACH
def test_a_step_is_read_and_every_derivative_is_the_step_s(name):
    foreign = ZOO[name]()
    cell = foreign.cell(unitwise=True)
    assert isinstance(cell, ReadCell)
    expected = foreign.n, foreign.gates, foreign.states, foreign.converts
    assert (cell.n, len(cell.gates), cell.states, cell.converts) == expected
    assert cell.widths == (foreign.n,) * foreign.states
    assert wrong_parts(foreign, cell) == set()


def rearranged(foreign):
    """The same network with units that stand in another order in the carry than among the weights."""
    order = np.array([2, 0, 3, 1])

    def moved(leaf, order):
        axis = leaf.shape.index(N) if N in leaf.shape else None
        return leaf.reshape(-1, N)[:, order].reshape(leaf.shape) if axis is None else jnp.take(leaf, order, axis)

    def step(params, carry, x):
        back = jax.tree.map(lambda leaf: moved(leaf, np.argsort(order)), carry)
        return jax.tree.map(lambda leaf: moved(leaf, order), foreign.step(params, back, x))

    return foreign._replace(thing=step, params=foreign.own, step=step)


def wrongly_shown(foreign, read):
    """How far what is shown, and its credit, are from the general cell's, which knows of no units."""
    _, carry, _ = point(foreign)
    general = foreign.cell(unitwise=False, shown=read.shows)
    c = jnp.arange(1.0, read.shown_width + 1).astype(read.dtype)
    show = lambda cell, carry: cell.show(cell.state(carry))
    there, of_there = jax.vjp(functools.partial(show, general), carry)
    credit = jax.vjp(read.state, carry)[1](read.dense_credit(read.credit_shown(c)))
    return distance((show(read, carry), *credit), (there, *of_there(c)))


@EACH
def test_what_is_shown_has_the_order_of_the_carry(name):
    foreign = rearranged(ZOO[name]())
    shown = tuple(range(len(jax.tree.leaves(foreign.carry))))[::-1]
    assert wrongly_shown(foreign, foreign.cell(unitwise=True, shown=shown)) == 0


@pytest.mark.parametrize("name", ["eqx.nn.GRUCell", "linen.GRUCell", "tied"])
def test_first_weights_are_the_user_s_parameters(name):
    foreign = ZOO[name]()
    cell = foreign.cell()
    weights = cell.init_weights(jax.random.key(0))
    assert jax.tree.structure(cell.parameters(weights)) == jax.tree.structure(foreign.own)
    assert np.array_equal(flat(cell.parameters(weights)), flat(foreign.own))
    assert np.array_equal(flat(cell.carry(cell.init_state())), flat(foreign.carry))


# Negative controls: readings that are wrong in one place must fail the comparison, and `cell_of` must notice them.


def misread(cell, **changes):
    """The cell with another reading of the same step."""
    step = copy.copy(cell.step)
    step.__dict__ |= {"reading": cell.step.reading._replace(**changes), "_key": object()}
    return dataclasses.replace(cell, step=step)


def with_gates_in_another_order(reading):
    return {"weights": lambda params: reading.weights(params)[::-1]}


def with_units_in_another_order(reading):
    """Rows of the first gate."""
    roll = lambda gate: rc.cells.Sources(*(None if w is None else jnp.roll(w, 1, axis=0) for w in gate))
    return {"weights": lambda params: (roll(reading.weights(params)[0]), *reading.weights(params)[1:])}


def with_entries_of_the_carry_in_another_order(reading):
    return {"variables": ((reading.variables[0][0], reading.variables[0][1][::-1].copy()), *reading.variables[1:])}


def without_a_derivative(reading):
    """The right value."""
    unit = lambda a, z: reading.unit(a, (z[0], *map(jax.lax.stop_gradient, z[1:])))
    return {"unit": unit}


def with_a_slightly_wrong_leak(reading):
    return {"unit": lambda a, z: tuple(v + 1e-6 * u for v, u in zip(reading.unit(a, z), a, strict=True))}


WRONG = [
    with_gates_in_another_order, with_units_in_another_order, with_entries_of_the_carry_in_another_order,
    without_a_derivative, with_a_slightly_wrong_leak,
]  # fmt: skip


def test_a_head_that_sees_units_in_another_order_is_noticed():
    class ByUnit(ReadCell):
        """It shows one state variable after the other."""

        _order = None

    cell = ZOO["columns"]().cell()
    assert cell._order is not None
    with pytest.raises(NotUnitwise, match="differs from it at a random point"):
        _check_agreement(ByUnit(**{field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}))


@pytest.mark.parametrize(
    ("name", "change"), [("interleaved", change) for change in WRONG] + [("one_gate_for_all", WRONG[0])]
)
def test_a_wrong_reading_is_noticed(name, change):
    foreign = ZOO[name]()
    cell = foreign.cell()
    _check_agreement(cell)
    wrong = misread(cell, **change(cell.step.reading))
    assert wrong_parts(foreign, wrong)
    with pytest.raises(NotUnitwise, match="differs from it at a random point"):
        _check_agreement(wrong)


# Steps at random.


def elementwise(rng, depth, leaves):
    """A random function of local values, as a function of them, with few kinds of operations."""
    if depth == 0:
        which = int(rng.integers(leaves))
        return lambda values: values[which]
    parts = [elementwise(rng, depth - 1, leaves) for _ in range(2)]
    scale, shift = 0.3 + rng.random(), rng.normal()
    one = [
        jnp.tanh, jax.nn.sigmoid, jax.nn.relu, jax.nn.softplus, jax.nn.silu, jnp.sin, jnp.square, jnp.abs,
        lambda v: scale * v, lambda v: v + shift, lambda v: jnp.clip(v, -1, 1),
    ]  # fmt: skip
    two = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum, lambda u, v: jnp.where(u > shift, u, v)]
    f, g = one[rng.integers(len(one))], two[rng.integers(len(two))]
    return lambda values: g(f(parts[0](values)), parts[1](values))


def as_rows(rng, gates, hears, bias):
    """Gates one below the other in one matrix."""
    shapes = {"W": (gates * N, N), "U": (gates * N, M), "b": (gates * N,)}
    used = [key for key, is_used in zip("WUb", (True, hears, bias), strict=True) if is_used]

    def z(p, h, x):
        found = p["W"] @ h
        found = found + p["U"] @ x if hears else found
        return jnp.split(found + p["b"] if bias else found, gates)

    return {key: shapes[key] for key in used}, z


def as_columns(rng, gates, hears, bias):
    """Gates of a unit beside each other, in kernels that are multiplied from the right."""
    shapes = {"K": (N, N * gates), "R": (M, N * gates), "b": (N * gates,)}
    used = [key for key, is_used in zip("KRb", (True, hears, bias), strict=True) if is_used]

    def z(p, h, x):
        found = h @ p["K"]
        found = x @ p["R"] + found if hears else found
        found = found + p["b"] if bias else found
        return found.reshape(N, gates).T

    return {key: shapes[key] for key in used}, z


def apart(rng, gates, hears, bias):
    """A matrix for each."""
    shapes = {}
    for g in range(gates):
        shapes |= {f"W{g}": (N, N)} | ({f"U{g}": (M, N)} if hears else {}) | ({f"b{g}": (N,)} if bias else {})

    def z(p, h, x):
        heard = lambda g: p[f"W{g}"] @ h + (x @ p[f"U{g}"] if hears else 0.0)
        return [heard(g) + (p[f"b{g}"] if bias else 0.0) for g in range(gates)]

    return shapes, z


def together(rng, gates, hears, bias):
    """One kernel for input and network, in an order at random."""
    order, first = rng.permutation(gates), bool(rng.integers(2))

    def z(p, h, x):
        heard = jnp.concatenate([x, h] if first else [h, x])
        found = jnp.einsum("igk,k->gi", p["K"], heard)
        return [found[g] + p["b"][:, g] for g in order]

    return {"K": (N, gates, N + M), "b": (N, gates)}, z


def step_at_random(seed):
    rng = np.random.default_rng(seed)
    gates, variables = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    layout = [as_rows, as_columns, apart, together][rng.integers(4)]
    shapes, z = layout(rng, gates, *map(bool, rng.integers(2, size=2)))
    units = [elementwise(rng, int(rng.integers(1, 4)), gates + variables) for _ in range(variables)]
    heard = int(rng.integers(variables))
    params = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}

    def step(p, carry, x):
        values = [*z(p, carry[heard], x), *carry]
        # Each has to do with a gate, and with all of the carry, so that it is known which entries make a unit.
        return tuple(0.5 * v + jnp.tanh(unit(values) + values[0]) for v, unit in zip(carry, units, strict=True))

    carry = (jnp.zeros(N),) * variables
    return Foreign(step, params, carry, jnp.zeros(M), gates, step, params, variables)


def check_at_random(seed):
    foreign = step_at_random(seed)
    cell = foreign.cell()
    assert isinstance(cell, ReadCell), cell.why
    assert (cell.n, cell.states) == (N, foreign.states)
    assert wrong_parts(foreign, cell, seed) == set()


GAIN = np.linspace(0.5, 1.5, N)
#: what becomes of the first variable after a step, and whether what comes of it is unit-wise; None: either may be
CHANGES = {
    "gains": (lambda h: GAIN * h, True),
    "domain": (lambda h: jnp.sqrt(jnp.abs(h) - 1e-3), True),
    "backwards": (lambda h: h[::-1], None),
    "neighbours": (lambda h: h + 0.1 * jnp.roll(h, 1), False),
    "halves": (lambda h: jnp.concatenate([jnp.tanh(h[:2]), h[2:]]), False),
    "mean": (lambda h: h - h.mean(), False),
    "complex": (lambda h: jnp.exp(jax.lax.complex(0.1 * h, h)).real, False),
    "rounded": (lambda h: jnp.asarray(jnp.asarray(h, "float32"), h.dtype), False),
    "nowhere": (lambda h: jnp.log(-1 - jnp.abs(h)), False),
}


def changed_at_random(seed):
    """A step at random with one of these changes, or another order of units, or taken twice; and whether it is read."""
    foreign, which = step_at_random(seed), seed % (len(CHANGES) + 2)
    if which == len(CHANGES):
        return rearranged(foreign), True
    if which == len(CHANGES) + 1:
        step, is_read = lambda p, carry, x: foreign.step(p, foreign.step(p, carry, x), x), False
    else:
        change, is_read = [*CHANGES.values()][which]
        step = lambda p, carry, x: (change((after := foreign.step(p, carry, x))[0]), *after[1:])
    return foreign._replace(thing=step, step=step), is_read


def check_changed(seed):
    """What is read is the step in value, derivatives and what is shown; all else is refused with a reason."""
    foreign, is_read = changed_at_random(seed)
    cell = foreign.cell()
    assert is_read in (None, isinstance(cell, ReadCell)), cell.why
    if isinstance(cell, ReadCell):
        assert wrong_parts(foreign, cell, seed) == set()
        assert wrongly_shown(foreign, cell) == 0
    else:
        assert cell.why.startswith(("it ", "line "))
        assert "please report" not in cell.why


SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(SEEDS)
def test_steps_at_random(seed):
    check_at_random(seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(SEEDS)
def test_many_steps_at_random(seed):
    check_at_random(seed)


@pytest.mark.parametrize("seed", [1, 7, 9])
def test_steps_at_random_that_need_not_be_read(seed):
    check_changed(seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(SEEDS)
def test_many_steps_at_random_that_need_not_be_read(seed):
    check_changed(seed)
