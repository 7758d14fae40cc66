"""Where a search is kept: a journal to which several processes add lines, and which a kill cannot spoil.

Optuna's own locks are files that a killed process leaves behind, and that others wait for half a minute. Here the
system holds the lock and gives it free with the process. What a process wrote of a line before it was killed is cut off
by the next that writes: Optuna would add to it, and could not read the journal from then on.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

from recurra.studies.tuning.objective import TuningError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

JOURNAL = "journal.log"
#: what was cut off the journal is added to this file
DAMAGED = "journal.damaged"


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna says nothing of new studies and trials within."""
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
        except OSError:
            os.close(number)
            return False
        except BaseException:
            os.close(number)
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
