"""A model that goes on with more columns or outputs, or with other numbers in its step.

Whatever a model has keeps its place in the corner of the larger arrays. The rest is as in a new model: so weights are
drawn, and least squares know nothing of new columns, whose part of the square root S is the prior's.
"""

from collections.abc import Mapping

import numpy as np

from recurra.online.model import Online

#: where arrays of a learner are found
LEARNERS = "state/delayed.learning.learners"
MEANS, VARIANCES = "state/inputs.mean", "state/inputs.variance"


def carried_on(old: Online, new: Online) -> Online:
    """`new` with the state of `old`. A learner whose arrays are larger now starts anew."""
    before, arrays = old.state_arrays(), new.state_arrays()
    of_learner = [name for name in arrays if name.startswith(LEARNERS)]
    starts_anew = any(before[name].shape != arrays[name].shape for name in of_learner)
    for name, fresh in arrays.items():
        if not (starts_anew and name in of_learner):
            arrays[name] = _in_corner(before[name], fresh, old, new)
    return _rebuilt(old, new, arrays)


def heard(model: Online, statistics: Mapping[int, tuple[float, float]]) -> Online:
    """The model with given means and variances of some columns, which were always zero so far."""
    arrays = model.state_arrays()
    mean, variance = arrays[MEANS].copy(), arrays[VARIANCES].copy()
    for column, (its_mean, its_variance) in statistics.items():
        mean[column], variance[column] = its_mean, its_variance
    return _rebuilt(model, model, {**arrays, MEANS: mean, VARIANCES: variance})


def _rebuilt(old: Online, new: Online, arrays: Mapping[str, np.ndarray]) -> Online:
    return Online.from_saved({**old.description(), "step": new.description()["step"]}, arrays)


def _in_corner(before: np.ndarray, fresh: np.ndarray, old: Online, new: Online) -> np.ndarray:
    if before.shape == fresh.shape:
        return before
    places = [_places(a, b, old, new) for a, b in zip(before.shape, fresh.shape, strict=True)]
    larger = fresh.copy()
    larger[np.ix_(*places)] = before
    return larger


def _places(before: int, after: int, old: Online, new: Online) -> np.ndarray:
    """Where the entries of an axis go. Lags stay behind all columns, in what the cell hears and in u = (1, a, x)."""
    places = np.arange(before)
    cell = old.step.learning.network.cell
    if after > before and before in (cell.n_in, 1 + cell.shown_width + cell.n_in):
        lags = cell.n_in - old.n_in
        places[before - lags :] += after - before
    return places
