"""Claims about the exact methods: which terms their gradients sum, and when they agree."""

import math
from collections.abc import Callable

import numpy as np

from recurra_paper.analysis import Estimate, exponent, mean
from recurra_paper.claims.base import Claim, Data, Part, arrays
from recurra_paper.claims.rule import Within
from recurra_paper.setup import shown

#: The least power of the learning rate with which the distance must vanish: one, less what a fit may be off.
LEAST_POWER = 0.85


def vanishes(data: Data) -> list[Part]:
    """The power p of distance ~ rate^p over the lower half of the rates, at each seed."""
    experiment = arrays(data, "small-rate")
    rate, distance = np.asarray(experiment["rate"], float), np.asarray(experiment["distance"], float)
    powers = np.array([-exponent(1 / rate, seed).value for seed in distance])
    smallest = int(np.argmin(rate))
    note = (
        f"At rate {rate[smallest]:.1g} the weight changes differ by {np.mean(distance[:, smallest]):.2g} of their norm."
    )
    return [Part("power of the rate with which the distance vanishes", mean(powers), Within(LEAST_POWER), note=note)]


def sums(data: Data) -> list[Part]:
    """The share of emitted gradients that sum what their kind should."""
    # The uses s and losses t that enter: all s up to now and one t; one s and all t since; all pairs of a block.
    triangle = lambda first, e: {(s, t) for t in range(first, e + 1) for s in range(first, t + 1)}
    one_loss = lambda pairs, first, e: pairs == {(s, e) for s in range(e + 1)}
    one_use = lambda pairs, first, e: first < e and pairs == {(first, t) for t in range(first, e + 1)}
    block = lambda pairs, first, e: first < e and pairs == triangle(first, e)

    def part(learner: str, right: Callable[[set, int, int], bool]) -> Part:
        experiment = arrays(data, f"lattice/{learner}")
        found = {int(e): np.argwhere(experiment["enters"][e]).tolist() for e in np.flatnonzero(experiment["emits"])}
        fits = [bool(p) and right({(s, t) for s, t in p}, min(s for s, _ in p), e) for e, p in found.items()]
        share = Estimate(float(np.mean(fits)) if fits else math.nan, 0.0, math.inf)
        name = f"share of {shown(learner)}'s gradients of the stated form"
        return Part(name, share, Within(1.0, 1.0), sampled=False)

    return [part("rtrl", one_loss), part("f-bptt", one_use), part("e-bptt", block)]


SMALL_RATE = Claim(
    "rtrl-bptt",
    "RTRL and BPTT change the weights alike where learning is slow.",
    "Introduction",
    "The distance of the two changes of the weights, relative to their norm, as a power of the learning rate, fitted "
    f"over the lower half of the rates at each seed. Holds if the interval lies above {LEAST_POWER}: at least in "
    "proportion to the rate; does not hold if it lies below.",
    vanishes,
    "past_future",
)

LATTICE = Claim(
    "facings",
    "RTRL sums one loss over all earlier uses of the weights, F-BPTT one use over the losses that follow within its "
    "horizon, and E-BPTT all pairs within a block.",
    "Sections 2 and 4.1, Figures 1 and 3",
    "Which pairs of a use and a loss enter each emitted gradient, found by differentiation. Holds if all do as stated; "
    "does not hold if any does not.",
    sums,
    "triangles",
    counted=True,
)
