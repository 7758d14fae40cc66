"""Claims about the exact methods: which terms their gradients sum, and when they agree."""

import math

import numpy as np

from recurra.analysis import Estimate, exponent, mean
from recurra.paper.claims.base import Claim, Data, Part, Region, arrays, shown

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
    return [Part("power of the rate with which the distance vanishes", mean(powers), Region(LEAST_POWER), note=note)]


def sums(data: Data) -> list[Part]:
    """The share of emitted gradients that sum what their kind should."""
    # which applications s and losses t enter: all s up to the present and one t; one s and all t since; all within T
    one_loss = lambda s, t, e: set(t) == {e} and set(s) == set(range(e + 1))
    one_use = lambda s, t, e: len(set(s)) == 1 and set(t) == set(range(min(s), e + 1))
    block = lambda s, t, e: (
        set(zip(s, t, strict=True)) == {(i, j) for j in range(min(s), e + 1) for i in range(min(s), j + 1)}
    )

    def part(learner: str, kind) -> Part:
        experiment = arrays(data, f"lattice/{learner}")
        emitted = np.flatnonzero(experiment["emits"])
        pairs = {int(e): np.nonzero(experiment["enters"][e]) for e in emitted}
        right = [len(s) > 0 and kind(s.tolist(), t.tolist(), e) for e, (s, t) in pairs.items()]
        share = float(np.mean(right)) if right else math.nan
        return Part(
            f"share of {shown(learner)}'s gradients of the stated form",
            Estimate(share, 0.0, math.inf),
            Region(1.0),
            False,
        )

    return [part("rtrl", one_loss), part("f-bptt", one_use), part("e-bptt", block)]


SMALL_RATE = Claim(
    "rtrl-bptt",
    "RTRL and BPTT change the weights alike where learning is slow.",
    "Introduction",
    "The distance of the two changes of the weights, relative to their norm, as a power of the learning rate, fitted over "
    f"the lower half of the rates at each seed. Holds if the interval lies above {LEAST_POWER}: at least in proportion to "
    "the rate; fails if it lies below.",
    vanishes,
)

LATTICE = Claim(
    "facings",
    "RTRL sums one loss over all earlier uses of the weights, F-BPTT one use over the losses that follow within its "
    "horizon, and E-BPTT all pairs within a block.",
    "Sections 2 and 5, Figures 1 and 3",
    "Which pairs of a use and a loss enter each emitted gradient, found by differentiation. Holds if all do as stated.",
    sums,
)
