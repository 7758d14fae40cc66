"""Losses averaged on the device: a GPU makes up to 10⁹ a second, more than the host can take and add up."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from recurra.engine.compiling import compiled


def averaged(
    loss: Float[Array, "members capacity"], steps: int, every: int, platform: str
) -> tuple[Float[Array, "members stretches"], Int[Array, " members"]]:
    """Means over `every` steps each, and the first of so many `steps` whose loss is not finite; -1: none.

    They are as precise as sums on the host. Only the means of whole stretches are of use.
    """
    with jax.enable_x64(True):
        return compiled(_averaged, platform)(loss, np.int32(steps), every)


def _averaged(
    loss: Float[Array, "members capacity"], steps: Int[Array, ""], every: int
) -> tuple[Float[Array, "members stretches"], Int[Array, " members"]]:
    members, capacity = loss.shape
    is_taken = jnp.arange(capacity, dtype="int32") < steps
    loss = jnp.where(is_taken, loss, jnp.zeros_like(loss))  # after the last step it may be anything
    stretches = loss[:, : capacity // every * every].reshape(members, -1, every).astype("float64")
    wrong = ~jnp.isfinite(loss)
    return stretches.mean(axis=2), jnp.where(wrong.any(axis=1), wrong.argmax(axis=1), -1)
