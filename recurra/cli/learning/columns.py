"""Which columns of a table are used, what they hold, and rows of text as rows of numbers.

Whether a column holds numbers, truth values, categories or times is decided from the first rows. A missing value of an
input is replaced by the latest known one. A column of numbers that begins with a missing value is 0 until its first
known value, and the deviation from that value afterwards.
"""

import difflib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recurra.cli.learning.options import ColumnChoice
from recurra.cli.learning.rows import Row
from recurra.cli.learning.sources import InputError
from recurra.cli.learning.values import (
    COMMAS,
    ISO,
    LARGEST,
    TRUTHS,
    BadValueError,
    find_format,
    is_missing,
    is_no_number,
    is_number,
    number,
    seconds,
    shown,
    truth,
)  # fmt: skip

#: rows from which the kinds are decided
SAMPLE = 1000
#: a text column of more different values is not taken for categories, nor one of longer ones
CATEGORIES, LONGEST_TEXT = 32, 200

NUMBER, TRUTH, CATEGORY = "number", "truth", "category"


@dataclass(frozen=True)
class Column:
    """A column that is used: its name, its place in a row, and what it holds."""

    name: str
    place: int
    kind: str = NUMBER
    #: of a category, the values that have an input of their own; all others share one more
    levels: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many inputs it makes."""
        return len(self.levels) + 1 if self.kind == CATEGORY else 1


@dataclass(frozen=True)
class Layout:
    """Which columns a run uses, and what for."""

    #: how many cells a row has
    cells: int
    #: the columns that are inputs, the target first
    inputs: tuple[Column, ...]
    #: whether the target's value becomes known after the prediction, so that its input is the value before
    is_late: bool = False
    #: the column of times and their format
    time: Column | None = None
    time_format: str = ""

    def plain(self) -> dict[str, Any]:
        """It as JSON has it."""
        return {
            "cells": self.cells,
            "late": self.is_late,
            "inputs": [_plain(each) for each in self.inputs],
            "time": _plain(self.time) if self.time else None,
            "time_format": self.time_format,
        }

    @staticmethod
    def of(plain: dict[str, Any]) -> "Layout":
        """It from JSON."""
        time = _column(plain["time"]) if plain["time"] else None
        inputs = tuple(_column(each) for each in plain["inputs"])
        return Layout(int(plain["cells"]), inputs, bool(plain["late"]), time, str(plain["time_format"]))

    @property
    def target(self) -> Column:
        """The column that is predicted."""
        return self.inputs[0]

    @property
    def width(self) -> int:
        """How many inputs the columns make."""
        return sum(column.width for column in self.inputs)


def _plain(column: Column) -> list[Any]:
    return [column.name, column.place, column.kind, list(column.levels)]


def _column(plain: list[Any]) -> Column:
    name, place, kind, levels = plain
    return Column(str(name), int(place), str(kind), tuple(map(str, levels)))


def choose_layout(
    name: str, header: Sequence[str], rows: Sequence[Sequence[str]], choice: ColumnChoice, horizon: int
) -> Layout:
    """Which columns are used and how, from the first rows of the table of this name."""
    _check_header(name, header)
    place = lambda column, option: _place(name, header, column, option)
    target = place(choice.target, "target")
    features = {place(each, "features") for each in choice.features}
    ignored = {place(each, "ignore") for each in choice.ignore}
    if target in ignored:
        raise InputError(f"`ignore` names {choice.target!r}, which is the target: leave it out of one of the two.")
    if both := features & ignored:
        raise InputError(f"`features` and `ignore` both name {header[min(both)]!r}: leave it out of one of the two.")

    def known(at: int) -> list[str]:
        return [row[at] for row in rows if len(row) == len(header) and not is_missing(row[at])]

    time, time_format = _time(header, known, choice, {target} | features | ignored, place)
    kind = _numeric_kind(name, header[target], known(target))
    first = Column(header[target], target, kind)
    others = (features or set(range(len(header)))) - ignored - {target}
    left = sorted(others - ({time.place} if time else set()))
    inputs = tuple(_input(name, header[at], at, known(at)) for at in left if header[at])
    if not horizon and not inputs:
        raise InputError(
            f"{name} has no column beside the target {choice.target!r} to predict it from, as `horizon` 0 asks for: "
            "use --horizon 1 to predict it from its past."
        )
    return Layout(len(header), (first, *inputs), horizon == 0, time, time_format)


def _check_header(name: str, header: Sequence[str]) -> None:
    named = [each for each in header if each]
    if not named:
        raise InputError(f"{name} has a first line without names: it has to name the columns.")
    if 2 * sum(is_number(each) for each in named) > len(named):
        raise InputError(
            f"{name} has no header: its first line is {shown(', '.join(header))}. Add a line above it that names the "
            "columns."
        )
    for each, count in Counter(named).items():
        if count > 1:
            raise InputError(f"{name} has {count} columns of the name {shown(each)}: rename all but one.")


def _place(name: str, header: Sequence[str], column: str, option: str) -> int:
    if column and column in header:
        return header.index(column)
    named = [each for each in header if each]
    near = difflib.get_close_matches(column, named, n=3, cutoff=0.5)
    lower = [each for each in named if each.lower() == column.lower()]
    near = list(dict.fromkeys([*lower, *near]))
    means = f"did you mean {' or '.join(map(repr, near))}?" if near else f"its columns are {_listed(named)}."
    raise InputError(f"`{option}` is {column!r}, and {name} has no such column: {means}")


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _time(
    header: Sequence[str],
    known: Callable[[int], list[str]],
    choice: ColumnChoice,
    used: set[int],
    place: Callable[[str, str], int],
) -> tuple[Column | None, str]:
    """The column of times, given or found, and how they are written."""
    if choice.time is not None:
        at = place(choice.time, "time")
        if at in used:
            raise InputError(f"`time` is {choice.time!r}, which is named for something else too: choose one.")
        found = find_format(known(at), numbers=True)
        if known(at) and found is None:
            raise InputError(
                f"`time` is {choice.time!r}, and {shown(known(at)[0])} in it is no date or time that is known: write "
                "them like 2016-01-31 17:00."
            )
        return Column(header[at], at), found or ISO
    for at in range(len(header)):
        if at not in used and header[at] and not is_number((known(at) or ["0"])[0]):
            found = find_format(known(at))
            if found is not None:
                return Column(header[at], at), found
    return None, ""


def _numeric_kind(name: str, column: str, known: list[str]) -> str:
    """What the target holds; an `InputError` if it is text."""
    kind = _kind(known)
    if kind == CATEGORY:
        _refuse_commas(name, column, known)
        text = next(cell for cell in known if not is_number(cell))
        raise InputError(
            f"{name} has text in the target {column!r}, such as {shown(text)}: a target has to hold numbers."
        )
    return kind


def _input(name: str, column: str, place: int, known: list[str]) -> Column:
    kind = _kind(known)
    if kind != CATEGORY:
        return Column(column, place, kind)
    _refuse_commas(name, column, known)
    levels = sorted({cell.strip() for cell in known})
    if len(levels) > CATEGORIES or max(map(len, levels)) > LONGEST_TEXT:
        why = f"{len(levels):,} different texts" if len(levels) > CATEGORIES else "long texts"
        raise InputError(
            f"{name} has {why} in the column {column!r}, such as {shown(known[0])}. Texts are taken for categories if "
            f'they are at most {CATEGORIES} different ones: leave the column out with --ignore "{column}".'
        )
    return Column(column, place, CATEGORY, tuple(levels))


def _kind(known: list[str]) -> str:
    """What most cells look like; others are bad values then."""
    known = [cell for cell in known if not is_no_number(cell)]
    if 2 * sum(map(is_number, known)) > len(known) or not known:
        return NUMBER
    return TRUTH if all(cell.strip().lower() in TRUTHS for cell in known) else CATEGORY


def _refuse_commas(name: str, column: str, known: list[str]) -> None:
    written = [cell for cell in known if COMMAS.fullmatch(cell.strip())]
    if 2 * len(written) > len(known):
        raise InputError(
            f"{name} has commas in the numbers of the column {column!r}, such as {shown(written[0])}: write them with "
            f'a decimal point and without other marks, or leave the column out with --ignore "{column}".'
        )


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
        return written, np.array([seconds(each, self.layout.time_format) for each in written], float)

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
