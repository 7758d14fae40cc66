"""Gradient descent: a bare learning rate, an optimizer described by its numbers, or any of Optax's.

A described optimizer can be saved with a model, and its numbers are arguments of the compiled program. An optimizer of
Optax's is a pair of functions, and has neither.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from recurra import checks
from recurra.linalg import decomposable

Number = float | Float[Array, ""]


def floating(value: Any) -> Any:
    """The value; if it is a plain whole number, as a floating-point one. Only these are arguments of a program."""
    return float(value) if type(value) is int else value


def number(default: float | None) -> Any:
    """A field of a described optimizer, which is an argument of the compiled program."""
    return eqx.field(default=default, converter=floating)


class Described(checks.Part):
    """An optimizer that is known by its numbers. With `clip`, longer gradients are scaled to this norm first."""

    @abc.abstractmethod
    def built(self) -> optax.GradientTransformation:
        """The same as Optax has it."""


class Injected(Described):
    """An optimizer made by `optax.inject_hyperparams`, with numbers of its own in the place of those it was made with.

    Its numbers are part of its state, and so are no part of a compiled program.
    """

    rule: optax.GradientTransformation
    numbers: dict[str, Number]

    @staticmethod
    def names_of(rule: optax.GradientTransformation) -> list[str]:
        """The numbers that an optimizer was made to show; none if it was not made by `optax.inject_hyperparams`.

        A number that follows a schedule is not among them.
        """
        state = jax.eval_shape(rule.init, {})
        scheduled = getattr(state, "hyperparams_states", {})
        return sorted(name for name in getattr(state, "hyperparams", {}) if name not in scheduled)

    def built(self) -> optax.GradientTransformation:
        def init(params: PyTree) -> Any:
            state: Any = self.rule.init(params)
            like = state.hyperparams
            own = {name: jnp.asarray(value, like[name].dtype) for name, value in self.numbers.items()}
            return state._replace(hyperparams={**like, **own})

        return optax.GradientTransformation(init, self.rule.update)


def check_clip(optimizer: Any) -> None:
    """Raise unless the field `clip` of a described optimizer is None or a norm."""
    if optimizer.clip is not None:
        checks.in_range(optimizer, "clip", above=0.0)


def clipped(clip: Number | None, rule: optax.GradientTransformation) -> optax.GradientTransformation:
    """The rule, after gradients longer than `clip` were scaled to it."""
    return rule if clip is None else optax.chain(optax.clip_by_global_norm(clip), rule)  # pyright: ignore[reportArgumentType]


#: an Optax optimizer, a described one, or the rate of plain gradient descent
Optimizer = optax.GradientTransformation | Described | Float[Array, ""] | float


def checked_optimizer(optimizer: Optimizer) -> Optimizer:
    """An optimizer, or a learning rate as a number."""
    if isinstance(optimizer, optax.GradientTransformation | Described):
        return optimizer
    try:
        rate = checks.number(optimizer)
    except TypeError:
        raise TypeError(
            f"`optimizer` must be a learning rate, recurra.Adam() or an Optax optimizer, and is {optimizer!r}."
        ) from None
    if rate is None:  # traced
        return optimizer
    if not 0 <= rate < float("inf"):
        raise ValueError(f"A learning rate must be finite and at least 0, and `optimizer` is {rate:g}.")
    return rate


def init_optimizer(optimizer: Optimizer, weights: PyTree) -> PyTree:
    """The optimizer's first state, None for plain gradient descent."""
    rule = rule_of(optimizer)
    return None if rule is None else rule.init(weights)


def descend(
    optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree, **known: PyTree
) -> tuple[PyTree, PyTree]:
    """The weights, moved, and the optimizer's state.

    What is `known` beside the gradient goes to optimizers that take it: agents know its `reach`, see
    `recurra.step.obgd`.
    """
    rule = rule_of(optimizer)
    rule = rule if rule is None or not known else optax.with_extra_args_support(rule)
    if rule is None:  # a bare learning rate is plain gradient descent
        return jax.tree.map(lambda w, g: w - optimizer * g, weights, gradient), None
    if isinstance(optimizer, optax.GradientTransformation):
        updates, state = rule.update(gradient, state, weights, **known)
        return optax.apply_updates(weights, updates), state
    # The numbers of a described optimizer may be arrays, with more digits than the weights.
    with jax.numpy_dtype_promotion("standard"):
        gradient = jax.tree.map(lambda g: g.astype(decomposable(g.dtype)), gradient)
        updates, after = rule.update(gradient, state, weights, **known)
        return optax.apply_updates(weights, updates), jax.tree.map(lambda new, old: new.astype(old.dtype), after, state)


def descend_if(
    moves: Bool[Array, "..."] | bool, optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree
) -> tuple[PyTree, PyTree]:
    """`descend` where a gradient was emitted, in any stream; elsewhere the optimizer is not stepped."""
    if moves is False:
        return weights, state
    if moves is True:
        return descend(optimizer, gradient, state, weights)
    moves = jnp.any(moves)
    if not isinstance(optimizer, optax.GradientTransformation | Described):
        return descend(jnp.where(moves, optimizer, 0), gradient, state, weights)  # at rate 0 nothing moves
    # A momentum must not decay where nothing was emitted.
    move = lambda: descend(optimizer, gradient, state, weights)
    return jax.lax.cond(moves, move, lambda: (weights, state))


def rule_of(optimizer: Optimizer) -> optax.GradientTransformation | None:
    """The optimizer as Optax has it; None for a bare rate."""
    if isinstance(optimizer, Described):
        return optimizer.built()
    return optimizer if isinstance(optimizer, optax.GradientTransformation) else None
