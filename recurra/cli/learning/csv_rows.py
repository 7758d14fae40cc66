"""CSV cut into rows, each with the byte where it ends, so that reading can go on from there.

Lines without quotes, which are most of them, are split at the separator. For the others the csv module decides.
What is wrong with a row is told by the row itself: whether it ends the run is for others to decide.
"""

import codecs
import csv
from collections.abc import Iterator

from recurra.cli.learning.feeds import PARQUET, Feed, InputError, memory
from recurra.cli.learning.lines import Lines, decoded, is_blank, without_mark
from recurra.cli.learning.table import Position, Row, digest

#: the separators that are known, the likeliest first
SEPARATORS = (",", ";", "\t", "|")
#: lines by which the separator is recognised
SAMPLE = 21
#: A quoted cell may have this many lines and bytes, for a quote that is not closed would take the rest of the file.
QUOTED_LINES, QUOTED_BYTES = 1_000, 1 << 20


class CsvRows:
    """The rows of a CSV file or stream."""

    def __init__(self, feed: Feed):
        self.name = feed.name
        self.columns: list[str] = []
        self.how = ","
        self._feed = feed
        self._lines = Lines(feed)
        self._count = 0
        self._start = Position(0, 0, 0, (0, ""))
        self._unfinished = -1  # the byte where a row ended that had no line end

    @property
    def ended(self) -> bool:
        return self._lines.ended

    def part(self) -> float | None:
        return self._lines.offset / self._feed.size if self._feed.size else None

    def close(self) -> None:
        self._feed.close()

    def begin(self) -> bool:
        lines = self._lines.first(SAMPLE)
        blank = next((i for i, line in enumerate(lines) if not is_blank(line)), len(lines))
        if len(lines) - blank < 2 and not self._feed.ended:
            return False
        check_text(self.name, b"".join(lines)[:4096])
        if blank == len(lines):
            raise InputError(f"{self.name} is empty: its first line has to name the columns.")
        self.how = separator([without_mark(decoded(line)) for line in lines[blank:]])
        skipped = [self._lines.pop() or b"" for _ in range(blank)]
        row = self._next()
        if row is None:  # a quoted name is not closed yet
            self._lines.give_back(skipped)
            return False
        self._take_header(b"".join(skipped), row)
        return True

    def _take_header(self, before: bytes, row: Row) -> None:
        if row.problem:
            raise InputError(f"{self.name} has a header that cannot be read: {row.problem}.")
        self.columns = [cell.strip() for cell in row.cells]
        self._count = 0
        self._start = Position(0, *row.end, digest(before + row.raw))

    def go_on(self, position: Position, how: str) -> None:
        self.how = how
        header = self._lines.exactly(position.header[0])
        self._lines.skip_to(position.offset - position.last[0])
        last = self._lines.exactly(position.last[0])
        if digest(header) != position.header or (position.row and digest(last) != position.last):
            raise InputError(
                f"{self.name} is not what it was when the checkpoint was written: up to row {position.row:,} it has "
                "changed, or become shorter. Start anew with another checkpoint, or bring the old file back."
            )
        self._lines.number = position.line
        self._start = Position(0, len(header), 0, position.header)
        self._count = position.row
        if not (last or header).endswith(b"\n"):
            self._unfinished = position.offset
        inner = CsvRows(memory(self.name, header))
        inner.how = how
        row = inner._next()
        self.columns = [cell.strip() for cell in row.cells] if row else []

    def take(self, limit: int, patient: bool = False) -> list[Row]:
        found: list[Row] = []
        usual = self._feed.patience
        while len(found) < limit:
            row = self._next()
            if row is None:
                break
            found.append(row)
            self._feed.patience = usual if patient else 0.0
        self._feed.patience = usual
        return found

    def after(self, row: Row | None) -> Position:
        if row is None:
            return self._start
        return Position(row.number, *row.end, self._start.header, digest(row.raw))

    def _next(self) -> Row | None:
        """The next row; None if there is none now."""
        line = self._lines.pop()
        while line is not None and is_blank(line):
            line = self._lines.pop()
        if line is None:
            return None
        if self._lines.offset - len(line) == self._unfinished:
            raise InputError(
                f"{self.name}, row {self._count:,}, was not complete when it was read: more was added to the same line "
                "since. Start anew with another checkpoint, and let every row end with a line end."
            )
        row = Row(self._count + 1, self._lines.number, line)
        text = decoded(line)
        if row.line == 1:
            text = without_mark(text)
        if '"' not in text:
            row.cells = text.removesuffix("\n").removesuffix("\r").split(self.how)
        elif not self._read_quoted(row, text):
            return None
        row.end = self._lines.offset, self._lines.number
        self._count += 1
        return row

    def _read_quoted(self, row: Row, text: str) -> bool:
        """Fill a row that has quotes, and maybe further lines; whether it is complete."""
        further: list[bytes] = []
        starved = False

        def lines() -> Iterator[str]:
            nonlocal starved
            yield text
            size = len(row.raw)
            while len(further) < QUOTED_LINES and size < QUOTED_BYTES:
                line = self._lines.pop()
                if line is None:
                    starved = not self._feed.ended
                    return
                further.append(line)
                size += len(line)
                yield decoded(line)

        try:
            row.cells = next(csv.reader(lines(), delimiter=self.how, strict=True))
        except csv.Error as error:
            self._lines.give_back([row.raw, *further] if starved else further)
            row.problem = _quoting_problem(str(error))
            return not starved
        row.raw = b"".join([row.raw, *further])
        return True


def _quoting_problem(said: str) -> str:
    if "limit" in said:
        return f"a cell has more than {csv.field_size_limit():,} characters"
    return "a quote is opened and not closed" if "end of data" in said else f"it is no valid CSV ({said})"


def separator(lines: list[str]) -> str:
    """What separates the cells: the one that gives most rows as many cells as the header, and these the most."""

    def worth(mark: str) -> tuple[bool, int, int]:
        try:
            widths = [len(cells) for cells in csv.reader(lines, delimiter=mark) if cells]
        except csv.Error:
            return False, 0, 0
        agree = sum(width == widths[0] for width in widths)
        return widths[0] > 1 and 2 * agree > len(widths), widths[0], -SEPARATORS.index(mark)

    return max(SEPARATORS, key=worth)


def check_text(name: str, start: bytes) -> None:
    """Raise an `InputError` for what is no text, or text that is not read here."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or 3 * start.count(b"\0") > len(start) > 0:
        raise InputError(f"{name} seems to be UTF-16: save it as UTF-8.")
    if start.startswith(PARQUET):
        raise InputError(f"{name} is a Parquet file: give it by its name, not through a pipe.")
    if b"\r" in start and b"\n" not in start and start.count(b"\r") > 1:
        raise InputError(f"{name} has lines that end as on old Macs: save it with other line ends (tr '\\r' '\\n').")
