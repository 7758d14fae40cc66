"""A model that goes on with more columns or outputs, or with other numbers in its step.

Whatever a model has keeps its place in the corner of the larger arrays. The rest is as in a new model: so weights are
drawn, and least squares know nothing of new columns, whose part of the square root S is the prior's.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from recurra.online.model import Online


def carried_on(old: Online, new: Online) -> Online:
    """`new` with the state of `old`. A learner whose arrays are larger now starts anew."""
    fresh = new.state
    state = jax.tree.map(lambda before, after: _in_corner(before, after, old), old.state, fresh)
    learning = lambda state: state.delayed.learning
    shapes = lambda state: [leaf.shape for leaf in jax.tree.leaves(learning(state).learners)]
    if shapes(old.state) != shapes(fresh):
        kept = learning(state)._replace(learners=learning(fresh).learners)
        state = state._replace(delayed=state.delayed._replace(learning=kept))
    return old.with_state(state, new.step)


def with_statistics(model: Online, statistics: Mapping[int, tuple[float, float]]) -> Online:
    """The model with given means and variances of some columns, which were always zero so far."""
    state = model.state
    assert state.inputs is not None  # models for River scale their inputs
    mean, variance = np.array(state.inputs.mean), np.array(state.inputs.variance)
    for column, (its_mean, its_variance) in statistics.items():
        mean[column], variance[column] = its_mean, its_variance
    return model.with_state(state._replace(inputs=state.inputs._replace(mean=mean, variance=variance)))


def _in_corner(before: Any, fresh: Any, old: Online) -> Any:
    if before.shape == fresh.shape:
        return before
    places = [_places(a, b, old) for a, b in zip(before.shape, fresh.shape, strict=True)]
    larger = np.array(fresh)
    larger[np.ix_(*places)] = before
    return larger


def _places(before: int, after: int, old: Online) -> np.ndarray:
    """Where the entries of an axis go. Lags stay behind all columns, in what the cell hears and in u = (1, a, x)."""
    places = np.arange(before)
    cell = old.step.learning.network.cell
    if after > before and before in (cell.n_in, 1 + cell.shown_width + cell.n_in):
        lags = cell.n_in - old.n_in
        places[before - lags :] += after - before
    return places
