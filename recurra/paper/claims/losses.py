"""How the losses that learners reach are compared.

A seed's final loss is its mean over the last ten windows, where the paper's smoothed curves end; a seed that diverged
counts as having learnt nothing, at the loss of the first window of fixed W. Seeds are paired: the same weights and the
same stream for every learner. Losses are compared in units of the gap, the mean over seeds of fixed W's loss less
RTRL's, so that a margin means the same for every task; where that gap itself is not above zero, at 95 % confidence,
nothing has been learnt yet that could tell learners apart, and nothing is decided.

    tie, alike, near   within a tenth of the gap, either way
    ahead, behind      holds for a difference of the stated sign, of any size; fails for one of the opposite sign
"""

from collections.abc import Callable, Mapping

import numpy as np

from recurra.paper.analysis import Estimate, mean, paired_difference, relative, shared
from recurra.paper.claims.base import Data, Part, Region, Undecided, arrays
from recurra.paper.setup import LEARNERS, shown

Parts = Callable[[Data], list[Part]]

#: What counts as a tie, in gaps.
MARGIN = 0.1
TIE = Region(-MARGIN, MARGIN)
POSITIVE = Region(0.0)
NO_LESS = Region(-MARGIN)

LEADERS = ("rtrl", "f-bptt", "kf-rtrl")
NOISY = ("uoro", "r-kf-rtrl")
LOCAL = ("rflo", "kernl")
REST = (*NOISY, *LOCAL, "dni", "dni-b")

GAPS = "Differences of final losses, paired by seed, in units of fixed W's loss less RTRL's."
AHEAD = f"{GAPS} Holds if the interval lies above zero; fails if it lies below."
TIED = f"{GAPS} Holds if the interval lies within a tenth either way; fails if it lies outside."


def final_loss(data: Data, condition: str, learner: str) -> np.ndarray:
    """Each seed's loss at the end."""
    return scored(arrays(data, f"loss/{condition}/{learner}"), arrays(data, f"loss/{condition}/fixed"))


def scored(run: Mapping[str, np.ndarray], baseline: Mapping[str, np.ndarray]) -> np.ndarray:
    """The mean of the last ten windows; where the run diverged, the baseline's first window."""
    with np.errstate(over="ignore", invalid="ignore"):
        last = np.asarray(run["loss"], float)[:, -10:].mean(axis=1)
    ended = np.isfinite(last) & (np.asarray(run["diverged"]) < 0)
    return np.where(ended, last, np.asarray(baseline["loss"], float)[:, 0])


def gap(data: Data, condition: str) -> np.ndarray:
    """Fixed W's loss less RTRL's at each seed, if its mean is known to be positive."""
    values = final_loss(data, condition, "fixed") - final_loss(data, condition, "rtrl")
    estimate = mean(values)
    if not estimate.interval()[0] > 0:
        raise Undecided(
            f"Not decided: on {title(data, condition)} RTRL is not yet ahead of fixed W beyond doubt "
            f"(by {estimate.value:.2g} ± {estimate.error:.1g}), so that there is no gap to measure differences by."
        )
    return values


def behind(data: Data, condition: str, x: str, y: str) -> Estimate:
    """(loss of x - loss of y) / gap."""
    d = final_loss(data, condition, x) - final_loss(data, condition, y)
    return relative(d, gap(data, condition))


def against_rtrl(data: Data, condition: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """x's loss less RTRL's at each seed, and the gap."""
    return final_loss(data, condition, x) - final_loss(data, condition, "rtrl"), gap(data, condition)


def compare(data: Data, condition: str, x: str, y: str, region: Region | None) -> Part:
    """x behind y, claimed to lie in a region."""
    name = f"{shown(x)} behind {shown(y)} on {title(data, condition)}, in gaps"
    return Part(name, behind(data, condition, x, y), region, note=diverged(data, condition, x, y))


def diverged(data: Data, condition: str, *learners: str) -> str:
    """Who diverged, in words."""
    counts = {x: int((np.asarray(data[f"loss/{condition}/{x}"]["diverged"]) >= 0).sum()) for x in learners}
    return " ".join(f"{shown(x)} diverged at {count} seeds." for x, count in counts.items() if count)


def title(data: Data, condition: str) -> str:
    """A condition in words, with the length of training."""
    task, alpha = condition.split("/")
    steps = int(np.max(arrays(data, f"loss/{condition}/fixed")["step"]))
    return f"{task.capitalize()}, alpha = {alpha}, after {steps:,} steps"


def tie(condition: str) -> Parts:
    """F-BPTT and KF-RTRL within the margin of RTRL; E-BPTT is reported."""
    return lambda data: [
        *(compare(data, condition, x, "rtrl", TIE) for x in ("f-bptt", "kf-rtrl")),
        *reported(data, condition, "e-bptt"),
    ]


def reported(data: Data, condition: str, *learners: str) -> list[Part]:
    """Parts that decide nothing, of the learners that were run."""
    return [compare(data, condition, x, "rtrl", None) for x in learners if f"loss/{condition}/{x}" in data]


def lead(condition: str, near: tuple[str, ...] = ()) -> Parts:
    """Every other learner of the paper behind the mean of the three leaders; those in `near` may tie with them."""

    def parts(data: Data) -> list[Part]:
        leaders = np.mean([final_loss(data, condition, x) for x in LEADERS], axis=0)
        scale = gap(data, condition)
        return [
            Part(
                f"{shown(x)} behind the mean of RTRL, F-BPTT and KF-RTRL on {title(data, condition)}, in gaps",
                relative(final_loss(data, condition, x) - leaders, scale),
                NO_LESS if x in near else POSITIVE,
                note=diverged(data, condition, x, *LEADERS),
            )
            for x in REST
        ] + reported(data, condition, "e-bptt", "r-ok")

    return parts


def between(condition: str) -> Parts:
    """DNI ahead of the local rules, behind the others."""
    return lambda data: [
        *(compare(data, condition, x, "dni", POSITIVE) for x in LOCAL),
        *(compare(data, condition, "dni", x, POSITIVE) for x in (*NOISY, *LEADERS)),
    ]


def beats_fixed(condition: str) -> Parts:
    """Fixed W's loss less each learner's, in the units of the loss."""

    def part(data: Data, x: str, region: Region | None) -> Part:
        better = paired_difference(final_loss(data, condition, "fixed"), final_loss(data, condition, x))
        name = f"{shown(x)} below fixed W on {title(data, condition)}"
        return Part(name, better, region, note=diverged(data, condition, x))

    return lambda data: (
        [part(data, x, Region(0.0)) for x in LEARNERS if x != "fixed"]
        + [part(data, x, None) for x in ("kernl-released",) if f"loss/{condition}/{x}" in data]
    )


def relative_to_add(learners: tuple[str, ...], sign: int) -> Parts:
    """sign × (normalised gap on Mimic - on Add), claimed positive, for both alphas."""

    def part(data: Data, x: str, alpha: str) -> Part:
        # A seed starts from the same recurrent weights on both tasks.
        (add, each_add), (mimic, each_mimic) = (
            shared(*against_rtrl(data, f"{task}/{alpha}", x)) for task in ("add", "mimic")
        )
        d = Estimate(sign * (mimic - add), mean(each_mimic - each_add).error, len(each_add) - 1.0)
        word = "worse" if sign > 0 else "better"
        note = f"(Add {add:.2g}, Mimic {mimic:.2g})"
        return Part(f"{shown(x)} relatively {word} on Mimic, alpha = {alpha}, in gaps", d, POSITIVE, note=note)

    return lambda data: [part(data, x, alpha) for alpha in ("1", "0.5") for x in learners]


def both_alphas(task: str, *comparisons: tuple[str, str, Region]) -> Parts:
    """The same comparisons at alpha 1 and 0.5."""
    return lambda data: [
        compare(data, f"{task}/{alpha}", x, y, region) for alpha in ("1", "0.5") for x, y, region in comparisons
    ]
