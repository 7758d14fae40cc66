"""Successive halving: all trials take a few steps, the best of them more, the best of those all steps.

The first look must not be early. Of the rates of RFLO and UORO for Add, those that are best after a ninth of 100,000
steps are too large in the end: UORO then forgets what it had learned. With looks after a quarter and half of all steps,
where one trial in two goes on, the loss was above the lowest by 0.0016 and 0.0004. At the same cost, with looks after a
ninth and a third, where one in three goes on, it was by 0.0041 and 0.0045.
"""

from collections.abc import Sequence

import numpy as np
from optuna.pruners import BasePruner
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

#: A network with a larger loss counts as diverged.
LARGEST = 1e6
#: What each diverged seed adds to a trial's loss: a trial with fewer of them is better, whatever the losses of the
#: others are. So numbers stay finite and in order, as storage and sampler want them.
DIVERGED = 1e9


def looks(steps: int, window: int, rungs: int, eta: int) -> tuple[int, ...]:
    """After which steps trials are compared: whole windows, about `eta` times as many each time, `steps` last."""
    parts = (steps / eta**left for left in range(rungs - 1, 0, -1))
    early = {max(1, round(part / window)) * window for part in parts}
    # The last loss is a mean over a tenth of the steps, all of which must come after the last comparison.
    return (*sorted(stop for stop in early if stop <= 0.9 * steps), steps)


def diverged(losses: np.ndarray) -> np.ndarray:
    """Where a loss is that of a diverged network."""
    return ~(np.abs(losses) <= LARGEST)


def merit(losses: Sequence[float | None] | np.ndarray) -> float:
    """A trial's losses over seeds as one number, lower is better: their mean, and `DIVERGED` for each that diverged."""
    found = np.asarray(losses, float)
    lost = diverged(found)
    return float(found[~lost].mean() if not lost.all() else 0.0) + DIVERGED * int(lost.sum())


def lost_seeds(value: float) -> int:
    """How many seeds diverged in a trial of this merit."""
    return round(value / DIVERGED)


class Halving(BasePruner):
    """A trial goes on if it is among the best of all that were reported after as many steps, one in `eta` of them.

    Optuna's SuccessiveHalvingPruner compares a trial with those asked about before it alone, so that in a batch the
    first always goes on and the order decides. Here a whole batch is reported before anyone asks.
    """

    def __init__(self, eta: int, seeds: int) -> None:
        self.eta = eta
        self.seeds = seeds

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None:
            return False
        own = trial.intermediate_values[step]
        if lost_seeds(own) == self.seeds:
            return True
        rivals = [
            other.intermediate_values[step]
            for other in study.get_trials(deepcopy=False)
            # a failed trial is done again
            if step in other.intermediate_values and other.state != TrialState.FAIL
        ]
        return sum(value < own for value in rivals) >= max(1, len(rivals) / self.eta)
