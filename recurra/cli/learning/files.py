"""The files that a run writes: predictions, a checkpoint, a page. One run has them to itself.

They are checked before anything is computed. A checkpoint holds everything that is needed to continue, in one file that
is replaced whole. It says how many bytes of the predictions belong to the rows that were learned: a killed run may have
written more, which is cut off before the file is continued.
"""

import csv
import errno
import io
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.rows import Position
from recurra.cli.learning.session import Session
from recurra.cli.output import FULL, claim_file
from recurra.cli.streams import complain
from recurra.saved.archive import SavedFileError, read, write
from recurra.saved.whole_files import try_place
from recurra.studies.settings import SettingsError
from recurra.training.console import say

#: by which the page of an earlier run is known
MARK = b'<meta name="generator" content="recurra learn">'
PAGE = "index.html"
KIND = "learn"
#: bytes that may wait for room on a full disk, and bytes that a line has at most
MOST_WAITING, LONGEST_LINE = 1 << 24, 1 << 20


def claim_files(options: LearnOptions, stack: ExitStack) -> None:
    """Have the files of a run to itself as long as the stack is open; `SettingsError` if one cannot be written."""
    checkpoint, predictions = options.checkpoint, options.predictions
    if checkpoint is not None and checkpoint == predictions:
        raise SettingsError(f"`checkpoint` and `predictions` are both {checkpoint}: choose two names.")
    may_replace = options.force or (checkpoint is not None and checkpoint.exists())

    def check(option: str, path: Path) -> None:
        own = Path(options.file)
        if options.file not in ("", "-") and path.exists() and own.exists() and path.samefile(own):
            raise SettingsError(f"`{option}` is {path}, which is the input: choose another name.")
        if option == "predictions" and path.exists() and not may_replace:
            raise SettingsError(
                f"`predictions` is {path}, which exists: choose another name, or replace it with --force."
            )

    for option, path in (("checkpoint", checkpoint), ("predictions", predictions)):
        if path is not None:
            claim_file(option, path, stack, partial(check, option))
    if options.out is not None:
        _check_folder(options.out, options.force)


def _check_folder(folder: Path, force: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / PAGE
        if page.exists() and not force and MARK not in page.read_bytes()[:2000]:
            raise SettingsError(
                f"`out` is {folder}, which has an {PAGE} that `recurra learn` did not write: choose another folder, or "
                "replace it with --force."
            )
        try_place(page)
    except OSError as error:
        if error.errno not in FULL:
            raise SettingsError(f"`out` is {folder}, which cannot be written: {error.strerror or error}.") from None


class Predictions:
    """Lines of CSV in a file, in the order in which they are added."""

    def __init__(self, path: Path, length: int):
        """Continue a file after this many bytes; 0 begins it anew."""
        self.path = path
        self._waiting = bytearray()
        self._complained = False
        try:
            self._number = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            found = os.fstat(self._number).st_size
            if found < length:
                os.close(self._number)
                raise SettingsError(
                    f"`predictions` is {path}, which has {found:,} bytes, and the checkpoint says that {length:,} were "
                    "written: bring the file back, or start anew with another checkpoint."
                )
            os.ftruncate(self._number, length)
            os.lseek(self._number, length, os.SEEK_SET)
        except OSError as error:
            raise SettingsError(f"`predictions` is {path}, which cannot be written: {error.strerror}.") from None
        self.length = length

    def add(self, lines: Iterable[Sequence[Any]]) -> None:
        """Append lines. On a full disk they wait for room; `OSError` once too many do."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._waiting += text.getvalue().encode("utf-8", "replace")
        self._write()

    def _write(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._number, self._waiting)
                del self._waiting[:written]
                self.length += written
        except OSError as error:
            if error.errno not in FULL or len(self._waiting) > MOST_WAITING:
                raise
            if not self._complained:
                complain(f"`predictions` is {self.path}, and there is no room for more of it: it is tried again.")
            self._complained = True

    def settle(self) -> int:
        """Have all lines on the disk; how many bytes they are. `OSError` if there is no room for them."""
        self._write()
        if self._waiting:
            raise OSError(errno.ENOSPC, f"there is no room for {len(self._waiting):,} bytes of {self.path}")
        os.fsync(self._number)
        return self.length

    def close(self) -> None:
        """Let go of the file. A line of which only a part could be written is cut off."""
        if self._waiting:
            start = max(0, self.length - LONGEST_LINE)
            os.lseek(self._number, start, os.SEEK_SET)
            content = os.read(self._number, LONGEST_LINE)
            os.ftruncate(self._number, start + content.rfind(b"\n") + 1)
        os.close(self._number)


class DiskFullError(Exception):
    """There is no room for a checkpoint, and the user wants the run to stop then."""


class Checkpoint:
    """A file that the state of a run is saved to, again and again."""

    def __init__(self, path: Path, every: float, stop_when_full: bool):
        self.path = path
        self._every, self._stop = every, stop_when_full
        self._saved = time.monotonic()
        self._rows = -1
        #: whether the last attempt failed
        self.failed = False

    def is_due(self, rows: int) -> bool:
        """Whether it is time to save the state after so many rows."""
        return rows != self._rows and time.monotonic() - self._saved >= self._every

    def save(self, session: Session, reading: dict[str, Any], predictions: Predictions | None) -> bool:
        """Replace the file by the present state; whether it worked. The first failure is said.

        `reading` says how far the input was read. The predictions are on the disk before the file that counts them.
        """
        arrays, document = session.state()
        self._saved = time.monotonic()
        try:
            length = 0 if predictions is None else predictions.settle()
            how = {"settings": session.options.result_settings(), "reading": reading, "predictions": length}
            write(self.path, KIND, arrays, {**how, "session": document, "layout": session.encoder.layout.plain()})
        except OSError as error:
            self._complain(error)
            return False
        if self.failed:
            say(f"The checkpoint {self.path} could be written again.")
        self.failed, self._rows = False, session.rows
        return True

    def _complain(self, error: OSError) -> None:
        why = error.strerror or str(error)
        if self._stop and error.errno in FULL:
            raise DiskFullError(f"The checkpoint {self.path} could not be written: {why}. The one before it stays.")
        if not self.failed:
            complain(
                f"The checkpoint {self.path} could not be written: {why}. The one before it stays, if there is one, "
                "and it is tried again."
            )
        self.failed = True


class Saved:
    """What a checkpoint holds."""

    def __init__(self, path: Path):
        try:
            self.arrays, document = read(path, KIND)
            self.settings: dict[str, Any] = dict(document["settings"])
            if "interval" in self.settings:  # as 0.1 called it
                self.settings["coverage"] = self.settings.pop("interval")
            self.session: dict[str, Any] = document["session"]
            self.layout: dict[str, Any] = document["layout"]
            self.position = Position.of(document["reading"]["position"])
            self.separator = str(document["reading"]["how"])
            self.predictions = int(document["predictions"])
        except SavedFileError as error:
            raise SettingsError(f"`checkpoint` is {path}, and {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise SettingsError(f"`checkpoint` is {path}, which is not complete: {error!r}.") from None
        self.path = path

    def check(self, asked: dict[str, Any]) -> None:
        """Raise a `SettingsError` that says what differs, if anything that shapes the result does."""
        shown = lambda value: (
            "not given" if value in (None, []) else ",".join(value) if isinstance(value, list) else value
        )
        lines = [
            f"--{name} is {shown(value)}, and was {shown(self.settings.get(name))}"
            for name, value in asked.items()
            if value != self.settings.get(name)
        ]
        if lines:
            raise SettingsError(
                f"The checkpoint {self.path} belongs to other settings: {'; '.join(lines)}. Use the settings it was "
                "made with, or start anew with another checkpoint."
            )
