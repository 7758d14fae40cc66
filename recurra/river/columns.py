"""Rows as dictionaries, whose names come and go, and the columns of numbers that a network sees.

A name gets a column when it first appears. A row that lacks it has the mean of the column there, which is zero once
inputs are standardised; or zero itself, for rows that leave zeros out.
"""

import math
import numbers
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

#: the largest number that single precision holds
LARGEST = float(np.finfo(np.float32).max)


def numbers_of(x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
    """The features that a row has, as numbers; None and nan are missing."""
    found = {}
    for name, value in x.items():
        number = float(value) if type(value) in (float, int, bool) else _number(name, value)
        if abs(number) > LARGEST:
            raise ValueError(f"The feature {name!r} is {value!r}, which is {too_large(number)}.")
        if number == number:
            found[name] = number
    return found


def too_large(number: float) -> str:
    """What is wrong with such a number."""
    return "not finite" if math.isinf(number) else "too large for single precision"


def _number(name: Hashable, value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str):
        raise TypeError(
            f"The feature {name!r} is the text {value!r:.80}, and a network needs numbers: put "
            "river.preprocessing.OneHotEncoder() before it."
        )
    if isinstance(value, numbers.Real | np.bool) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return float(value)
    raise TypeError(
        f"The feature {name!r} is {value!r:.80}, and a network needs numbers: make them with "
        "river.compose.FuncTransformer, or leave it out with river.compose.Discard."
    )


class Columns:
    """Which name has which column, and the mean of each column so far.

    Columns hold the differences to a feature's first value, so that little is lost when they are rounded. A feature
    that comes late is not heard at once. Its first `warmup` values tell its mean and variance, as those of the first
    rows do for all others.
    """

    def __init__(self, absent: str, warmup: int, memory: int):
        self.absent, self.warmup, self.memory = absent, warmup, memory
        self.names: dict[Hashable, int] = {}
        self.rows = 0
        #: for each feature: its first value, the mean of its column, and whether it is heard
        self.origin, self.mean, self.heard = np.zeros(0), np.zeros(0), np.zeros(0, bool)
        #: for each feature that is not heard yet: how many values there were, their mean and their squared deviations
        self.early = np.zeros((3, 0))

    def make_room(self, features: Mapping[Hashable, float], slots: int) -> None:
        """Columns for features that are new, in an order that does not depend on the dictionary's."""
        new = [name for name in features if name not in self.names]
        for name in sorted(new, key=lambda name: (type(name).__name__, repr(name))):
            self.names[name] = len(self.names)
        more = slots - len(self.mean)
        self.origin, self.mean = (np.pad(each, (0, more)) for each in (self.origin, self.mean))
        self.heard, self.early = np.pad(self.heard, (0, more)), np.pad(self.early, ((0, 0), (0, more)))
        places = [self.names[name] for name in new]
        self.heard[places] = not self.rows or self.absent == "zero"
        if self.absent == "mean":
            self.origin[places] = [features[name] for name in new]

    def row(self, features: Mapping[Hashable, float]) -> np.ndarray:
        """The columns of a row. Names without a column are left out."""
        row = self.mean.copy() if self.absent == "mean" else np.zeros_like(self.mean)
        for name, value in features.items():
            place = self.names.get(name)
            if place is not None and self.heard[place]:
                row[place] = value - self.origin[place]
        return row

    def seen(self, features: Mapping[Hashable, float], row: np.ndarray) -> dict[int, tuple[float, float]]:
        """Count a row that was learned. Returns mean and variance of the columns that are heard from now on."""
        self.rows += 1
        self.mean += (row - self.mean) / min(self.rows, self.memory)
        ready = {}
        if not self.heard[: len(self.names)].all():
            for name, value in features.items():
                place = self.names[name]
                if not self.heard[place] and self._is_known(place, value - self.origin[place]):
                    count, mean, squares = self.early[:, place]
                    self.heard[place], self.mean[place] = True, mean
                    ready[place] = float(mean), float(squares / count)
        return ready

    def _is_known(self, place: int, value: float) -> bool:
        """Count one value of a feature that is not heard yet. Returns whether its scale is known now."""
        count, mean, squares = self.early[:, place]
        away = value - mean
        mean += away / (count + 1)
        self.early[:, place] = count + 1, mean, squares + away * (value - mean)
        return bool(count + 1 >= self.warmup and self.early[2, place] > 0)
