"""What was expected of less noise, of noise alone and of less bias, before it was measured."""

from itertools import pairwise

from recurra_paper.beyond.intervention.deficits import (
    copies_of,
    deficit,
    diverged,
    in_deficits,
    in_gaps,
    judged,
    lost,
)
from recurra_paper.beyond.intervention.runs import bias_name, copies_name, noise_name, numbers, reference_name
from recurra_paper.claims.base import Claim, Data, Part, Undecided
from recurra_paper.claims.rule import GAPS, Alike, More, NoMore, Relation
from recurra_paper.setup import shown

NAME = "intervention"
#: The smallest difference that matters, of shares of a deficit: a quarter of it.
DEFICITS = 0.25
#: shares of RFLO's bias, besides none and all
SHARES = (0.25, 0.5)


def left(data: Data, learner: str, k: int, relation: Relation | None = None) -> Part:
    """The share of the deficit that the mean of k copies leaves."""
    run = copies_name(learner, k)
    name = f"share of the deficit of {shown(learner)} that {k:,} copies leave"
    return Part(name, in_deficits(data, learner, lost(data, run)), relation, note=diverged(data, run))


def closes(data: Data) -> list[Part]:
    """The share that the largest number of copies leaves; all others, and the deficits in gaps, are reported."""
    parts = [left(data, learner, copies_of(data, learner)[-1], Alike(DEFICITS)) for learner in judged(data)]
    parts += [left(data, learner, k) for learner in judged(data) for k in copies_of(data, learner)[:-1]]
    return parts + [
        Part(f"deficit of {shown(learner)}, in gaps", in_gaps(data, deficit(data, learner)), None)
        for learner in judged(data)
    ]


def falls(data: Data) -> list[Part]:
    """With 4 and 16 copies less is left than 1/√k, and no number of copies leaves more than the next smaller one.

    Only numbers of copies that were run at all seeds decide about the latter; the others are reported.
    """

    def less_than_root(learner: str, k: int) -> Part:
        remains = lost(data, copies_name(learner, k))
        d = deficit(data, learner)[: len(remains)] / k**0.5 - remains
        name = f"1/√k less the share of the deficit of {shown(learner)} that k = {k} copies leave"
        return Part(name, in_deficits(data, learner, d), More(DEFICITS))

    def no_worse(learner: str, k: int, more: int) -> Part:
        d = lost(data, copies_name(learner, k), copies_name(learner, more))
        name = f"share of the deficit of {shown(learner)} that {more:,} copies take away from what {k:,} leave"
        decides = len(d) == len(deficit(data, learner))
        return Part(name, in_deficits(data, learner, d), NoMore(DEFICITS) if decides else None)

    roots = [less_than_root(learner, k) for learner in judged(data) for k in (4, 16)]
    steps = [(x, *pair) for x in judged(data) for pair in pairwise([1, *copies_of(data, x)])]
    return roots + [no_worse(*step) for step in steps]


def noise_alone(data: Data) -> list[Part]:
    """RTRL with a learner's noise behind the learner itself; with less noise, behind the mean of copies: reported."""

    def part(learner: str, k: int, relation: Relation | None) -> Part:
        d = lost(data, noise_name(learner, k), copies_name(learner, k))
        copies = "" if k == 1 else f" of {k} copies"
        name = f"RTRL with the noise{copies} of {shown(learner)} behind {shown(learner)}{copies}, in its deficits"
        note = diverged(data, noise_name(learner, k))
        return Part(name, in_deficits(data, learner, d), relation, note=note)

    parts = [part(learner, 1, Alike(DEFICITS)) for learner in judged(data)]
    less = [(learner, k) for learner in judged(data) for k in numbers(data, noise_name(learner, 1)[:-1]) if k > 1]
    return parts + [part(learner, k, None) for learner, k in less if copies_name(learner, k) in data]


def grows(data: Data) -> list[Part]:
    """How far each share of RFLO's bias ends behind the next smaller one that was run, in gaps."""
    shares = [share for share in SHARES if bias_name(share) in data]
    if not shares:
        raise Undecided(f"Not decided: the experiment {bias_name(SHARES[-1])} was not run.")
    named = [
        ("none", reference_name("rtrl")),
        *((f"{share:g}", bias_name(share)) for share in shares),
        ("all", reference_name("rflo")),
    ]
    return [
        Part(f"RTRL with {y} of RFLO's bias behind RTRL with {x}, in gaps", in_gaps(data, lost(data, b, a)), More(GAPS))
        for (x, a), (y, b) in pairwise(named)
    ]


ADD = "On Add, alpha = 1, at the paper's learning rate."
OF_DEFICIT = (
    f"{ADD} Differences of final losses, paired by seed, in units of the deficit: the learner's final loss less "
    "RTRL's. UORO is judged, and R-KF-RTRL where it was run. Not decided where a deficit is not above zero at 95 % "
    "confidence."
)

CLAIMS = [
    Claim(
        "intervention-closes",
        "The mean of many copies of UORO, or of R-KF-RTRL, learns like RTRL: variance is all that holds them back.",
        "Add task; Discussion, Figure 9",
        f"{OF_DEFICIT} The share of the deficit that the largest number of copies leaves. Holds if every interval lies "
        f"within {DEFICITS:g} of zero; fails if any lies outside. Other numbers of copies are reported.",
        closes,
        NAME,
    ),
    Claim(
        "intervention-falls",
        "Their deficit falls faster than the root of the variance, and more copies never learn worse.",
        "Discussion (open question)",
        f"{OF_DEFICIT} The share that k copies leave: less than 1/√k for k = 4 and 16, and no more than the next "
        "smaller k leaves. The latter is judged among the numbers of copies that were run at all seeds (full profile: "
        "1, 4, 16 and 64), and reported for larger ones, which were run at few. Holds if every interval of the first "
        f"kind lies above zero, and every one of the second lies above zero or holds zero and lies within "
        f"{DEFICITS:g} of it; fails if any lies below zero, or if one of the first kind holds zero and lies "
        f"within {DEFICITS:g} of it.",
        falls,
        NAME,
    ),
    Claim(
        "intervention-noise",
        "RTRL with UORO's noise learns like UORO, and with R-KF-RTRL's like R-KF-RTRL: noise is enough.",
        "Discussion, Figure 9",
        f"{OF_DEFICIT} RTRL's gradient plus the learner's error at each step, its sign drawn at random, against the "
        f"learner itself. Holds if every interval lies within {DEFICITS:g} of zero; fails if any lies outside. Noise "
        "divided by √k against the mean of k copies is reported.",
        noise_alone,
        NAME,
    ),
    Claim(
        "intervention-bias",
        "The more of RFLO's bias RTRL is given, the worse it learns.",
        "Discussion, Figure 9",
        f"{ADD} RTRL's gradient plus a share of the difference between RFLO's and its own: none, a quarter, half "
        "(those that were run) and all. Final loss at each share less that at the next smaller one, paired by seed, in "
        "units of fixed W's less RTRL's. Holds if every interval lies above zero; fails if any lies below, or holds "
        f"zero and lies within {GAPS:g} of it.",
        grows,
        NAME,
    ),
]
