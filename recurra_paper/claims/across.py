"""Claims that span losses and alignments: whether the axes tell who learns alike, and whether alignment does."""

import re

import numpy as np

from recurra_paper.analysis import mantel, rank_correlation
from recurra_paper.claims import losses
from recurra_paper.claims.alignment import TASKS, gained
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays
from recurra_paper.claims.rule import CORRELATIONS, RANKS, Alike, More
from recurra_paper.setup import ALPHAS, LEARNERS, kind_of, shown

#: The exact learner that each approximation is held against: that of its facing.
EXACT = {"past": "rtrl", "future": "f-bptt"}
APPROXIMATE = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "dni", "dni-b")


def axes_of(learner: str) -> tuple[str, tuple[str, ...], bool, bool]:
    """Where a learner stands on the four axes. Tensors are alike if their indices are, whatever their letters."""
    kind = kind_of(learner)
    return kind.facing, tuple(re.findall(r"_(\w+)", kind.about.tensor)), kind.about.stochastic, kind.about.numerical


def clusters(data: Data) -> list[Part]:
    """The correlation of distances on the axes with distances of final losses, against permuted learners."""
    names = [x for x in LEARNERS if x != "fixed"]
    apart = np.array([[sum(map(lambda u, v: u != v, axes_of(x), axes_of(y))) for y in names] for x in names], float)
    conditions = [f"{task}/{alpha}" for task in TASKS for alpha in ALPHAS]
    final = np.array(
        [[np.mean(losses.final_loss(data, c, x)) / np.mean(losses.gap(data, c)) for x in names] for c in conditions]
    )
    e, p = mantel(apart, np.abs(final[:, :, None] - final[:, None, :]))
    note = f"(p = {p:.2g} over permutations of the {len(names)} learners)"
    return [Part("correlation r of distances on the axes and of losses", e, More(CORRELATIONS), note=note)]


def predicts(data: Data) -> list[Part]:
    """Rank correlations of alignment and performance, of means over seeds: at single steps, and over long windows."""

    def part(task: str, alpha: str, window: int, decides: bool) -> Part:
        experiment, condition = arrays(data, f"gradients/{task}/{alpha}"), f"{task}/{alpha}"
        known = [str(x) for x in experiment["learners"]]
        absent = [shown(x) for x in APPROXIMATE if x not in known]
        if absent:
            raise Undecided(f"Not decided: gradients/{condition} is without {' and '.join(absent)}.")
        against = [known.index(EXACT[kind_of(x).facing]) for x in APPROXIMATE]
        rows = [known.index(x) for x in APPROXIMATE]
        cosine = np.asarray(experiment["window_cosine"], float)[:, rows, against, window]
        final = np.array([losses.final_loss(data, condition, x) for x in APPROXIMATE]).T
        # The first seeds of both experiments draw the same weights and the same stream.
        seeds = min(len(cosine), len(final))
        rho = rank_correlation(cosine[:seeds], -final[:seeds])
        steps = int(experiment["windows"][window])
        span = "single steps" if steps == 1 else f"sums over {steps:,} steps"
        name = f"rank correlation of alignment and performance, {task}, alpha = {alpha}, {span}"
        return Part(name, rho, Alike(RANKS) if decides else None)

    conditions = [(task, alpha) for task in TASKS for alpha in ALPHAS]
    return [part(*c, 0, True) for c in conditions] + [part(*c, -1, False) for c in conditions]


def dissociation(data: Data) -> list[Part]:
    """KeRNL better aligned than UORO, and yet behind it."""
    behind = losses.compare(data, "add/1", "kernl", "uoro", losses.BEHIND)
    return [gained(data, "add", ("kernl", "rtrl"), ("uoro", "rtrl")), behind]


CLAIMS = [
    Claim(
        "clusters",
        "Performance clusters according to the four axes: learners that are alike on them learn alike.",
        "Abstract; Discussion",
        "Over all pairs of learners: on how many of the four axes they differ, and how far their final losses, means "
        "over seeds, are apart in gaps; the correlation of the two, averaged over both tasks and both alphas "
        f"(Mantel's). Learners are the sample, and its error is the jackknife's; {CORRELATIONS} matters. Holds if the "
        "interval lies above zero; does not hold if it lies below, or shows no correlation.",
        clusters,
        "training_loss_mimic",
    ),
    Claim(
        "align-dissociates",
        "Alignment from step to step does not tell who learns: KeRNL aligns better with RTRL than UORO, and learns "
        "worse.",
        "Discussion; Figures 4 and 6",
        "The difference of mean cosines and that of final losses in gaps on Add at alpha = 1, both paired by seed; 0.1 "
        "matters in either. "
        "Holds if both intervals lie above zero; does not hold if either lies below, or shows no difference.",
        dissociation,
        "alignment_analysis",
    ),
    Claim(
        "align-predicts-not",
        "Among these learners, the alignment of gradients at single steps does not tell who learns better.",
        "Gradient similarity (iv); Discussion",
        "Spearman's rank correlation over the eight approximate learners of means over seeds: their alignment with the "
        "exact gradient of their facing, and their performance; positive if better alignment goes with a lower final "
        f"loss. Both tasks and both alphas; {RANKS} matters. Holds if every interval, by a bootstrap over seeds, lies "
        f"within {RANKS} of zero; does not hold if any lies beyond. Sums over the longest windows are reported.",
        predicts,
        "alignment_analysis",
    ),
]
