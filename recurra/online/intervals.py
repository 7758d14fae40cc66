"""How far from the prediction the truth lies, most of the time: a range around each prediction, learned as it goes.

    |y - p| ≤ w  in a share `coverage` of the rows

After each row the half-width w grows by `coverage` of a step if the truth was outside, and shrinks by 1 - `coverage` of
one if it was inside. Whatever the series does, in the long run the share inside is `coverage`, for w would else grow or
shrink without end (Gibbs and Candès, 2021). A step is a part of the mean absolute error.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from recurra.online import keeping
from recurra.online.model import Online
from recurra.online.race import Race
from recurra.online.rows import GivenRows, many_rows, one_row
from recurra.online.settling import Waiting, labels_of

#: a step as a part of the mean absolute error, and the rows over which that is averaged
STEP, MEMORY = 0.1, 200


class HalfWidth:
    """The half-width for one number that is predicted again and again."""

    def __init__(self, coverage: float):
        self.coverage = coverage
        self._width, self._error, self._weight = 0.0, 0.0, 0.0

    def see(self, error: float) -> None:
        """Learn from the error of a prediction."""
        error = abs(error)
        if not math.isfinite(error):
            return
        keep = 1 - 1 / MEMORY
        self._error, self._weight = keep * self._error + error, keep * self._weight + 1
        step = STEP * self._error / self._weight
        self._width += step * (self.coverage - (error <= self._width))

    @property
    def now(self) -> float:
        """The half-width; nan if no error is known yet."""
        return max(self._width, 0.0) if self._weight else math.nan

    def arrays(self) -> np.ndarray:
        """All it knows."""
        return np.array([self._width, self._error, self._weight])

    def restore(self, numbers: Any) -> None:
        """Take up what `arrays` returned."""
        self._width, self._error, self._weight = map(float, numbers)


class Ranged(NamedTuple):
    """Predictions, and the range in which the truth is expected."""

    low: np.ndarray
    prediction: np.ndarray
    high: np.ndarray


class Intervals:
    """A model whose predictions come with a range that holds the truth in a share `coverage` of the rows.

    A `coverage` outside (0, 1) is a ValueError.

    >>> series = np.sin(np.arange(300) / 7)[:, None]
    >>> model = rc.Intervals(rc.forecaster(n_in=1), coverage=0.9)
    >>> low, prediction, high = model.learn_many(series, series)
    >>> bool(low[-1, 0] < prediction[-1, 0] < high[-1, 0])
    True
    """

    def __init__(self, model: Online | Race, coverage: float = 0.9):
        if not isinstance(model, Online | Race):
            raise TypeError(f"`model` must be a recurra.Online or a recurra.Race, and is {model!r}.")
        if not 0 < coverage < 1:
            raise ValueError(
                f"`coverage` is the share of rows whose truth is in the range, in (0, 1), and is {coverage}."
            )
        self.model, self.coverage = model, float(coverage)
        self.n_in, self.n_out, self.horizon = model.n_in, model.n_out, model.horizon
        self._step = model.step
        streams = self._step.learning.streams
        self._shape = (self.n_out,) if streams == 1 else (streams, self.n_out)
        self._widths = [HalfWidth(self.coverage) for _ in range(math.prod(self._shape))]
        self._waiting = Waiting(self.horizon)

    @property
    def rows(self) -> int:
        """Rows seen so far."""
        return self.model.rows

    def predict_one(self, x: Any) -> Ranged:
        """The prediction for a row, which is only looked at: nothing changes."""
        return self._around(self.model.predict_one(x))

    def learn_one(self, x: Any, y: Any = None) -> Ranged:
        """Take one row and its label, None if there is none. Returns the prediction for the row, and its range."""
        found = self.take(one_row(self._step, x, y))
        return Ranged(*(part[0] for part in found))

    def learn_many(self, X: Any, Y: Any = None) -> Ranged:
        """Take many rows with their labels; the bits are those of `learn_one` in a loop."""
        return self.take(many_rows(self._step, X, Y))

    def take(self, rows: GivenRows) -> Ranged:
        """Predict checked rows, learn from them, and follow how often labels lie inside the ranges."""
        predictions = self.model.take(rows)
        labels, present = labels_of(rows, self._shape)
        found = [np.empty_like(predictions) for _ in range(3)]
        for i, prediction in enumerate(predictions):
            for known in self._waiting.row(prediction, labels[i], bool(present[i]), self._settle):
                for part, value in zip(found, self._around(known), strict=True):
                    part[i] = value
        return Ranged(*found)

    def _settle(self, prediction: np.ndarray, label: np.ndarray) -> None:
        for width, error in zip(self._widths, (prediction - label).reshape(-1).tolist(), strict=True):
            width.see(error)

    def _around(self, prediction: np.ndarray) -> Ranged:
        widths = np.array([width.now for width in self._widths]).reshape(self._shape)
        return Ranged(prediction - widths, prediction, prediction + widths)

    @property
    def native(self) -> bool:
        """Whether rows of the model are computed by compiled C: see `recurra.Online`. It may be set at any time."""
        return self.model.native

    @native.setter
    def native(self, wanted: bool) -> None:
        self.model.native = wanted

    def state_arrays(self) -> dict[str, np.ndarray]:
        """All numbers that a file keeps of the model."""
        own = {"widths": np.array([width.arrays() for width in self._widths]), "waiting": self._waiting.arrays()}
        return {**own, **keeping.under("model", self.model.state_arrays())}

    def description(self) -> dict[str, Any]:
        """All else that a file keeps of it, as JSON."""
        kind = type(self.model).__name__
        return {"coverage": self.coverage, "type": kind, "model": self.model.description()}

    @staticmethod
    def from_saved(
        description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], like: "Intervals | None" = None
    ) -> "Intervals":
        """The model of which these were made; ValueError if there is none. `like` has parts that no file describes."""
        kinds = {"Online": Online, "Race": Race}
        kind, coverage = description.get("type"), description.get("coverage")
        if kind not in kinds or type(coverage) is not float or not isinstance(description.get("model"), dict):
            raise ValueError("its description is not whole")
        inner: Any = None if like is None else like.model
        model = Intervals(
            kinds[kind].from_saved(description["model"], keeping.within(arrays, "model"), inner), coverage
        )
        widths, waiting = arrays.get("widths", np.zeros(0)), arrays.get("waiting", np.zeros(0))
        if widths.shape != (len(model._widths), 3) or (waiting.size and waiting.shape[1:] != model._shape):
            raise ValueError("its ranges have another shape")
        for width, numbers in zip(model._widths, widths, strict=True):
            width.restore(numbers)
        model._waiting.restore(waiting)
        return model
