"""Claims about cost: every order of memory and of time in the paper's table of algorithms."""

from dataclasses import replace

import numpy as np

from recurra.paper.analysis import exponent
from recurra.paper.claims.base import Claim, Data, Part, Region, Undecided, arrays
from recurra.paper.experiments.scaling import HORIZONS
from recurra.paper.setup import shown

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
#: How far above its order an exponent measured at finite n may lie.
TOLERANCE = 0.15


def power(order: str) -> int:
    """The power of n in an order such as rn² or nT."""
    return {"²": 2, "³": 3, "⁴": 4}.get(order.partition("n")[2][:1], 1)


def other(order: str) -> str:
    """What an order depends on besides n, if anything."""
    return "".join(letter for letter in order if letter in "rT")


def grows(learner: str, key: str, order: str):
    """The exponent of a count in n, and in T or r where the algorithm has one; for time that of the seconds too."""

    def fitted(data: Data, key: str, region: Region | None) -> Part:
        experiment = arrays(data, f"scaling/{learner}")
        n, y = np.asarray(experiment["n"], float), np.asarray(experiment[key], float)
        known = np.isfinite(y) & (y > 0)
        if known.sum() < 2:
            raise Undecided(f"Not decided: the {WORDS[key]} of {shown(learner)} are not known at two sizes.")
        e = exponent(n[known], y[known])
        used = f"(n from {n[known].min():.0f} to {n[known].max():.0f}, fitted over the upper half)"
        return Part(f"exponent of {shown(learner)}'s {WORDS[key]} in n", e, region, sampled=False, note=used)

    def parts(data: Data) -> list[Part]:
        region = Region(high=power(order) + TOLERANCE)
        if key == "state_bytes":
            return [fitted(data, key, region), *along(data)]
        seconds = fitted(data, "seconds", None)
        measured = f"Seconds grow with exponent {seconds.estimate.value:.2f} ± {seconds.estimate.error:.1g}."
        try:
            counted = fitted(data, key, region)
        except Undecided as reason:
            raise Undecided(f"{reason} {measured}") from reason
        return [replace(counted, note=f"{counted.note} {measured}"), *along(data), seconds]

    def along(data: Data) -> list[Part]:
        if learner not in HORIZONS:
            return []
        experiment, name = arrays(data, f"scaling/{learner}"), HORIZONS[learner]
        e = exponent(experiment["horizon"], experiment["horizon_bytes" if key == "state_bytes" else "horizon_flops"])
        region = Region(high=len(other(order)) + TOLERANCE)
        return [Part(f"exponent of {shown(learner)}'s {WORDS[key]} in {name}", e, region, sampled=False)]

    return parts


WORDS = {"state_bytes": "bytes of state", "flops": "operations a step", "seconds": "seconds a step"}

CLAIMS = [
    Claim(
        f"table-{what}-{learner}",
        f"{shown(learner)} takes {what} of order {order}.",
        "Table 1",
        f"The slope of log {WORDS[key]} on log n, counted in the program and not sampled. Holds if it is at most "
        f"{power(order)} + {TOLERANCE}; fails if it is more."
        + (f" Likewise in {HORIZONS[learner]}, with {len(other(order))} + {TOLERANCE}." if learner in HORIZONS else "")
        + (" The exponent of the measured seconds is reported." if what == "time" else ""),
        grows(learner, key, order),
    )
    for learner, orders in ORDERS.items()
    for what, key, order in zip(("memory", "time"), ("state_bytes", "flops"), orders, strict=True)
]
