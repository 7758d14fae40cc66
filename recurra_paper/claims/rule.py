"""One rule for every comparison: which way a difference points, and whether it is large enough to matter.

A quantity is written so that the claim says it is positive. The data give an interval from low to high; the claim
states beforehand the smallest difference that matters, δ. Then

    direction   "above zero"   0 < low                     size   "matters"               δ ≤ low, or high ≤ -δ
                "below zero"   high < 0                           "too small to matter"   -δ < low and high < δ
                "none"         the interval holds zero,           "not known"             anything else
                               and the size is too small
                "not known"    anything else

and a claim is one of

    More      the quantity is positive       holds if above zero; does not hold if below zero, or if there is none
    NoMore    the quantity is not negative   holds if it lies above -δ and not below zero; does not hold if below zero
    Alike     the quantity is about zero     holds if too small to matter; does not hold if it matters
    Within    it lies from low to high       holds if the interval lies inside; does not hold if it lies outside
    Unrelated the quantity is zero           never holds: does not hold if a test finds that it is not zero

Direction and size are told apart in every verdict: a claim may hold by a difference that is too small to matter, and
may fail by one. `Within` is for quantities that are no differences, such as exponents and counts.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Status = Literal["holds", "does not hold", "not decided"]
Direction = Literal["above zero", "below zero", "none", "not known"]
Size = Literal["matters", "too small to matter", "not known"]

#: The smallest difference that matters, for every kind of quantity in the ledger.
GAPS = 0.1  # of final losses: a tenth of what separates fixed W from RTRL
COSINES = 0.1  # of mean cosines between gradients
CORRELATIONS = 0.1  # of correlation coefficients
RATIOS = math.log(1.1)  # of logarithms of ratios: one tenth more, or less
SHARES = 0.05  # of shares and coefficients of determination


@runtime_checkable
class Relation(Protocol):
    """What is claimed of a quantity."""

    def judge(self, low: float, high: float) -> Status:
        """Whether a quantity between low and high is as claimed."""
        ...

    def border(self, value: float) -> float:
        """How far a value lies inside the region in which the claim holds; negative outside."""
        ...


@dataclass(frozen=True)
class Difference:
    """A relation of a difference; `matters` is the smallest one that does."""

    matters: float

    def direction(self, low: float, high: float) -> Direction:
        """Which way a difference between low and high points."""
        if low > 0:
            return "above zero"
        if high < 0:
            return "below zero"
        return "none" if self.size(low, high) == "too small to matter" else "not known"

    def size(self, low: float, high: float) -> Size:
        """Whether a difference between low and high matters."""
        if low >= self.matters or high <= -self.matters:
            return "matters"
        return "too small to matter" if -self.matters < low and high < self.matters else "not known"


class More(Difference):
    """The quantity is positive."""

    def judge(self, low: float, high: float) -> Status:
        found = self.direction(low, high)
        return "holds" if found == "above zero" else "not decided" if found == "not known" else "does not hold"

    def border(self, value: float) -> float:
        return value

    def __str__(self) -> str:
        return "above zero"


class NoMore(Difference):
    """The quantity is not negative: nobody is ahead who should not be."""

    def judge(self, low: float, high: float) -> Status:
        if high < 0:
            return "does not hold"
        return "holds" if low > -self.matters else "not decided"

    def border(self, value: float) -> float:
        return value

    def __str__(self) -> str:
        return "not below zero"


class Alike(Difference):
    """The quantity is zero, up to what does not matter."""

    def judge(self, low: float, high: float) -> Status:
        found = self.size(low, high)
        return "holds" if found == "too small to matter" else "not decided" if found == "not known" else "does not hold"

    def border(self, value: float) -> float:
        return self.matters - abs(value)

    def __str__(self) -> str:
        return f"within {self.matters:.3g} of zero"


@dataclass(frozen=True)
class Within:
    """The quantity lies from low to high."""

    low: float = -math.inf
    high: float = math.inf

    def judge(self, low: float, high: float) -> Status:
        if self.low <= low and high <= self.high:
            return "holds"
        return "does not hold" if high < self.low or low > self.high else "not decided"

    def border(self, value: float) -> float:
        return min(value - self.low, self.high - value)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"above {self.low:.3g}"
        if math.isinf(self.low):
            return f"below {self.high:.3g}"
        return f"{self.low:.3g}" if self.low == self.high else f"{self.low:.3g} to {self.high:.3g}"


@dataclass(frozen=True)
class Unrelated:
    """The quantity is zero, and the sample is too small to show that: a test that does not reject shows nothing."""

    def judge(self, low: float, high: float) -> Status:
        return "does not hold" if low > 0 or high < 0 else "not decided"

    def border(self, value: float) -> float:
        return -abs(value)

    def __str__(self) -> str:
        return "no relation"


def in_words(relation: Relation, low: float, high: float) -> str:
    """Direction and size of a difference; nothing where the quantity is none."""
    if not isinstance(relation, Difference) or math.isnan(low):
        return ""
    direction, size = relation.direction(low, high), relation.size(low, high)
    pointing = {"none": "no direction", "not known": "direction not known"}.get(direction, direction)
    return f"{pointing}, {'size not known' if size == 'not known' else size}"
