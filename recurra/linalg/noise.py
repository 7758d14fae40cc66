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
    """±1 with equal probability: 32 of them are unpacked from every random word.

    >>> drawn = rc.UORO(nu=rc.noise.signs).nu(jax.random.key(0), (100,), jnp.dtype("float32"))
    >>> sorted(set(drawn.tolist()))
    [-1.0, 1.0]
    """
    size = math.prod(shape)
    words = jax.random.bits(key, (-(-size // 32), 1), "uint32")
    bits = (words >> jnp.arange(32, dtype="uint32")[None]) & jnp.uint32(1)
    return (2 * bits.reshape(-1)[:size].astype(dtype) - 1).reshape(shape)


def gaussian(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """Standard normal.

    >>> rc.UORO(nu=rc.noise.gaussian).nu(jax.random.key(0), (100,), jnp.dtype("float32")).shape
    (100,)
    """
    return jax.random.normal(key, shape, dtype)


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """Uniform on [-√3, √3], the interval on which its variance is 1.

    >>> drawn = rc.UORO(nu=rc.noise.uniform).nu(jax.random.key(0), (100,), jnp.dtype("float32"))
    >>> bool(jnp.max(jnp.abs(drawn)) <= 3**0.5)
    True
    """
    return jax.random.uniform(key, shape, dtype, -math.sqrt(3), math.sqrt(3))
