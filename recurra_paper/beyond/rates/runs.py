"""Every learner over learning rates, DNI and KeRNL over the rates of their own, and long runs of the slow learners.

The grids are those of plain descent at α = 1, the paper's setup but for the learning rate. `rates/own` holds that rate
and varies the one with which DNI fits its predictor and KeRNL its kernel, zero included. The stability of least
squares bounds both from above: at about 0.1 for DNI, whose features have a squared norm of some 20, and at about 6e4
for KeRNL, whose perturbations have a variance of 1e-6 and 32 entries. `rates/long` asks what patience can do on Add.
"""

from typing import NamedTuple

from recurra import Learner, learners
from recurra_paper.beyond.grids import grids
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.sweep import Sweep
from recurra_paper.experiments.training import Trained
from recurra_paper.setup import TASKS, learner_of, network_of, task_of

ALPHA = "1"
#: the rates of their own that DNI and KeRNL fit with; the paper's, on Add at α = 1, are 0.05 and 5
PAPERS_OWN = {"dni": 0.05, "kernl": 5.0}
#: learners of the long runs; RTRL stops after a tenth of the steps
LONG = ("rflo", "kernl", "dni-b", "uoro", "fixed", "rtrl")


#: the grids that are read here
GRIDS = tuple(f"grid/descent/{task}/{ALPHA}/" for task in TASKS)


class Scale(NamedTuple):
    """Powers of ten, in halves, by which own rates differ from the paper's, and the learners of the long runs."""

    #: the paper's rate, or a larger one where there is no time for it
    rate: float
    own: dict[str, tuple[float, ...]]
    own_seeds: int
    own_steps: int
    long: tuple[str, ...]
    long_seeds: int
    long_steps: int


def halves(low: float, high: float) -> tuple[float, ...]:
    """low, low + 0.5, ... high."""
    return tuple(low + 0.5 * i for i in range(round(2 * (high - low)) + 1))


SCALES = {
    "full": Scale(1e-4, {"dni": halves(-4.5, 1.5), "kernl": halves(-2.0, 4.0)}, 40, 1_000_000, LONG, 12, 10_000_000),
    "quick": Scale(
        1e-3,
        {"dni": halves(-2.0, 1.0)[::2], "kernl": halves(-1.0, 4.0)[::2]},
        3,
        60_000,
        LONG[:2] + LONG[-2:],
        3,
        600_000,
    ),
    "tiny": Scale(1e-3, {"dni": (0.0,)}, 2, 300, ("fixed",), 2, 1_000),
}


def with_own_rate(name: str, rate: float) -> Learner:
    """DNI or KeRNL with another rate of its own."""
    return learners.DNI(rate) if name == "dni" else learners.KeRNL(rate)


def own(learner: str, scale: Scale) -> Sweep:
    """DNI or KeRNL on Add over rates of its own; fixed W, which has none, to compare with."""
    condition = task_of("add", ALPHA)
    known = {learner: learner_of(learner, "add", ALPHA)}
    if learner in scale.own:
        rates = [0.0, *(PAPERS_OWN[learner] * 10**power for power in scale.own[learner])]
        known = {f"{rate:.3g}": with_own_rate(learner, rate) for rate in rates}
    network, size = network_of(condition, ALPHA), (scale.own_seeds, scale.own_steps)
    return Sweep(f"rates/own/{learner}", network, known, {"add": condition}, (scale.rate,), *size)


def long(learner: str, scale: Scale) -> Trained:
    """A long run on Add."""
    condition = task_of("add", ALPHA)
    steps = scale.long_steps // 10 if learner == "rtrl" else scale.long_steps
    built = network_of(condition, ALPHA), learner_of(learner, "add", ALPHA), condition
    return Trained(f"rates/long/{learner}", *built, scale.long_seeds, steps, scale.rate)


def experiments(profile: Profile) -> list[Experiment]:
    """Grids, own rates and long runs."""
    scale = SCALES[profile.name]
    return [
        *(each for each in grids(profile) if each.name.startswith(GRIDS)),
        *(own(learner, scale) for learner in (*scale.own, "fixed")),
        *(long(learner, scale) for learner in scale.long),
    ]
