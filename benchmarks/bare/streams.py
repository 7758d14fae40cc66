"""Streams in parallel that share weights: a step is vmapped over them by name, and gradients are means over them."""

import jax
import jax.numpy as jnp

AXIS = "streams"
FEW = 8


def mean(tree, streams):
    """Over streams, as a product: it adds them side by side."""
    weight = jnp.full(streams, 1 / streams)
    each = lambda leaf: jnp.tensordot(weight, jax.lax.all_gather(leaf, AXIS), 1, precision="highest")
    return tree if streams == 1 else jax.tree.map(each, tree)


def mean_outer(u, v, streams):
    """The mean of u vᵀ over streams, as one product of matrices; v may be a number, or u and v rows to be added up."""
    if streams > 1:
        u, v = jax.tree.map(lambda rows: rows.reshape(-1, *rows.shape[u.ndim :]), jax.lax.all_gather((u, v), AXIS))
        return add_up(u / streams, v)
    if u.ndim == 2:
        return add_up(u, v)
    return jnp.outer(u, v) if v.ndim else u * v


def add_up(u, v):
    """Σ u vᵀ over rows; where one of them has few columns, as so many products of a vector and a matrix."""
    by_column = lambda few, many: jnp.stack([few[:, j] @ many for j in range(few.shape[1])])
    if v.ndim == 1:
        return v @ u
    if v.shape[1] <= FEW:
        return by_column(v, u).T
    return by_column(u, v) if u.shape[1] <= FEW else jnp.matmul(u.T, v, precision="highest")


@jax.custom_batching.custom_vmap
def few_terms(x, W):
    """x W for an x of few numbers: written out where streams share W, since it would be a product of matrices."""
    return x @ W


@few_terms.def_vmap
def _few_terms(size, is_batched, x, W):
    if is_batched[1]:  # seeds
        return jax.vmap(jnp.matmul, in_axes=(0 if is_batched[0] else None, 0))(x, W), True
    return sum(x[:, l, None] * W[l] for l in range(len(W))), True


def fold_each(fold, states):
    """The states of all streams, folded one after the other and in place."""

    def one(i, states):
        old = jax.tree.map(lambda rows: rows[i], states)
        put = lambda rows, before, after: rows if after is before else rows.at[i].set(after)
        return jax.tree.map(put, states, old, fold(old))

    return jax.lax.fori_loop(0, len(jax.tree.leaves(states)[0]), one, states)


def over(step, streams):
    """A step of one stream, for all: the carry shares its weights, the inputs share the time."""
    if streams == 1:
        return step
    of_carry = lambda carry: carry._replace(W=None, W_out=None, b_out=None, a=0, state=0)

    def of_all(carry, inputs):
        axes = of_carry(carry), (None, 0, 0, 0)
        return jax.vmap(step, axes, (of_carry(carry), 0), axis_size=streams, axis_name=AXIS)(carry, inputs)

    return of_all
