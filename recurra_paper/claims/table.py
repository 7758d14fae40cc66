"""Claims about cost: every order of memory and of time in the paper's table of algorithms.

Orders are tested from above and from below, by bytes and operations counted in the program, at sizes up to 4,096
units. RTRL is counted as published.
"""

import numpy as np

from recurra_paper.analysis import exponent
from recurra_paper.claims.base import Claim, Data, Part, arrays
from recurra_paper.claims.rule import Within
from recurra_paper.experiments.scaling import HORIZONS
from recurra_paper.setup import shown

#: The orders of Table 1, memory and time; T and r are held while n grows, and n while they do.
ORDERS = {
    "rtrl": ("n³", "n⁴"),
    "uoro": ("n²", "n²"),
    "kf-rtrl": ("n²", "n³"),
    "r-kf-rtrl": ("n²", "n³"),
    "r-ok": ("rn²", "rn³"),
    "kernl": ("n²", "n²"),
    "rflo": ("n²", "n²"),
    "e-bptt": ("nT", "n²"),
    "f-bptt": ("nT", "n²T"),
    "dni": ("n²", "n²"),
}
#: How far from its order an exponent counted at finite n may lie, either way.
TOLERANCE = 0.1
WORDS = {"bytes": "bytes of state", "flops": "operations a step"}
#: why seconds need not follow the count
SECONDS = "Small networks are held up by the start of each operation, and large ones no longer fit into the caches."


def power(order: str) -> int:
    """The power of n in an order such as rn² or nT."""
    return {"²": 2, "³": 3, "⁴": 4}.get(order.partition("n")[2][:1], 1)


def other(order: str) -> str:
    """What an order depends on besides n, if anything."""
    return "".join(letter for letter in order if letter in "rT")


def around(number: int) -> Within:
    """Both sides of an exponent."""
    return Within(number - TOLERANCE, number + TOLERANCE)


def counted(data: Data, learner: str, key: str, relation: Within | None, called: str) -> Part:
    """The exponent of a count in n."""
    experiment = arrays(data, f"scaling/{learner}")
    n = np.asarray(experiment["count_n"], float)
    e = exponent(n, np.asarray(experiment[f"count_{key}"], float))
    used = f"(n from {n.min():,.0f} to {n.max():,.0f}, fitted over the upper half)"
    return Part(f"exponent of {called}'s {WORDS[key]} in n", e, relation, sampled=False, note=used)


def timed(data: Data, learner: str) -> Part:
    """The exponent of measured seconds, which decides nothing."""
    experiment = arrays(data, f"scaling/{learner}")
    e = exponent(np.asarray(experiment["n"], float), np.asarray(experiment["seconds"], float))
    return Part(f"exponent of {shown(learner)}'s seconds a step in n", e, None, note=SECONDS)


def grows(learner: str, key: str, order: str):
    """The exponent of a count in n, and in T or r where the algorithm has one; for time that of the seconds too."""

    def parts(data: Data) -> list[Part]:
        found = [counted(data, learner, key, around(power(order)), shown(learner))]
        if learner in HORIZONS:
            experiment, name = arrays(data, f"scaling/{learner}"), HORIZONS[learner]
            e = exponent(experiment["horizon"], experiment[f"horizon_{key}"])
            of = f"exponent of {shown(learner)}'s {WORDS[key]} in {name}"
            found.append(Part(of, e, around(len(other(order))), sampled=False))
        return found + ([timed(data, learner)] if key == "flops" else [])

    return parts


CLAIMS = [
    Claim(
        f"table-{what}-{learner}",
        f"{shown(learner)} takes {what} of order {order}.",
        "Table 1",
        f"The slope of log {WORDS[key]} on log n, counted in the program and not sampled. Holds if it is "
        f"{power(order)} ± {TOLERANCE}; does not hold if it is more or less."
        + (f" Likewise in {HORIZONS[learner]}, with {len(other(order))} ± {TOLERANCE}." if learner in HORIZONS else "")
        + (" RTRL is counted as published, with M brought up to date at every step." if learner == "rtrl" else "")
        + (" The exponent of the measured seconds is reported." if what == "time" else ""),
        grows(learner, key, order),
        "table1",
        counted=True,
    )
    for learner, orders in ORDERS.items()
    for what, key, order in zip(("memory", "time"), WORDS, orders, strict=True)
]
