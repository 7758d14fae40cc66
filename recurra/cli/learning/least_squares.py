"""Online least squares on the latest values of a series: the linear forecast that fits all of the past best.

    z      = (y - mean) / deviation                     over the first known values, and not changed later
    x(t)   = (z(t), z(t-1), ..., z(t-lags+1), 1)
    w(t)   = argmin  Σ_s (z(s) - w x(s-lead))² + ridge |w - w(0)|²         over known z(s), s ≤ t
    w(0)   = (1, 0, ..., 0), the last value

by the recursive form: P is the inverse of ridge I + Σ x xᵀ. A forecast goes beyond the values seen so far by half their
range at most: after a sudden jump a linear forecast may be far off.
"""

import math

import numpy as np

#: values that are fitted, and known values before the fit begins: until then it forecasts the last value
LAGS, START = 24, 48
RIDGE = 1.0


class LeastSquares:
    """Forecasts a series some rows ahead. Missing values are replaced by the latest known ones, and not fitted."""

    def __init__(self, lead: int, lags: int = LAGS, ridge: float = RIDGE):
        self._lead, self._lags = lead, lags
        self._needed = lags + lead
        #: the latest values, the newest last; the room before them saves moving them at every row
        self._values = np.zeros(4 * self._needed)
        self._end = 0
        self._weights = np.zeros(lags + 1)
        self._weights[0] = 1.0
        self._p = np.eye(lags + 1) / ridge
        #: of the first known values: how many, their mean, and the sum of their squared deviations
        self._known, self._mean, self._squares = 0, 0.0, 0.0
        self._deviation = 0.0  # 0 until the fit begins
        self._lowest, self._highest = math.inf, -math.inf

    def see(self, y: float) -> float:
        """Take in the value of a row, NaN if it is missing; the forecast of the row `lead` rows later."""
        is_known = y == y
        if not is_known and not self._known:
            return math.nan
        value = y if is_known else self._values[self._end - 1]
        if not self._known:
            self._values[: self._needed] = value
            self._end = self._needed
        self._append(value)
        if is_known:
            self._learn(y)
        if not self._deviation:
            return value
        forecast = float(self._x(self._end) @ self._weights) * self._deviation + self._mean
        beyond = (self._highest - self._lowest) / 2
        return min(max(forecast, self._lowest - beyond), self._highest + beyond) if math.isfinite(forecast) else value

    def _append(self, value: float) -> None:
        if self._end == len(self._values):
            kept = self._values[-self._needed :].copy()
            self._values[: self._needed] = kept
            self._end = self._needed
        self._values[self._end] = value
        self._end += 1

    def _x(self, end: int) -> np.ndarray:
        x = np.empty(self._lags + 1)
        np.subtract(self._values[end - self._lags : end][::-1], self._mean, out=x[:-1])
        x[:-1] /= self._deviation
        x[-1] = 1.0
        return x

    def _learn(self, y: float) -> None:
        self._lowest, self._highest = min(self._lowest, y), max(self._highest, y)
        if not self._deviation:
            self._known += 1
            step = y - self._mean
            self._mean += step / self._known
            self._squares += step * (y - self._mean)
            if self._known >= START and self._squares > 0:
                self._deviation = math.sqrt(self._squares / self._known)
            return
        x = self._x(self._end - self._lead)
        px = self._p @ x
        size = 1.0 + float(x @ px)
        error = (y - self._mean) / self._deviation - float(x @ self._weights)
        # Rounding may spoil a step with a huge value: it is left out then.
        if math.isfinite(size) and size >= 1.0 and math.isfinite(error):
            self._weights += px * (error / size)
            self._p -= np.outer(px, px) / size

    def state(self) -> dict[str, np.ndarray]:
        """What the next row needs to know."""
        numbers = np.array([self._known, self._mean, self._squares, self._deviation, self._lowest, self._highest])
        # Without a known value there are none yet, and those that are kept mean nothing.
        values = self._values[max(0, self._end - self._needed) : self._end]
        return {"values": values.copy(), "weights": self._weights.copy(), "p": self._p.copy(), "numbers": numbers}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._end = len(state["values"])
        self._values[: self._end] = state["values"]
        self._weights, self._p = state["weights"].copy(), state["p"].copy()
        known, self._mean, self._squares, self._deviation, *ends = map(float, state["numbers"])
        self._lowest, self._highest = ends
        self._known = int(known)
