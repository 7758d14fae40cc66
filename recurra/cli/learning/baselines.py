"""Forecasts that need no learning to speak of, from the past alone: what a model has to beat.

Each takes in the value of a row, NaN if it is missing, and forecasts the row `lead` rows later. Until it knows better
it forecasts the last value, so that all are scored on the same rows.
"""

import math
from typing import Protocol, runtime_checkable

import numpy as np

from recurra.cli.learning.least_squares import LAGS, LeastSquares
from recurra.cli.learning.seasons import find_period

#: the row at which a period is first looked for, and then at twice as many
FIRST_LOOK = 256
#: the latest values that are kept to look for it
KEPT = 1 << 14


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
