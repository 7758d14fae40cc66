"""The file of predictions: one line for each row, written as the rows come.

A checkpoint names how many bytes of it belong to the rows that are learned. What follows them was written by a run that
was killed, and is cut off before the file is continued.
"""

import csv
import errno
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recurra.cli.output import FULL
from recurra.cli.streams import complain
from recurra.studies.settings import SettingsError

#: bytes that may wait for room on a full disk, and bytes that a line has at most
MOST, LONGEST = 1 << 24, 1 << 20


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
            if error.errno not in FULL or len(self._waiting) > MOST:
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
            start = max(0, self.length - LONGEST)
            os.lseek(self._number, start, os.SEEK_SET)
            content = os.read(self._number, LONGEST)
            os.ftruncate(self._number, start + content.rfind(b"\n") + 1)
        os.close(self._number)
