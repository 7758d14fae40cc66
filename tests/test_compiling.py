"""Which programs have their products compiled into the loop."""

import jax
import jax.numpy as jnp
import pytest

import recurra as rc
from recurra.compiling import has_small_products
from recurra.loop import APPLIED, Loop
from recurra.schedule import advance


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
        ((1000, 1000), (1000,), True),  # a vector: there is nothing to win by a library
        ((7, 32, 32), (7, 32, 32), True),  # each of a batch counts
    ],
)
def test_size_of_a_product(left, right, small):
    assert has_small_products(product(left, right)) is small


def test_products_in_loops_and_branches_count():
    large = jnp.ones((64, 64))
    loop = lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jax.lax.cond(i > 1, lambda: y @ large, lambda: y), x)
    assert not has_small_products(jax.make_jaxpr(loop)(large).jaxpr)


@pytest.mark.parametrize(
    ("learner", "small"), [(rc.KFRTRL(), True), (rc.UORO(), True), (rc.RTRL(), False), (rc.ROK(), False)]
)
def test_learners(learner, small):
    loop = Loop(rc.Network(rc.RNN(2, 32), 2), {APPLIED: learner}, rc.Add(), 1e-4, {})
    zero = jnp.zeros((), "int32")
    program = jax.make_jaxpr(lambda key: advance(loop, *loop.init(key), zero, zero, 1)[1])(jax.random.key(0))
    assert has_small_products(program.jaxpr) is small
