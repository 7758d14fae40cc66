"""Trials of one study, shared out among processes that come and go.

Each trial has a place, a number from 0 on, and an owner, the process that computes it. A process holds a lock for as
long as it lives. Trials whose owner is gone are marked as failed and wait, under the same place, for someone else.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from recurra.saved.whole_files import InUseError, held
from recurra.studies.tuning.sampling import Samples

PROCESSES = "processes"
#: seconds between two looks at whether a lock is free
PATIENCE = 0.02

DONE = (TrialState.COMPLETE, TrialState.PRUNED)


@contextmanager
def present(folder: Path) -> Iterator[str]:
    """A name for this process, by which others see that it lives."""
    (folder / PROCESSES).mkdir(parents=True, exist_ok=True)
    owner = secrets.token_hex(8)
    with held(folder / PROCESSES / owner):
        yield owner


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Have `path` to oneself, once those before are done."""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(held(path))
                break
            except InUseError:
                time.sleep(PATIENCE)
        yield


@dataclass(frozen=True)
class Queue:
    """The trials of a study, as one process sees them."""

    study: Study
    folder: Path
    owner: str
    samples: Samples

    def take(self, width: int) -> list[Trial]:
        """The next trials that nobody computes, `width` or fewer; none if the others have them all.

        They are of one batch: where some of it were finished before the search was interrupted, only the others.
        """
        with alone(self.folder / "asking"):
            self._release([trial for trial in self._known(TrialState.RUNNING) if not self._lives(trial)])
            taken = {trial.user_attrs["place"] for trial in self._known(*DONE, TrialState.RUNNING)}
            batches = [place // width for place in range(self.samples.trials) if place not in taken]
            return [self._ask() for _ in range(batches.count(batches[0]))] if batches else []

    def give_back(self) -> None:
        """Leave this process's trials that are not finished to whoever comes next."""
        with alone(self.folder / "asking"):
            running = self._known(TrialState.RUNNING)
            self._release([trial for trial in running if trial.user_attrs.get("owner") == self.owner])

    def finished(self) -> int:
        """How many trials are done."""
        return len(self._known(*DONE))

    def _known(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states)

    def _ask(self) -> Trial:
        waiting = self._known(TrialState.WAITING)
        place = waiting[0].user_attrs["place"] if waiting else self._free_place()
        # a waiting trial has its settings, and the sampler is not asked
        self.study.sampler = self.samples.at(place, self.finished())
        trial = self.study.ask(dict(self.samples.space))
        trial.set_user_attr("place", place)
        trial.set_user_attr("owner", self.owner)
        return trial

    def _free_place(self) -> int:
        live = self._known(*DONE, TrialState.RUNNING, TrialState.WAITING)
        taken = {trial.user_attrs.get("place") for trial in live}
        return next(place for place in range(len(taken) + 1) if place not in taken)

    def _release(self, lost: Sequence[FrozenTrial]) -> None:
        # Whoever is killed in between leaves a trial twice, running and waiting. So the waiting one comes first, and is
        # looked for.
        waiting = {trial.user_attrs["place"] for trial in self._known(TrialState.WAITING)}
        for trial in lost:
            place = trial.user_attrs.get("place")
            if place is not None and place not in waiting and trial.params.keys() == self.samples.space.keys():
                self.study.enqueue_trial(dict(trial.params), user_attrs={"place": place})
            self.study.tell(trial.number, state=TrialState.FAIL)

    def _lives(self, trial: FrozenTrial) -> bool:
        """Whether the trial's owner does. One without an owner was asked for by a process that died while asking."""
        owner = trial.user_attrs.get("owner")
        if owner is None:
            return False
        try:
            with held(self.folder / PROCESSES / owner):
                return False
        except InUseError:
            return True
