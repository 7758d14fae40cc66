"""What a run remembers of its forecasts: errors, ranges, forecasts not yet due, the latest rows, shares over time.

`state` returns what the next row needs, as arrays, and `restore` takes it. Nothing depends on how the rows were cut
into batches: errors are summed row by row. Memory does not grow with the run: once there are too many windows of
errors, each two become one.

The sums are our own, though River has RMSE and MAE, which tests compare with these: River is an extra, so that both
would be needed, and it has neither the fading errors, unbiased at the start, nor the windows, nor arrays to save.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from recurra.online.intervals import HalfWidth

#: the recent part: weights fall to 1/e in this many scored rows
MEMORY = 1000
#: rows of a window at first, and the number of windows at which pairs are joined
WINDOW, MOST = 8, 256
#: rows that are shown at the end
TAIL = 2000
#: rows between two notes of the shares at first, and the number of notes at which every other one is dropped
NOTE_EVERY, MOST_NOTES = 128, 256


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
        closed = np.array(self._closed).reshape(-1, 1 + self._count)
        numbers = np.array([self.window, self._filled], np.int64)
        sums = {"total": np.array(self._total), "recent": np.array(self._recent), "current": np.array(self._current)}
        return {**sums, "closed": closed, "numbers": numbers}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._total, self._recent = state["total"].tolist(), state["recent"].tolist()
        self._current, self._closed = state["current"].tolist(), state["closed"].tolist()
        self.window, self._filled = map(int, state["numbers"])


class Interval:
    """Half-widths for forecasts whose errors come to be known later."""

    def __init__(self, level: float):
        self.level = level
        self._half = HalfWidth(level)
        #: rows with a range, and those of them whose truth was in it
        self.rows, self.inside = 0, 0

    @property
    def width(self) -> float:
        """The half-width; NaN if no error is known yet."""
        return self._half.now

    def see(self, truth: float, forecast: float, width: float) -> float:
        """Learn from a row whose forecast had this half-width, NaN if it had none; the half-width from now on."""
        error = abs(truth - forecast)
        if math.isfinite(error) and math.isfinite(width):
            self.rows += 1
            self.inside += error <= width
        self._half.see(error)
        return self.width

    def state(self) -> dict[str, np.ndarray]:
        return {"half": np.array(self._half.numbers()), "counts": np.array([self.rows, self.inside], np.int64)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._half.restore(state["half"].tolist())
        self.rows, self.inside = map(int, state["counts"])


class Delay:
    """Hands out what it was given so many rows ago; NaN before."""

    def __init__(self, rows: int, width: int):
        self._kept = np.full((rows, width), math.nan)

    def pass_on(self, values: np.ndarray) -> np.ndarray:
        """Take values in, (rows, width), and hand out as many older ones."""
        joined = np.concatenate([self._kept, values])
        self._kept = joined[len(values) :]
        return joined[: len(values)]

    @property
    def oldest(self) -> np.ndarray:
        """The values that are handed out next, (width,)."""
        return self._kept[0]

    @property
    def newest(self) -> np.ndarray:
        """The values taken in last, (width,); NaN if there were none."""
        return self._kept[-1]

    def state(self) -> dict[str, np.ndarray]:
        return {"kept": self._kept.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._kept = state["kept"].copy()


class Tail:
    """The latest rows, (rows, width)."""

    def __init__(self, width: int):
        self.rows = np.empty((0, width))

    def add(self, rows: np.ndarray) -> None:
        """Append rows, and forget those before the latest."""
        self.rows = np.concatenate([self.rows, rows])[-TAIL:]

    def state(self) -> dict[str, np.ndarray]:
        return {"rows": self.rows.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.rows = state["rows"].copy()


class Notes:
    """Numbers noted now and then: the time, and the shares of a race's members.

    They are noted after rows that are multiples of `every`, which doubles when there are too many. Batches have to end
    there, so that the notes do not depend on how the rows were cut.
    """

    def __init__(self) -> None:
        self.every = NOTE_EVERY
        self.names: tuple[str, ...] = ()
        self.rows: list[int] = []
        self.values: list[list[float]] = []

    def room(self, row: int) -> int:
        """How many rows there are until the next note."""
        return self.every - row % self.every

    def add(self, row: int, seconds: float, shares: Mapping[str, float]) -> None:
        """Note after this many rows, if it is time to."""
        if row % self.every:
            return
        self.names = self.names or tuple(shares)
        self.rows.append(row)
        self.values.append([seconds, *(float(shares.get(name, math.nan)) for name in self.names)])
        if len(self.rows) == MOST_NOTES:
            self.rows, self.values = self.rows[1::2], self.values[1::2]
            self.every *= 2

    def times(self) -> np.ndarray:
        """The time of each note."""
        return np.array([values[0] for values in self.values])

    def shares(self) -> np.ndarray:
        """(notes, members)."""
        return np.array([values[1:] for values in self.values]).reshape(len(self.rows), len(self.names))

    def state(self) -> dict[str, np.ndarray]:
        """All that was noted, but the names."""
        values = np.array(self.values).reshape(len(self.rows), 1 + len(self.names))
        return {"rows": np.array(self.rows, np.int64), "values": values, "every": np.array([self.every], np.int64)}

    def restore(self, state: dict[str, np.ndarray], names: tuple[str, ...]) -> None:
        self.rows, self.values = state["rows"].tolist(), state["values"].tolist()
        self.every, self.names = int(state["every"][0]), names
