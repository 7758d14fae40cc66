"""M followed step by step, for whoever multiplies it with credit at another time than the learner itself.

A past-facing learner may keep less than what it advances M to: what only serves the present gradient is None in its
first state. An LSTM's h is an example, which no unit reads again. Here nothing is left out, so M can be contracted at
any time between two steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, State, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import PastFacing
from recurra.linalg import where, zeros_like


def unlabelled(
    cell: Cell,
    weights: Weights,
    t: Int[Array, ""],
    before: State,
    x: Float[Array, " n_in"],
    n_out: int,
    reset: Bool[Array, ""] | None = None,
    first: Int[Array, ""] | None = None,
) -> Tick:
    """Step t without label, error and credit, which M does not depend on: they are zero."""
    after, trace = cell.forward(weights, before, x)
    nothing, cbar = jnp.zeros(n_out, cell.dtype), cell.credit_shown(jnp.zeros(cell.shown_width, cell.dtype))
    return Tick(cell, weights, t, before, after, trace, nothing, nothing, cbar, reset, first)


def first_influence(learner: PastFacing, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PyTree:
    """The estimate of M before the first step: the learner's first state, with zeros where it keeps nothing."""
    state = learner.init(cell, weights, key, n_out)

    def advanced_once() -> PyTree:
        t, x = jnp.zeros((), "int32"), jnp.zeros(cell.n_in, cell.dtype)
        row = jax.tree.map(lambda rows: rows[0], learner.noise(cell, key, 1))
        return learner.advance(unlabelled(cell, weights, t, cell.init_state(), x, n_out), state, row)

    fill = lambda old, new: zeros_like(new) if old is None else old
    return jax.tree.map(fill, state, jax.eval_shape(advanced_once), is_leaf=lambda leaf: leaf is None)


def advanced(learner: PastFacing, tick: Tick, M: PyTree, noise: PyTree) -> PyTree:
    """The estimate of M(t) from that of M(t-1), with what serves only the gradient of step t."""
    n_out = len(tick.label)
    first = jax.eval_shape(lambda: learner.init(tick.cell, tick.weights, jax.random.key(0), n_out))
    is_none = lambda leaf: leaf is None
    state = jax.tree.map(lambda kept, M: None if kept is None else M, first, M, is_leaf=is_none)
    if tick.reset is not None:
        state = where(tick.reset, learner.forget(tick.cell, state), state)
    return learner.advance(tick, state, noise)


def check_followed(owner: str, field: str, learner: Any) -> None:
    """Raise unless `learner`, a field of `owner`, is one whose M can be followed."""
    if not isinstance(learner, PastFacing):
        from recurra.learners import LEARNERS

        kinds = [f"{kind.__name__}()" for kind in LEARNERS.values() if issubclass(kind, PastFacing)]
        told = f"faces the {learner.facing}" if hasattr(learner, "facing") and learner.facing != "–" else "keeps no M"
        raise TypeError(
            f"`{field}` of {owner} must be a past-facing learner, which estimates the influence M of the weights on "
            f"the state, and {_said(learner)} {told}: use {', '.join(kinds[:-1])} or {kinds[-1]}."
        )
    if learner.period:
        raise TypeError(
            f"`{field}` of {owner} must bring M up to date at every step, and {type(learner).__name__} does so every "
            f"{learner.period} steps: use recurra.RTRL() for exact influence."
        )


def check_given_credit(owner: str, learner: Any) -> None:
    """Raise unless `learner`, a field of `owner`, has an M that can be followed, and uses the credit it is given."""
    check_followed(owner, "learner", learner)
    if learner.lag or not learner.uses_given_credit:
        why = "emits gradients late" if learner.lag else "has its own way of handing down credit"
        raise TypeError(
            f"`learner` of {owner} must be given its credit and use it at once, and {learner.name} {why}: use another "
            "learner, such as recurra.RFLO()."
        )


def _said(value: object) -> str:
    if isinstance(value, type):
        return f"{value.__name__} without parentheses is a class that"
    return f"{type(value).__name__}()" if hasattr(value, "facing") else repr(value)
