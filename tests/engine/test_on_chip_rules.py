"""Every rule of the on-chip engine gives what the plain operation gives, whatever stands in the padding."""

import sys

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from on_chip_rules import (
    ARGUMENT,
    BINARY,
    CALLS,
    ELEMENTWISE,
    MOVES,
    NUMBERED,
    PRODUCTS,
    REDUCING,
    REFUSED_RESHAPES,
    RESHAPES,
    UNARY,
    compare,
    flags,
    floats,
    number,
    wholes,
)
from recurra.engine.on_chip.padding import cut, pad, padded_shape, padded_size
from recurra.engine.on_chip.program import carry_out
from recurra.engine.on_chip.rules import RULES, UnsupportedError

#: rules for names that operations have in other versions of JAX, or that only transformations make
ELSEWHERE = {
    "pjit",
    "call",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "stop_gradient",
    "copy",
    "copy_p",
    "one_minus_square",
    "log2",
    "polynomial",
}
SHAPES = [(5,), (3, 7), (2, 1, 11)]


def together(table, **settings):
    """One program of all in a table, so that it is compiled once."""
    return lambda *given: {name: f(*given, **settings) for name, f in table.items()}


@pytest.mark.parametrize("shape", [(5,), (3, 7)])
@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_elementwise(kind, shape):
    table, draw = ELEMENTWISE[kind]
    compare(together(table), *(each(*shape) for each in draw))


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(shape):
    x, axes = floats(*shape), [None, *range(len(shape)), tuple(range(len(shape)))]
    compare(lambda x: [f(x, axis) for f in REDUCING.values() for axis in axes], x)
    compare(lambda x: [f(x, axis) for f in ARGUMENT.values() for axis in range(len(shape))], x)


def test_products():
    factors = [(floats(*x), floats(*y)) for x, y, _, _ in PRODUCTS]

    def products(factors):
        pairs = zip(factors, PRODUCTS, strict=True)
        return [lax.dot_general(x, y, (summed, shared or ((), ()))) for (x, y), (_, _, summed, shared) in pairs]

    compare(products, factors)
    compare(lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), wholes(3, 5), wholes(5, 7))


def test_reshapes():
    arrays = [floats(*before) for before, _ in RESHAPES]
    compare(lambda arrays: [x.reshape(after) for x, (_, after) in zip(arrays, RESHAPES, strict=True)], arrays)


@pytest.mark.parametrize(("before", "after"), REFUSED_RESHAPES)
def test_reshapes_that_would_mix_entries_with_padding_are_refused(before, after):
    with pytest.raises(UnsupportedError, match=r"reshapes axes \(.*\) to \(.*\), and \d+ is no power of two"):
        compare(lambda x: x.reshape(after), floats(*before))


@pytest.mark.parametrize("draw", [floats, wholes, flags])
def test_moves(draw):
    compare(together(MOVES), draw(7, 5))


@pytest.mark.parametrize("draw", [floats, wholes, flags])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_moves_by_a_number(draw, kind):
    x = draw(7, 5)
    compare(together(NUMBERED), x, number(0, kind), also=[(x, number(i, kind)) for i in (3, 6, 9, -2)])


def test_calls_and_loops():
    compare(together(CALLS), floats(5, 3))


def test_batches():
    """As several streams are: what `jax.vmap` makes of a program."""
    tables = {name: lambda x, f=f: f(x, 0) for name, f in (REDUCING | ARGUMENT).items()}
    tables |= {name: f for name, f in CALLS.items() if name not in ("while", "composite")}
    compare(jax.vmap(together(tables)), floats(3, 5, 2))
    compare(jax.vmap(lambda W, x: (W @ x, x @ W.T, jnp.outer(x, x)), (None, 0)), floats(5, 7), floats(3, 7))
    unnumbered = {name: f for name, f in MOVES.items() if name != "diagonal"}
    compare(jax.vmap(together(unnumbered)), floats(3, 7, 5))
    numbered = {name: NUMBERED[name] for name in ("row", "set", "set, clipped", "get, clipped", "get, filled by 1")}
    compare(jax.vmap(together(numbered), (0, None)), floats(3, 7, 5), number(2), also=[(floats(3, 7, 5), number(8))])


def test_constants_of_a_program_are_padded_too():
    own = floats(3)
    compare(lambda x: x * own, floats(5, 3))
    compare(jax.jit(lambda x: x * np.float32(3)), floats(5, 3))


def names(program):
    for equation in program.eqns:
        yield equation.primitive.name
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from names(inner)


def test_no_rule_is_left_out():
    x, i = floats(7, 5), number(1)
    traced = [
        (MOVES, x),
        (NUMBERED, x, i),
        (CALLS, x),
        (UNARY, x),
        (BINARY, x, x),
        (ELEMENTWISE["two wholes"][0], *[wholes(5)] * 2),
    ]
    seen = {name for table, *given in traced for name in names(jax.make_jaxpr(together(table))(*given).jaxpr)}
    axis = {f.__name__: f for f in (jnp.sum, jnp.max, jnp.min, jnp.all, jnp.any, jnp.argmax, jnp.argmin)}
    seen |= set(names(jax.make_jaxpr(together(axis, axis=0))(x).jaxpr)) | {"dot_general", "reshape"}
    assert set(RULES) - seen <= ELSEWHERE


REFUSED = {
    "an operation without a rule": (lambda x: jnp.sort(x, axis=0), "uses 'sort', which has no form inside a kernel"),
    "sums at places": (lambda x: x.at[0].add(1), "uses 'scatter-add'"),
    "complex numbers": (lambda x: jnp.real(lax.complex(x, x)), "uses 'complex'"),
    "columns by numbers": (lambda x: x.at[:, np.array([1, 2])].set(0), "scatters to several places"),
    "part of a row": (lambda x: x.at[jnp.array(1), :2].set(0), "scatters to several places"),
    "several rows": (lambda x: x.at[np.array([1, 2])].set(0), "scatters to several places"),
    "entries": (lambda x: x[np.array([1, 2]), np.array([0, 1])], "gathers scattered entries"),
    "entries by streams": (jax.vmap(lambda x: x[jnp.argmax(x)]), "gathers scattered entries"),
    "a table of rows": (lambda x: x[np.array([[1, 2], [0, 1]])], "gathers scattered entries"),
    "loops of several lengths": (jax.vmap(CALLS["while"]), "whose length differs between streams"),
    "inner arrays": (lambda x: jax.jit(lambda x: x * np.arange(3, dtype="float32"))(x), "keeps an array inside"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused(name):
    f, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        compare(f, floats(5, 3))


def bare(site, *operands):
    """The operation itself, on padded arrays."""
    return site.primitive.bind(*operands, **site.params)


WRONG = {"reduce_sum": jnp.sum, "reduce_max": jnp.max, "reduce_min": jnp.min, "argmax": lambda x: jnp.argmax(x, 0)}
WRONG |= {"rev": lambda x: x[::-1], "dot_general": lambda x: x.T @ x, "concatenate": lambda x: jnp.concatenate([x, x])}


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_heeds_padding_is_noticed(name, monkeypatch):
    compare(WRONG[name], floats(5, 3))
    monkeypatch.setitem(RULES, name, bare)
    with pytest.raises((AssertionError, TypeError)):
        compare(WRONG[name], floats(5, 3))


@pytest.mark.parametrize("name", ["reduce_sum", "dot_general"])
def test_a_rule_without_its_mask_is_noticed(name, monkeypatch):
    monkeypatch.setattr(sys.modules[RULES[name].__module__], "counted", lambda array, *_: array)
    with pytest.raises(AssertionError):
        compare(WRONG[name], floats(5, 3))


def test_sizes_are_padded_to_powers_of_two():
    assert [padded_size(size) for size in (1, 2, 3, 4, 5, 8, 9, 33)] == [1, 2, 4, 4, 8, 8, 16, 64]
    x = floats(3, 5)
    assert pad(x).shape == padded_shape(x.shape) == (4, 8)
    assert pad(x, skip=1).shape == (3, 8)
    assert np.array_equal(cut(pad(x), x.shape), x)


def test_only_what_results_need_is_carried_out():
    program = jax.make_jaxpr(lambda x: (jnp.sort(x), 2 * x)[1])(floats(4))
    assert carry_out(program, floats(4))[0].shape == (4,)
