"""A table read row by row: CSV from any source, or a Parquet file, which is read as CSV that is made of it.

The csv module cuts records, from one line or several, and pyarrow reads Parquet. Each row knows the byte where it ends,
so that reading can continue from there: neither says that. A row that cannot be read says what is wrong with it, and
the caller decides whether that ends the run.
"""

import codecs
import csv
import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pydantic.dataclasses

from recurra.cli.environment import lacking
from recurra.cli.learning import sources
from recurra.cli.learning.demos import DEMOS, computed
from recurra.cli.learning.sources import InputError, Source

#: the separators that are recognised, the likeliest first
SEPARATORS = (",", ";", "\t", "|")
#: lines from which the separator is recognised
SAMPLE = 21
#: A quoted cell may have this many lines and bytes, for a quote that is not closed would take the rest of the file.
QUOTED_LINES, QUOTED_BYTES = 1_000, 1 << 20
#: rows of a Parquet file that are read at once
PARQUET_BATCH = 1024

csv.field_size_limit(sources.LONGEST)  # a cell may be as long as a line


@dataclass(slots=True)
class Record:
    """A row of the table, or what is wrong with it."""

    #: counted from 1, without the header
    number: int
    #: the line where it starts, counted from 1; 0 where there are no lines
    line: int
    raw: bytes
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    #: bytes and lines up to its end
    end: tuple[int, int] = (0, 0)

    @property
    def place(self) -> str:
        """Where it is, as messages say it."""
        return f"row {self.number:,}" + (f" (line {self.line:,})" if self.line else "")


@pydantic.dataclasses.dataclass(frozen=True)
class Position:
    """How far a table was read, and digests by which the same table is recognised. `asdict` has it as JSON has it."""

    row: int
    #: bytes and lines before the next row
    offset: int
    line: int
    #: length in bytes and digest of the header, and of the last row
    header: tuple[int, str]
    last: tuple[int, str] = (0, "")


def _digest(raw: bytes) -> tuple[int, str]:
    return len(raw), hashlib.sha256(raw).hexdigest()[:32]


class TableRows:
    """The rows of a table.

    The text that is made of a Parquet file is separated by commas, and has no lines that a message could name.
    """

    def __init__(self, source: Source, is_csv: bool = True):
        self.name, self._is_csv = source.name, is_csv
        #: the names of the columns, once `begin` has succeeded
        self.columns: list[str] = []
        self.separator = ","
        self._source = source
        self._count = 0
        self._start = Position(0, 0, 0, (0, ""))
        self._unfinished = -1  # the byte where a row without a line end ended

    @property
    def ended(self) -> bool:
        """Whether there are no more rows, and never will be."""
        return self._source.ended

    def part(self) -> float | None:
        """How much of the table was read, from 0 to 1; None if that is unknown."""
        return self._source.offset / self._source.size if self._source.size else None

    def close(self) -> None:
        """Release the input."""
        self._source.close()

    def begin(self) -> bool:
        """Read the header once a row follows it; whether one does."""
        lines: list[bytes] = []
        while len(lines) < SAMPLE and (line := self._source.line()) is not None:
            lines.append(line)
        has_ended = self._source.ended
        self._source.give_back(lines)
        blank = next((i for i, line in enumerate(lines) if not _is_blank(line)), len(lines))
        if len(lines) - blank < 2 and not has_ended:
            return False
        _check_text(self.name, b"".join(lines)[:4096])
        if blank == len(lines):
            raise InputError(f"{self.name} is empty: its first line has to name the columns.")
        if self._is_csv:
            self.separator = _separator([_without_mark(_decoded(line)) for line in lines[blank:]])
        skipped = [self._source.line() or b"" for _ in range(blank)]
        row = self._next()
        if row is None:  # a quoted name is not closed yet
            self._source.give_back(skipped)
            return False
        if row.problem:
            raise InputError(f"{self.name} has a header that cannot be read: {row.problem}.")
        self.columns, self._count = [cell.strip() for cell in row.cells], 0
        self._start = Position(0, *row.end, _digest(b"".join([*skipped, row.raw])))
        return True

    def resume(self, position: Position, separator: str) -> None:
        """Continue from a position; an `InputError` if the table is no longer the same."""
        header = self._source.exactly(position.header[0])
        self._source.skip_to(position.offset - position.last[0])
        last = self._source.exactly(position.last[0])
        if _digest(header) != position.header or (position.row and _digest(last) != position.last):
            raise InputError(
                f"{self.name} is not what it was when the checkpoint was written: up to row {position.row:,} it has "
                "changed, or become shorter. Start anew with another checkpoint, or bring the old file back."
            )
        self._start = Position(0, len(header), header.count(b"\n"), position.header)
        self.separator = separator
        self._source.number, self._count = position.line, position.row
        if not (last or header).endswith(b"\n"):
            self._unfinished = position.offset

    def take(self, limit: int, patient: bool = False) -> list[Record]:
        """The next rows, at most so many; none if there are none now.

        The first row of a pipe is waited for a little while. With `patient`, so is each after it.
        """
        found: list[Record] = []
        while len(found) < limit and (row := self._next(patient or not found)) is not None:
            found.append(row)
        return found

    def after(self, row: Record | None) -> Position:
        """The position after a row that was taken, or after the header."""
        if row is None:
            return self._start
        return Position(row.number, *row.end, self._start.header, _digest(row.raw))

    def _next(self, wait: bool = True) -> Record | None:
        """The next row; None if there is none now."""
        line = self._source.line(wait)
        while line is not None and _is_blank(line):
            line = self._source.line(wait)
        if line is None:
            return None
        if self._source.offset - len(line) == self._unfinished:
            raise InputError(
                f"{self.name}, row {self._count:,}, was not complete when it was read: more was added to the same line "
                "since. Start anew with another checkpoint, and let every row end with a line end."
            )
        row = Record(self._count + 1, self._source.number * self._is_csv, line)
        if not self._read_record(row, wait):
            return None
        row.end = self._source.offset, self._source.number
        self._count += 1
        return row

    def _read_record(self, row: Record, wait: bool) -> bool:
        """Fill a row of which the first line was taken; whether it is complete. If not, its lines are given back."""
        taken, size, is_long = [row.raw], len(row.raw), False

        def lines() -> Iterator[str]:
            nonlocal size, is_long
            text = _decoded(row.raw)
            yield _without_mark(text) if row.line == 1 else text
            while len(taken) <= QUOTED_LINES and size < QUOTED_BYTES:
                line = self._source.line(wait)
                if line is None:
                    return
                taken.append(line)
                size += len(line)
                yield _decoded(line)
            is_long = True

        try:
            row.cells = next(csv.reader(lines(), delimiter=self.separator, strict=True))
        except csv.Error as error:
            is_open = "end of data" in str(error)
            if is_open and not is_long and not self._source.ended:
                self._source.give_back(taken)
                return False
            self._source.give_back(taken[1:])
            why, _, _ = str(error).partition(" - ")  # csv goes on with advice to programmers
            row.problem = "a quote is opened and not closed" if is_open else f"it is no valid CSV ({why})"
        else:
            row.raw = b"".join(taken)
        return True


def _separator(lines: list[str]) -> str:
    """The separator that gives most rows as many cells as the header; among several, the one with the most cells.

    `csv.Sniffer` refuses a table of one column.
    """

    def rank(mark: str) -> tuple[bool, int, int]:
        try:
            widths = [len(cells) for cells in csv.reader(lines, delimiter=mark) if cells]
        except csv.Error:
            return False, 0, 0
        agree = sum(width == widths[0] for width in widths)
        return widths[0] > 1 and 2 * agree > len(widths), widths[0], -SEPARATORS.index(mark)

    return max(SEPARATORS, key=rank)


def _check_text(name: str, start: bytes) -> None:
    """Raise an `InputError` for what is not text, or text that is not supported."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or 3 * start.count(b"\0") > len(start) > 0:
        raise InputError(f"{name} seems to be UTF-16: save it as UTF-8.")
    if start.startswith(sources.PARQUET):
        raise InputError(f"{name} is a Parquet file: give it by its name, not through a pipe.")
    if b"\r" in start and b"\n" not in start and start.count(b"\r") > 1:
        raise InputError(f"{name} has lines that end as on old Macs: save it with other line ends (tr '\\r' '\\n').")


def _is_blank(line: bytes) -> bool:
    """Whether a line is skipped. A line of tabs is a row of empty cells."""
    return not line.strip(b" \r\n")


def _decoded(line: bytes) -> str:
    """A line as text: what is not UTF-8 is read as Latin-1, in which every byte is a letter."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _without_mark(text: str) -> str:
    """The text without the byte order mark that some programs put before UTF-8."""
    return text.removeprefix(codecs.BOM_UTF8.decode()).removeprefix(codecs.BOM_UTF8.decode("latin-1"))


def _parquet_text(path: Path) -> Iterator[bytes]:
    """The table of a Parquet file as CSV, batch by batch."""
    # By name, so that types can be checked where pyarrow is not installed.
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")

    def csv_of(rows: Iterable[Iterable[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        return text.getvalue().encode("utf-8", "replace")

    def texts(column: Any) -> Iterator[str]:
        # Times have microseconds: without pandas, pyarrow refuses to drop further digits.
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
            column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
        return map(_as_text, column.to_pylist())

    try:
        with parquet.ParquetFile(path) as file:
            yield csv_of([file.schema_arrow.names])
            for batch in file.iter_batches(PARQUET_BATCH):
                yield csv_of(zip(*map(texts, batch.columns), strict=True))
    except (OSError, pyarrow.ArrowException) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be read as Parquet: {first.rstrip('.')}.") from None


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def open_rows(name: str, follow: bool) -> TableRows:
    """The rows of a file, or of standard input, whose name is -."""
    if name == "-":
        if follow:
            raise InputError("`follow` is for files: standard input is read until it is closed anyway.")
        return TableRows(sources.standard_input())
    path = Path(name)
    if sources.beginning(path) != sources.PARQUET:
        return TableRows(sources.open_source(path, follow))
    if follow:
        raise InputError(f"{path} is a Parquet file, which nobody can append to: leave out --follow.")
    if line := lacking("parquet", "A Parquet file", "pyarrow"):
        raise InputError(line)
    return TableRows(Source(name, io.BufferedReader(sources.Pieces(_parquet_text(path)))), is_csv=False)


def open_demo(name: str) -> TableRows:
    """The rows of a demo."""
    demo, called = DEMOS[name], f"the demo {name}"
    return TableRows(
        sources.open_source(demo.path(), follow=False, called=called)
        if demo.file
        else sources.memory(called, computed())
    )
