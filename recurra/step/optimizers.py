"""Gradient descent: a bare learning rate, or any Optax optimizer."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

#: an Optax optimizer, or the rate of plain gradient descent
Optimizer = optax.GradientTransformation | Float[Array, ""] | float


def init_optimizer(optimizer: Optimizer, weights: PyTree) -> PyTree:
    """The optimizer's first state, None for plain gradient descent."""
    return optimizer.init(weights) if isinstance(optimizer, optax.GradientTransformation) else None


def descend(optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
    """The weights, moved, and the optimizer's state."""
    if not isinstance(optimizer, optax.GradientTransformation):  # a bare learning rate is plain gradient descent
        return jax.tree.map(lambda w, g: w - optimizer * g, weights, gradient), None
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state


def descend_if(
    moves: Bool[Array, "..."] | bool, optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree
) -> tuple[PyTree, PyTree]:
    """`descend` where a gradient was emitted, in any stream; elsewhere the optimizer is not stepped."""
    if moves is False:
        return weights, state
    if moves is True:
        return descend(optimizer, gradient, state, weights)
    moves = jnp.any(moves)
    if not isinstance(optimizer, optax.GradientTransformation):
        return descend(jnp.where(moves, optimizer, 0), gradient, state, weights)  # at rate 0 nothing moves
    # A momentum must not decay where nothing was emitted.
    move = lambda: descend(optimizer, gradient, state, weights)
    return jax.lax.cond(moves, move, lambda: (weights, state))
