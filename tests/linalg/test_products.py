"""The products of `linalg` in every form they take by shape, alone and over streams, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recurra.linalg import Outer, average, dense, inner, matvec, norm, outers, summed, vecmat

SIZES = [(3, 2), (2, 12), (12, 2), (12, 11)]  # few and many terms, on either side
rng = np.random.default_rng(0)


def drawn(*shape):
    return jnp.asarray(rng.normal(size=shape))


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_products_with_a_matrix(n, m):
    W, v, V, c = drawn(n, m), drawn(m), drawn(m, 5), drawn(n)
    streams = drawn(4, m), drawn(4, n)
    found = matvec(W, v), vecmat(c, W), inner(W, W)
    for ours, theirs in zip(found, (W @ v, c @ W, (np.asarray(W) ** 2).sum()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_allclose(matvec(W, V), W @ V, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(lambda v: matvec(W, v))(streams[0]), streams[0] @ W.T, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(lambda c: vecmat(c, W))(streams[1]), streams[1] @ W, rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("k", [3, 20])
def test_sums_and_means_of_outer_products(n, m, k):
    u, v, plus = drawn(k, n), drawn(k, m), drawn(n, m)
    total = np.asarray(u).T @ np.asarray(v)
    np.testing.assert_allclose(outers(u, v), total, rtol=1e-11)
    np.testing.assert_allclose(dense(Outer(u[0], v[0])), np.outer(u[0], v[0]), rtol=1e-12)
    np.testing.assert_allclose(dense(Outer(u, v, plus)), plus + total, rtol=1e-11)
    np.testing.assert_allclose(dense(summed([Outer(u, v)])[0]), total, rtol=1e-11)
    np.testing.assert_allclose(average(Outer(u, v)), total / k, rtol=1e-11)
    share = np.linspace(0, 1, k) / np.linspace(0, 1, k).sum()
    each = drawn(k, n, m)
    weighted = (share[:, None] * np.asarray(u)).T @ np.asarray(v)
    np.testing.assert_allclose(average(Outer(u, v), jnp.asarray(share)), weighted, rtol=1e-11)
    np.testing.assert_allclose(average(each, jnp.asarray(share)), np.tensordot(share, each, 1), rtol=1e-11)
    both = average(Outer(u, v, each), jnp.asarray(share))
    np.testing.assert_allclose(both, weighted + np.tensordot(share, each, 1), rtol=1e-11)


def test_the_mean_over_streams_of_sums_over_steps_is_one_product():
    u, v = drawn(4, 6, 12), drawn(4, 6, 11)
    np.testing.assert_allclose(average(Outer(u, v)), np.einsum("bti,btj->ij", u, v) / 4, rtol=1e-11)


def test_the_norm_of_an_outer_product_is_not_multiplied_out():
    u, v, plus = drawn(12), drawn(11), drawn(12, 11)
    np.testing.assert_allclose(norm((Outer(u, v), plus)), np.sqrt((np.outer(u, v) ** 2).sum() + (plus**2).sum()))
    np.testing.assert_allclose(norm(Outer(u, v, plus)), np.linalg.norm(np.outer(u, v) + plus))
    program = jax.make_jaxpr(lambda u, v: norm(Outer(u, v)))(u, v)
    assert (12, 11) not in {var.aval.shape for equation in program.eqns for var in equation.outvars}
