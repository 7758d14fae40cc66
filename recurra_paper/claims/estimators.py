"""Claims about estimators of the exact gradient: bias, variance, and what sums over many steps do to both.

Every learner is held against the exact gradient of its own facing: past-facing ones against RTRL's, DNI against
F-BPTT's. A future-facing gradient sums its terms in another order, so that even the exact one differs from RTRL's at
single steps.
"""

import numpy as np

from recurra_paper.analysis import Estimate, exponent, mean, relative
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays, places
from recurra_paper.claims.rule import RATIOS, More, Within
from recurra_paper.setup import kind_of, shown

TASKS = ("add", "mimic")
UNBIASED = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok")
BIASED = ("rflo", "kernl", "dni")
#: The exact learner that an approximation is held against: that of its facing.
EXACT = {"past": "rtrl", "future": "f-bptt"}
FIGURE_9 = "summed_alignment"
#: What rounding in double precision may leave of a difference of two expectations, relative to them.
ROUNDING = 1e-9
#: A bias matters from a quarter of the exact gradient's norm on.
SMALL = 0.25
#: The power of 1/w with which the squared error of a sum over w steps must fall, or must not: halfway between errors
#: that are independent (1) and errors that are all alike (0).
FALLS = 0.5
#: Below this squared error, relative to the sum, a sum counts as aligned, and its power is not fitted.
FLOOR = 1e-3


def exactly(data: Data) -> list[Part]:
    """The distance of an exact expectation from RTRL's M."""

    def part(learner: str) -> Part:
        found = arrays(data, f"enumeration/{learner}")
        note = f"({int(found['patterns']):,} patterns, {int(found['steps'])} steps, std {float(found['std']):.2g})"
        distance = Estimate(float(found["distance"]), 0.0, np.inf)
        name = f"distance of {shown(learner)}'s expectation from RTRL's tensor, relative to it"
        return Part(name, distance, Within(high=ROUNDING), sampled=False, note=note)

    return [part(learner) for learner in UNBIASED]


def row(data: Data, name: str, learner: str, *keys: str) -> tuple[np.ndarray, ...]:
    """A learner's part of an experiment's arrays, whose first axis is learners."""
    (place,) = places(data, name, learner)
    return tuple(np.asarray(data[name][key][place], float) for key in keys)


def variance(data: Data) -> list[Part]:
    """log(std of another / std of KF-RTRL), over networks."""

    def part(task: str, other: str) -> Part:
        (x,), (kf,) = (row(data, f"bias/{task}", learner, "std") for learner in (other, "kf-rtrl"))
        ratio = mean(np.log(x / kf))
        note = f"(a ratio of {np.exp(ratio.value):.3g})"
        name = f"log ratio of the standard deviation of {shown(other)} to KF-RTRL's, {task}"
        return Part(name, ratio, More(RATIOS), note=note)

    return [part(task, other) for task in TASKS for other in ("uoro", "r-kf-rtrl")]


def bias(data: Data) -> list[Part]:
    """‖mean error‖² / ‖mean exact gradient‖² over networks; DNI(b) is reported, and how errors of sums fall."""

    def part(task: str, learner: str, decides: bool) -> Part:
        e = relative(*row(data, f"held/{task}", learner, "error", "exact"))
        name = f"squared bias of {shown(learner)}'s mean gradient, {task}, in squared norms of the exact one"
        return Part(name, e, More(SMALL**2) if decides else None, note=settled(data, task, learner))

    return [
        *(part(task, x, True) for task in TASKS for x in BIASED),
        *(part(task, "dni-b", False) for task in TASKS),
        *(fall_while_held(data, task, x) for task in TASKS for x in (*BIASED, "f-bptt")),
    ]


def fall_while_held(data: Data, task: str, learner: str) -> Part:
    """How fast the error of a sum falls while the weights are held. F-BPTT shows what no bias looks like."""
    windows = np.asarray(arrays(data, f"held/{task}")["windows"])
    (cosine,) = row(data, f"held/{task}", learner, "window_cosine")
    note = " ".join(filter(None, (_from_to(cosine, windows), settled(data, task, learner))))
    name = f"power of w with which the squared error falls while weights are held, {shown(learner)}, {task}"
    return Part(name, fall(windows, cosine), None, note=note)


def settled(data: Data, task: str, learner: str) -> str:
    """How long DNI's map was fitted."""
    steps = int(arrays(data, f"held/{task}")["settling"])
    return f"(its map was fitted for {steps:,} steps with these weights)" if learner.startswith("dni") else ""


def fall(windows: np.ndarray, cosine: np.ndarray) -> Estimate:
    """The power p of 1/c² - 1 ~ w^-p, the squared error of the sum relative to it, over the longer windows."""
    return mean(np.array([-exponent(windows, each).value for each in squared_error(cosine)]))


def squared_error(cosine: np.ndarray) -> np.ndarray:
    """1/c² - 1, what a sum is off relative to its part along the exact one, (seed, window)."""
    if not np.all(cosine > 0):
        raise Undecided("Not decided: over some windows a sum opposes the exact one, and its error cannot be compared.")
    return np.maximum(1 / cosine**2 - 1, np.finfo(float).eps)


def averages_out(data: Data) -> list[Part]:
    """How fast the squared errors of sums fall as windows grow, or that they have fallen."""

    def part(task: str, learner: str) -> Part:
        cosine, windows = along_learning(data, task, learner)
        error, note = squared_error(cosine), _from_to(cosine, windows)
        if np.all(error[:, -1] < FLOOR):
            name = f"largest squared error of sums over {windows[-1]:,} steps, {shown(learner)}, {task}"
            largest = Estimate(float(error[:, -1].max()), 0.0, np.inf)
            return Part(name, largest, Within(high=FLOOR), sampled=False, note=note)
        above = error.mean(axis=0) > FLOOR
        e = fall(windows[above], cosine[:, above])
        return Part(
            f"power of w with which the squared error falls, {shown(learner)}, {task}", e, Within(FALLS), note=note
        )

    return [part(task, learner) for task in TASKS for learner in UNBIASED]


def along_learning(data: Data, task: str, learner: str) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of a learner's sums with those of the exact one of its facing, (seed, window), and the windows."""
    name = f"gradients/{task}/1"
    i, j = places(data, name, learner, EXACT[kind_of(learner).facing])
    return np.asarray(data[name]["window_cosine"], float)[:, i, j], np.asarray(data[name]["windows"])


def stays(data: Data) -> list[Part]:
    """How fast the error of a biased learner's sums falls while RTRL trains."""

    def part(task: str, learner: str) -> Part:
        cosine, windows = along_learning(data, task, learner)
        name = f"power of w with which the squared error falls, {shown(learner)}, {task}"
        return Part(name, fall(windows, cosine), Within(high=FALLS), note=_from_to(cosine, windows))

    return [part(task, x) for task in TASKS for x in BIASED]


def _from_to(cosine: np.ndarray, windows: np.ndarray) -> str:
    first, last = float(np.mean(cosine[:, 0])), float(np.mean(cosine[:, -1]))
    return f"(cosine {first:.3g} over {windows[0]:,} steps, {last:.4g} over {windows[-1]:,})"


CLAIMS = [
    Claim(
        "unbiased",
        "UORO, KF-RTRL, R-KF-RTRL and r-OK estimate RTRL's gradient without bias.",
        "Section 3; Discussion",
        "A network of two units from M = 0, r-OK with r = 1, every pattern of random signs over several steps, in "
        f"double precision: their mean is the expectation, without sampling. Holds if it differs from RTRL's tensor by "
        f"less than {ROUNDING:g} of it; does not hold if it differs by more.",
        exactly,
        FIGURE_9,
        counted=True,
    ),
    Claim(
        "lowest-variance",
        "Of the three learners of rank one, KF-RTRL has the least variance.",
        "Section 3.4; Add task",
        "The logarithm of the ratio of standard deviations over replicas, in untrained networks; networks are the "
        "sample, and a ratio of 1.1 matters. Holds if every interval lies above zero; does not hold if any lies below, "
        "or shows no difference.",
        variance,
        FIGURE_9,
    ),
    Claim(
        "biased",
        "With the weights held, RFLO, KeRNL and DNI are biased.",
        "Discussion",
        "RTRL trains a network; then its weights are held and mean gradients are compared with the exact one of the "
        "same facing, RTRL's or F-BPTT's. The squared norm of the mean error relative to that of the exact mean, "
        f"estimated from products of different stretches, which noise does not bias; networks are the sample, and "
        f"{SMALL}² matters. Holds if every interval lies above zero; does not hold if any lies below, or shows no "
        "bias. With weights held a bias does not average out; how the errors of sums fall is reported.",
        bias,
        FIGURE_9,
    ),
]

SUMMED = [
    Claim(
        "summed-unbiased",
        "Over many steps the errors of unbiased learners average out: their summed gradients align with RTRL's.",
        "Discussion, Figure 9a",
        "With c the cosine of gradients summed over w steps, 1/c² - 1 is the squared error of the sum relative to it. "
        "It falls like 1/w where errors are independent, and stays where they are alike. Holds if, over the upper half "
        f"of log w, it falls with a power above {FALLS}, as an interval over seeds, or at every seed has fallen below "
        f"{FLOOR} at the longest window; does not hold if any interval lies on the other side. Windows below that "
        "floor are not fitted.",
        averages_out,
        FIGURE_9,
    ),
    Claim(
        "summed-biased",
        "Nor do the errors of RFLO, KeRNL and DNI average out over many steps of learning.",
        "Discussion, Figure 9b",
        "As above, along the same run, against the exact gradient of the same facing, RTRL's or F-BPTT's. Holds if for "
        f"RFLO, KeRNL and DNI the squared error falls, over the upper half of log w, with a power below {FALLS}, as an "
        "interval over seeds; does not hold if any interval lies above. Over shorter windows a part of the error may "
        "well average out.",
        stays,
        FIGURE_9,
    ),
]
