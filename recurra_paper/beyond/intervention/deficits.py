"""How far runs end behind RTRL, and in which units that is measured.

A learner's deficit is its final loss less RTRL's, paired by seed. UORO's and R-KF-RTRL's deficits are small against the
gap, which is fixed W's loss less RTRL's. So what becomes of a deficit is measured in units of that deficit itself.
RFLO's deficit is large, and is measured in gaps. Units must be known to be above zero.
"""

import numpy as np

from recurra_paper.analysis import Estimate, mean, relative, scored
from recurra_paper.beyond.intervention.runs import NOISY, copies_name, numbers, reference_name
from recurra_paper.claims.base import Data, Undecided, arrays
from recurra_paper.setup import shown


def lost(data: Data, name: str, other: str = reference_name("rtrl")) -> np.ndarray:
    """How far a run ends behind another one, RTRL's if none is named, at each seed that both have."""
    runs = [arrays(data, run) for run in (name, other, reference_name("fixed"))]
    seeds = min(len(run["loss"]) for run in runs)
    one, two, baseline = ({key: run[key][:seeds] for key in ("loss", "diverged")} for run in runs)
    return scored(one, baseline) - scored(two, baseline)


def deficit(data: Data, learner: str) -> np.ndarray:
    """A noisy learner's loss less RTRL's at each seed."""
    return _above_zero(lost(data, copies_name(learner, 1)), f"the final loss of {shown(learner)} less RTRL's")


def gap(data: Data) -> np.ndarray:
    """Fixed W's loss less RTRL's at each seed."""
    return _above_zero(lost(data, reference_name("fixed")), "the final loss of fixed W less RTRL's")


def _above_zero(values: np.ndarray, what: str) -> np.ndarray:
    e = mean(values)
    if not e.interval()[0] > 0:
        raise Undecided(
            f"Not decided: {what} is not above zero beyond doubt ({e.value:.2g} ± {e.error:.1g}), so that nothing can "
            "be measured in units of it."
        )
    return values


def in_deficits(data: Data, learner: str, d: np.ndarray) -> Estimate:
    """A difference of losses, in units of a learner's deficit at the same seeds."""
    return relative(d, deficit(data, learner)[: len(d)])


def in_gaps(data: Data, d: np.ndarray) -> Estimate:
    """A difference of losses, in gaps."""
    return relative(d, gap(data)[: len(d)])


def judged(data: Data) -> list[str]:
    """UORO, and R-KF-RTRL where it was run."""
    return [learner for learner in NOISY if learner == NOISY[0] or copies_name(learner, 1) in data]


def copies_of(data: Data, learner: str) -> list[int]:
    """The numbers of copies that were run, more than one."""
    found = [k for k in numbers(data, copies_name(learner, 1)[:-1]) if k > 1]
    if not found:
        raise Undecided(f"Not decided: no mean of copies of {shown(learner)} was run.")
    return found


def diverged(data: Data, *names: str) -> str:
    """How many seeds of these runs diverged, in words."""
    counts = {name: int((np.asarray(data[name]["diverged"]) >= 0).sum()) for name in names}
    return " ".join(f"{name} diverged at {count} seeds." for name, count in counts.items() if count)
