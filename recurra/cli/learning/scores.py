"""What a run remembers of its forecasts: errors, ranges, shares over time.

A class here names in `KEPT` what the next row needs of it; `recurra.cli.learning.session` saves and restores that.
Nothing depends on how the rows were cut into batches: errors are summed row by row. Memory does not grow with the run:
once there are too many windows of errors, each two become one.

The sums are our own, though River has RMSE and MAE, which tests compare with these: River is an extra, so that both
would be needed, and it has neither the fading errors, unbiased at the start, nor the windows, nor arrays to save.
"""

import math
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from recurra.online.intervals import HalfWidth

#: the recent part: weights fall to 1/e in this many scored rows
MEMORY = 1000
#: rows of a window at first, and the number of windows at which pairs are joined
WINDOW, MOST = 8, 256
#: rows between two notes of the shares at first, and the number of notes at which every other one is dropped
NOTE_EVERY, MOST_NOTES = 128, 256


class Scores:
    """Errors of `count` forecasts."""

    KEPT: ClassVar = {
        "total": "_total", "recent": "_recent", "current": "_current", "closed": "_closed",
        "numbers": ("window", "_filled"),
    }  # fmt: skip

    def __init__(self, count: int):
        #: scored rows, the squared and the absolute errors of each forecast: of all rows, and fading
        self._total, self._recent = np.zeros((2, 1 + 2 * count))
        #: rows of a window, and in the current one; scored rows, and squared errors, of it and of the full ones before
        self.window, self._filled = WINDOW, 0
        self._current = np.zeros(1 + count)
        self._closed: list[np.ndarray] = []

    @property
    def scored(self) -> int:
        """How many rows were scored."""
        return int(self._total[0])

    def add(self, truth: np.ndarray, forecasts: np.ndarray) -> None:
        """Score rows, (rows,) and (rows, count). A row without truth, or without any of the forecasts, is left out."""
        known = np.isfinite(truth) & np.isfinite(forecasts).all(axis=1)
        errors = forecasts - truth[:, None]
        sums = np.concatenate([np.ones((len(truth), 1)), errors**2, np.abs(errors)], axis=1)
        for row, is_known in zip(sums, known, strict=True):
            if is_known:
                self._total += row
                self._recent = (1 - 1 / MEMORY) * self._recent + row
                self._current += row[: len(self._current)]
            self._filled += 1
            if self._filled == self.window:
                self._close()

    def _close(self) -> None:
        self._closed.append(self._current)
        self._current, self._filled = np.zeros_like(self._current), 0
        if len(self._closed) == MOST:
            self._closed[:] = [a + b for a, b in zip(self._closed[::2], self._closed[1::2], strict=True)]
            self.window *= 2

    def errors(self) -> np.ndarray:
        """Of each forecast the RMSE and the MAE, of the whole run and of its recent part, (count, 4); NaN at first."""
        with np.errstate(invalid="ignore"):  # 0 / 0 where nothing was scored
            squares, absolutes, recent_squares, recent_absolutes = np.concatenate(
                [(sums[1:] / sums[0]).reshape(2, -1) for sums in (self._total, self._recent)]
            )
        return np.stack([np.sqrt(squares), absolutes, np.sqrt(recent_squares), recent_absolutes], axis=1)

    def windows(self, most: int = MOST) -> tuple[np.ndarray, np.ndarray]:
        """The row after each window, counted in rows that were read, and the errors in it, (windows, count).

        Neighbours are joined until there are at most so many windows.
        """
        closed = [*self._closed, self._current] if self._filled else self._closed
        sums = np.array(closed).reshape(-1, len(self._current))
        ends = self.window * np.arange(1, len(sums) + 1)
        if self._filled:
            ends[-1] += self._filled - self.window
        join = math.ceil(len(sums) / most) or 1
        last = np.minimum(np.arange(join, len(sums) + join, join), len(sums)) - 1
        sums = np.add.reduceat(sums, np.arange(0, len(sums), join)) if len(sums) else sums
        with np.errstate(invalid="ignore"):
            return ends[last], np.sqrt(sums[:, 1:] / sums[:, :1])


class Range:
    """The range around forecasts whose errors come to be known later, and how often it held the truth."""

    KEPT: ClassVar = {"half": "_half", "counts": ("rows", "inside")}

    def __init__(self, coverage: float):
        self._half = HalfWidth(coverage)
        #: rows with a range, and those of them whose truth was in it
        self.rows, self.inside = 0, 0

    @property
    def width(self) -> float:
        """The half-width of the range; NaN if no error is known yet."""
        return self._half.now

    def see(self, truth: float, forecast: float, width: float) -> None:
        """Learn from a row whose forecast had this half-width, NaN if it had none."""
        error = abs(truth - forecast)
        if math.isfinite(error) and math.isfinite(width):
            self.rows += 1
            self.inside += error <= width
        self._half.see(error)


class Notes:
    """Numbers noted now and then: the time, and the shares of a race's members.

    They are noted after rows that are multiples of `every`, which doubles when there are too many. Batches have to end
    there, so that the notes do not depend on how the rows were cut.
    """

    KEPT: ClassVar = {"rows": "rows", "values": "_values", "every": ("every",)}

    def __init__(self) -> None:
        self.every = NOTE_EVERY
        self.rows: list[int] = []
        self._values: list[list[float]] = []

    def room(self, row: int) -> int:
        """How many rows there are until the next note."""
        return self.every - row % self.every

    def add(self, row: int, seconds: float, shares: Iterable[float]) -> None:
        """Note after this many rows, if it is time to."""
        if row % self.every:
            return
        self.rows.append(row)
        self._values.append([seconds, *shares])
        if len(self.rows) == MOST_NOTES:
            del self.rows[::2], self._values[::2]
            self.every *= 2

    def shares(self) -> np.ndarray:
        """(notes, members)."""
        return np.array(self._values)[:, 1:]
