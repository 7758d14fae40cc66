"""How a claim is decided.

A claim is a conjunction of parts. A part says in which region a quantity lies: above zero, within a margin of zero,
within a factor of a number. The data give an estimate of that quantity with a confidence interval, and then

    holds           the whole interval lies in the region
    does not hold   the whole interval lies outside it
    not decided     anything else: the interval straddles the border, or data are missing

The claim holds if all its parts hold, and does not hold if any part does not. Each of m parts is judged at confidence
1 - 0.05 / m (Bonferroni), so that no more than one claim in twenty fails, or holds, by chance. Counts that are not
samples, like bytes and operations, are judged by their value.

Regions are part of the criterion and are written down next to the claim; nothing about them depends on the data.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from recurra.paper.analysis import Estimate

Data = Mapping[str, Mapping[str, np.ndarray]]
Status = Literal["holds", "does not hold", "not decided"]

#: How often a claim may be misjudged by chance.
ERROR_RATE = 0.05


@runtime_checkable
class Profile(Protocol):
    """What the ledger needs to know of the size of the experiments."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...


class Undecided(Exception):  # noqa: N818
    """Raised where the data cannot speak to a claim; the message says why."""


@dataclass(frozen=True)
class Region:
    """Where a quantity is claimed to lie: low to high.

    With `reaches`, the claim holds only if the interval also begins at or below that value.
    """

    low: float = -math.inf
    high: float = math.inf
    reaches: float = math.inf

    def judge(self, low: float, high: float) -> Status:
        """The status of a claim whose quantity lies between low and high."""
        if self.low <= low <= self.reaches and high <= self.high:
            return "holds"
        return "does not hold" if high < self.low or low > self.high else "not decided"

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"above {self.low:.3g}"
        if math.isinf(self.low):
            return f"below {self.high:.3g}"
        return f"{self.low:.3g}" if self.low == self.high else f"{self.low:.3g} to {self.high:.3g}"


@dataclass(frozen=True)
class Part:
    """One quantity and the region claimed for it; without a region it is reported and decides nothing."""

    name: str
    estimate: Estimate
    region: Region | None
    sampled: bool = True
    note: str = ""

    def interval(self, confidence: float) -> tuple[float, float]:
        """What the quantity is judged by: a confidence interval, or for a count its value."""
        return self.estimate.interval(confidence) if self.sampled else (self.estimate.value, self.estimate.value)

    def status(self, confidence: float) -> Status:
        low, high = self.interval(confidence)
        return self.region.judge(low, high) if self.region and not math.isnan(low) else "not decided"

    def weakness(self, confidence: float) -> tuple[int, float]:
        """Sorts first what fails, then what is not decided, then by the distance to the border in standard errors."""
        assert self.region
        e, rank = self.estimate, {"does not hold": 0, "not decided": 1, "holds": 2}
        distance = min(e.value - self.region.low, self.region.high - e.value)
        error = e.error if e.error > 0 else 1e-12
        return rank[self.status(confidence)], distance / error

    def row(self, confidence: float) -> dict[str, Any]:
        """For the ledger's details."""
        e = self.estimate
        known: dict[str, Any] = {"part": self.name, "number": finite(e.value), "uncertainty": finite(e.error)}
        if self.region:
            low, high = self.interval(confidence)
            known |= {"interval": [finite(low), finite(high)], "claimed": str(self.region)}
            known |= {"status": self.status(confidence)}
        return known | ({"note": self.note} if self.note else {})


@dataclass(frozen=True)
class Verdict:
    """What the data say of a claim: the number is that of its weakest part, in the units that `measured` states."""

    status: Status
    measured: str
    number: float = math.nan
    uncertainty: float = math.nan
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """Something the paper states, where it does, and the criterion by which data decide it."""

    id: str
    text: str
    where: str
    criterion: str
    parts: Callable[[Data], list[Part]]

    def decide(self, data: Data, profile: Profile) -> Verdict:
        """The verdict of the data, with every part among its details."""
        try:
            parts = self.parts(data)
        except Undecided as reason:
            return Verdict("not decided", str(reason))
        return conjunction(parts, profile.name)


def conjunction(parts: list[Part], profile: str) -> Verdict:
    """Holds if all parts do, does not if any does not; see the module's description."""
    deciding = [part for part in parts if part.region]
    confidence = 1 - ERROR_RATE / len(deciding)
    statuses = [part.status(confidence) for part in deciding]
    whole: Status = "not decided"
    if "does not hold" in statuses:
        whole = "does not hold"
    elif all(status == "holds" for status in statuses):
        whole = "holds"
    weakest = min(deciding, key=lambda part: part.weakness(confidence))
    details = {"confidence": confidence, "parts": [part.row(confidence) for part in parts]}
    if whole == "not decided":
        details["open"] = [part.name for part, s in zip(deciding, statuses, strict=True) if s == "not decided"]
    measured = sentence(weakest, confidence, statuses.count("holds"), len(deciding))
    if whole == "not decided":
        measured += f" Not decided by the {profile} profile."
    return Verdict(whole, measured, weakest.estimate.value, weakest.estimate.error, details)


def sentence(part: Part, confidence: float, held: int, total: int) -> str:
    """The weakest part in words."""
    e = part.estimate
    text = f"{part.name}: {e.value:.3g}"
    text += f" ± {e.error:.2g}" if math.isfinite(e.error) else " (no uncertainty: too few values)"
    low, high = part.interval(confidence)
    if part.sampled and math.isfinite(low):
        text += f" ({100 * confidence:.4g}% interval {low:.3g} to {high:.3g})"
    text += f", claimed {part.region}." + (f" {part.note}" if part.note else "")
    return text if total == 1 else f"{held} of {total} parts hold; the weakest is {text}"


def arrays(data: Data, name: str) -> Mapping[str, np.ndarray]:
    """The arrays of an experiment, or an `Undecided` that names it."""
    if name not in data:
        raise Undecided(f"Not decided: the experiment {name} was not run.")
    return data[name]


def finite(x: float) -> float | None:
    """A number as JSON has it: infinity and nan are null."""
    return float(x) if math.isfinite(x) else None
