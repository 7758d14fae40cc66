"""The paper's findings, expected of gated networks too, and how the data decide."""

import numpy as np

from recurra_paper.analysis import mean, p_value, paired_difference, relative
from recurra_paper.beyond.gated.measure import (
    Condition,
    aligned,
    compared,
    final_loss,
    gap,
    length_correlation,
    title,
    trained,
)
from recurra_paper.beyond.gated.runs import gradients_name, loss_name
from recurra_paper.claims.base import Claim, Data, Part
from recurra_paper.claims.rule import CORRELATIONS, COSINES, GAPS, Alike, More
from recurra_paper.setup import shown

FIGURE = "gated"
PAST = ("uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl")
STOCHASTIC = ("uoro", "kf-rtrl", "r-kf-rtrl")
NOISY = ("uoro", "r-kf-rtrl")
LOCAL = ("rflo", "kernl")


def behind(data: Data, condition: Condition, x: str, y: str, decides: bool = True) -> Part:
    """x's final loss less y's, in gaps, claimed to be about zero."""
    losses = [final_loss(data, condition, learner) for learner in (x, y)]
    seeds = min(map(len, losses))
    estimate = relative(losses[0][:seeds] - losses[1][:seeds], gap(data, condition)[:seeds])
    counts = {z: int((np.asarray(data[loss_name(*condition, z)]["diverged"]) >= 0).sum()) for z in (x, y)}
    note = " ".join(f"{shown(z)} diverged at {count} seeds." for z, count in counts.items() if count)
    name = f"{shown(x)} behind {shown(y)}, {title(condition)}, in gaps"
    return Part(name, estimate, Alike(GAPS) if decides else None, note=note)


def leaders(data: Data) -> list[Part]:
    """F-BPTT and KF-RTRL against RTRL; every other learner is reported."""
    found = trained(data)
    others = [*NOISY, "r-ok", *LOCAL, "e-bptt", "dni", "dni-b"]
    told = [(c, x) for c in found for x in others if loss_name(*c, x) in data]
    return [
        *(behind(data, condition, x, "rtrl") for condition in found for x in ("f-bptt", "kf-rtrl")),
        *(behind(data, condition, x, "rtrl", decides=False) for condition, x in told),
    ]


def noisy_pair(data: Data) -> list[Part]:
    """UORO against R-KF-RTRL."""
    return [behind(data, condition, "uoro", "r-kf-rtrl") for condition in trained(data)]


def better(data: Data, c: Condition, first: tuple[str, str], second: tuple[str, str], decides: bool = True) -> Part:
    """How much better the first pair of learners aligns than the second, claimed to be above zero."""
    near, far = aligned(data, c, *first), aligned(data, c, *second)
    pair = lambda names: " with ".join(map(shown, names))
    name = f"cosine of {pair(first)} less that of {pair(second)}, {title(c)}"
    note = f"(cosines {near.mean():.3f} and {far.mean():.3f})"
    return Part(name, paired_difference(near, far), More(COSINES) if decides else None, note=note)


def local_rules(data: Data) -> list[Part]:
    """RFLO and KeRNL against each of the paper's three stochastic learners."""
    return [
        better(data, condition, (x, "rtrl"), (y, "rtrl"))
        for condition in compared(data)
        for x in LOCAL
        for y in STOCHASTIC
    ]


def share_lost(data: Data, condition: Condition, x: str) -> Part:
    """The same in units of the cosine with RTRL; reported, since for some learners the cosines themselves are small."""
    near, far = (aligned(data, condition, x, exact) for exact in ("rtrl", "f-bptt"))
    return Part(
        f"share of {shown(x)}'s cosine with RTRL missing with F-BPTT, {title(condition)}",
        relative(near - far, near),
        None,
    )


def facing(data: Data) -> list[Part]:
    """With RTRL and with F-BPTT, for each of the paper's five; r-OK is reported, and shares are."""
    found = compared(data)
    pairs = lambda x: ((x, "rtrl"), (x, "f-bptt"))
    with_r_ok = [condition for condition in found if "r-ok" in data[gradients_name(*condition)]["learners"]]
    return [
        *(better(data, condition, *pairs(x)) for condition in found for x in PAST),
        *(better(data, condition, *pairs("r-ok"), decides=False) for condition in with_r_ok),
        *(share_lost(data, condition, x) for condition in found for x in PAST),
    ]


def lengths(data: Data) -> list[Part]:
    """The correlation of alignment and length for the noisy two."""

    def part(condition: Condition, learner: str) -> Part:
        estimate = mean(length_correlation(data, condition, learner))
        note = f"(p = {p_value(estimate):.2g} over {int(estimate.dof) + 1} seeds)"
        name = f"correlation of cosine and log norm, {shown(learner)}, {title(condition)}"
        return Part(name, estimate, More(CORRELATIONS), note=note)

    return [part(condition, learner) for condition in compared(data) for learner in NOISY]


RUN = "Every cell and task that was run decides: GRU and LSTM on Add and Mimic in the full profile."
ALIKE = (
    "Differences of final losses, paired by seed, in gaps: fixed W's loss less RTRL's; without a gap above zero at "
    f"95 % confidence nothing is decided. {RUN} Holds if every interval lies within {GAPS} of zero; does not hold if "
    "any lies beyond."
)
ABOVE = f"{RUN} Holds if every interval lies above zero; does not hold if any lies below, or shows no difference."

CLAIMS = [
    Claim(
        "gated-tie",
        "With gated cells too, RTRL, F-BPTT and KF-RTRL end with the same loss.",
        "Add and Mimic tasks, Figures 4 and 5",
        f"{ALIKE} F-BPTT and KF-RTRL against RTRL decide; the other learners are reported.",
        leaders,
        FIGURE,
    ),
    Claim(
        "gated-noisy",
        "With gated cells too, UORO and R-KF-RTRL end with similar losses.",
        "Add and Mimic tasks, Figures 4 and 5",
        ALIKE,
        noisy_pair,
        FIGURE,
    ),
    Claim(
        "gated-local",
        "With gated cells too, RFLO and KeRNL align better with RTRL than UORO, KF-RTRL and R-KF-RTRL do.",
        "Gradient similarity (ii), Figure 6",
        f"Differences of mean cosines with RTRL, paired by seed; {COSINES} matters. {ABOVE}",
        local_rules,
        FIGURE,
    ),
    Claim(
        "gated-facing",
        "With gated cells too, past-facing learners align better with RTRL than with F-BPTT.",
        "Gradient similarity (i), Figure 6",
        f"Differences of mean cosines, paired by seed; {COSINES} matters. {ABOVE} UORO, KF-RTRL, R-KF-RTRL, RFLO and "
        "KeRNL decide; r-OK is reported, and so are the differences in units of the cosine with RTRL.",
        facing,
        FIGURE,
    ),
    Claim(
        "gated-norm",
        "With gated cells too, gradients of UORO and R-KF-RTRL are longer where they align better with RTRL's.",
        "Gradient similarity, Figure 7",
        "Correlation over steps of the cosine with RTRL and the logarithm of the norm, its mean over seeds; "
        f"{CORRELATIONS} matters. {ABOVE}",
        lengths,
        FIGURE,
    ),
]
