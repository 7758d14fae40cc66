"""The lines of a table: of a file, one that grows, a compressed one, or standard input.

`io` cuts them. What it cannot know is kept here: at which byte each line ends, and whether a last line without a line
end is complete. It is not as long as more can follow.
"""

import difflib
import gzip
import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recurra.studies.settings import SettingsError

#: bytes of standard input that are dropped at once
BLOCK = 1 << 16
#: a longer line, in bytes, belongs to no table
LONGEST = 1 << 24
#: seconds that a read from a pipe waits for bytes
PATIENCE = 0.2
GZIP, ZIP, PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"


class InputError(SettingsError):
    """What is wrong with the input."""


class Pipe(io.RawIOBase):
    """What another program writes into this one. A read waits for it for `patience` seconds, and then has nothing."""

    def __init__(self, number: int):
        self.patience = PATIENCE
        #: whether the last read had nothing, though more may follow
        self.is_late = False
        self._number = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        # Ctrl-C is only noted, so it would not end a read that blocks. Windows cannot wait for a pipe.
        self.is_late = os.name == "posix" and not select.select([self._number], [], [], self.patience)[0]
        if self.is_late:
            return None
        block = os.read(self._number, len(buffer))
        buffer[: len(block)] = block
        return len(block)


class Pieces(io.RawIOBase):
    """Pieces of text as they are made, one after the other."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


class Source:
    """Lines with their line ends, from a file.

    `followed` is the file's path if another program appends to it, so that it never ends. `pipe` is what the file reads
    from, if that cannot seek.
    """

    def __init__(
        self, name: str, file: io.BufferedIOBase, size: int = 0, followed: Path | None = None, pipe: Pipe | None = None
    ):
        #: what messages call it, and the number of its bytes; 0 where that is unknown
        self.name, self.size = name, size
        #: bytes and lines up to the next line
        self.offset, self.number = 0, 0
        self._file, self._followed, self._pipe = file, followed, pipe
        self._has_ended = False
        self._rest = b""  # of the line that is not complete
        self._given_back: list[bytes] = []

    @property
    def ended(self) -> bool:
        """Whether there are no more lines, and never will be."""
        return self._has_ended and not self._given_back

    def line(self, wait: bool = True) -> bytes | None:
        """The next line; None if there is none now. With `wait`, a pipe is given a little time."""
        line = self._given_back.pop() if self._given_back else self._read_line(wait)
        if line is not None:
            self.offset += len(line)
            self.number += 1
        return line

    def _read_line(self, wait: bool) -> bytes | None:
        if self._pipe is not None:
            self._pipe.patience, self._pipe.is_late = PATIENCE if wait else 0.0, False
        self._rest += self._tried(self._file.readline, LONGEST + 1 - len(self._rest))
        if not self._rest.endswith(b"\n"):
            if len(self._rest) > LONGEST:
                raise InputError(f"{self.name}, line {self.number + 1:,}, is longer than 16 MB: is this a CSV file?")
            if self._followed is not None:
                self._check(self._followed)
                return None
            if self._pipe is not None and self._pipe.is_late:
                return None
            self._has_ended = True
        line, self._rest = self._rest, b""
        return line or None

    def give_back(self, lines: list[bytes]) -> None:
        """Undo that these lines, the latest ones, were taken."""
        self._given_back.extend(reversed(lines))
        self.offset -= sum(map(len, lines))
        self.number -= len(lines)

    def exactly(self, size: int) -> bytes:
        """The next bytes, or as many of them as there are, before any line is taken."""
        found = b""
        while len(found) < size:
            block = self._tried(self._file.read, size - len(found))
            found += block or b""
            if not block and not (self._pipe is not None and self._pipe.is_late):
                break
        self.offset += len(found)
        return found

    def skip_to(self, offset: int) -> None:
        """Continue at a later byte, before any line is taken."""
        if self._file.seekable():
            self.offset = self._tried(self._file.seek, offset)
        while self.offset < offset and self.exactly(min(BLOCK, offset - self.offset)):
            pass

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _tried(self, read: Callable[[int], Any], argument: int) -> Any:
        try:
            return read(argument)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{self.name} is damaged: {str(error).rstrip('.')}.") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror or error}.") from None

    def _check(self, path: Path) -> None:
        """A file that was truncated or replaced has no next row: what was learned belongs to another file."""
        try:
            found = path.stat()
        except OSError:
            raise InputError(f"{self.name} was removed while it was followed.") from None
        if not os.path.samestat(found, os.fstat(self._file.fileno())):
            raise InputError(f"{self.name} was replaced by another file while it was followed.")
        if found.st_size < self._file.tell():
            raise InputError(
                f"{self.name} became shorter while it was followed: it has {found.st_size:,} bytes, and "
                f"{self._file.tell():,} were read."
            )


def memory(name: str, content: bytes) -> Source:
    """Bytes that are in memory."""
    return Source(name, io.BytesIO(content), len(content))


def standard_input() -> Source:
    """What is piped into this program."""
    try:
        pipe = Pipe(sys.stdin.fileno())
    except (AttributeError, OSError, ValueError):
        raise InputError("Standard input is closed: name a file, or pipe rows into the command.") from None
    return Source("standard input", io.BufferedReader(pipe, BLOCK), pipe=pipe)


def open_source(path: Path, follow: bool, called: str = "") -> Source:
    """A file of text, compressed or not. Messages name it by its path, or as it is `called`."""
    name, first = called or str(path), beginning(path)
    if first.startswith(GZIP):
        if follow:
            raise InputError(f"{path} is compressed, and a compressed file cannot be followed: leave out --follow.")
        return Source(name, gzip.GzipFile(path, "rb"))
    if first.startswith(ZIP):
        raise InputError(f"{path} is a zip archive or a workbook: unpack it, or save it as CSV.")
    return Source(name, open_file(path), 0 if follow else path.stat().st_size, path if follow else None)


def beginning(path: Path) -> bytes:
    """The first bytes of a file, which identify its format."""
    with open_file(path) as file:
        return file.read(4)


def open_file(path: Path) -> io.BufferedReader:
    """An ordinary file to read; an `InputError` says why it cannot be."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise InputError(f"{path} is a folder: name a CSV file in it.")
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is not an ordinary file. Pipe it in instead: recurra learn - < {path}")
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"There is no file {path}: name a CSV file, or - for standard input.{_near(path)}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte in it
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _near(path: Path) -> str:
    try:
        near = difflib.get_close_matches(path.name, [each.name for each in path.parent.iterdir()], n=1)
    except OSError:
        return ""
    return f" Did you mean {path.parent / near[0]}?" if near else ""
