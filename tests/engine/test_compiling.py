"""How programs are compiled: which have their products compiled into the loop, and that none is traced twice."""

import jax
import jax.numpy as jnp
import pytest

import recurra as rc
from driving import experiment
from recurra.engine import compiling, plan
from recurra.engine.compiling import compiled, multiplies_small, traced
from recurra.engine.fold import advance
from recurra.engine.forms import LazyRTRL
from recurra.linalg import norm


def product(*shapes):
    return jax.make_jaxpr(jnp.matmul)(*(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)).jaxpr


@pytest.mark.parametrize(
    ("left", "right", "small"),
    [
        ((32, 32), (32, 32), True),
        ((32, 128), (128, 128), True),
        ((33, 32), (32, 32), False),
        ((32, 129), (129, 32), False),
        ((32, 32), (32, 129), False),
        ((1000, 1000), (1000,), False),  # a vector
        ((7, 32, 32), (7, 32, 32), True),  # each of a batch counts
    ],
)
def test_size_of_a_product(left, right, small):
    assert multiplies_small(product(left, right)) is small


def test_large_products_in_loops_and_branches_count():
    large = jnp.ones((64, 64))
    loop = lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jax.lax.cond(i > 1, lambda: y @ large, lambda: y), x)
    assert not multiplies_small(jax.make_jaxpr(loop)(large).jaxpr)


def test_what_is_multiplied_in_a_branch_alone_is_not_worth_it():
    small = jnp.ones((8, 8))
    branch = lambda x: jax.lax.cond(x[0, 0] > 1, lambda: x @ small, lambda: x)
    assert not multiplies_small(jax.make_jaxpr(branch)(small).jaxpr)
    assert multiplies_small(jax.make_jaxpr(lambda x: branch(x @ small))(small).jaxpr)


def test_long_loops_are_sums_and_small_products_outside_of_branches():
    vector, matrix, small = jnp.ones(compiling.LONG), jnp.ones((50, 20)), jnp.ones((32, 32))
    found = lambda f, *x: compiling.has_long_loops(jax.make_jaxpr(f)(*x).jaxpr)
    assert found(jnp.sum, vector)
    assert found(norm, matrix)  # which is written in another way for cores
    assert found(jnp.matmul, small, small)
    assert not found(jnp.sum, vector[1:])
    assert not found(lambda x: x.sum(axis=0), matrix)
    assert not found(jnp.matmul, small, small[:, 1:])
    assert not found(jnp.matmul, jnp.ones((99, 99)), jnp.ones((99, 99)))  # a call of a library
    assert not found(lambda x: jax.lax.cond(x[0] > 1, jnp.sum, lambda x: x[0], x), vector)


def program_of(learner, n, probes=None):
    """The program of one member's steps, as the engine looks at it."""
    whole = experiment(rc.Network(rc.RNN(2, n), 2), learner, rc.Add(), 1e-4, probes)
    zero = jnp.zeros((), "int32")
    return whole, jax.make_jaxpr(lambda key: advance(whole, *whole.init(key), zero, zero, 1)[1])(jax.random.key(0))


@pytest.mark.parametrize(
    ("learner", "small"),
    [
        (rc.KFRTRL(), True),
        (rc.UORO(), False),
        (rc.EfficientBPTT(), False),
        (rc.RTRL(), False),
        (LazyRTRL(), False),
        (rc.ROK(), False),
    ],
)
def test_learners(learner, small):
    assert multiplies_small(program_of(learner, 32)[1].jaxpr) is small


def test_what_is_looked_at_first_is_not_traced_again():
    seen = []

    def scaled(x, factor):
        seen.append(factor)
        return {"scaled": factor * x}

    x = jnp.ones(3)
    program, shapes = traced(scaled, x, 2.0)
    assert program.eqns
    assert shapes["scaled"].shape == (3,)
    for options in ({}, {"runs_once": True}, {"products_in_loop": True}):
        assert compiled(scaled, "cpu", **options)(x, 2.0)["scaled"].tolist() == [2, 2, 2]
    assert seen == [2.0]
    assert compiled(scaled, "cpu")(x, 3.0)["scaled"].tolist() == [3, 3, 3]
    assert seen == [2.0, 3.0]


def test_options_that_a_version_of_the_compiler_does_not_have_are_left_out(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(compiling, "_ON_CORES", {"xla_backend_optimization_level": 1, "xla_cpu_no_such_option": True})
    known = {name for name, value in compiling._ON_CORES.items() if compiling._is_known(name, value)}
    assert known == {"xla_backend_optimization_level"}
    compiling.compiled.cache_clear()
    assert compiling.compiled(jnp.negative, "cpu")(jnp.ones(2)).tolist() == [-1, -1]
    compiling.compiled.cache_clear()


@pytest.mark.parametrize("exact", [LazyRTRL(), rc.RTRL()])
def test_members_go_together_where_a_probe_multiplies_large_matrices(exact, monkeypatch):
    """The lazy tensor is brought up to date at the end of a round, outside the step, and counts too."""
    monkeypatch.setattr(plan, "cores", lambda: 2)
    for probes, together in (({}, False), ({"exact": exact}, True)):
        whole, program = program_of(rc.KFRTRL(), 32, probes)
        assert plan.is_vmapped(whole, program.jaxpr, 2**14, share=8) is together
