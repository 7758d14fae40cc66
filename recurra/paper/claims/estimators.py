"""Claims about estimators of the exact gradient: bias, variance, and what sums over many steps do to both."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from recurra.paper.analysis import Estimate, exponent, mean, mean_over_steps, squared_bias
from recurra.paper.claims.base import Claim, Data, Part, Region, Undecided, arrays
from recurra.paper.setup import shown

Measure = Callable[[np.ndarray, np.ndarray], Estimate]

TASKS = ("add", "mimic")
UNBIASED = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok")
BIASED = ("rflo", "kernl", "dni")
#: A bias counts as none if it is less than a quarter of the exact gradient's norm, and if noise could explain it.
SMALL = 0.25
#: The power of 1/w with which the squared error of a sum over w steps must fall: halfway between errors that are
#: independent (1) and errors that are all alike (0).
FALLS = 0.5
#: How much better the sums of a biased learner may be aligned than its single steps.
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
        times = f"{ratio:.3g} times" if np.isfinite(ratio) else "beyond"
        note = f"The error of the mean over replicas is {times} what sampling alone gives."
        return Part(
            f"squared bias of {shown(learner)}, {task}, in squared norms of the exact gradient", e, region, note=note
        )

    return [
        part(task, learner, *both)
        for task in TASKS
        for learner, both in zip(learners, rows(data, f"bias/{task}", learners, "bias", "bias_noise"), strict=True)
    ]


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


def window_cosines(data: Data, task: str, learners: tuple[str, ...]) -> list[np.ndarray]:
    """Each learner's (seeds, windows): the cosine of its gradient summed over a window with RTRL's."""
    experiment = arrays(data, f"gradients/{task}")
    turned = {"learners": experiment["learners"], "cosine": np.swapaxes(experiment["window_cosine"], 0, 1)}
    return [cosine for (cosine,) in rows({f"gradients/{task}": turned}, f"gradients/{task}", learners, "cosine")]


def summed(data: Data, learners: tuple[str, ...], name: str, measure: Measure, region: Region | None) -> list[Part]:
    """A measure of how alignment grows with the window."""

    def part(task: str, learner: str, cosine: np.ndarray) -> Part:
        windows = np.asarray(data[f"gradients/{task}"]["windows"])
        first, last = float(np.mean(cosine[:, 0])), float(np.mean(cosine[:, -1]))
        note = f"(alignment from {first:.2g} at single steps to {last:.2g} over {windows[-1]:,})"
        return Part(f"{name}, {shown(learner)}, {task}", measure(windows, cosine), region, note=note)

    return [
        part(task, learner, cosine)
        for task in TASKS
        for learner, cosine in zip(learners, window_cosines(data, task, learners), strict=True)
    ]


def fall(windows: np.ndarray, cosine: np.ndarray) -> Estimate:
    """The power p of 1/c² - 1 ~ w^-p, the squared error of the sum relative to it, over the longer windows."""
    if not np.all(cosine > 0):
        raise Undecided("Not decided: over some windows a sum opposes RTRL's, and its error cannot be compared.")
    error = np.maximum(1 / cosine**2 - 1, np.finfo(float).eps)
    return mean(np.array([-exponent(windows, row).value for row in error]))


def rise(windows: np.ndarray, cosine: np.ndarray) -> Estimate:
    """By how much the alignment rises from single steps to the longest window."""
    return mean(cosine[:, -1] - cosine[:, 0])


def summed_biased(data: Data) -> list[Part]:
    """The biased learners, and F-BPTT to compare: it is exact, and only sums its terms in another order."""
    name = "rise of the alignment"
    deciding = summed(data, BIASED, name, rise, Region(high=STAYS))
    if not all("f-bptt" in data[f"gradients/{task}"]["learners"] for task in TASKS):
        return deciding
    exact = summed(data, ("f-bptt",), name, rise, None)
    told = "F-BPTT, which faces the future too and is exact, rises by"
    rises = {
        f"{name}, DNI, {task}": f"{told} {part.estimate.value:.2g}." for task, part in zip(TASKS, exact, strict=True)
    }
    return [replace(part, note=f"{part.note} {rises.get(part.name, '')}".strip()) for part in deciding] + exact


CLAIMS = [
    Claim(
        "unbiased",
        "UORO, KF-RTRL, R-KF-RTRL and r-OK estimate RTRL's gradient without bias.",
        "Section 3; Discussion",
        "The squared error of the mean over replicas, less what sampling adds to it, averaged over steps of one "
        "trajectory from the initial weights, with their autocorrelation. Holds if every interval reaches down to "
        f"zero and lies below {SMALL}², the square of a quarter of the exact gradient's norm; fails if any lies above.",
        lambda data: bias(data, UNBIASED, Region(high=SMALL**2, reaches=0.0)),
    ),
    Claim(
        "lowest-variance",
        "Of the three learners of rank one, KF-RTRL has the least variance.",
        "Section 3.4; Add task",
        "The logarithm of the ratio of standard deviations over replicas, averaged over steps with their "
        "autocorrelation. Holds if every interval lies above zero; fails if any lies below.",
        variance,
    ),
    Claim(
        "biased",
        "RFLO, KeRNL and DNI are biased.",
        "Discussion",
        "The squared error of the mean over replicas, less what sampling adds to it, averaged over steps of one "
        f"trajectory from the initial weights. Holds if every interval lies above {SMALL}²; fails if any lies below. "
        "DNI is compared with RTRL step by step, and so for facing the future too.",
        lambda data: bias(data, BIASED, Region(SMALL**2)),
    ),
]

SUMMED = [
    Claim(
        "summed-unbiased",
        "Over many steps the errors of unbiased learners average out: their summed gradients align with RTRL's.",
        "Discussion, Figure 9a",
        "With c the cosine of gradients summed over w steps, 1/c² - 1 is the squared error of the sum relative to it. "
        "It falls like 1/w where errors are independent, and stays where they are alike. Holds if over the upper half "
        f"of log w it falls with a power above {FALLS}, as an interval over seeds; fails if any interval lies below.",
        lambda data: summed(data, UNBIASED, "power of w with which the squared error falls", fall, Region(FALLS)),
    ),
    Claim(
        "summed-biased",
        "The errors of biased learners do not average out: summing does not align them better.",
        "Discussion, Figure 9b",
        f"From single steps to the longest window the alignment rises by less than {STAYS}, over seeds. Holds if every "
        "interval lies below; fails if any lies above. F-BPTT, which is exact but faces the future, is reported.",
        summed_biased,
    ),
]
