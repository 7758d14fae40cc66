"""A loss for classes that appear over time."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra.losses import Loss
from recurra.saved.parts import register


class SeenCrossEntropy(Loss):
    """Softmax cross-entropy over the classes seen so far. The label is -1 for all other outputs, which stand still."""

    def __call__(
        self, z: Float[Array, " n_out"], label: Float[Array, " n_out"]
    ) -> tuple[Float[Array, ""], Float[Array, " n_out"]]:
        seen = label >= 0
        log_y = jax.nn.log_softmax(jnp.where(seen, z, -jnp.inf))
        zero = jnp.zeros_like(z)
        return -jnp.sum(jnp.where(label > 0, label * log_y, zero)), jnp.where(seen, jnp.exp(log_y) - label, zero)


register(SeenCrossEntropy)
