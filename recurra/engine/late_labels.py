"""Labels that come rows later, inside an engine's loop.

A task with a horizon h has the label of row t - h in row t. For the first h steps nothing can be learned: rows are only
observed. From then on every step learns the oldest row that waits, and observes a new one. So what waits where follows
from the number of the step, and no member carries it. The random numbers of a row wait with it.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from recurra.linalg import zeros_like
from recurra.step import DelayedState, DelayedStep, LearningState, Outcome
from recurra.tasks.base import Rows


def start(queue: DelayedStep, learning: LearningState, noise: PyTree[Any]) -> DelayedState:
    """The state before the first row. `noise` has the shapes of a row's random numbers."""
    return _bare(queue.start(learning, zeros_like(noise)))


def observed(queue: DelayedStep, state: DelayedState, rows: Rows, noise: PyTree, t: Int[Array, ""]) -> DelayedState:
    """Step t < h: the row waits for its label."""
    state = state._replace(oldest=jnp.zeros_like(t), filled=t)
    return _bare(queue.observe(state, rows.x, rows.reset, noise)[0])


def learned(
    queue: DelayedStep, state: DelayedState, rows: Rows, noise: PyTree, t: Int[Array, ""], now: Int[Array, ""]
) -> tuple[DelayedState, Outcome, Bool[Array, "*streams"] | None]:
    """Step t ≥ h: the label is learned for the row h earlier; then row t waits. Learners call this step `now` - h.

    Also returns the outcome for that earlier row, and whether its label counts; None: it does.
    """
    learning = state.learning._replace(t=now - queue.rows)
    state = state._replace(learning=learning, oldest=t % queue.rows, filled=jnp.full_like(t, queue.rows))
    present = rows.present
    if rows.reset is not None:
        present = ~queue.crosses_reset(state, rows.reset) & (True if present is None else present)
    state, outcome = queue.learn(state, rows.label, queue.oldest(state).note, present)
    return _bare(queue.observe(state, rows.x, rows.reset, noise)[0]), outcome, present


def _bare(state: DelayedState) -> DelayedState:
    """The state as members carry it."""
    return state._replace(learning=state.learning._replace(t=None), oldest=None, filled=None)
