"""The search of one case: batches of trials that are computed side by side, from one comparison to the next."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import Trial, TrialState

from recurra.studies.tuning.halving import LARGEST, lost_seeds, merit
from recurra.studies.tuning.objective import Objective, Point, TuningError
from recurra.studies.tuning.queue import Queue

#: rounds that a search has at least: a batch of all trials could learn nothing from any of them
ROUNDS = 4
#: seconds between two looks at whether the others are done
PATIENCE = 0.25


def width(batch: int, trials: int, startup: int) -> int:
    """How many trials are computed at the same time, where `batch` would be welcome: fewer, if that finds better ones.

    Those that are spread evenly learn nothing from each other, and are best compared all at once.
    """
    return min(batch, max(startup, -(-trials // ROUNDS)))


@dataclass(frozen=True)
class Work:
    """What is computed for a case, and who is told of it."""

    objective: Objective
    case: Point
    seeds: Sequence[int]
    #: after which steps trials are compared; the last is where they end
    stops: Sequence[int]
    #: takes the phase of the search, and how many network-steps were taken
    report: Callable[[str, int], object]

    def start(self, settings: Sequence[dict[str, Any]], seeds: Sequence[int]) -> Any:
        """A handle for networks with these settings."""
        return self.objective.start([{**self.case, **each} for each in settings], seeds)

    def advance(self, handle: Any, rows: Sequence[int], stop: int, seeds: int) -> tuple[Any, np.ndarray]:
        """The objective's answer, seen to have the right shape."""
        handle, losses = self.objective.advance(handle, rows, stop)
        if np.shape(losses) != (len(rows), seeds):
            raise TuningError(f"{len(rows)} trials of {seeds} seeds were computed, and losses are {np.shape(losses)}.")
        return handle, losses


def search(queue: Queue, work: Work, batch: int) -> None:
    """Compute trials until there are enough of them, among all processes."""
    try:
        while queue.finished() < queue.samples.trials:
            trials = queue.take(batch)
            if trials:
                _climb(queue.study, trials, work)
            else:
                time.sleep(PATIENCE)  # others have the last ones; should they die, these are taken up here
    except UpdateFinishedTrialError:
        raise TuningError(
            f"Trials of this process were taken over by another, as if this one had ended: {queue.folder} is on a file "
            "system without locks. Use one process there, or another folder."
        ) from None
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk may be why it ends; the next process takes them then
            queue.give_back()
        raise


def _climb(study: Study, trials: Sequence[Trial], work: Work) -> None:
    """Take a batch from comparison to comparison, and tell the study what became of it."""
    handle = work.start([trial.params for trial in trials], work.seeds)
    rows, before = list(range(len(trials))), 0
    for stop in work.stops:
        last = stop == work.stops[-1]
        handle, losses = work.advance(handle, rows, stop, len(work.seeds))
        trials = [trials[row] for row in rows]
        values = [merit(row) for row in losses]
        for trial, row, value in zip(trials, losses, values, strict=True):
            trial.set_user_attr(f"losses {stop}", plain(row))
            trial.report(value, stop)
        # the whole batch is reported before anyone is compared, and compared before anyone is told
        ends = [last or trial.should_prune() for trial in trials]
        for trial, value, end in zip(trials, values, ends, strict=True):
            if end:
                _tell(study, trial, value, whole=last)
        work.report("search", len(trials) * len(work.seeds) * (stop - before))
        rows, before = [row for row, end in enumerate(ends) if not end], stop
        if not rows:
            break


def plain(losses: np.ndarray) -> list[float | None]:
    """Losses as JSON has them: None where a network diverged."""
    return [float(loss) if abs(loss) <= LARGEST else None for loss in losses]


def _tell(study: Study, trial: Trial, value: float, whole: bool) -> None:
    if lost := lost_seeds(value):
        # else TPE takes it for better than all that were stopped before
        trial.set_constraint("diverged seeds", lost)
    if whole:
        study.tell(trial, value)
    else:
        study.tell(trial, state=TrialState.PRUNED)
