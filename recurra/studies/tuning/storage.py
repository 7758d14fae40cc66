"""What the processes of a search share: the journal of its trials, and the queue that hands trials out.

The journal is a file to which several processes add lines, and which a kill cannot spoil. Optuna's own locks are files
that a killed process leaves behind, and that others wait for half a minute. Here the system holds the lock and releases
it with the process. What a process wrote of a line before it was killed is cut off by the next that writes: Optuna
would add to it, and could not read the journal from then on.

Each trial has a place, a number from 0 on, and an owner, the process that computes it. A process holds a lock for as
long as it runs. Trials whose owner is gone are marked as failed and wait, under the same place, for another process.
"""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from recurra.saved.whole_files import InUseError, held
from recurra.studies.tuning.sampling import Samples
from recurra.studies.tuning.tuned import TuningError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

JOURNAL = "journal.log"
#: what was cut off the journal is added to this file
DAMAGED = "journal.damaged"
#: the folder in which every running process holds a lock
PROCESSES = "processes"
#: seconds between two looks at whether a lock is free
PATIENCE = 0.02

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
    lock.acquire()
    try:
        _check(path)
    finally:
        lock.release()
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


class SystemLock(JournalFileOpenLock):
    """Held by the system for as long as the process lives; the journal ends with a whole line once it is held."""

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal))
        self.journal = journal
        self.place = journal.with_name(f".{journal.name}.held")
        self.number: int | None = None

    def acquire(self) -> bool:
        if not self._acquire():
            super().acquire()  # Windows, or a file system without locks
        _cut(self.journal)
        return True

    def _acquire(self) -> bool:
        if fcntl is None:
            return False
        number = os.open(self.place, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
        except BaseException as error:
            os.close(number)
            if isinstance(error, OSError):
                return False
            raise
        self.number = number
        return True

    def release(self) -> None:
        if self.number is None:
            super().release()
        else:
            number, self.number = self.number, None
            os.close(number)


def _cut(journal: Path) -> None:
    """Take away a last line without an end."""
    with contextlib.suppress(FileNotFoundError), journal.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0 or (file.seek(size - 1), file.read())[1] == b"\n":
            return
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        _cut_from(journal, whole)


def _cut_from(journal: Path, start: int) -> None:
    """Move what comes from this byte on to the file of damaged lines."""
    with journal.open("r+b") as file, journal.with_name(DAMAGED).open("ab") as kept:
        file.seek(start)
        kept.write(file.read().rstrip(b"\n") + b"\n")
        file.truncate(start)


def _check(journal: Path) -> None:
    """See that every line can be read; take away a last one that cannot."""
    if not journal.exists():
        return
    lines = journal.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        if not _readable(line):
            if number < len(lines) - 1:
                raise TuningError(
                    f"{journal}, line {number + 1} of {len(lines)} cannot be read: {line[:60]!r}. It was damaged after "
                    "it was written. Put a copy of the journal in its place, or remove that line and all after it: "
                    "what they say is then done again."
                )
            _cut_from(journal, sum(map(len, lines[:-1])))


def _readable(line: bytes) -> bool:
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


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of `path`, once the processes that came before have released it."""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(held(path))
                break
            except InUseError:
                time.sleep(PATIENCE)
        yield


@dataclass(frozen=True)
class TrialQueue:
    """The trials of a study, as one process sees them."""

    study: Study
    folder: Path
    owner: str
    samples: Samples

    def take(self, width: int) -> list[Trial]:
        """The next trials that nobody computes, `width` or fewer; none if the others have them all.

        They are of one batch: where some of it were finished before the search was interrupted, only the others.
        """
        with exclusive(self.folder / "asking"):
            self._release([trial for trial in self._known(TrialState.RUNNING) if not self._lives(trial)])
            taken = {trial.user_attrs["place"] for trial in self._known(*DONE, TrialState.RUNNING)}
            batches = [place // width for place in range(self.samples.trials) if place not in taken]
            return [self._ask() for _ in range(batches.count(batches[0]))] if batches else []

    def give_back(self) -> None:
        """Leave this process's trials that are not finished to whoever comes next."""
        with exclusive(self.folder / "asking"):
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
