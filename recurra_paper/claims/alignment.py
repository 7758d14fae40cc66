"""Claims about how gradients align from step to step, with the network following RTRL.

Alignments are cosines averaged over the steps at which both learners emitted; seeds are the sample, and differences of
alignments are paired by seed. All are measured at alpha = 1, as in the paper. Claims about past-facing approximations
are decided by the paper's five; r-OK and DNI(b), which its figure leaves out, are reported.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from recurra_paper.analysis import Estimate, correlations, mean, one_more, p_value, paired_difference, within_windows
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays, places
from recurra_paper.claims.rule import CORRELATIONS, COSINES, Alike, More, Relation, Within
from recurra_paper.setup import shown

TASKS = ("add", "mimic")
PAST = ("uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl")
NOISY = ("uoro", "r-kf-rtrl")
APPROXIMATE = (*PAST, "dni")
FIGURE_6, FIGURE_7 = "alignment_analysis", "norm_alignments"
BETTER = More(COSINES)
#: Correlations are also taken within windows of so many steps, over which the network hardly learns.
WINDOW = 2_000
#: Cohen's (1988) medium and large sizes of a correlation: below the one it is called weak, from the other on strong.
#: Both were chosen when the values were known.
WEAK, STRONG = 0.3, 0.5
#: A number of one run agrees with ours if another seed of ours is expected within this factor of it. The factor is that
#: of the first criteria, which were written before there were data.
FACTOR = 1.5
SIGN = (
    f"Differences of mean cosines, paired by seed, on both tasks; {COSINES} matters. Holds if every interval lies "
    "above zero; does not hold if any lies below, or shows no difference."
)
NONE = (
    f"Mean cosines on both tasks. Holds if every interval lies within {COSINES} of zero; does not if any lies beyond."
)
KNOWN = "The limit was chosen when the values were known."


def aligned(data: Data, task: str, x: str, y: str, alpha: str = "1") -> np.ndarray:
    """Each seed's mean cosine of two learners' gradients."""
    name = f"gradients/{task}/{alpha}"
    i, j = places(data, name, x, y)
    cosine = np.asarray(data[name]["mean"][:, i, j], float)
    if not np.all(np.isfinite(cosine)):
        raise Undecided(f"Not decided: in {name} {shown(x)} and {shown(y)} never emitted at the same step.")
    return cosine


def gained(data: Data, task: str, first: tuple[str, str], second: tuple[str, str], decides: bool = True) -> Part:
    """How much better the first pair aligns than the second."""
    e = paired_difference(aligned(data, task, *first), aligned(data, task, *second))
    pair = lambda names: " with ".join(map(shown, names))
    return Part(f"cosine of {pair(first)} less that of {pair(second)}, {task}", e, BETTER if decides else None)


def facing(learners: tuple[str, ...], near: str, far: str, reported: str):
    """Each learner aligned better with one exact learner than with the other; one more is reported."""

    def parts(data: Data) -> list[Part]:
        deciding = [gained(data, task, (x, near), (x, far)) for task in TASKS for x in learners]
        present = [task for task in TASKS if reported in data[f"gradients/{task}/1"]["learners"]]
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


def even_kf_rtrl(data: Data) -> list[Part]:
    """DNI against KF-RTRL; the other deterministic and stochastic learners are compared by other claims."""
    others = [(x, y) for x in ("rflo", "kernl", "dni") for y in ("uoro", "kf-rtrl", "r-kf-rtrl")]
    pairs = [(("dni", "kf-rtrl"), True), *((pair, False) for pair in others if pair != ("dni", "kf-rtrl"))]
    return [gained(data, task, (x, "rtrl"), (y, "rtrl"), decides) for (x, y), decides in pairs for task in TASKS]


def unaligned(pairs: list[tuple[str, str]], relation: Relation):
    """Mean cosines that are claimed to be small."""
    name = "mean cosine of {} with {}, {}"
    return lambda data: [
        Part(name.format(shown(x), shown(y), task), mean(aligned(data, task, x, y)), relation)
        for task in TASKS
        for x, y in pairs
    ]


def stated(learner: str, task: str, value: float):
    """Our mean over the paper's number, of one run, with the prediction interval of one more seed."""

    def parts(data: Data) -> list[Part]:
        e = one_more(aligned(data, task, learner, "rtrl") / value)
        higher = "higher" if e.value > 1 else "lower"
        note = f"(our mean is {value * e.value:.3f}, {abs(e.value - 1):.0%} {higher} than the paper's)"
        name = f"mean cosine of {shown(learner)} with RTRL over the paper's {value:.3f}, {task}"
        return [Part(name, e, Within(1 / FACTOR, FACTOR), note=note)]

    return parts


def norm_correlations(data: Data, task: str, learner: str) -> list[tuple[str, Estimate]]:
    """The correlation of a gradient's alignment with the logarithm of its norm, over a whole run and within windows."""
    pair = paired(arrays(data, f"gradients/{task}/1"), learner)
    width = min(WINDOW, pair[0].shape[1])
    name = f"correlation r of alignment and log norm, {shown(learner)}, {task}"
    whole, within = mean(correlations(*pair)), mean(within_windows(*pair, WINDOW))
    return [(f"{name}, whole run", whole), (f"{name}, within {width:,} steps", within)]


def norm_grows(learner: str, task: str):
    """Both correlations above zero."""

    def part(name: str, e: Estimate) -> Part:
        return Part(name, e, More(CORRELATIONS), note=f"(p = {p_value(e):.2g} over {int(e.dof) + 1} seeds)")

    return lambda data: [part(*found) for found in norm_correlations(data, task, learner)]


def norm_is_weak(data: Data) -> list[Part]:
    """Over the whole run, as in the paper; within windows it is reported."""
    found = [norm_correlations(data, task, learner) for learner in NOISY for task in TASKS]
    return [Part(*whole, Within(high=WEAK)) for whole, _ in found] + [Part(*within, None) for _, within in found]


def paired(experiment: Mapping[str, np.ndarray], learner: str) -> tuple[np.ndarray, np.ndarray]:
    """The learner's cosine with RTRL and log norm at every step, (seed, step)."""
    row = [str(name) for name in experiment["noisy"]].index(learner)
    return np.asarray(experiment["pair_cosine"][row], float), np.asarray(experiment["pair_log_norm"][row], float)


STATED = (("uoro", "add", 0.043), ("uoro", "mimic", 0.084), ("r-kf-rtrl", "add", 0.050), ("r-kf-rtrl", "mimic", 0.092))
EVERY = ("rtrl", "f-bptt", *APPROXIMATE)

CLAIMS = [
    Claim(
        "align-past",
        "Past-facing approximations align better with RTRL than with F-BPTT.",
        "Gradient similarity (i), Figure 6b and 6d",
        f"{SIGN} UORO, KF-RTRL, R-KF-RTRL, RFLO and KeRNL decide; r-OK is reported.",
        facing(PAST, "rtrl", "f-bptt", "r-ok"),
        FIGURE_6,
    ),
    Claim(
        "align-future",
        "DNI, a future-facing approximation, aligns better with F-BPTT than with RTRL.",
        "Gradient similarity (i), Figure 6b and 6d",
        f"{SIGN} DNI decides; DNI(b) is reported.",
        facing(("dni",), "f-bptt", "rtrl", "dni-b"),
        FIGURE_6,
    ),
    Claim(
        "align-deterministic",
        "RFLO and KeRNL align better with RTRL than UORO, KF-RTRL and R-KF-RTRL do.",
        "Gradient similarity (ii), Figure 6",
        SIGN,
        deterministic,
        FIGURE_6,
    ),
    Claim(
        "align-closest",
        "No two algorithms align better than RFLO and KeRNL.",
        "Gradient similarity (iii), Figure 6",
        f"{SIGN} Against every other pair among RTRL, F-BPTT, UORO, KF-RTRL, R-KF-RTRL, RFLO, KeRNL, DNI.",
        closest_pair,
        FIGURE_6,
    ),
    Claim(
        "align-weakest",
        "UORO and R-KF-RTRL align with RTRL less than any other approximation does.",
        "Gradient similarity (iv), Figure 6",
        f"{SIGN} Against KF-RTRL, RFLO, KeRNL and DNI.",
        weakest,
        FIGURE_6,
    ),
    Claim(
        "align-even-kf-rtrl",
        "“It is the stochastic algorithms that have particularly weak alignment with RTRL—even KF-RTRL”: DNI, which is "
        "deterministic, aligns better with RTRL than KF-RTRL does.",
        "Discussion; Figure 6",
        f"{SIGN} DNI against KF-RTRL decides. The other pairs of a deterministic and a stochastic approximation are "
        "reported: other claims judge them.",
        even_kf_rtrl,
        FIGURE_6,
    ),
    Claim(
        "align-none",
        "UORO and R-KF-RTRL “do not align strongly with any other algorithms”.",
        "Gradient similarity (iv), Figure 6",
        f"Mean cosines on both tasks with each of RTRL, F-BPTT, KF-RTRL, RFLO, KeRNL and DNI. Holds if every interval "
        f"lies within {STRONG} of zero, from where on Cohen calls a correlation large; does not if any lies beyond. "
        f"{KNOWN}",
        unaligned([(x, y) for x in NOISY for y in EVERY if y not in NOISY], Within(-STRONG, STRONG)),
        FIGURE_6,
    ),
    Claim(
        "align-orthogonal",
        "Gradients of UORO and R-KF-RTRL “are almost orthogonal with RTRL on average”.",
        "Gradient similarity; Figure 9a",
        f"{NONE} {KNOWN} It is what matters in all comparisons of cosines.",
        unaligned([(x, "rtrl") for x in NOISY], Alike(COSINES)),
        FIGURE_6,
    ),
    Claim(
        "align-stochastic",
        "Stochastic approximations do not align with each other.",
        "Discussion; Figure 6",
        f"{NONE} The three pairs of UORO, KF-RTRL and R-KF-RTRL.",
        unaligned(list(combinations(("uoro", "kf-rtrl", "r-kf-rtrl"), 2)), Alike(COSINES)),
        FIGURE_6,
    ),
    *(
        Claim(
            f"align-{learner}-{task}",
            f"{shown(learner)}'s mean alignment with RTRL on {task.capitalize()} is {value:.3f}.",
            "Gradient similarity (iv), Figure 6",
            f"The paper's number comes from one run. Ours is divided by it, with the 95% prediction interval of one "
            f"more seed. Holds if that lies from 1/{FACTOR} to {FACTOR}; does not hold if it lies outside. The factor "
            "is that of the first criteria, from before there were data.",
            stated(learner, task, value),
            FIGURE_6,
        )
        for learner, task, value in STATED
    ),
    *(
        Claim(
            f"norm-{learner}-{task}",
            f"On {task.capitalize()} {shown(learner)}'s gradients are larger where they align better with RTRL.",
            f"Gradient similarity, Figure 7{panel}",
            "Pearson's r of the cosine with RTRL and log10 of the norm, over all steps of a seed, and averaged over "
            f"windows of {WINDOW:,} steps, since a run that learns may make both drift. Seeds are the sample; "
            f"{CORRELATIONS} matters. Holds if both intervals lie above zero; does not hold if either lies below, or "
            "shows no correlation.",
            norm_grows(learner, task),
            FIGURE_7,
        )
        for (learner, task, _), panel in zip(STATED, "abcd", strict=True)
    ),
    Claim(
        "norm-weak",
        "The correlations of alignment with the norm of gradients “are fairly weak even if statistically significant”.",
        "Gradient similarity, Figure 7",
        f"Pearson's r over all steps of a seed, four cases. Holds if every interval lies below {WEAK}, which Cohen "
        f"calls a medium size; does not hold if any lies above. {KNOWN} Correlations within windows are reported.",
        norm_is_weak,
        FIGURE_7,
    ),
]
