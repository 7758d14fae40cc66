"""What the paper's Discussion supposes about the demands of a task, and what a truncation horizon should do."""

from collections.abc import Callable

import numpy as np

from recurra import FutureBPTT
from recurra_paper.analysis import mean
from recurra_paper.beyond.demands.reach import bits_of, reach
from recurra_paper.claims.base import Claim, Data, Part, Undecided
from recurra_paper.claims.rule import RATIOS, More, Within
from recurra_paper.setup import shown

NAME = "demands"
NOISY, BOOTSTRAPPED = ("uoro", "r-kf-rtrl"), ("dni", "dni-b")
HORIZON = FutureBPTT().T
#: "about T": a fifth to either side
ABOUT = 0.2

REACH = (
    "A seed's reach is the lag at which the share of the label's variance that it explains first falls to a half; at "
    "each lag a learner counts at the learning rate with the highest mean share."
)
RATIO = (
    f"{REACH} The rates of DNI's and DNI(b)'s learned maps were chosen in a pilot, which is to their advantage. "
    "Logarithms of ratios of reaches, paired by seed."
)
ABOVE = (
    "Holds if every interval lies above zero; does not hold if any lies below, or contains zero and only ratios within "
    "a tenth of one."
)


def log_reach(data: Data, bits: int, *learners: str) -> list[np.ndarray]:
    """The logarithm of each learner's reach, at the seeds that all of them were run with."""
    values = [np.log(reach(data, bits, learner)) for learner in learners]
    seeds = min(map(len, values))
    return [each[:seeds] for each in values]


def reported(data: Data, bits: int, *learners: str) -> list[Part]:
    """Reaches in steps, which decide nothing."""
    found = [x for x in (*learners, "fixed") if f"demands/{bits}/{x}" in data]
    return [Part(f"reach of {shown(x)} with {in_bits(bits)}", mean(reach(data, bits, x)), None) for x in found]


def in_bits(bits: int) -> str:
    """A number of bits in words."""
    return f"{bits} bit" + "s" * (bits > 1)


def horizon(data: Data) -> list[Part]:
    """With one bit, the noisy learners' reach over that of the bootstrapped ones."""

    def part(x: str, y: str) -> Part:
        a, b = log_reach(data, 1, x, y)
        return Part(f"log of {shown(x)}'s reach over {shown(y)}'s with 1 bit", mean(a - b), More(RATIOS))

    return [part(x, y) for x in NOISY for y in BOOTSTRAPPED] + reported(data, 1, *NOISY, *BOOTSTRAPPED)


def information(data: Data) -> list[Part]:
    """How much more of their reach the noisy learners lose, from one bit to the most."""
    bits = bits_of(data)
    if 1 not in bits or len(bits) < 2:
        raise Undecided("Not decided: it takes runs with one bit and with more.")
    most = bits[-1]

    def part(x: str, y: str) -> Part:
        few, many = log_reach(data, 1, x, y), log_reach(data, most, x, y)
        lost = [a[: len(b)] - b[: len(a)] for a, b in zip(few, many, strict=True)]
        seeds = min(map(len, lost))
        name = f"log of {shown(x)}'s loss of reach over {shown(y)}'s, from 1 bit to {most}"
        return Part(name, mean(lost[0][:seeds] - lost[1][:seeds]), More(RATIOS))

    return [part(x, y) for x in NOISY for y in BOOTSTRAPPED] + reported(data, most, *NOISY, *BOOTSTRAPPED, "rtrl")


def truncation(data: Data) -> list[Part]:
    """F-BPTT's reach with one bit, and how much further RTRL's is."""
    rtrl, truncated = log_reach(data, 1, "rtrl", "f-bptt")
    around = Within((1 - ABOUT) * HORIZON, (1 + ABOUT) * HORIZON)
    return [
        Part("reach of F-BPTT with 1 bit, in steps", mean(reach(data, 1, "f-bptt")), around),
        Part("log of RTRL's reach over F-BPTT's with 1 bit", mean(rtrl - truncated), More(RATIOS)),
        *reported(data, 1, "rtrl"),
    ]


def _claim(id: str, text: str, where: str, criterion: str, parts: Callable[[Data], list[Part]]) -> Claim:
    return Claim(id, text, where, criterion, parts, NAME)


CLAIMS = [
    _claim(
        "demands-horizon",
        "With little to remember, UORO and R-KF-RTRL learn longer lags than DNI and DNI(b), whose time horizon is "
        "limited.",
        "Discussion",
        f"{RATIO} With one bit, each of UORO and R-KF-RTRL over each of DNI and DNI(b). {ABOVE}",
        horizon,
    ),
    _claim(
        "demands-information",
        "With more to remember, UORO and R-KF-RTRL lose more of their reach than DNI and DNI(b), which have a larger "
        "information capacity.",
        "Discussion",
        f"{RATIO} A learner's loss is its reach with one bit over its reach with the most bits that were run: the loss "
        f"of each of UORO and R-KF-RTRL over that of each of DNI and DNI(b). {ABOVE}",
        information,
    ),
    _claim(
        "demands-truncation",
        f"F-BPTT learns lags up to about its horizon, T = {HORIZON}, and RTRL goes on.",
        "Discussion (open question)",
        f"{REACH} RTRL was run at one rate alone; F-BPTT counts at the best of three (full profile). With one bit, "
        f"F-BPTT's mean reach lies within a fifth of T, from {(1 - ABOUT) * HORIZON:g} to "
        f"{(1 + ABOUT) * HORIZON:g} steps, and the logarithm of RTRL's reach over F-BPTT's, paired by seed, is above "
        "zero. Holds if both intervals lie there; does not hold if either lies outside, or if that of the ratio "
        "contains zero and only ratios within a tenth of one.",
        truncation,
    ),
]
