"""What the processes of a search share: the journal of its trials, and the queue that hands trials out.

The journal is a file to which several processes add lines, and which a kill cannot spoil. Optuna's own locks are files
that a killed process leaves behind, and that others wait for half a minute. Here the system holds the lock and releases
it with the process. What a process wrote of a line before it was killed is cut off by the next that writes: Optuna
would add to it, and could not read the journal from then on.

Each trial has a place, a number from 0 on, and an owner, the process that computes it. A process holds a lock for as
long as it runs. Trials whose owner is gone are marked as failed and wait, under the same place, for another process.

Optuna's own queue does not suffice for that. It finds the trials of processes that are gone by a heartbeat, which its
journal does not have; and a trial that is repeated has a new number, so that after an interruption other batches would
be compared, and other settings tried, than in a search without one.
"""

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from recurra.saved.whole_files import InUseError, held
from recurra.studies.tuning.sampling import Proposals, distributions
from recurra.studies.tuning.tuned import TuningError

JOURNAL = "journal.log"
#: what was cut off the journal is added to this file
DAMAGED = "journal.damaged"
#: the folder in which every running process holds a lock
PROCESSES = "processes"

DONE = (TrialState.COMPLETE, TrialState.PRUNED)


@contextmanager
def optuna_silenced() -> Iterator[None]:
    """Optuna does not log new studies and trials within."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def open_storage(folder: Path) -> JournalStorage:
    """The journal in this folder, or a new one. `TuningError` if it is damaged elsewhere than at its end."""
    path = folder / JOURNAL
    lock = SystemLock(path)
    with contextlib.ExitStack() as release:
        lock.acquire()
        release.callback(lock.release)
        _check(path)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


class SystemLock(JournalFileOpenLock):
    """Held by the system for as long as the process lives; the journal ends with a whole line once it is held."""

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal))
        self.journal = journal
        self._to_release = contextlib.ExitStack()

    def acquire(self) -> bool:
        with contextlib.ExitStack() as to_release:
            if not to_release.enter_context(held(self.journal, wait=True)):
                super().acquire()
                to_release.callback(super().release)
            _cut_partial_line(self.journal)
            self._to_release = to_release.pop_all()
        return True

    def release(self) -> None:
        self._to_release.close()


def _cut_partial_line(journal: Path) -> None:
    """Take away a last line without an end."""
    with contextlib.suppress(FileNotFoundError), journal.open("rb") as file:
        file.seek(max(journal.stat().st_size - 1, 0))
        if file.read() not in (b"", b"\n"):
            _cut_from(journal, journal.read_bytes().rfind(b"\n") + 1)


def _cut_from(journal: Path, start: int) -> None:
    """Move what comes from this byte on to the file of damaged lines."""
    with journal.open("r+b") as file, journal.with_name(DAMAGED).open("ab") as kept:
        file.seek(start)
        kept.write(file.read().rstrip(b"\n") + b"\n")
        file.truncate(start)


def _check(journal: Path) -> None:
    """See that every line can be read; take away a last one that cannot."""
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    for number, line in enumerate(lines, 1):
        if _is_readable(line):
            continue
        if number < len(lines):
            raise TuningError(
                f"{journal}, line {number} of {len(lines)} cannot be read: {line[:60]!r}. It was damaged after it was "
                "written. Put a copy of the journal in its place, or remove that line and all after it: what they say "
                "is then done again."
            )
        _cut_from(journal, sum(map(len, lines[:-1])))


def _is_readable(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:  # also that of bytes that are no text
        return False


@contextmanager
def registered_process(folder: Path) -> Iterator[str]:
    """A name for this process, by which others see that it is running."""
    (folder / PROCESSES).mkdir(parents=True, exist_ok=True)
    owner = secrets.token_hex(8)
    with held(folder / PROCESSES / owner):
        yield owner


@dataclass(frozen=True)
class TrialQueue:
    """The trials of a study, as one process sees them."""

    study: Study
    folder: Path
    owner: str
    proposals: Proposals

    def take(self, width: int) -> list[Trial]:
        """The next trials that nobody computes, `width` or fewer; none if the others have them all.

        They are of one batch: where some of it were finished before the search was interrupted, only the others.
        """
        with held(self.folder / "asking", wait=True):
            self._release([trial for trial in self._known(TrialState.RUNNING) if not self._lives(trial)])
            taken = self._places(*DONE, TrialState.RUNNING)
            batches = [place // width for place in range(self.proposals.trials) if place not in taken]
            return [self._ask() for _ in range(batches.count(batches[0]))] if batches else []

    def give_back(self) -> None:
        """Leave this process's trials that are not finished to whoever comes next."""
        with held(self.folder / "asking", wait=True):
            running = self._known(TrialState.RUNNING)
            self._release([trial for trial in running if trial.user_attrs.get("owner") == self.owner])

    def finished(self) -> int:
        """How many trials are done."""
        return len(self._known(*DONE))

    def _known(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states)

    def _places(self, *states: TrialState) -> set[int]:
        return {trial.user_attrs["place"] for trial in self._known(*states)}

    def _ask(self) -> Trial:
        if not self._known(TrialState.WAITING):
            taken = self._places(*DONE, TrialState.RUNNING)
            place = next(place for place in range(len(taken) + 1) if place not in taken)
            self.study.enqueue_trial(self.proposals.given(place, self.finished()), user_attrs={"place": place})
        self.study.sampler = self.proposals.sampler(self._known(TrialState.WAITING)[0].user_attrs["place"])
        trial = self.study.ask(distributions(self.proposals.space))
        trial.set_user_attr("owner", self.owner)
        return trial

    def _release(self, lost: Sequence[FrozenTrial]) -> None:
        # Whoever is killed in between leaves a trial twice, running and waiting. So the waiting one comes first, and is
        # looked for.
        waiting = self._places(TrialState.WAITING)
        for trial in lost:
            place = trial.user_attrs["place"]
            if place not in waiting and trial.params.keys() == self.proposals.space.keys():
                self.study.enqueue_trial(dict(trial.params), user_attrs={"place": place})
            self.study.tell(trial.number, state=TrialState.FAIL)

    def _lives(self, trial: FrozenTrial) -> bool:
        """Whether the trial's owner does. One without an owner was asked for by a process that died while asking."""
        try:
            with held(self.folder / PROCESSES / trial.user_attrs.get("owner", "nobody")):
                return False
        except InUseError:
            return True
