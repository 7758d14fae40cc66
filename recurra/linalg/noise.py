"""Random numbers with zero mean and unit variance, drawn in bulk for a whole block of steps.

Each function is a choice for a learner's ν.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

#: a distribution with zero mean and unit variance, drawn from (key, shape, dtype)
Noise = Callable[[PRNGKeyArray, tuple[int, ...], Any], Float[Array, "..."]]


def signs(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """±1 with equal probability: 32 of them are unpacked from every random word."""
    size = math.prod(shape)
    words = jax.random.bits(key, (-(-size // 32), 1), "uint32")
    bits = (words >> jnp.arange(32, dtype="uint32")[None]) & jnp.uint32(1)
    return (2 * bits.reshape(-1)[:size].astype(dtype) - 1).reshape(shape)


def gaussian(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """Standard normal."""
    return jax.random.normal(key, shape, dtype)


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """Uniform on [-√3, √3], the interval on which its variance is 1."""
    return jax.random.uniform(key, shape, dtype, -math.sqrt(3), math.sqrt(3))
