"""A range around each forecast that should hold the truth in a given share of the rows, and how often it did."""

import math

import numpy as np

from recurra.online.intervals import HalfWidth


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
        """What the next row needs to know."""
        return {"half": np.array(self._half.numbers()), "counts": np.array([self.rows, self.inside], np.int64)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._half.restore(state["half"].tolist())
        self.rows, self.inside = map(int, state["counts"])
