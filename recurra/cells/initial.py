"""How recurrent weights start: the four families of the paper's analysis of RFLO."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.algebra import decomposable
from recurra.machine import backend

#: draws a square matrix from (key, n, dtype)
MatrixInit = Callable[[PRNGKeyArray, int, Any], Float[Array, "n n"]]


def orthogonal(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Uniform over orthogonal matrices: every eigenvalue on the unit circle."""
    draw = lambda key: jax.random.orthogonal(key, n, dtype=decomposable(dtype)).astype(dtype)
    # On CPUs a batch of decompositions waits for threads of the pool it runs in, and two batches at a time can wait for
    # each other for ever. Single ones never wait.
    return (jax.custom_batching.sequential_vmap(draw) if backend() == "cpu" else draw)(key)


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
