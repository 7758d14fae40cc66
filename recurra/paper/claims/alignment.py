"""Claims about how gradients align from step to step, with the network following RTRL.

Alignments are cosines averaged over the steps at which both learners emitted; seeds are the sample, and differences
of alignments are paired by seed. Where the sign of a difference is claimed there is no margin: it fails for an interval
entirely on the other side. Claims about past-facing approximations are decided by the paper's five; r-OK and DNI(b),
which its figure leaves out, are reported.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from recurra.paper.analysis import Estimate, correlations, mean, p_value, paired_difference
from recurra.paper.claims import losses
from recurra.paper.claims.base import Claim, Data, Part, Region, Undecided, arrays
from recurra.paper.setup import shown

TASKS = ("add", "mimic")
PAST = ("uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl")
NOISY = ("uoro", "r-kf-rtrl")
APPROXIMATE = (*PAST, "dni")
POSITIVE = Region(0.0)
#: The factor within which a stated mean alignment counts as reproduced.
FACTOR = 1.5
SIGN = (
    "Differences of mean cosines, paired by seed, on both tasks. Holds if every interval lies above zero; fails if any "
    "lies below."
)


def aligned(data: Data, task: str, x: str, y: str) -> np.ndarray:
    """Each seed's mean cosine of two learners' gradients."""
    experiment = arrays(data, f"gradients/{task}")
    learners = [str(name) for name in experiment["learners"]]
    absent = [shown(name) for name in (x, y) if name not in learners]
    if absent:
        raise Undecided(f"Not decided: gradients/{task} is without {' and '.join(absent)}.")
    cosine = np.asarray(experiment["mean"][:, learners.index(x), learners.index(y)], float)
    if not np.all(np.isfinite(cosine)):
        raise Undecided(f"Not decided: in gradients/{task} {shown(x)} and {shown(y)} never emitted at the same step.")
    return cosine


def gained(data: Data, task: str, first: tuple[str, str], second: tuple[str, str], decides: bool = True) -> Part:
    """How much better the first pair aligns than the second."""
    e = paired_difference(aligned(data, task, *first), aligned(data, task, *second))
    pair = lambda names: " with ".join(map(shown, names))
    return Part(f"cosine of {pair(first)} less that of {pair(second)}, {task}", e, POSITIVE if decides else None)


def facing(learners: tuple[str, ...], near: str, far: str, reported: str):
    """Each learner aligned better with one exact learner than with the other; one more is reported."""

    def parts(data: Data) -> list[Part]:
        deciding = [gained(data, task, (x, near), (x, far)) for task in TASKS for x in learners]
        present = [task for task in TASKS if reported in data[f"gradients/{task}"]["learners"]]
        return deciding + [gained(data, task, (reported, near), (reported, far), decides=False) for task in present]

    return parts


def deterministic(data: Data) -> list[Part]:
    """RFLO and KeRNL against each of the stochastic three."""
    return [
        gained(data, task, (x, "rtrl"), (y, "rtrl"))
        for task in TASKS
        for x in ("rflo", "kernl")
        for y in ("uoro", "kf-rtrl", "r-kf-rtrl")
    ]


def closest_pair(data: Data) -> list[Part]:
    """RFLO with KeRNL against every other pair of the paper's eight."""
    rivals = [pair for pair in combinations(("rtrl", "f-bptt", *APPROXIMATE), 2) if set(pair) != {"rflo", "kernl"}]
    return [gained(data, task, ("rflo", "kernl"), pair) for task in TASKS for pair in rivals]


def weakest(data: Data) -> list[Part]:
    """UORO and R-KF-RTRL against every other approximation."""
    others = [x for x in APPROXIMATE if x not in NOISY]
    return [gained(data, task, (x, "rtrl"), (y, "rtrl")) for task in TASKS for x in others for y in NOISY]


def stated(learner: str, task: str, value: float):
    """A mean alignment with RTRL, within the factor of the paper's."""
    name = f"mean cosine of {shown(learner)} with RTRL, {task}"
    region = Region(value / FACTOR, value * FACTOR)

    def parts(data: Data) -> list[Part]:
        e = mean(aligned(data, task, learner, "rtrl"))
        low, high = e.interval()
        inside = "lies within" if low <= value <= high else "lies outside"
        return [Part(name, e, region, note=f"(the paper's number {inside} the 95% interval)")]

    return parts


def norm_grows(learner: str, task: str):
    """The correlation of a gradient's alignment with the logarithm of its norm."""

    def parts(data: Data) -> list[Part]:
        e = mean(correlations(*paired(arrays(data, f"gradients/{task}"), learner)))
        note = f"(p = {p_value(e):.2g} over {int(e.dof) + 1} seeds)"
        return [Part(f"correlation r of alignment and log norm, {shown(learner)}, {task}", e, POSITIVE, note=note)]

    return parts


def paired(experiment: Mapping[str, np.ndarray], learner: str) -> tuple[np.ndarray, np.ndarray]:
    """The learner's cosine with RTRL and log norm at every step, (seed, step)."""
    seeds, row = len(experiment["mean"]), NOISY.index(learner)
    cosine, log_norm = (np.asarray(experiment[key][row], float).reshape(seeds, -1) for key in PAIRED)
    return cosine, log_norm


def dissociation(data: Data) -> list[Part]:
    """KeRNL better aligned than UORO, and yet behind it."""
    behind: Estimate = losses.behind(data, "add/1", "kernl", "uoro")
    name = "KeRNL behind UORO on Add, alpha = 1, in gaps"
    return [gained(data, "add", ("kernl", "rtrl"), ("uoro", "rtrl")), Part(name, behind, losses.POSITIVE)]


PAIRED = ("pair_cosine", "pair_log_norm")
STATED = (("uoro", "add", 0.043), ("uoro", "mimic", 0.084), ("r-kf-rtrl", "add", 0.050), ("r-kf-rtrl", "mimic", 0.092))

CLAIMS = [
    Claim(
        "align-past",
        "Past-facing approximations align better with RTRL than with F-BPTT.",
        "Gradient similarity (i), Figure 6b and 6d",
        f"{SIGN} UORO, KF-RTRL, R-KF-RTRL, RFLO and KeRNL decide; r-OK is reported.",
        facing(PAST, "rtrl", "f-bptt", "r-ok"),
    ),
    Claim(
        "align-future",
        "DNI, a future-facing approximation, aligns better with F-BPTT than with RTRL.",
        "Gradient similarity (i), Figure 6b and 6d",
        f"{SIGN} DNI decides; DNI(b) is reported.",
        facing(("dni",), "f-bptt", "rtrl", "dni-b"),
    ),
    Claim(
        "align-deterministic",
        "RFLO and KeRNL align better with RTRL than UORO, KF-RTRL and R-KF-RTRL do.",
        "Gradient similarity (ii), Figure 6",
        SIGN,
        deterministic,
    ),
    Claim(
        "align-closest",
        "No two algorithms align better than RFLO and KeRNL.",
        "Gradient similarity (iii), Figure 6",
        f"{SIGN} Against every other pair among RTRL, F-BPTT, UORO, KF-RTRL, R-KF-RTRL, RFLO, KeRNL, DNI.",
        closest_pair,
    ),
    Claim(
        "align-weakest",
        "UORO and R-KF-RTRL align with RTRL less than any other approximation does.",
        "Gradient similarity (iv), Figure 6",
        f"{SIGN} Against KF-RTRL, RFLO, KeRNL and DNI.",
        weakest,
    ),
    *(
        Claim(
            f"align-{learner}-{task}",
            f"{shown(learner)}'s mean alignment with RTRL on {task.capitalize()} is about {value:.3f}.",
            "Gradient similarity (iv), Figure 6",
            f"Holds if the interval of the mean over seeds lies within a factor {FACTOR} of the number; fails if it "
            "lies outside.",
            stated(learner, task, value),
        )
        for learner, task, value in STATED
    ),
    *(
        Claim(
            f"norm-{learner}-{task}",
            f"On {task.capitalize()} {shown(learner)}'s gradients are larger where they align better with RTRL.",
            f"Gradient similarity, Figure 7{panel}",
            "Pearson's r of the cosine with RTRL and log10 of the norm over the steps of a seed; seeds are the sample. "
            "Holds if the interval lies above zero; fails if it lies below.",
            norm_grows(learner, task),
        )
        for (learner, task, _), panel in zip(STATED, "abcd", strict=True)
    ),
]

DISSOCIATION = Claim(
    "align-dissociates",
    "Alignment from step to step does not tell who learns: KeRNL aligns better with RTRL than UORO, and learns worse.",
    "Discussion; Figures 4 and 6",
    "The difference of mean cosines and that of final losses on Add at alpha = 1, both paired by seed. Holds if both "
    "intervals lie above zero; fails if either lies below.",
    dissociation,
)
