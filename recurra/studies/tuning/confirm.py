"""The best of a search on seeds that it has not seen.

The lowest of many noisy losses is too low, because it was chosen for being low. So the best few are computed again on
fresh seeds, and the best of these is chosen. Its loss on further seeds, which chose nothing, is the one to report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from recurra.studies.tuning.halving import lost_seeds, merit
from recurra.studies.tuning.search import Work, plain


@dataclass(frozen=True)
class Measured:
    """Losses of some trials on the same seeds; None where a network diverged."""

    #: places of the trials in the study
    places: tuple[int, ...]
    seeds: tuple[int, ...]
    losses: tuple[tuple[float | None, ...], ...]

    def best(self) -> int:
        """The place of the trial with the lowest mean, and the fewest diverged seeds."""
        return self.places[int(np.argmin([merit(row) for row in self.losses]))]


def finalists(study: Study, most: int, seeds: int) -> list[FrozenTrial]:
    """The best trials that reached the last step: their settings differ, and as few seeds diverged as in the best."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    best: list[FrozenTrial] = []
    for trial in sorted(done, key=lambda trial: (trial.values[0], trial.user_attrs["place"])):
        lost = lost_seeds(trial.values[0])
        if lost == seeds or (best and lost > lost_seeds(best[0].values[0])) or len(best) == most:
            break
        if all(trial.params != other.params for other in best):
            best.append(trial)
    return best


def fresh(last: int, count: int) -> tuple[int, ...]:
    """So many seeds after the last that was used."""
    return tuple(range(last + 1, last + 1 + count))


def measured(study: Study, phase: str, work: Work, trials: Sequence[FrozenTrial], seeds: Sequence[int]) -> Measured:
    """These trials on these seeds: as the study has kept them under this phase, or computed and kept there."""
    places = [trial.user_attrs["place"] for trial in trials]
    kept: dict[str, Any] = study.user_attrs.get(phase, {})
    if (kept.get("places"), kept.get("seeds")) != (places, [*seeds]):
        handle = work.start([trial.params for trial in trials], seeds)
        _, losses = work.advance(handle, range(len(trials)), work.stops[-1], len(seeds))
        kept = {"places": places, "seeds": [*seeds], "losses": [plain(row) for row in losses]}
        study.set_user_attr(phase, kept)
        work.report(phase, len(trials) * len(seeds) * work.stops[-1])
    return Measured(tuple(places), tuple(seeds), tuple(tuple(row) for row in kept["losses"]))
