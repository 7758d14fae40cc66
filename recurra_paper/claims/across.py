"""Claims that span losses and alignments: whether the axes tell who is alike, and whether alignment tells who learns.

Learners are the sample, and those of the paper's figures decide; what r-OK and E-BPTT change is reported.
"""

import re
from collections.abc import Callable

import numpy as np

from recurra_paper.analysis import mantel, permuted_ranks
from recurra_paper.claims import losses
from recurra_paper.claims.alignment import APPROXIMATE, TASKS, gained
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays, places
from recurra_paper.claims.estimators import EXACT
from recurra_paper.claims.rule import CORRELATIONS, More, Unrelated
from recurra_paper.setup import ALPHAS, LEARNERS, kind_of

CONDITIONS = tuple((task, alpha) for task in TASKS for alpha in ALPHAS)
#: The learners of Figures 4 and 5 that train W, those of Figure 6, and all of ours.
IN_LOSSES = ("rtrl", "uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl", "f-bptt", "dni", "dni-b")
IN_ALIGNMENTS = ("rtrl", "f-bptt", *APPROXIMATE)
TRAINED = tuple(x for x in LEARNERS if x != "fixed")
ALL_APPROXIMATE = (*APPROXIMATE, "r-ok", "dni-b")


def axes_of(learner: str) -> tuple[str, tuple[str, ...], bool, bool]:
    """Where a learner stands on the four axes. Tensors are alike if their indices are, whatever their letters."""
    kind = kind_of(learner)
    return kind.facing, tuple(re.findall(r"_(\w+)", kind.about.tensor)), kind.about.stochastic, kind.about.numerical


def if_known(part: Callable[[], Part]) -> list[Part]:
    """A part that is only reported, where its data are there."""
    try:
        return [part()]
    except Undecided:
        return []


def along_axes(names: tuple[str, ...], distances: np.ndarray, of: str, decides: bool) -> Part:
    """The correlation of learners' distances on the axes with other distances, (condition, learner, learner)."""
    apart = np.array([[sum(map(lambda u, v: u != v, axes_of(x), axes_of(y))) for y in names] for x in names], float)
    e, p = mantel(apart, distances)
    name = f"correlation r of distances on the axes and of {of}, {len(names)} learners"
    return Part(name, e, More(CORRELATIONS) if decides else None, note=f"(p = {p:.2g} over permutations of them)")


def clusters(data: Data) -> list[Part]:
    """Distances of final losses, over the paper's learners and over all."""

    def part(names: tuple[str, ...], decides: bool) -> Part:
        conditions = [f"{task}/{alpha}" for task, alpha in CONDITIONS]
        final = np.array(
            [[np.mean(losses.final_loss(data, c, x)) / np.mean(losses.gap(data, c)) for x in names] for c in conditions]
        )
        return along_axes(names, np.abs(final[:, :, None] - final[:, None, :]), "losses", decides)

    return [part(IN_LOSSES, True), *if_known(lambda: part(TRAINED, False))]


def aligned_clusters(data: Data) -> list[Part]:
    """Distances of gradients, one less the mean cosine, over the learners of Figure 6 and over all."""

    def distances(task: str, names: tuple[str, ...]) -> np.ndarray:
        name = f"gradients/{task}/1"
        rows = places(data, name, *names)
        cosine = np.asarray(data[name]["mean"], float)[:, rows][:, :, rows]
        if len(cosine) < 2:
            raise Undecided(f"Not decided: {name} has one seed.")
        return 1 - cosine.mean(axis=0)

    def part(names: tuple[str, ...], decides: bool) -> Part:
        return along_axes(names, np.stack([distances(task, names) for task in TASKS]), "gradients", decides)

    return [part(IN_ALIGNMENTS, True), *if_known(lambda: part(TRAINED, False))]


def predicts(data: Data) -> list[Part]:
    """Whether alignment and performance go together over learners, at single steps, and for sums over long windows."""

    def of(task: str, alpha: str, names: tuple[str, ...], window: int) -> tuple[np.ndarray, np.ndarray]:
        name = f"gradients/{task}/{alpha}"
        rows, against = places(data, name, *names), places(data, name, *(EXACT[kind_of(x).facing] for x in names))
        cosine = np.asarray(data[name]["window_cosine"], float)[:, rows, against, window].mean(axis=0)
        return cosine, np.array([-np.mean(losses.final_loss(data, f"{task}/{alpha}", x)) for x in names])

    def part(names: tuple[str, ...], window: int, decides: bool) -> Part:
        pairs = [of(*condition, names, window) for condition in CONDITIONS]
        rho = permuted_ranks(*(np.stack(each) for each in zip(*pairs, strict=True)))
        each = [permuted_ranks(x[None], y[None]).value for x, y in pairs]
        said = ", ".join(f"{task} {alpha}: {r:.2f}" for (task, alpha), r in zip(CONDITIONS, each, strict=True))
        steps = int(arrays(data, "gradients/add/1")["windows"][window])
        span = "single steps" if steps == 1 else f"sums over {steps:,} steps"
        note = (
            f"({said}. Of {len(names)} learners only a mean above {rho.least():.2f} can be told from chance: so few "
            "cannot show that there is none.)"
        )
        name = f"mean rank correlation of alignment and performance, {len(names)} learners, {span}"
        return Part(name, rho, Unrelated() if decides else None, note=note)

    return [
        part(APPROXIMATE, 0, True),
        *if_known(lambda: part(ALL_APPROXIMATE, 0, False)),
        part(APPROXIMATE, -1, False),
        *if_known(lambda: part(ALL_APPROXIMATE, -1, False)),
    ]


def dissociation(data: Data) -> list[Part]:
    """KeRNL better aligned than UORO, and yet behind it."""
    behind = losses.compare(data, "add/1", "kernl", "uoro", losses.BEHIND)
    return [gained(data, "add", ("kernl", "rtrl"), ("uoro", "rtrl")), behind]


CLAIMS = [
    Claim(
        "clusters",
        "Performances cluster according to the four axes: learners that are alike on them learn alike.",
        "Abstract; Introduction; Discussion",
        "Over all pairs of the paper's nine learners that train W: on how many of the four axes they differ, and how "
        "far their final losses, means over seeds, are apart in gaps; the correlation of the two, averaged over both "
        "tasks and both alphas (Mantel's). Learners are the sample, and the error is that of a jackknife over them; "
        f"{CORRELATIONS} matters. Holds if the interval lies above zero; does not hold if it lies below, or shows no "
        "correlation. With r-OK and E-BPTT it is reported; so is p, the share of permutations of the learners that "
        "reach as much.",
        clusters,
        "training_loss_mimic",
    ),
    Claim(
        "align-clusters",
        "Gradients cluster too, “a similar clustering is also observed for gradient alignment”: those of learners that "
        "are alike on the axes align.",
        "Abstract; Gradient similarity; Discussion",
        "As for performances, with one less the mean cosine of two learners' gradients as their distance, averaged "
        "over both tasks at alpha = 1, over RTRL, F-BPTT, UORO, KF-RTRL, R-KF-RTRL, RFLO, KeRNL and DNI. "
        f"{CORRELATIONS} matters. Holds if the jackknife's interval over learners lies above zero; does not hold if it "
        "lies below, or shows no correlation. With r-OK, E-BPTT and DNI(b) it is reported.",
        aligned_clusters,
        "alignment_analysis",
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
        "At single steps “angular alignment with exact algorithms is not predictive of learning performance”.",
        "Gradient similarity (iv); Introduction; Discussion",
        "Spearman's rank correlation over learners of their alignment at single steps with the exact gradient of their "
        "facing, and of their performance, both means over seeds; averaged over both tasks and both alphas. Learners "
        "are the sample: all orders of UORO, KF-RTRL, R-KF-RTRL, RFLO, KeRNL and DNI are compared, and p is the share "
        "that reaches as much, either way. Does not hold if p is at most 0.05. It cannot hold: so few learners cannot "
        "show that there is no relation. With r-OK and DNI(b), and for sums over the longest windows, it is reported.",
        predicts,
        "alignment_analysis",
    ),
]
