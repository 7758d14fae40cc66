"""What was expected of RFLO's mechanism, before it was measured.

The gain of a learner is the final loss of the readout alone less its own, paired by seed, in units of what knowing the
first of Add's two coins is worth. Each seed draws one network of each spectrum, so that each has a rank correlation
over the spectra; seeds are the sample, and the spectra are these ten and no sample.
"""

import numpy as np
from scipy import stats

from recurra_paper.analysis import add_benchmarks, correlations, mean, relative, scored
from recurra_paper.beyond.mechanism.runs import LEVELS, LONGEST, PLAIN, REACHED, horizon_of, name_of
from recurra_paper.beyond.mechanism.spectra import PAIRS, SPECTRA
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays
from recurra_paper.claims.rule import CORRELATIONS, GAPS, More

#: what knowing the first coin is worth, in nats
COIN = add_benchmarks()[0] - add_benchmarks()[1]
#: the paper's own recurrent weights
USUAL = "orthogonal"
RANKED = (
    "Each seed's rank correlation over the ten spectra of two numbers: RFLO's gain, which is the final loss of the "
    "readout alone less RFLO's, and r² of predicting y*(t) from a(t-1) before training."
)


def gain(data: Data, spectrum: str, learner: str) -> np.ndarray:
    """The loss of the readout alone less that of the learner at each seed, in coins."""
    readout, run = (arrays(data, name_of(spectrum, name)) for name in ("fixed", learner))
    return (scored(readout, readout) - scored(run, readout)) / COIN


def memory(data: Data, spectrum: str, level: int) -> np.ndarray:
    """r² of y*(t) from a(t-1) with noise of a level, at each seed."""
    return np.asarray(arrays(data, f"mechanism/memory/{spectrum}")["r2"], float)[:, level]


def ranked(data: Data, level: int) -> np.ndarray:
    """Each seed's rank correlation of RFLO's gain with memory over the spectra."""
    gains = np.stack([gain(data, spectrum, "rflo") for spectrum in SPECTRA], axis=1)
    r2 = np.stack([memory(data, spectrum, level) for spectrum in SPECTRA], axis=1)
    return correlations(stats.rankdata(gains, axis=1), stats.rankdata(r2, axis=1))


def rises(data: Data, level: int, decides: bool) -> Part:
    """The rank correlation with the memory of one level."""
    which = "plain r²" if level == PLAIN else f"r² with noise of variance {LEVELS[level]:g}/(ηt)"
    name = f"rank correlation of RFLO's gain with {which}"
    return Part(name, mean(ranked(data, level)), More(CORRELATIONS) if decides else None)


def by_reach(data: Data) -> list[Part]:
    """Reachable memory, and how much more it tells than plain r²; other levels are reported."""
    more = mean(ranked(data, REACHED) - ranked(data, PLAIN))
    name = "rank correlation with the memory that descent reaches less that with plain r²"
    others = [level for level in range(len(LEVELS)) if level not in (PLAIN, REACHED)]
    return [
        rises(data, REACHED, True),
        Part(name, more, More(CORRELATIONS)),
        *(rises(data, level, False) for level in others),
    ]


def by_spectrum(data: Data) -> list[Part]:
    """RFLO's gain with a complex spectrum less that with its real counterpart, relative to what it gains as a rule."""
    usual = gain(data, USUAL, "rflo")
    if not mean(usual).interval()[0] > 0:
        raise Undecided(
            f"Not decided: with {USUAL} weights RFLO is not yet ahead of the readout alone beyond doubt, so that there "
            "is no gain to measure differences by."
        )
    return [
        Part(
            f"RFLO's gain, {SPECTRA[other].shown} less {SPECTRA[real].shown}, relative to that with {USUAL} weights",
            relative(gain(data, other, "rflo") - gain(data, real, "rflo"), usual),
            More(GAPS),
        )
        for real, other in PAIRS
    ]


def by_horizon(data: Data) -> list[Part]:
    """The gain of E-BPTT with the longest horizon from every spectrum; RFLO's is reported."""
    name = f"gain of E-BPTT with T = {LONGEST}, in coins, {{}}"
    learns = lambda x: Part(name.format(SPECTRA[x].shown), mean(gain(data, x, horizon_of(LONGEST))), More(GAPS))
    rflo = lambda x: Part(f"gain of RFLO, in coins, {SPECTRA[x].shown}", mean(gain(data, x, "rflo")), None)
    return [*map(learns, SPECTRA), *map(rflo, SPECTRA)]


CLAIMS = [
    Claim(
        "mechanism-memory",
        "RFLO gains more where a(t-1) tells more about y*(t).",
        "RFLO analysis, Figure 8",
        f"{RANKED} Plain r², that of linear regression. Holds if the interval of the mean over seeds lies above zero; "
        f"fails if it lies below, or if it holds zero and lies within {CORRELATIONS:g} of it.",
        lambda data: [rises(data, PLAIN, True)],
        "mechanism",
    ),
    Claim(
        "mechanism-reachable",
        "RFLO's gain follows the memory that gradient descent can reach, and follows it more closely than it does r².",
        "Discussion (open question)",
        f"{RANKED} Reachable memory is r² from a(t-1) with noise of variance 1/(ηt), η the learning rate and t the "
        "number of steps: descent hardly learns from directions in which the state varies less. Holds if two intervals "
        "lie above zero: that of the mean correlation with reachable memory, and that of its difference from the "
        "correlation with plain r², paired by seed. Fails if either lies below, or holds zero and lies within "
        f"{CORRELATIONS:g} of it. Other variances are reported.",
        by_reach,
        "mechanism",
    ),
    Claim(
        "mechanism-real-spectra",
        "RFLO learns less from recurrent weights with a real spectrum.",
        "RFLO analysis",
        "RFLO's gain with a complex spectrum less that with a real one, in three pairs of the same shape and size: "
        "skew and symmetric, orthogonal and reflections, rotations and diagonal. Differences are paired by seed, in "
        f"units of RFLO's mean gain with {USUAL} weights. Holds if every interval lies above zero; fails if any lies "
        f"below, or holds zero and lies within {GAPS:g} of it. Nothing is decided before that gain is above zero.",
        by_spectrum,
        "mechanism",
    ),
    Claim(
        "mechanism-horizon",
        f"E-BPTT with T = {LONGEST} learns from every spectrum: where RFLO fails, the network could have learned.",
        "Discussion (open question)",
        f"The final loss of the readout alone less that of E-BPTT with T = {LONGEST}, paired by seed, in units of what "
        f"knowing the first coin is worth, {COIN:.3f}. Holds if the interval lies above zero for each of the ten "
        f"spectra; fails if any lies below, or holds zero and lies within {GAPS:g} of it.",
        by_horizon,
        "mechanism",
    ),
]
