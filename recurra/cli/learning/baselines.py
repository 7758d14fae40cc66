"""Forecasts from the past of the target alone, which a model has to beat.

Each takes in the value of a row, NaN if it is missing, and forecasts the row `lead` rows later. Until it knows better
it forecasts the last value, so that all are scored on the same rows.

They are our own: River, which is an extra, has no seasonal naive forecast that takes gaps or looks for its period, and
its `BayesianLinearRegression`, which a test compares with `LeastSquares`, has no arrays to save between two rows.
"""

import math
from collections import deque
from typing import ClassVar

import numpy as np

#: the row at which a period is first looked for, and then at twice as many
FIRST_LOOK = 256
#: the latest values that are kept to look for it
LATEST = 1 << 14
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


class LastValue:
    """What was is what will be."""

    KEPT: ClassVar = {"value": ("_value",)}

    def __init__(self) -> None:
        self._value = math.nan

    def see(self, y: float) -> float:
        if y == y:
            self._value = y
        return self._value


class SeasonalNaive:
    """The latest known value at the same phase of a period, which is given, or looked for now and then."""

    KEPT: ClassVar = {"ring": "_ring", "numbers": ("_rows", "period"), "value": ("_value",)}

    def __init__(self, lead: int, period: int | None = None):
        self._lead = lead
        self._looks = period is None
        #: 0 where none is found
        self.period = period or 0
        #: the latest values, each in the place of the one that many rows before
        self._ring: list[float] = []
        self._size = max(LATEST, self.period)
        self._rows = 0
        self._value = math.nan

    def see(self, y: float) -> float:
        at = self._rows % self._size
        self._ring[at : at + 1] = [y]
        self._rows += 1
        if y == y:
            self._value = y
        if self._looks and self._rows >= FIRST_LOOK and self._rows & (self._rows - 1) == 0:
            self.period = find_period(self._filled()) or 0
        return self._same_phase() if self.period else self._value

    def _same_phase(self) -> float:
        for back in range(-self._lead % self.period, len(self._ring), self.period):  # rows before this one
            value = self._ring[(self._rows - 1 - back) % self._size]
            if value == value:
                return float(value)
        return self._value

    def _filled(self) -> np.ndarray:
        """The values that are kept, from the first known one on, missing ones replaced by those before them."""
        values = np.roll(self._ring, -(self._rows % len(self._ring)))
        latest = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
        return values[latest[latest >= 0]]


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
    lowest = np.minimum.accumulate(found)
    peaks = [
        lag
        for lag in range(2, longest + 1)
        if found[lag] >= found[lag - 1]
        and found[lag] > max(found[lag + 1], STRENGTH, lowest[lag - 1] + FALL)
        and found[2 * lag - 2 : 2 * lag + 3].max() > 0.7 * found[lag]
    ]
    if not peaks:
        return None
    limit = 1 - (1 - found[peaks].max()) * (1 + TOLERANCE) - 0.01
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

    KEPT: ClassVar = {
        "values": "_values", "weights": "_weights", "p": "_p",
        "numbers": ("_known", "_mean", "_squares", "_deviation", "_lowest", "_highest"),
    }  # fmt: skip

    def __init__(self, lead: int, lags: int = LAGS, ridge: float = RIDGE):
        self._lags = lags
        #: the latest values, the newest last; none before the first known one
        self._values: deque[float] = deque(maxlen=lags + lead)
        self._weights = np.eye(lags + 1)[0]
        self._p = np.eye(lags + 1) / ridge
        #: of the first known values: how many, their mean, and the sum of their squared deviations
        self._known, self._mean, self._squares = 0, 0.0, 0.0
        self._deviation = 0.0  # 0 until the fit begins
        self._lowest, self._highest = math.inf, -math.inf

    def see(self, y: float) -> float:
        is_known = y == y
        if not is_known and not self._values:
            return math.nan
        value = y if is_known else float(self._values[-1])
        self._values.extend([value] * (1 if self._values else self._values.maxlen or 0))
        if is_known:
            self._learn(y)
        if not self._deviation:
            return value
        newest = [self._values[-1 - lag] for lag in range(self._lags)]
        forecast = float(self._x(newest) @ self._weights) * self._deviation + self._mean
        beyond = (self._highest - self._lowest) / 2
        return min(max(forecast, self._lowest - beyond), self._highest + beyond) if math.isfinite(forecast) else value

    def _x(self, values: list[float]) -> np.ndarray:
        """The inputs of a forecast from values, the newest first."""
        return np.append((np.array(values) - self._mean) / self._deviation, 1.0)

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
        x = self._x([self._values[lag] for lag in reversed(range(self._lags))])
        px = self._p @ x
        size = 1.0 + float(x @ px)
        error = (y - self._mean) / self._deviation - float(x @ self._weights)
        # Rounding may spoil a step with a huge value: it is left out then.
        if math.isfinite(size) and size >= 1.0 and math.isfinite(error):
            self._weights += px * (error / size)
            self._p -= np.outer(px, px) / size


Baseline = LastValue | SeasonalNaive | LeastSquares
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
