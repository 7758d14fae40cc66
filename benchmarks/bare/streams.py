"""Streams in parallel that share weights: a step is vmapped over them by name, and gradients are means over them."""

import jax
import jax.numpy as jnp

AXIS = "streams"


def mean(tree, streams):
    """Over streams, as a product: it adds them side by side."""
    weight = jnp.full(streams, 1 / streams)
    each = lambda leaf: jnp.tensordot(weight, jax.lax.all_gather(leaf, AXIS), 1, precision="highest")
    return tree if streams == 1 else jax.tree.map(each, tree)


def mean_outer(u, v, streams):
    """The mean of u vᵀ over streams, as one product of matrices; v may be a number."""
    if streams == 1:
        return jnp.outer(u, v) if v.ndim else u * v
    u, v = jax.lax.all_gather((u, v), AXIS)
    return jnp.matmul(u.T / streams, v, precision="highest")


def over(step, streams):
    """A step of one stream, for all: the carry shares its weights, the inputs share the time."""
    if streams == 1:
        return step
    of_carry = lambda carry: carry._replace(W=None, W_out=None, b_out=None, a=0, state=0)

    def of_all(carry, inputs):
        axes = of_carry(carry), (None, 0, 0, 0)
        return jax.vmap(step, axes, (of_carry(carry), 0), axis_size=streams, axis_name=AXIS)(carry, inputs)

    return of_all
