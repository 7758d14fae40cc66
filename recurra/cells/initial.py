"""How recurrent weights start: the four families of the paper's analysis of RFLO."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.linalg import decomposable

#: draws a square matrix from (key, n, dtype)
MatrixInit = Callable[[PRNGKeyArray, int, Any], Float[Array, "n n"]]


def orthogonal(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Uniform over orthogonal matrices: every eigenvalue on the unit circle."""
    draw = lambda key: jax.random.orthogonal(key, n, dtype=decomposable(dtype)).astype(dtype)
    # On CPUs a batch of decompositions waits for other threads of the pool that it runs in. Two batches at a time can
    # wait for each other forever. Single decompositions never wait.
    return jax.lax.platform_dependent(key, cpu=jax.custom_batching.sequential_vmap(draw), default=draw)


def gaussian(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Independent entries ~ N(0, 1/√n): eigenvalues fill the unit disc."""
    return jax.random.normal(key, (n, n), dtype) / math.sqrt(n)


def symmetric(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Symmetric Gaussian, scaled so that its real eigenvalues fill [-1, 1]."""
    G = gaussian(key, n, dtype)
    return (G + G.T) / math.sqrt(8)


def diagonal(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Units that hear only themselves, with weights uniform on [-1, 1]."""
    return jnp.diag(jax.random.uniform(key, (n,), dtype, -1, 1))


def random_feedback(key: PRNGKeyArray, n_out: int, n: int, dtype: jnp.dtype) -> Float[Array, "n_out n"]:
    """Fixed feedback weights ~ N(0, 1/√n_out), a stand-in for the readout's own (Lillicrap et al. 2016)."""
    return jax.random.normal(key, (n_out, n), dtype) / n_out**0.5
