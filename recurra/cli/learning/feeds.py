"""Where bytes come from: a file, one that grows, a compressed one, standard input, memory.

`read` returns what is there. Nothing means that no more is there now; `ended` tells whether there ever will be.
"""

import gzip
import io
import os
import select
import stat
import sys
import zlib
from pathlib import Path
from typing import Protocol, runtime_checkable

from recurra.studies.settings import SettingsError

#: bytes that are read at once
BLOCK = 1 << 16
#: seconds that a read from a pipe waits, where it may, before it says that nothing is there
PATIENCE = 0.2
GZIP, ZIP, PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"


class InputError(SettingsError):
    """What is wrong with the input."""


@runtime_checkable
class Feed(Protocol):
    """Bytes, one block after the other."""

    #: how messages call it
    name: str
    #: whether nothing follows what was read
    ended: bool
    #: whether bytes that were there before may come with a delay, and for how many seconds a read waits for them
    may_lag: bool
    patience: float
    #: how many bytes there are in all; 0 where that is unknown
    size: int

    def read(self) -> bytes:
        """The next bytes; none if there are none now."""
        ...

    def skip_to(self, offset: int) -> None:
        """Go on reading at this byte, which is not before those already read."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@runtime_checkable
class File(Protocol):
    """A file to read."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes."""
        ...

    def seek(self, offset: int, /) -> int:
        """Go to a byte."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class FileFeed:
    """A file that is read to its end, compressed or not."""

    def __init__(self, name: str, file: File, size: int = 0):
        self.name, self.ended, self.may_lag, self.patience, self.size = name, False, False, 0.0, size
        self._file = file

    def read(self) -> bytes:
        try:
            block = self._file.read(BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{self.name} is damaged: {str(error).rstrip('.')}.") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror or error}.") from None
        self.ended = not block
        return block

    def skip_to(self, offset: int) -> None:
        try:
            self._file.seek(offset)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.name} cannot be read: {error}.") from None

    def close(self) -> None:
        self._file.close()


class GrowingFeed:
    """A file that another program appends to: it never ends by itself."""

    def __init__(self, path: Path):
        self.name, self.ended, self.may_lag, self.patience, self.size = str(path), False, False, 0.0, 0
        self._path = path
        self._file = open_file(path)
        self._at = 0

    def read(self) -> bytes:
        try:
            block = self._file.read(BLOCK)
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror or error}.") from None
        self._at += len(block)
        if not block:
            self._check()
        return block

    def _check(self) -> None:
        """A file that was cut or replaced has no next row: what was learned belongs to another one."""
        try:
            found = self._path.stat()
        except OSError:
            raise InputError(f"{self.name} was removed while it was followed.") from None
        if not os.path.samestat(found, os.fstat(self._file.fileno())):
            raise InputError(f"{self.name} was replaced by another file while it was followed.")
        if found.st_size < self._at:
            raise InputError(
                f"{self.name} became shorter while it was followed: it has {found.st_size:,} bytes, and {self._at:,} "
                "were read."
            )

    def skip_to(self, offset: int) -> None:
        self._file.seek(offset)
        self._at = offset

    def close(self) -> None:
        self._file.close()


class StandardInput:
    """What another program writes into this one."""

    def __init__(self) -> None:
        self.name, self.ended, self.may_lag, self.patience, self.size = "standard input", False, True, PATIENCE, 0
        self._at = 0
        try:
            self._number = sys.stdin.fileno()
        except (AttributeError, OSError, ValueError):
            raise InputError("Standard input is closed: name a file, or pipe rows into the command.") from None

    def read(self) -> bytes:
        return self._block(BLOCK)

    def _block(self, size: int) -> bytes:
        # A read that waits would not be ended by Ctrl-C, which is only noted; Windows cannot wait for a pipe.
        if os.name == "posix" and not select.select([self._number], [], [], self.patience)[0]:
            return b""
        try:
            block = os.read(self._number, size)
        except OSError as error:
            raise InputError(f"Standard input cannot be read: {error.strerror or error}.") from None
        self.ended = not block
        self._at += len(block)
        return block

    def skip_to(self, offset: int) -> None:
        """What comes before is read and passed over, for a pipe cannot be wound."""
        while self._at < offset and not self.ended:
            self._block(min(BLOCK, offset - self._at))

    def close(self) -> None:
        pass


def memory(name: str, content: bytes) -> FileFeed:
    """Bytes that are there already."""
    return FileFeed(name, io.BytesIO(content), len(content))


def open_file(path: Path) -> io.FileIO:
    """An ordinary file to read; `InputError` says why it cannot be."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise InputError(f"{path} is a folder: name a CSV file in it.")
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is not an ordinary file. Pipe it in instead: recurra learn - < {path}")
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}: name a CSV file, or - for standard input.{_near(path)}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte in it
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _near(path: Path) -> str:
    import difflib

    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


def beginning(path: Path) -> bytes:
    """The first bytes of a file, by which its format is known."""
    with open_file(path) as file:
        return file.read(4)


def file_feed(path: Path, follow: bool) -> Feed:
    """A file of rows, known by its first bytes."""
    first = beginning(path)
    if first.startswith(GZIP):
        if follow:
            raise InputError(f"{path} is compressed, and a compressed file cannot be followed: leave out --follow.")
        return FileFeed(str(path), gzip.GzipFile(path, "rb"))
    if first.startswith(ZIP):
        raise InputError(f"{path} is a zip archive or a workbook: unpack it, or save it as CSV.")
    return GrowingFeed(path) if follow else FileFeed(str(path), open_file(path), path.stat().st_size)
