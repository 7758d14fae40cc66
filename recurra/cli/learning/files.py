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
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from recurra.cli.environment import CommandError
from recurra.cli.learning.columns import ColumnPlan
from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.rows import Position
from recurra.cli.learning.session import Session
from recurra.cli.output import FULL, claim_file, folder_errors, refused
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
            raise refused(option, path, "which is the input: choose another name.")
        if option == "predictions" and path.exists() and not may_replace:
            raise refused(option, path, "which exists: choose another name, or replace it with --force.")

    for option, path in (("checkpoint", checkpoint), ("predictions", predictions)):
        if path is not None:
            claim_file(option, path, stack, partial(check, option))
    if options.out is not None:
        with folder_errors(options.out, may_be_full=True):
            options.out.mkdir(parents=True, exist_ok=True)
            page = options.out / PAGE
            if page.exists() and not options.force and MARK not in page.read_bytes()[:2000]:
                why = f"which has an {PAGE} that `recurra learn` did not write: choose another folder, or replace it"
                raise refused("out", options.out, f"{why} with --force.")
            try_place(page)


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
                why = f"which has {found:,} bytes, and the checkpoint says that {length:,} were written: bring the file"
                raise refused("predictions", path, f"{why} back, or start anew with another checkpoint.")
            os.ftruncate(self._number, length)
            os.lseek(self._number, length, os.SEEK_SET)
        except OSError as error:
            raise refused("predictions", path, f"which cannot be written: {error.strerror}.") from None
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


@dataclass(frozen=True)
class HowFar:
    """How far the input was read."""

    position: Position
    #: the separator of the columns
    how: str


class DiskFullError(CommandError):
    """There is no room for a checkpoint, and the user wants the run to stop then."""


class SavedRun:
    """A file that the state of a run is saved to, again and again."""

    def __init__(self, path: Path, options: LearnOptions):
        self.path, self._options = path, options
        self._saved, self._rows = time.monotonic(), -1
        self._has_failed = False

    def is_due(self, rows: int) -> bool:
        """Whether it is time to save the state after so many rows."""
        return rows != self._rows and time.monotonic() - self._saved >= self._options.checkpoint_every

    def save(self, session: Session, reading: HowFar, predictions: Predictions | None) -> bool:
        """Replace the file by the present state; whether it worked. The first failure is said.

        `reading` says how far the input was read. The predictions are on the disk before the file that counts them.
        """
        arrays, document = session.state()
        self._saved = time.monotonic()
        try:
            length = 0 if predictions is None else predictions.settle()
            how = {"settings": self._options.decisive(), "reading": asdict(reading), "predictions": length}
            write(self.path, KIND, arrays, {**how, "session": document, "layout": asdict(session.encoder.plan)})
        except OSError as error:
            failed = (
                f"The checkpoint {self.path} could not be written: {error.strerror or error}. The one before it stays"
            )
            if self._options.on_full == "stop" and error.errno in FULL:
                raise DiskFullError(f"{failed}.", status=1) from None
            if not self._has_failed:
                complain(f"{failed}, if there is one, and it is tried again.")
            self._has_failed = True
            return False
        if self._has_failed:
            say(f"The checkpoint {self.path} could be written again.")
        self._has_failed, self._rows = False, session.rows
        return True


@dataclass(frozen=True)
class Saved:
    """The document of a checkpoint."""

    settings: dict[str, Any]
    reading: HowFar
    #: bytes of the file of predictions
    predictions: int
    session: dict[str, Any]
    layout: ColumnPlan


def read_checkpoint(path: Path, options: LearnOptions) -> tuple[Saved, dict[str, np.ndarray]]:
    """What a checkpoint holds, and its arrays; a `SettingsError` if it cannot be used, or belongs to other options."""
    try:
        arrays, document = read(path, KIND)
        saved = Saved(**document)
    except SavedFileError as error:
        raise refused("checkpoint", path, f"and {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise refused("checkpoint", path, f"which is not complete: {place}: {first['msg']}.") from None
    before = saved.settings
    if "interval" in before:  # as 0.1 called it
        before["coverage"] = before.pop("interval")
    shown = lambda value: "not given" if value in (None, []) else ",".join(value) if isinstance(value, list) else value
    lines = [
        f"--{name} is {shown(value)}, and was {shown(before.get(name))}"
        for name, value in options.decisive().items()
        if value != before.get(name)
    ]
    if lines:
        raise SettingsError(
            f"The checkpoint {path} belongs to other settings: {'; '.join(lines)}. Use the settings it was made with, "
            "or start anew with another checkpoint."
        )
    return saved, arrays
