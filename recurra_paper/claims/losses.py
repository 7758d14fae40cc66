"""How the losses that learners reach are compared.

A seed's final loss is its mean over the last ten windows, where the paper's smoothed curves end; a seed that diverged
counts as having learnt nothing, at the loss of the first window of fixed W. Seeds are paired: the same weights and the
same stream for every learner. Losses are compared in units of the gap, the mean over seeds of fixed W's loss less
RTRL's, so that a difference means the same for every task; a tenth of the gap is the smallest that matters. Where the
gap itself is not above zero, at 95 % confidence, nothing has been learnt yet that could tell learners apart, and
nothing is decided.
"""

from collections.abc import Callable

import numpy as np

from recurra_paper.analysis import Estimate, add_benchmarks, less, mean, paired_difference, relative, scored, shared
from recurra_paper.claims.base import Data, Part, arrays, known_gap
from recurra_paper.claims.rule import GAPS, Alike, More, NoMore, Relation
from recurra_paper.setup import LEARNERS, shown

Parts = Callable[[Data], list[Part]]

BEHIND, NO_BETTER, TIE = More(GAPS), NoMore(GAPS), Alike(GAPS)

#: A tenth of what there is to learn on Add, in nats: what knowing both coins is worth.
LEARNABLE = (add_benchmarks()[0] - add_benchmarks()[2]) / 10

LEADERS = ("rtrl", "f-bptt", "kf-rtrl")
NOISY = ("uoro", "r-kf-rtrl")
LOCAL = ("rflo", "kernl")
REST = (*NOISY, *LOCAL, "dni", "dni-b")

UNITS = f"Differences of final losses, paired by seed, in gaps: fixed W's loss less RTRL's. {GAPS} gaps matter."
AHEAD = f"{UNITS} Holds if every interval lies above zero; does not hold if any lies below, or shows no difference."
TIED = f"{UNITS} Holds if every interval lies within {GAPS} of zero; does not hold if any lies beyond."


def final_loss(data: Data, condition: str, learner: str) -> np.ndarray:
    """Each seed's loss at the end."""
    return scored(arrays(data, f"loss/{condition}/{learner}"), arrays(data, f"loss/{condition}/fixed"))


def gap(data: Data, condition: str) -> np.ndarray:
    """Fixed W's loss less RTRL's at each seed, if its mean is known to be positive."""
    values = less(final_loss(data, condition, "fixed"), final_loss(data, condition, "rtrl"))
    return known_gap(values, f"on {title(data, condition)}")


def behind(data: Data, condition: str, x: str, y: str) -> Estimate:
    """(loss of x - loss of y) / gap."""
    d = less(final_loss(data, condition, x), final_loss(data, condition, y))
    return relative(d, gap(data, condition))


def against_rtrl(data: Data, condition: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """x's loss less RTRL's at each seed, and the gap."""
    d, unit = less(final_loss(data, condition, x), final_loss(data, condition, "rtrl")), gap(data, condition)
    return d, unit[: len(d)]


def compare(data: Data, condition: str, x: str, y: str, relation: Relation | None) -> Part:
    """How far x is behind y, and what is claimed of it."""
    name = f"{shown(x)} behind {shown(y)} on {title(data, condition)}, in gaps"
    return Part(name, behind(data, condition, x, y), relation, note=diverged(data, condition, x, y))


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
    """F-BPTT and KF-RTRL alike RTRL; E-BPTT is reported."""
    return lambda data: [
        *(compare(data, condition, x, "rtrl", TIE) for x in ("f-bptt", "kf-rtrl")),
        *reported(data, condition, "e-bptt"),
    ]


def reported(data: Data, condition: str, *learners: str) -> list[Part]:
    """Parts that decide nothing, of the learners that were run."""
    return [compare(data, condition, x, "rtrl", None) for x in learners if f"loss/{condition}/{x}" in data]


def lead(condition: str, near: tuple[str, ...] = ()) -> Parts:
    """Every other learner of the paper behind each of the three leaders; those in `near` are no better than they."""
    return lambda data: [
        *(compare(data, condition, x, y, NO_BETTER if x in near else BEHIND) for x in REST for y in LEADERS),
        *reported(data, condition, "e-bptt", "r-ok"),
    ]


def between(condition: str) -> Parts:
    """DNI ahead of the local rules, behind the others."""
    return lambda data: [
        *(compare(data, condition, x, "dni", BEHIND) for x in LOCAL),
        *(compare(data, condition, "dni", x, BEHIND) for x in (*NOISY, *LEADERS)),
    ]


def beats_fixed(condition: str) -> Parts:
    """How far fixed W is behind each learner."""
    return lambda data: (
        [compare(data, condition, "fixed", x, BEHIND) for x in LEARNERS if x != "fixed"]
        + [compare(data, condition, "fixed", x, None) for x in ("kernl-released",) if f"loss/{condition}/{x}" in data]
    )


def one_cluster(condition: str, x: str, y: str, others: tuple[str, ...], decides: bool = True) -> Parts:
    """How much further every other learner is from the nearer one of x and y than these are from each other."""

    def part(data: Data, other: str) -> Part:
        every = {name: final_loss(data, condition, name) for name in (x, y, other)}
        of = {name: loss[: min(map(len, every.values()))] for name, loss in every.items()}
        near = min((x, y), key=lambda name: abs(np.mean(of[other] - of[name])))
        # Which way each difference points is read off the means. Noise makes what separates x and y look larger.
        away, inside = (d * np.sign(np.mean(d)) for d in (of[other] - of[near], of[x] - of[y]))
        name = f"{shown(other)}'s distance from {shown(near)} less that of {shown(x)} from {shown(y)}"
        e = relative(away - inside, gap(data, condition))
        return Part(f"{name}, {title(data, condition)}, in gaps", e, BEHIND if decides else None)

    return lambda data: [part(data, other) for other in others]


def easier(data: Data) -> list[Part]:
    """What is left of RTRL's loss on Add at alpha = 0.5, less that at 1; of fixed W's it is reported."""
    part = lambda x, relation: Part(
        f"loss of {shown(x)} on Add at alpha = 0.5 less that at 1, in nats",
        paired_difference(final_loss(data, "add/0.5", x), final_loss(data, "add/1", x)),
        relation,
    )
    return [part("rtrl", Alike(LEARNABLE)), part("fixed", None)]


def relative_to_add(learners: tuple[str, ...], sign: int) -> Parts:
    """sign × (how far behind RTRL on Mimic - on Add), in gaps, claimed positive, for both alphas."""

    def part(data: Data, x: str, alpha: str) -> Part:
        # A seed starts from the same recurrent weights on both tasks.
        (add, each_add), (mimic, each_mimic) = (
            shared(*against_rtrl(data, f"{task}/{alpha}", x)) for task in ("add", "mimic")
        )
        d = Estimate(sign * (mimic - add), mean(each_mimic - each_add).error, len(each_add) - 1.0)
        word = "worse" if sign > 0 else "better"
        note = f"(Add {add:.2g}, Mimic {mimic:.2g})"
        return Part(f"{shown(x)} relatively {word} on Mimic, alpha = {alpha}, in gaps", d, BEHIND, note=note)

    return lambda data: [part(data, x, alpha) for alpha in ("1", "0.5") for x in learners]


def both_alphas(task: str, *comparisons: tuple[str, str, Relation]) -> Parts:
    """The same comparisons at alpha 1 and 0.5."""
    return lambda data: [
        compare(data, f"{task}/{alpha}", x, y, relation) for alpha in ("1", "0.5") for x, y, relation in comparisons
    ]
