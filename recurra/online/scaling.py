"""Running means and variances, from the past alone."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

#: Standardised inputs are cut off at so many standard deviations.
FAR = 10.0


class Running(NamedTuple):
    """A mean and a variance over the last rows.

    A weight that falls with time would need no `rows`; this one starts fair.
    """

    rows: Float[Array, ""]
    mean: Float[Array, " columns"]
    variance: Float[Array, " columns"]


def nothing_seen(columns: int, dtype: jnp.dtype) -> Running:
    """Before the first row."""
    return Running(jnp.zeros((), dtype), jnp.zeros(columns, dtype), jnp.zeros(columns, dtype))


def seen(before: Running, x: Float[Array, " columns"], memory: int, counts: Bool[Array, ""] | bool = True) -> Running:
    """With one more row, if it counts. After `memory` rows the weight of the past falls exponentially."""
    count = jnp.minimum(before.rows + jnp.where(counts, 1, 0).astype(x.dtype), float(memory))
    share = jnp.where(counts, 1 / jnp.maximum(count, 1), 0)
    away = jnp.where(counts, x - before.mean, 0)
    mean = before.mean + share * away
    variance = before.variance + share * (away * (x - mean) - before.variance)
    return Running(count, mean, jnp.where(counts, variance, before.variance))


def standardised(stats: Running, x: Float[Array, "*rows columns"]) -> Float[Array, "*rows columns"]:
    """x with mean 0 and variance 1; 0 where nothing has varied yet."""
    varies = stats.variance > 0
    away = (x - stats.mean) / jnp.sqrt(jnp.where(varies, stats.variance, 1))
    return jnp.where(varies, jnp.clip(away, -FAR, FAR), 0)
