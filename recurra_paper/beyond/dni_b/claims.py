"""What was expected of DNI(b)'s three approximations, before it was measured.

The cost of an approximation is the final loss of DNI with it less that of DNI, paired by seed, in gaps: the mean over
seeds of fixed W's loss less RTRL's. Where that gap is not above zero at 95 % confidence, nothing has been learned yet
that could tell variants apart, and nothing is decided. Variants share first weights, streams and predictors at a seed.
"""

import numpy as np

from recurra_paper.analysis import Estimate, paired_difference, relative, scored
from recurra_paper.beyond.dni_b.runs import ALL, NONE, SMALL_FEEDBACK, SWITCHES, gradients_name, loss_name
from recurra_paper.claims.base import Claim, Data, Part, arrays, known_gap
from recurra_paper.claims.rule import COSINES, GAPS, Alike, More, NoMore
from recurra_paper.setup import TASKS

NAMES = {
    NONE: "DNI",
    "tanh": "tanh",
    "feedback": "random feedback",
    "jacobian": "learned J",
    "tanh+feedback": "tanh + feedback",
    "tanh+jacobian": "tanh + J",
    "feedback+jacobian": "feedback + J",
    ALL: "all: DNI(b)",
    SMALL_FEEDBACK: "small feedback",
}
COST = (
    "The cost of an approximation is the final loss of DNI with it less that of DNI, paired by seed, in units of fixed "
    "W's loss less RTRL's. Add and Mimic, alpha = 1."
)


def final_loss(data: Data, task: str, learner: str) -> np.ndarray:
    """Each seed's loss at the end."""
    return scored(arrays(data, loss_name(task, learner)), arrays(data, loss_name(task, "fixed")))


def gap(data: Data, task: str) -> np.ndarray:
    """Fixed W's loss less RTRL's at each seed, if its mean is known to be positive."""
    return known_gap(final_loss(data, task, "fixed") - final_loss(data, task, "rtrl"), f"on {task.capitalize()}")


def added(data: Data, task: str, variant: str) -> np.ndarray:
    """A variant's loss less that of DNI, at each seed."""
    return final_loss(data, task, variant) - final_loss(data, task, NONE)


def cost(data: Data, task: str, variant: str) -> Estimate:
    """A variant's loss less that of DNI, in gaps."""
    return relative(added(data, task, variant), gap(data, task))


def reported(data: Data, variants: tuple[str, ...]) -> list[Part]:
    """Costs that decide nothing, of the variants that were run."""
    return [
        Part(f"cost of {NAMES[x]} on {task.capitalize()}, in gaps", cost(data, task, x), None)
        for task in TASKS
        for x in variants
        if loss_name(task, x) in data
    ]


def each(data: Data) -> list[Part]:
    """The cost of every approximation by itself; that of DNI(b) is reported."""
    parts = [
        Part(f"cost of {NAMES[x]} alone on {task.capitalize()}, in gaps", cost(data, task, x), NoMore(GAPS))
        for task in TASKS
        for x in SWITCHES
    ]
    return parts + reported(data, (ALL, SMALL_FEEDBACK))


def total(data: Data) -> list[Part]:
    """The sum of the three costs less that of DNI(b)."""

    def part(task: str) -> Part:
        more = np.sum([added(data, task, x) for x in SWITCHES], axis=0) - added(data, task, ALL)
        name = f"sum of the three costs less the cost of DNI(b) on {task.capitalize()}, in gaps"
        return Part(name, relative(more, gap(data, task)), Alike(GAPS))

    return [part(task) for task in TASKS] + reported(data, (*SWITCHES, ALL))


def most(data: Data) -> list[Part]:
    """The cost of random feedback less that of each other approximation."""

    def part(task: str, other: str) -> Part:
        more = added(data, task, "feedback") - added(data, task, other)
        name = f"cost of random feedback less that of {NAMES[other]} on {task.capitalize()}, in gaps"
        return Part(name, relative(more, gap(data, task)), More(GAPS))

    others = [x for x in SWITCHES if x != "feedback"]
    return [part(task, other) for task in TASKS for other in others] + reported(data, (SMALL_FEEDBACK,))


def alignment(data: Data, task: str, variant: str, window: int = 0) -> np.ndarray:
    """Each seed's mean cosine of a variant's gradients with F-BPTT's, along its own run; summed over a window."""
    experiment = arrays(data, gradients_name(task, variant))
    learners = [str(name) for name in experiment["learners"]]
    return np.asarray(experiment["window_cosine"], float)[:, 0, learners.index("f-bptt"), window]


def turned(data: Data) -> list[Part]:
    """DNI's cosine with F-BPTT less that with an approximation; sums over the longest windows are reported."""

    def part(task: str, variant: str, window: int, relation: More | None) -> Part:
        less = paired_difference(alignment(data, task, NONE, window), alignment(data, task, variant, window))
        length = int(arrays(data, gradients_name(task, variant))["windows"][window])
        what = "single steps" if window == 0 else f"sums over {length:,} steps"
        name = f"cosine with F-BPTT of DNI less that of {NAMES[variant]} on {task.capitalize()}, {what}"
        return Part(name, less, relation)

    kinds = ((0, More(COSINES)), (-1, None))
    return [part(task, x, window, relation) for window, relation in kinds for task in TASKS for x in SWITCHES]


CLAIMS = [
    Claim(
        "dni-b-each",
        "None of DNI(b)'s three approximations, taken alone, makes DNI learn better.",
        "Add task",
        f"{COST} Holds if every interval lies above zero, or holds zero and lies within {GAPS:g} of it; fails if any "
        "lies below zero.",
        each,
        "dni_b",
    ),
    Claim(
        "dni-b-sum",
        "The costs of the three approximations add up to that of DNI(b).",
        "Discussion (open question)",
        f"{COST} The sum of the three costs less the cost of DNI(b). Holds if both intervals lie within {GAPS:g} of "
        "zero; fails if either lies outside.",
        total,
        "dni_b",
    ),
    Claim(
        "dni-b-feedback",
        "Of the three approximations random feedback costs most.",
        "Discussion (open question)",
        f"{COST} The cost of random feedback less that of each other approximation. Holds if every interval lies above "
        f"zero; fails if any lies below, or holds zero and lies within {GAPS:g} of it. Random feedback at the scale of "
        "the readout's first weights is reported.",
        most,
        "dni_b",
    ),
    Claim(
        "dni-b-aligned",
        "Each of the three approximations turns DNI's gradients away from the exact ones that face the future.",
        "Discussion (open question)",
        "The mean cosine with F-BPTT of DNI less that of DNI with an approximation, each along its own run, paired by "
        "seed, on Add and Mimic. Holds if every interval lies above zero; fails if any lies below, or holds zero and "
        f"lies within {COSINES:g} of it. Single steps decide; sums over the longest windows are reported.",
        turned,
        "dni_b",
    ),
]
