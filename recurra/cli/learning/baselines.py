"""Forecasts from the past of the target alone, which a model has to beat.

Each takes in the value of a row, NaN if it is missing, and forecasts the row `lead` rows later. Until it knows better
it forecasts the last value, so that all are scored on the same rows.

They are our own: River, which is an extra, has no seasonal naive forecast that takes gaps or looks for its period, and
its `BayesianLinearRegression`, which a test compares with `LeastSquares`, has no arrays to save between two rows.
"""

import math
from typing import Protocol, runtime_checkable

import numpy as np

#: the row at which a period is first looked for, and then at twice as many
FIRST_LOOK = 256
#: the latest values that are kept to look for it
KEPT = 1 << 14
#: A period has to be seen this many times before it is believed.
TIMES = 4
#: how strongly the series must repeat itself, and how much less it must do so at some shorter lag
STRENGTH, FALL = 0.3, 0.2
#: How much worse than the best a shorter period may be, in the part that it does not explain. Multiples of a period
#: are about as good as the period itself.
TOLERANCE = 0.1
#: values that are fitted, and known values before the fit begins: until then it forecasts the last value
LAGS, START = 24, 48
RIDGE = 1.0


@runtime_checkable
class Baseline(Protocol):
    """A forecast from the past values of the target."""

    def see(self, y: float) -> float:
        """Take in the value of a row; the forecast of the row `lead` rows later, NaN if nothing is known yet."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """What the next row needs to know."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        ...


class LastValue:
    """What was is what will be."""

    def __init__(self) -> None:
        self._value = math.nan

    def see(self, y: float) -> float:
        if y == y:
            self._value = y
        return self._value

    def state(self) -> dict[str, np.ndarray]:
        return {"value": np.array([self._value])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._value = float(state["value"][0])


class SeasonalNaive:
    """The latest known value at the same phase of a period, which is given, or looked for now and then."""

    def __init__(self, lead: int, period: int | None = None):
        self._lead = lead
        self._looks = period is None
        self.period = period
        self._ring = np.full(max(KEPT, period or 0), math.nan)
        self._rows = 0
        self._value = math.nan

    def see(self, y: float) -> float:
        self._ring[self._rows % len(self._ring)] = y
        self._rows += 1
        if y == y:
            self._value = y
        if self._looks and self._rows >= FIRST_LOOK and self._rows & (self._rows - 1) == 0:
            self.period = find_period(self._filled())
        return self._value if self.period is None else self._same_phase(self.period)

    def _same_phase(self, period: int) -> float:
        back = -self._lead % period  # rows before this one
        while back < min(self._rows, len(self._ring)):
            value = self._ring[(self._rows - 1 - back) % len(self._ring)]
            if value == value:
                return float(value)
            back += period
        return self._value

    def _filled(self) -> np.ndarray:
        """The values that are kept, from the first known one on, missing ones replaced by those before them."""
        kept = min(self._rows, len(self._ring))
        values = self._ring[np.arange(self._rows - kept, self._rows) % len(self._ring)]
        latest = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(kept)))
        return values[latest[latest >= 0]]

    def state(self) -> dict[str, np.ndarray]:
        kept = self._ring[: min(self._rows, len(self._ring))].copy()
        return {"ring": kept, "numbers": np.array([self._rows, self.period or 0]), "value": np.array([self._value])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._ring[: len(state["ring"])] = state["ring"]
        self._rows, period = map(int, state["numbers"])
        self.period = period or None
        self._value = float(state["value"][0])


def find_period(values: np.ndarray) -> int | None:
    """The period of a series without gaps; None if there is no clear one.

    It is a lag at which the correlation of the series with itself has a peak, after a fall, and another peak at twice
    the lag. A trend is removed before, and a series that changes slowly has no such peaks.
    """
    size = len(values)
    longest = size // TIMES
    if longest < 3:
        return None
    with np.errstate(all="ignore"):
        found = correlations(values, min(2 * longest + 2, size - 2))
    if not np.all(np.isfinite(found)):
        return None
    best: tuple[float, int] | None = None
    peaks = []
    lowest = 1.0
    for lag in range(2, longest + 1):
        lowest = min(lowest, found[lag - 1])
        near = found[max(1, 2 * lag - 2) : 2 * lag + 3]
        is_peak = found[lag] >= found[lag - 1] and found[lag] > found[lag + 1]
        if is_peak and found[lag] > max(STRENGTH, lowest + FALL) and near.max() > 0.7 * found[lag]:
            peaks.append(lag)
            best = max(best or (-1.0, 0), (float(found[lag]), lag))
    if best is None:
        return None
    limit = 1 - (1 - best[0]) * (1 + TOLERANCE) - 0.01
    return next(lag for lag in peaks if found[lag] >= limit)


def correlations(values: np.ndarray, lags: int) -> np.ndarray:
    """The correlation of a series, without its trend, with itself so many steps later, for lags 0 to `lags`.

    Each is that of the two parts that overlap, with the sums of all lags from one Fourier transform.
    """
    size = len(values)
    scaled = values / max(float(np.abs(values).max()), 1e-300)
    time = np.linspace(-1, 1, size)
    series = scaled - scaled.mean()
    series = series - time * (time @ series) / (time @ time)
    length = 1 << (2 * size - 1).bit_length()
    spectrum = np.fft.rfft(series, length)
    products = np.fft.irfft(spectrum * spectrum.conj(), length)[: lags + 1]
    squares = np.concatenate([[0.0], np.cumsum(series**2)])
    at = np.arange(lags + 1)
    early, late = squares[size - at], squares[size] - squares[at]
    return products / np.sqrt(early * late)


class LeastSquares:
    """Online least squares on the latest values: the linear forecast that fits all of the past best.

        z      = (y - mean) / deviation                     over the first known values, and not changed later
        x(t)   = (z(t), z(t-1), ..., z(t-lags+1), 1)
        w(t)   = argmin  Σ_s (z(s) - w x(s-lead))² + ridge |w - w(0)|²         over known z(s), s ≤ t
        w(0)   = (1, 0, ..., 0), the last value

    in recursive form: P is the inverse of ridge I + Σ x xᵀ. Missing values are replaced by the latest known ones, and
    not fitted. A forecast leaves the range of the values seen so far by half that range at most, because a linear
    forecast may be far off after a sudden jump.
    """

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
        numbers = np.array([self._known, self._mean, self._squares, self._deviation, self._lowest, self._highest])
        # Without a known value there are none yet, and those that are kept mean nothing.
        values = self._values[max(0, self._end - self._needed) : self._end]
        return {"values": values.copy(), "weights": self._weights.copy(), "p": self._p.copy(), "numbers": numbers}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._end = len(state["values"])
        self._values[: self._end] = state["values"]
        self._weights, self._p = state["weights"].copy(), state["p"].copy()
        known, self._mean, self._squares, self._deviation, *ends = map(float, state["numbers"])
        self._lowest, self._highest = ends
        self._known = int(known)


#: by the names that a checkpoint and JSON have for them
NAMES = ("last value", "seasonal naive", "least squares")


def baselines(lead: int, period: int | None) -> dict[str, Baseline]:
    """The baselines by their names."""
    return dict(zip(NAMES, (LastValue(), SeasonalNaive(lead, period), LeastSquares(lead)), strict=True))


def described(name: str, baseline: Baseline) -> str:
    """A baseline with what it has found out."""
    if isinstance(baseline, SeasonalNaive):
        return f"{name}, period {baseline.period:,}" if baseline.period else f"{name}, no period found"
    return f"{name}, {LAGS} lags" if isinstance(baseline, LeastSquares) else name
