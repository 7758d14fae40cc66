"""The decompositions of a few rows, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recurra.linalg.decompositions import orthonormal_rows, svd

DTYPES = {"float32": 2e-5, "float64": 1e-12}


def matrices(q, rng):
    """Ordinary ones, and those that break a careless decomposition."""
    full = rng.normal(size=(q, q))
    yield full
    yield full * 10.0 ** -rng.uniform(0, 4, q)  # columns of all sizes
    yield full[:, :1] * full[:1]  # rank one
    yield np.diag(rng.permutation(np.arange(q)).astype(float))  # orthogonal already, in disorder, one of them zero
    yield np.zeros((q, q))
    yield 1e-15 * full
    yield 1e15 * full


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("q", [1, 2, 3, 5, 8, 17])
def test_singular_values(q, dtype):
    for matrix in matrices(q, np.random.default_rng(q)):
        U, sigma, V = map(np.asarray, jax.jit(svd)(jnp.asarray(matrix, dtype)))
        close = dict(rtol=0, atol=DTYPES[dtype] * np.abs(matrix).max())
        np.testing.assert_allclose(sigma, np.linalg.svd(matrix)[1], **close)
        np.testing.assert_allclose(U.T @ np.diag(sigma) @ V, matrix, **close)
        np.testing.assert_allclose(V @ V.T, np.eye(q), atol=DTYPES[dtype])
        there = sigma > 1e-3 * max(sigma[0], 1e-30)
        np.testing.assert_allclose((U @ U.T)[np.ix_(there, there)], np.eye(there.sum()), atol=100 * DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [3, 40])
def test_orthonormal_rows(width, dtype):
    """Rows that depend on others, more rows than columns, rows of zeros: what is new has length one, the rest none."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, width))
    rows[2], rows[4] = 0, rows[0] - 3 * rows[1]
    C, Q = map(np.asarray, jax.jit(orthonormal_rows)(jnp.asarray(rows, dtype)))
    np.testing.assert_allclose(C @ Q, rows, atol=10 * DTYPES[dtype])
    np.testing.assert_array_equal(C, np.tril(C))
    lengths = np.linalg.norm(Q, axis=1)
    expected = [1, 1, 0, 1, 0, 1 if width > 3 else 0]
    np.testing.assert_allclose(lengths, expected, atol=DTYPES[dtype])
    np.testing.assert_allclose(Q @ Q.T, np.diag(expected), atol=DTYPES[dtype])


@pytest.mark.slow
def test_many_at_a_time_are_as_one_by_one():
    batch = jax.random.normal(jax.random.key(0), (7, 5, 5))
    for decompose in (svd, orthonormal_rows):
        for together, single in zip(jax.vmap(decompose)(batch), zip(*map(decompose, batch), strict=True), strict=True):
            np.testing.assert_allclose(together, np.stack(single), atol=1e-5)
