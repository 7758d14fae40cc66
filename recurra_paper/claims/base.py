"""How a claim is decided.

A claim is a conjunction of parts. A part is a quantity and what is claimed of it, by the one rule of `rule`. The data
give an estimate of that quantity with a confidence interval, by which the rule judges. The claim holds if all its parts
hold, and does not hold if any part does not. Each of m parts is judged at confidence 1 - 0.05 / m (Bonferroni), so that
no more than one claim in twenty fails, or holds, by chance where the difference matters; a true difference that is too
small to matter may well be judged to be none. Nothing is corrected for the number of claims: of many claims that are
open to chance, one in twenty may be misjudged. Counts that are no samples, like bytes and operations, are judged by
their value.

Where the paper leaves open what was done, a claim may be judged under each of its readings. If they disagree it is not
decided: it depends on the reading, and the verdict tells how.

What matters is part of the criterion and written down with the claim; nothing about it depends on the data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from recurra_paper.analysis import Estimate, Permuted, mean
from recurra_paper.claims.rule import Relation, Status, in_words
from recurra_paper.setup import shown

Data = Mapping[str, Mapping[str, np.ndarray]]

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


class NotRun(Undecided):
    """Raised where an experiment was not run."""


@dataclass(frozen=True)
class Part:
    """One quantity and what is claimed of it; without a relation it is reported and decides nothing.

    `sampled` is false for counts, which have no uncertainty. `reading` names what the paper leaves open, as this part
    takes it.
    """

    name: str
    estimate: Estimate | Permuted
    relation: Relation | None
    sampled: bool = True
    note: str = ""
    reading: str = ""

    def interval(self, confidence: float) -> tuple[float, float]:
        """What the quantity is judged by: a confidence interval, or for a count its value."""
        return self.estimate.interval(confidence) if self.sampled else (self.estimate.value, self.estimate.value)

    def status(self, confidence: float) -> Status:
        """What the rule says at this confidence."""
        low, high = self.interval(confidence)
        return self.relation.judge(low, high) if self.relation and not math.isnan(low) else "not decided"

    def finding(self, confidence: float) -> str:
        """Direction and size in words, where the quantity is a difference."""
        return in_words(self.relation, *self.interval(confidence)) if self.relation else ""

    def weakness(self, confidence: float) -> tuple[int, float]:
        """Sorts first what fails, by how far, then what is not decided, then what holds, both in standard errors."""
        assert self.relation
        e, status = self.estimate, self.status(confidence)
        border = self.relation.border(e.value)
        if status == "does not hold":
            return 0, border
        return 1 if status == "not decided" else 2, border / (e.error if e.error > 0 else 1e-12)

    def row(self, confidence: float) -> dict[str, Any]:
        """For the ledger's details."""
        e = self.estimate
        known: dict[str, Any] = {"part": self.name, "number": finite(e.value), "uncertainty": finite(e.error)}
        if self.relation:
            low, high = self.interval(confidence)
            known |= {"interval": [finite(low), finite(high)], "claimed": str(self.relation)}
            known |= {"status": self.status(confidence), "finding": self.finding(confidence)}
        if isinstance(e, Permuted):
            known["p"] = e.p
        about = {"reading": self.reading, "note": self.note}
        return known | {key: words for key, words in about.items() if words}


@dataclass(frozen=True)
class Verdict:
    """What the data say of a claim: the number is that of its weakest part, in the units that `measured` states.

    `finding` tells direction and size of the weakest part, where it is a difference. A verdict is `missing` where an
    experiment was not run.
    """

    status: Status
    measured: str
    number: float = math.nan
    uncertainty: float = math.nan
    finding: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    missing: bool = False

    def row(self) -> dict[str, Any]:
        """For JSON."""
        about = {name: getattr(self, name) for name in ("status", "finding", "measured", "details")}
        return about | {name: finite(getattr(self, name)) for name in ("number", "uncertainty")}


@dataclass(frozen=True)
class Claim:
    """Something that is stated, where it is, and the criterion by which data decide it.

    `figure` names the figure it stands beside. A claim that is `counted` rests on counts, which do not vary.
    """

    id: str
    text: str
    where: str
    criterion: str
    parts: Callable[[Data], list[Part]]
    figure: str
    counted: bool = False

    def decide(self, data: Data, profile: Profile) -> Verdict:
        """The verdict of the data, with every part among its details."""
        try:
            parts = self.parts(data)
        except Undecided as reason:
            return Verdict("not decided", str(reason), missing=isinstance(reason, NotRun))
        return conjunction(parts, profile.name)


def together(statuses: Sequence[Status]) -> Status:
    """The status of a conjunction: holds if all do, does not hold if any does not."""
    if "does not hold" in statuses:
        return "does not hold"
    return "holds" if all(status == "holds" for status in statuses) else "not decided"


def conjunction(parts: Sequence[Part], profile: str) -> Verdict:
    """Holds if all parts do, does not if any does not; not decided where readings disagree. See the module."""
    deciding = [part for part in parts if part.relation]
    confidence = 1 - ERROR_RATE / len(deciding)
    judged: list[tuple[Part, Status]] = [(part, part.status(confidence)) for part in deciding]
    readings: dict[str, Status] = {
        reading: together([status for part, status in judged if part.reading == reading])
        for reading in dict.fromkeys(part.reading for part in deciding)
    }
    whole = together([status for _, status in judged]) if len(set(readings.values())) == 1 else "not decided"
    weakest = min(deciding, key=lambda part: part.weakness(confidence))
    measured = sentence(weakest, confidence, sum(status == "holds" for _, status in judged), len(deciding))
    finding = weakest.finding(confidence)
    details = {"confidence": confidence, "parts": [part.row(confidence) for part in parts]}
    if len(readings) > 1:
        details["readings"] = readings
    if whole == "not decided":
        details["open"] = [part.name for part, status in judged if status == "not decided"]
        measured += f" Not decided by the {profile} profile."
    if len(set(readings.values())) > 1:
        finding = "depends on the reading"
        measured = "; ".join(f"{reading}: {status}" for reading, status in readings.items()) + f". {measured}"
    return Verdict(whole, measured, weakest.estimate.value, weakest.estimate.error, finding, details)


def sentence(part: Part, confidence: float, held: int, total: int) -> str:
    """The weakest part in words."""
    text = f"{part.name}: {part.estimate.value:.3g}{spread(part, confidence) if part.sampled else ''}"
    finding = part.finding(confidence)
    text += f", claimed {part.relation}" + (f", found {finding}." if finding else ".")
    text += f" {part.note}" if part.note else ""
    return text if total == 1 else f"{held} of {total} parts hold; the weakest is {text}"


def spread(part: Part, confidence: float) -> str:
    """What a sample says of the precision of a value."""
    e = part.estimate
    if isinstance(e, Permuted):
        return f" (p = {e.p:.2g} over {len(e.chance):,} orders of the learners)"
    low, high = part.interval(confidence)
    text = f" ± {e.error:.2g}" if math.isfinite(e.error) else " (no uncertainty: too few values)"
    return text + (f" ({100 * confidence:.4g}% interval {low:.3g} to {high:.3g})" if math.isfinite(low) else "")


def ledger(claims: Sequence[Claim], data: Data, profile: Profile, fresh: Data | None = None) -> list[dict[str, Any]]:
    """Every claim with its verdict, ready for JSON; and with that of `fresh` data, if they can speak to it."""

    def row(claim: Claim) -> dict[str, Any]:
        about = {name: getattr(claim, name) for name in ("id", "text", "where", "figure", "counted", "criterion")}
        again = claim.decide(fresh, profile) if fresh else None
        judged = about | claim.decide(data, profile).row()
        return judged | ({"fresh": again.row()} if again and not again.missing else {})

    return [row(claim) for claim in claims]


def arrays(data: Data, name: str) -> Mapping[str, np.ndarray]:
    """The arrays of an experiment, or an `Undecided` that names it."""
    if name not in data:
        raise NotRun(f"Not decided: the experiment {name} was not run.")
    return data[name]


def places(data: Data, name: str, *learners: str) -> list[int]:
    """Where learners stand in an experiment's arrays, or an `Undecided` that names those that are absent."""
    known = [str(x) for x in arrays(data, name)["learners"]]
    absent = [shown(x) for x in learners if x not in known]
    if absent:
        raise Undecided(f"Not decided: {name} is without {' and '.join(absent)}.")
    return [known.index(x) for x in learners]


def known_gap(values: np.ndarray, where: str = "") -> np.ndarray:
    """Fixed W's loss less RTRL's at each seed, if its mean is above zero at 95 % confidence: a unit of differences."""
    found = mean(values)
    if not found.interval()[0] > 0:
        raise Undecided(
            f"Not decided:{' ' * bool(where)}{where} RTRL is not yet ahead of fixed W beyond doubt (by "
            f"{found.value:.2g} ± {found.error:.1g}), so that there is no gap to measure differences by."
        )
    return values


def finite(x: float) -> float | None:
    """A number as JSON has it: infinity and nan are null."""
    return float(x) if math.isfinite(x) else None
