"""Rows of text as rows of numbers.

A missing value of an input is replaced by the latest known one. A column of numbers that begins with a missing value is
0 until its first known value, and the deviation from that value afterwards.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from recurra.cli.learning import times
from recurra.cli.learning.kinds import CATEGORY, NUMBER, TRUTH, Column, Layout
from recurra.cli.learning.table import Row
from recurra.cli.learning.values import LARGEST, BadValueError, is_missing, number, truth


class BadRowError(Exception):
    """A row that cannot be used: where it is, and why."""


@dataclass(frozen=True)
class Batch:
    """Rows as arrays."""

    rows: Sequence[Row]
    #: (rows, inputs)
    x: np.ndarray
    #: (rows,); NaN where it is missing
    y: np.ndarray
    #: seconds since 1970, (rows,); NaN where it is unknown
    seconds: np.ndarray
    times: Sequence[str]


class Encoder:
    """Turns rows into numbers, and remembers the latest known values."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._readers = [_reader(each) for each in layout.inputs]
        self._latest = np.zeros(layout.width)
        #: what is subtracted; NaN where the first known value is still to come
        self._shift = np.zeros(layout.width)
        self._may_shift = [each.kind == NUMBER for each in layout.inputs for _ in range(each.width)]
        if layout.is_late:  # at the first row no value of the target is known
            self._shift[0] = math.nan
        self._is_first = True
        #: how many cells of inputs, the target among them, and of the target alone were missing
        self.missing_inputs, self.missing_targets = 0, 0

    @property
    def names(self) -> list[str]:
        """What each input is."""
        names = [name for column in self.layout.inputs for name in _input_names(column)]
        return [f"{names[0]}, a row before", *names[1:]] if self.layout.is_late else names

    def encode(self, rows: Sequence[Row]) -> tuple[Batch, BadRowError | None]:
        """The rows before the first bad one as arrays, and what is wrong with that one."""
        x, y, good, bad = np.empty((len(rows), self.layout.width)), np.empty(len(rows)), 0, None
        for row in rows:
            before = self._latest[0]
            try:
                y[good] = self._encode(row)
            except BadRowError as error:
                bad = error
                break
            x[good] = self._latest
            if self.layout.is_late:
                x[good, 0] = before
            good += 1
        written, parsed = self._times(rows[:good])
        return Batch(rows[:good], x[:good], y[:good], parsed, written), bad

    def _encode(self, row: Row) -> float:
        """Take the values of a row in; the target's."""
        if row.problem:
            raise BadRowError(f"{row_name(row)}: {row.problem}")
        if len(row.cells) != self.layout.cells:
            count = len(row.cells)
            raise BadRowError(
                f"{row_name(row)}: it has {count} cell{'s' * (count != 1)}, and the header {self.layout.cells}"
            )
        values: list[float | None] = []
        missing = 0
        for column, read in zip(self.layout.inputs, self._readers, strict=True):
            found = self._read(row, column, read)
            missing += found is None
            values.extend([None] * column.width if found is None else found)
        self._fill(values)
        self.missing_inputs += missing
        self.missing_targets += values[0] is None
        return math.nan if values[0] is None else values[0]

    def _read(self, row: Row, column: Column, read: "Reader") -> list[float] | None:
        try:
            return read(row.cells[column.place])
        except BadValueError as error:
            raise BadRowError(f"{row_name(row)}, column {column.name!r}: {error}") from None

    def _fill(self, values: list[float | None]) -> None:
        for i, value in enumerate(values):
            if value is None:
                if self._is_first and self._may_shift[i]:
                    self._shift[i] = math.nan
                continue
            if self._shift[i] != self._shift[i]:
                self._shift[i] = value
            self._latest[i] = max(-LARGEST, min(value - self._shift[i], LARGEST))
        self._is_first = False

    def _times(self, rows: Sequence[Row]) -> tuple[list[str], np.ndarray]:
        column = self.layout.time
        if column is None:
            return [""] * len(rows), np.full(len(rows), math.nan)
        written = [row.cells[column.place].strip() for row in rows]
        return written, np.array([times.seconds(each, self.layout.time_format) for each in written], float)

    def state(self) -> dict[str, np.ndarray]:
        """What the next row needs to know."""
        counts = np.array([self._is_first, self.missing_inputs, self.missing_targets], np.int64)
        return {"latest": self._latest.copy(), "shift": self._shift.copy(), "counts": counts}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._latest, self._shift = state["latest"].copy(), state["shift"].copy()
        first, self.missing_inputs, self.missing_targets = map(int, state["counts"])
        self._is_first = bool(first)


#: turns a cell into the values of its inputs; None if it is missing
Reader = Callable[[str], list[float] | None]


def _reader(column: Column) -> Reader:
    if column.kind == CATEGORY:
        return _category_reader(column.levels)
    read = truth if column.kind == TRUTH else number

    def one(cell: str) -> list[float] | None:
        value = read(cell)
        return None if value is None else [value]

    return one


def _category_reader(levels: Sequence[str]) -> Reader:
    places = {level: place for place, level in enumerate(levels)}

    def one_hot(cell: str) -> list[float] | None:
        if is_missing(cell):
            return None
        values = [0.0] * (len(levels) + 1)
        values[places.get(cell.strip(), len(levels))] = 1.0
        return values

    return one_hot


def _input_names(column: Column) -> list[str]:
    if column.kind != CATEGORY:
        return [column.name]
    return [f"{column.name} = {level}" for level in column.levels] + [f"{column.name} = another"]


def row_name(row: Row) -> str:
    """Where a row is."""
    return f"row {row.number:,}" + (f" (line {row.line:,})" if row.line else "")
