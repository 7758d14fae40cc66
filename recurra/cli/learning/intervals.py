"""How far from the forecast the truth lies, most of the time: a range around each forecast, learned as it goes.

    |y - p| ≤ r e,    e a running mean of |y - p|

After each row the ratio r grows by `level` of a step if the truth was outside, and shrinks by 1 - `level` of one if it
was inside. So in the long run the share inside is `level`, whatever the series does, for r would else grow or shrink
without end.
"""

import math

import numpy as np

#: the change of the ratio in a row, the rows over which errors are averaged, and the ratio at first
STEP, MEMORY, FIRST = 0.05, 200, 2.0


class Interval:
    """Half-widths for forecasts whose errors come to be known later."""

    def __init__(self, level: float):
        self.level = level
        self._ratio, self._error, self._weight = FIRST, 0.0, 0.0
        #: rows with a range, and those of them whose truth was in it
        self.rows, self.inside = 0, 0

    def see(self, truth: float, forecast: float, width: float) -> float:
        """Learn from a row whose forecast had this half-width, NaN if it had none; the half-width from now on."""
        error = abs(truth - forecast)
        if math.isfinite(error):
            if math.isfinite(width):
                self.rows += 1
                self.inside += error <= width
                self._ratio += STEP * (self.level - (error <= width))
            keep = 1 - 1 / MEMORY
            self._error, self._weight = keep * self._error + error, keep * self._weight + 1
        return self.width

    @property
    def width(self) -> float:
        """The half-width; NaN if no error is known yet."""
        return max(self._ratio, 0.0) * self._error / self._weight if self._weight else math.nan

    def state(self) -> dict[str, np.ndarray]:
        """What the next row needs to know."""
        return {"numbers": np.array([self._ratio, self._error, self._weight, self.rows, self.inside])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._ratio, self._error, self._weight, rows, inside = map(float, state["numbers"])
        self.rows, self.inside = int(rows), int(inside)
