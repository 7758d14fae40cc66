"""Claims about estimators of the exact gradient: bias, variance, and what sums over many steps do to both."""

import numpy as np

from recurra.analysis import Estimate, mean, mean_over_steps, squared_bias
from recurra.paper.claims.base import Claim, Data, Part, Region, Undecided, arrays, shown

TASKS = ("add", "mimic")
UNBIASED = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok")
BIASED = ("rflo", "kernl", "dni")
#: A bias of less than a quarter of the exact gradient's norm is taken for none, where it may also be nothing but noise.
SMALL = 0.25
#: How much of the way from its alignment at single steps to perfect alignment an unbiased learner's sums must go.
WAY = 0.5
#: How much better than single steps the sums of a biased learner may be aligned.
STAYS = 0.1


def rows(data: Data, name: str, learners: tuple[str, ...], *keys: str) -> list[tuple[np.ndarray, ...]]:
    """Each learner's part of an experiment's arrays, whose first axis is learners."""
    experiment = arrays(data, name)
    known = [str(x) for x in experiment["learners"]]
    absent = [shown(x) for x in learners if x not in known]
    if absent:
        raise Undecided(f"Not decided: {name} is without {' and '.join(absent)}.")
    return [tuple(np.asarray(experiment[key][known.index(x)], float) for key in keys) for x in learners]


def bias(data: Data, learners: tuple[str, ...], region: Region) -> list[Part]:
    """The mean of ‖bias‖² / ‖exact‖² over steps."""

    def part(task: str, learner: str, norm: np.ndarray, noise: np.ndarray) -> Part:
        seen = np.isfinite(norm) & np.isfinite(noise)
        e = squared_bias(norm[seen], noise[seen])
        ratio = np.sqrt(np.mean(norm[seen] ** 2) / np.mean(noise[seen] ** 2)) if np.any(noise[seen] > 0) else np.inf
        note = f"The error of the mean over replicas is {ratio:.3g} times what sampling alone gives."
        return Part(
            f"squared bias of {shown(learner)}, {task}, in squared norms of the exact gradient", e, region, note=note
        )

    return [
        part(task, learner, *both)
        for task in TASKS
        for learner, both in zip(learners, rows(data, f"bias/{task}", learners, "bias", "bias_noise"), strict=True)
    ]


class Vanishing(Region):
    """At most `high`, and not distinguishable from zero: an interval above zero decides nothing until it is above high."""

    def judge(self, low: float, high: float):
        verdict = super().judge(low, high)
        return "not decided" if verdict == "holds" and low > 0 else verdict


def variance(data: Data) -> list[Part]:
    """log(std of another / std of KF-RTRL), over steps of one trajectory."""

    def part(task: str, other: str) -> Part:
        (x,), (kf,) = rows(data, f"bias/{task}", (other, "kf-rtrl"), "std")
        seen = (x > 0) & (kf > 0)
        ratio = mean_over_steps(np.log(x[seen] / kf[seen]))
        note = f"(a ratio of {np.exp(ratio.value):.3g})"
        return Part(
            f"log ratio of the standard deviation of {shown(other)} to KF-RTRL's, {task}", ratio, Region(0.0), note=note
        )

    return [part(task, other) for task in TASKS for other in ("uoro", "r-kf-rtrl")]


def summed(data: Data, learners: tuple[str, ...], name: str, measure, region: Region) -> list[Part]:
    """A measure of the alignments at single steps and at the longest window."""

    def part(task: str, learner: str, cosine: np.ndarray) -> Part:
        window = int(np.max(data[f"gradients/{task}"]["windows"]))
        first, last = cosine[:, 0], cosine[:, -1]
        note = f"(from {np.mean(first):.2g} to {np.mean(last):.2g} over {window:,} steps)"
        return Part(f"{name}, {shown(learner)}, {task}", measure(first, last), region, note=note)

    def sums(task: str):
        # the learner's axis of window_cosine is its second
        experiment = arrays(data, f"gradients/{task}")
        turned = {"learners": experiment["learners"], "cosine": np.swapaxes(experiment["window_cosine"], 0, 1)}
        return rows({task: turned}, task, learners, "cosine")

    return [part(task, x, *row) for task in TASKS for x, row in zip(learners, sums(task), strict=True)]


def way(first: np.ndarray, last: np.ndarray) -> Estimate:
    """The share of the way to perfect alignment that was gone."""
    return mean((last - first) / (1 - first))


def rise(first: np.ndarray, last: np.ndarray) -> Estimate:
    """By how much the alignment rose."""
    return mean(last - first)


CLAIMS = [
    Claim(
        "unbiased",
        "UORO, KF-RTRL, R-KF-RTRL and r-OK estimate RTRL's gradient without bias.",
        "Sections 4.1 and 4.2; Discussion",
        "The squared error of the mean over replicas, less what sampling adds to it, averaged over steps with their "
        f"autocorrelation. Holds if every interval reaches down to zero and lies below {SMALL}², the square of a quarter "
        "of the exact gradient's norm; fails if any lies above that.",
        lambda data: bias(data, UNBIASED, Vanishing(high=SMALL**2)),
    ),
    Claim(
        "lowest-variance",
        "Of the three learners of rank one, KF-RTRL has the least variance.",
        "Section 4.1; Add task",
        "The logarithm of the ratio of standard deviations over replicas, averaged over steps with their autocorrelation. "
        "Holds if every interval lies above zero; fails if any lies below.",
        variance,
    ),
    Claim(
        "biased",
        "RFLO, KeRNL and DNI are biased.",
        "Sections 4.1 and 4.2; Discussion",
        f"The same squared bias. Holds if every interval lies above {SMALL}²; fails if any lies below.",
        lambda data: bias(data, BIASED, Region(SMALL**2)),
    ),
]

SUMMED = [
    Claim(
        "summed-unbiased",
        "Over many steps the errors of unbiased learners average out: their summed gradients align with RTRL's.",
        "Discussion, Figure 9a",
        f"From single steps to the longest window the alignment goes at least {WAY:.0%} of the way to 1, over seeds. Holds "
        "if every interval lies above; fails if any lies below.",
        lambda data: summed(data, UNBIASED, "share of the way to 1", way, Region(WAY)),
    ),
    Claim(
        "summed-biased",
        "The errors of biased learners do not average out: summing does not align them better.",
        "Discussion, Figure 9b",
        f"From single steps to the longest window the alignment rises by less than {STAYS}, over seeds. Holds if every "
        "interval lies below; fails if any lies above.",
        lambda data: summed(data, BIASED, "rise of the alignment", rise, Region(high=STAYS)),
    ),
]
