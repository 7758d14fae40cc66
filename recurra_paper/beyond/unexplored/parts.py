"""The quantities that the claims are about, and what is claimed of each."""

import numpy as np

from recurra_paper.analysis import Estimate, mean, relative
from recurra_paper.beyond.unexplored.measures import (
    cosine,
    final_loss,
    gap,
    growth,
    less_variance,
    variance_after,
)
from recurra_paper.beyond.unexplored.runs import (
    COLUMN,
    DIAGONAL,
    NEW,
    PRE,
    RECEIVER,
    STOCHASTIC,
    expectation_name,
)
from recurra_paper.claims.base import Data, Part, arrays
from recurra_paper.claims.estimators import ROUNDING
from recurra_paper.claims.rule import COSINES, GAPS, RATIOS, More, NoMore, Relation, Within
from recurra_paper.setup import TASKS, shown

#: Column-UORO's variance lies below UORO's, and above this part of it.
LEAST_PART = 0.75
#: orders of magnitude by which Receiver-UORO's variance exceeds UORO's after ten steps, at least
EXCESS = 3.0
#: Orders of magnitude by which a variance that is bounded may grow from the tenth to the fortieth step.
BOUNDED = 1.0


def exactly(data: Data) -> list[Part]:
    """The distance of an exact expectation from RTRL's M."""

    def part(learner: str) -> Part:
        found = arrays(data, expectation_name(learner))
        note = f"({int(found['patterns']):,} patterns, {int(found['steps'])} steps, std {float(found['std']):.2g})"
        distance = Estimate(float(found["distance"]), 0.0, np.inf)
        name = f"distance of {shown(learner)}'s expectation from RTRL's tensor, relative to it"
        return Part(name, distance, Within(high=ROUNDING), sampled=False, note=note)

    return [part(learner) for learner in NEW]


def varies_less(data: Data, learner: str, other: str, relation: Relation | None, sign: int = 1) -> list[Part]:
    """log(variance of other / variance of learner) on both tasks, or its negative."""

    def part(task: str) -> Part:
        e = mean(sign * less_variance(data, task, learner, other))
        first, second = (shown(x) for x in ((other, learner) if sign > 0 else (learner, other)))
        name = f"log ratio of the variance of {first} to {second}'s on {task.capitalize()}"
        return Part(name, e, relation, note=f"(a ratio of {np.exp(e.value):.3g})")

    return [part(task) for task in TASKS]


def ahead(data: Data, learner: str, other: str, relation: Relation, word: str = "ahead of") -> list[Part]:
    """How far a learner ends ahead of another one, or behind it, in gaps."""
    sign = 1 if word == "ahead of" else -1

    def part(task: str) -> Part:
        d = sign * (final_loss(data, task, other) - final_loss(data, task, learner))
        name = f"{shown(learner)} {word} {shown(other)} on {task.capitalize()}, in gaps"
        return Part(name, relative(d, gap(data, task)), relation)

    return [part(task) for task in TASKS]


def column(data: Data) -> list[Part]:
    """How much less Column-UORO varies than UORO; R-KF-RTRL is reported."""
    inside = varies_less(data, COLUMN, "uoro", Within(0.0, -float(np.log(LEAST_PART))))
    return inside + varies_less(data, COLUMN, "r-kf-rtrl", None)


def explodes(data: Data) -> list[Part]:
    """Receiver-UORO's variance over UORO's after ten steps, and its growth less that of every other learner."""
    first, other = (variance_after(data, "orthogonal", x, 10) for x in (RECEIVER, "uoro"))
    name = "log10 of Receiver-UORO's variance over UORO's after 10 steps"
    ten = Part(name, mean(np.log10(first / other)), Within(EXCESS))
    grown = lambda x: growth(data, "orthogonal", x, 5, 20)
    faster = [
        Part(
            f"orders of magnitude that Receiver-UORO's variance grows more than {shown(x)}'s from step 5 to 20",
            mean(grown(RECEIVER) - grown(x)),
            More(float(np.log10(1.1))),
        )
        for x in STOCHASTIC
    ]
    return [ten, *faster]


def bounded(data: Data) -> list[Part]:
    """The growth of its variance where |J| is contracting, and where it is not."""

    def part(weights: str, relation: Relation) -> Part:
        e = mean(growth(data, weights, RECEIVER, 10, 40))
        name = f"orders of magnitude that Receiver-UORO's variance grows from step 10 to 40, {weights} weights"
        return Part(name, e, relation)

    return [part("contracting", Within(high=BOUNDED)), part("orthogonal", Within(low=BOUNDED))]


def aligned(data: Data) -> list[Part]:
    """Diagonal-UORO's cosine with RTRL less UORO's; sums over the longest windows, and less SnAp-1's, are reported."""

    def part(task: str, other: str, window: int, relation: Relation | None) -> Part:
        ours, theirs = cosine(data, task, DIAGONAL), cosine(data, task, other)
        what = "single steps" if window == 0 else "sums over the longest windows"
        name = f"cosine with RTRL of Diagonal-UORO less {shown(other)}'s on {task.capitalize()}, {what}"
        return Part(name, mean(ours[:, window] - theirs[:, window]), relation)

    kinds = [("uoro", 0, More(COSINES)), ("uoro", -1, None), ("snap-1", 0, None), ("snap-1", -1, None)]
    return [part(task, *kind) for kind in kinds for task in TASKS]


def preuoro(data: Data) -> list[Part]:
    """PREUORO's variance over UORO's, and how far it ends behind UORO."""
    return [
        *varies_less(data, PRE, "uoro", NoMore(RATIOS), sign=-1),
        *ahead(data, PRE, "uoro", NoMore(GAPS), "behind"),
    ]
