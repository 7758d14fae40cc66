"""Gradient descent: a bare learning rate, or any Optax optimizer."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from recurra import checks

#: an Optax optimizer, or the rate of plain gradient descent
Optimizer = optax.GradientTransformation | Float[Array, ""] | float


def checked_optimizer(optimizer: Optimizer) -> Optimizer:
    """An Optax optimizer, or a learning rate as a number."""
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    try:
        rate = checks.number(optimizer)
    except TypeError:
        raise TypeError(f"`optimizer` must be a learning rate or an Optax optimizer, and is {optimizer!r}.") from None
    if rate is None:  # traced
        return optimizer
    if not 0 <= rate < float("inf"):
        raise ValueError(f"A learning rate must be finite and at least 0, and `optimizer` is {rate:g}.")
    return rate


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
