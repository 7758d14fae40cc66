"""Every learner on `Recall`, over lags and numbers of bits.

A number of bits is a sweep over lags and over the learning rates of plain gradient descent, and a learner counts at the
rate that suits it best for the lag. Pilot runs, on seeds that are not used here, showed that one rate would decide the
comparison. At 1e-3 RTRL learns a lag of 14 steps within 200,000 steps; a tenth of that rate would need ten times the
steps. UORO and R-KF-RTRL learn a lag of 8 steps at 1e-4; at 1e-3 their noise drives them away even from a lag of 6.
RTRL and r-OK, which take ten times as long as the others, run at 1e-3 alone, which suited F-BPTT's exact gradients
best. In the full profile r-OK also runs with fewer seeds.

The same pilot chose the rates of the learned parts of DNI and DNI(b) among 0.001, 0.003, 0.01 and 0.05 (DNI(b)'s
Jacobian at 0.001, 0.003 or 0.01). The ones below were the best, or nearly, with 1, 4 and 8 bits alike; 0.05, the
paper's for DNI on Add, makes DNI diverge with 8 bits.

A lag stops being run where it asks for far more than 32 units can hold; see `capacity` in `reach`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from recurra import Learner, Network, SquaredError, cells, learners
from recurra_paper.beyond.demands.task import Recall
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.sweep import Sweep
from recurra_paper.setup import LEARNERS, N

#: take about ten times as long as the others, and run at the largest rate alone
SLOW = ("rtrl", "r-ok")
#: rates of what is learned inside a learner, where they are not the library's defaults
TUNED: Mapping[str, Learner] = {"dni": learners.DNI(0.01), "dni-b": learners.DNIb(0.05, 0.01)}


class Scale(NamedTuple):
    """Lags by number of bits, and the rest of the grid."""

    lags: Mapping[int, tuple[int, ...]]
    learners: tuple[str, ...]
    rates: tuple[float, ...]
    seeds: int
    #: of learners that are run with fewer seeds
    slow_seeds: Mapping[str, int]
    steps: int


CLAIMED = ("rtrl", "uoro", "r-kf-rtrl", "f-bptt", "dni", "dni-b", "fixed")
SCALES = {
    "full": Scale(
        {
            1: (2, 4, 6, 8, 10, 12, 14, 20, 40),
            2: (2, 4, 6, 8, 10, 14),
            4: (1, 2, 3, 4, 6, 8, 10, 14),
            8: (1, 2, 3, 4, 6, 8),
        },
        LEARNERS,
        (1e-4, 3e-4, 1e-3),
        4,
        {"r-ok": 1},
        200_000,
    ),
    "quick": Scale({1: (4, 6, 8, 10, 12), 4: (1, 2, 3, 4, 6)}, CLAIMED, (1e-4, 1e-3), 3, {}, 40_000),
    "tiny": Scale({1: (1, 3), 2: (1, 2)}, ("dni", "fixed"), (1e-3,), 2, {}, 300),
}


def sweep(bits: int, learner: str, scale: Scale) -> Sweep:
    """One learner over all lags and rates for a number of bits."""
    return Sweep(
        f"demands/{bits}/{learner}",
        Network(cells.RNN(n_in=bits, n=N), n_out=bits, loss=SquaredError()),
        {learner: TUNED[learner] if learner in TUNED else learners.LEARNERS[learner]()},
        {str(lag): Recall(bits, lag) for lag in scale.lags[bits]},
        scale.rates[-1:] if learner in SLOW else scale.rates,
        scale.slow_seeds.get(learner, scale.seeds),
        scale.steps,
    )


def experiments(profile: Profile) -> list[Experiment]:
    """A sweep for every number of bits and learner."""
    scale = SCALES[profile.name]
    return [sweep(bits, learner, scale) for bits in scale.lags for learner in scale.learners]
