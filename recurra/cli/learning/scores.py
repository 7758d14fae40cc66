"""Errors of several forecasts on the same rows: of the whole run, of its recent part, and window by window.

Sums run row by row, so they do not depend on how the rows were cut into batches. Memory does not grow with the run:
once there are too many windows, each two become one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: the recent part: weights fall to 1/e in this many scored rows
MEMORY = 1000
#: rows of a window at first, and the number of windows at which pairs are joined
WINDOW, MOST = 8, 256


class Errors(NamedTuple):
    """Root of the mean squared error, and mean absolute error; NaN where nothing was scored."""

    rmse: float
    mae: float


class Scores:
    """Errors of `count` forecasts."""

    def __init__(self, count: int):
        self._count = count
        #: scored rows, the squared and the absolute errors of each forecast: of all rows, and fading
        self._total = [0.0] * (1 + 2 * count)
        self._recent = [0.0] * (1 + 2 * count)
        self.window = WINDOW
        #: rows in the current window; scored ones, and squared errors, of it and of the full ones before it
        self._filled = 0
        self._current = [0.0] * (1 + count)
        self._closed: list[list[float]] = []

    @property
    def scored(self) -> int:
        """How many rows were scored."""
        return int(self._total[0])

    def add(self, truth: np.ndarray, forecasts: np.ndarray) -> None:
        """Score rows, (rows,) and (rows, count). A row without truth, or without any of the forecasts, is left out."""
        known = np.isfinite(truth) & np.isfinite(forecasts).all(axis=1)
        errors = (forecasts - truth[:, None]).tolist()
        for row, is_known in enumerate(known.tolist()):
            if is_known:
                self._score(errors[row])
            self._filled += 1
            if self._filled == self.window:
                self._close()

    def _score(self, errors: Sequence[float]) -> None:
        squares = [error * error for error in errors]
        row = [1.0, *squares, *map(abs, errors)]
        keep = 1 - 1 / MEMORY
        self._total = [old + new for old, new in zip(self._total, row, strict=True)]
        self._recent = [keep * old + new for old, new in zip(self._recent, row, strict=True)]
        self._current = [old + new for old, new in zip(self._current, (1.0, *squares), strict=True)]

    def _close(self) -> None:
        self._closed.append(self._current)
        self._current, self._filled = [0.0] * (1 + self._count), 0
        if len(self._closed) == MOST:
            pairs = zip(self._closed[::2], self._closed[1::2], strict=True)
            self._closed = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
            self.window *= 2

    def total(self) -> list[Errors]:
        """Of the whole run, each forecast's."""
        return self._errors(self._total)

    def recent(self) -> list[Errors]:
        """Of the recent part."""
        return self._errors(self._recent)

    def _errors(self, sums: Sequence[float]) -> list[Errors]:
        weight, squares, absolutes = sums[0], sums[1 : 1 + self._count], sums[1 + self._count :]
        if not weight:
            return [Errors(math.nan, math.nan)] * self._count
        return [Errors(math.sqrt(s / weight), a / weight) for s, a in zip(squares, absolutes, strict=True)]

    def windows(self) -> tuple[np.ndarray, np.ndarray]:
        """The row after each window, counted in rows that were read, and the errors in it, (windows, count)."""
        rows = np.array([*self._closed, self._current] if self._filled else self._closed).reshape(-1, 1 + self._count)
        ends = self.window * np.arange(1, len(rows) + 1)
        if self._filled:
            ends[-1] += self._filled - self.window
        with np.errstate(invalid="ignore"):
            return ends, np.sqrt(rows[:, 1:] / np.where(rows[:, :1] > 0, rows[:, :1], math.nan))

    def state(self) -> dict[str, np.ndarray]:
        """What the next row needs to know."""
        closed = np.array(self._closed).reshape(-1, 1 + self._count)
        numbers = np.array([self.window, self._filled], np.int64)
        sums = {"total": np.array(self._total), "recent": np.array(self._recent), "current": np.array(self._current)}
        return {**sums, "closed": closed, "numbers": numbers}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._total, self._recent = state["total"].tolist(), state["recent"].tolist()
        self._current, self._closed = state["current"].tolist(), state["closed"].tolist()
        self.window, self._filled = map(int, state["numbers"])
