"""What follows if KeRNL is too noisy, as the paper suspects, and what was expected of it, before it was measured.

Final losses are compared in gaps: fixed W's final loss less RTRL's, in one stream, at the same seeds. Where the gap is
not above zero at 95 % confidence, nothing has been learned that could tell settings apart, and nothing is decided.
"""

import numpy as np

from recurra_paper.analysis import Estimate, relative, scored
from recurra_paper.beyond.kernl.runs import (
    BATCH,
    COPIES,
    PACE,
    SIGMA,
    SLOWER_PACE,
    VERSIONS,
    copies_name,
    filter_name,
    reference_name,
    setting_name,
)
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays, known_gap
from recurra_paper.claims.rule import GAPS, More, NoMore

NAME = "kernl"
#: half of the seeds choose the best setting, and the others judge it
CHOOSE, JUDGE = slice(0, None, 2), slice(1, None, 2)


def final_loss(data: Data, name: str) -> np.ndarray:
    """Each seed's loss at the end; a seed that diverged has learned nothing."""
    run, baseline = arrays(data, name), arrays(data, reference_name("fixed"))
    seeds = len(run["loss"])
    return scored(run, {"loss": baseline["loss"][:seeds]})


def in_gaps(data: Data, d: np.ndarray, which: slice = slice(None)) -> Estimate:
    """A difference of losses at the first seeds, of which `which` are taken, in gaps."""
    gap = (final_loss(data, reference_name("fixed")) - final_loss(data, reference_name("rtrl")))[: len(d)][which]
    return relative(d[which], known_gap(gap))


def ahead(data: Data, name: str, other: str) -> np.ndarray:
    """How far a run ends ahead of another one, at each seed that both have."""
    one, two = final_loss(data, name), final_loss(data, other)
    seeds = min(len(one), len(two))
    return two[:seeds] - one[:seeds]


def averaging(data: Data) -> list[Part]:
    """What copies gain over KeRNL in one stream, and what a batch gains KeRNL more than RFLO."""
    rflo = ahead(data, reference_name("rflo", BATCH), reference_name("rflo"))

    def of_copies(version: str) -> Part:
        d = ahead(data, copies_name(version), setting_name(version))
        return Part(f"what {COPIES} copies gain KeRNL as {version}, in gaps", in_gaps(data, d), More(GAPS))

    def of_streams(version: str) -> Part:
        d = ahead(data, setting_name(version, streams=BATCH), setting_name(version)) - rflo
        name = f"what {BATCH} streams gain KeRNL as {version} more than RFLO, in gaps"
        return Part(name, in_gaps(data, d), More(GAPS))

    parts = [part(version) for part in (of_copies, of_streams) for version in VERSIONS]
    return [*parts, Part(f"what {BATCH} streams gain RFLO, in gaps", in_gaps(data, rflo), None)]


def slower(data: Data) -> list[Part]:
    """What a fit at a tenth of the paper's pace gains; other settings that were run are reported."""

    def part(version: str, sigma: float, pace: float, decides: bool) -> Part:
        d = ahead(data, setting_name(version, sigma, pace), setting_name(version))
        name = f"what σ = {sigma:g} and pace {pace:g} gain KeRNL as {version} over the paper's, in gaps"
        return Part(name, in_gaps(data, d), More(GAPS) if decides else None)

    decide = [(version, SIGMA, SLOWER_PACE) for version in VERSIONS]
    others = [
        (version, sigma, pace)
        for version in VERSIONS
        for sigma, pace in settings(data, version)
        if (sigma == SIGMA) != (pace == PACE) and (version, sigma, pace) not in decide
    ]
    return [part(*at, True) for at in decide] + [part(*at, False) for at in others]


def settings(data: Data, version: str) -> list[tuple[float, float]]:
    """σ and pace of the settings that were run in one stream."""
    prefix = f"kernl/{version}/1/"
    ends = (name.removeprefix(prefix).split("/") for name in data if name.startswith(prefix))
    return sorted((float(sigma), float(pace)) for sigma, pace in ends)


def best(data: Data, version: str) -> tuple[float, float]:
    """The setting with the least mean loss over the seeds that choose."""
    found = settings(data, version)
    if not found:
        raise Undecided(f"Not decided: the experiment {setting_name(version)} was not run.")
    return min(found, key=lambda at: final_loss(data, setting_name(version, *at))[CHOOSE].mean())


def best_against_rflo(data: Data, version: str, sign: int) -> list[Part]:
    """The best setting of half of the seeds, behind RFLO at the other half, or ahead of it where `sign` is -1.

    The paper's setting and the filter alone are reported.
    """
    sigma, pace = best(data, version)
    word = "behind" if sign > 0 else "ahead of"
    less = lambda name: -sign * ahead(data, name, reference_name("rflo"))
    judged = in_gaps(data, less(setting_name(version, sigma, pace)), JUDGE)
    name = f"KeRNL as {version} at its best setting, σ = {sigma:g} and pace {pace:g}, {word} RFLO, in gaps"
    relation = NoMore(GAPS) if sign > 0 else More(GAPS)
    note = f"Chosen among {len(settings(data, version))} settings by half of the seeds."
    others = {"at the paper's setting": setting_name(version), "never fitted": filter_name()}
    return [Part(name, judged, relation, note=note)] + [
        Part(f"KeRNL {how} {word} RFLO, in gaps", in_gaps(data, less(run)), None)
        for how, run in others.items()
        if run in data
    ]


GAP = "On Add, alpha = 1. Differences of final losses, paired by seed, in units of fixed W's less RTRL's in one stream."
HOLDS = (
    f"Holds if every interval lies above zero; fails if any lies below, or holds zero and lies within {GAPS:g} of it."
)

CLAIMS = [
    Claim(
        "kernl-averaging",
        "KeRNL is too noisy: averaging over copies helps it, and batches help it more than they help RFLO.",
        "Add task",
        f"{GAP} As derived and as released, at the paper's setting: what the mean of {COPIES} copies with "
        f"perturbations of their own gains; and what {BATCH} parallel streams gain KeRNL, less what they gain RFLO. "
        f"{HOLDS}",
        averaging,
        NAME,
    ),
    Claim(
        "kernl-slower",
        "KeRNL is too noisy: a slower fit, which averages over more perturbations, helps it.",
        "Add task",
        f"{GAP} As derived and as released, at the paper's σ: what a tenth of the paper's learning rate of the fit "
        f"gains. {HOLDS} Other settings are reported.",
        slower,
        NAME,
    ),
    Claim(
        "kernl-derived",
        "As derived, KeRNL at its best setting learns better than RFLO.",
        "Add task",
        f"{GAP} Every other seed chooses the setting of σ and learning rate with the least mean loss, and the rest of "
        f"the seeds judge it: RFLO's loss less KeRNL's. {HOLDS}",
        lambda data: best_against_rflo(data, "derived", -1),
        NAME,
    ),
    Claim(
        "kernl-released",
        "As in the paper authors' program, KeRNL learns no better than RFLO at any setting.",
        "Add task",
        f"{GAP} Every other seed chooses the setting of σ and learning rate with the least mean loss, and the rest of "
        "the seeds judge it. KeRNL's loss less RFLO's: holds if the interval lies above zero, or holds zero and lies "
        f"within {GAPS:g} of it; fails if it lies below zero.",
        lambda data: best_against_rflo(data, "released", 1),
        NAME,
    ),
]
