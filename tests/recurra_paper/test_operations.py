"""Operations counted in a traced program, against counts by hand."""

import jax
import jax.numpy as jnp

from recurra_paper.operations import operations


def test_products_loops_and_branches():
    A, x = jnp.ones((4, 6)), jnp.ones(6)
    assert operations(lambda A, x: A @ x, A, x) == 2 * 4 * 6
    assert operations(lambda x: 2 * x + 1, x) == 12
    loop = lambda x: jax.lax.scan(lambda c, _: (c * x, None), x, None, length=5)[0]
    assert operations(loop, x) == 5 * 6
    branches = lambda t, x: jax.lax.cond(t > 0, lambda: x * x * x, lambda: x)
    assert operations(branches, jnp.array(0), x) == 12
    assert operations(branches, jnp.array(0), x, branch=min) == 0
    assert operations(jax.jit(lambda x: x * x), x) == 6
