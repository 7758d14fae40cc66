"""Fixed random feedback weights, a stand-in for the transpose of the readout (Lillicrap et al. 2016)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


def random_feedback(key: PRNGKeyArray, n_out: int, n: int, dtype: jnp.dtype) -> Float[Array, "n_out n"]:
    """Independent weights ~ N(0, 1/√n_out)."""
    return jax.random.normal(key, (n_out, n), dtype) / n_out**0.5
