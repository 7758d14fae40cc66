"""Which columns of a table are used, what they hold, and rows of text as rows of numbers.

Whether a column holds numbers, truth values, categories or times is decided from the first rows. A missing value of an
input is replaced by the latest known one. A column of numbers that begins with a missing value is 0 until its first
known value, and the deviation from that value afterwards.
"""

import difflib
import math
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic.dataclasses import dataclass

from recurra.cli.learning import cells
from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.rows import Record
from recurra.cli.learning.sources import InputError

#: rows from which the kinds are decided
SAMPLE = 1000
#: a text column of more different values is not taken for categories, nor one of longer ones
CATEGORIES, LONGEST_TEXT = 32, 200

NUMBER, TRUTH, CATEGORY = "number", "truth", "category"


class Column(NamedTuple):
    """A column that is used: its name, its place in a row, and what it holds."""

    name: str
    place: int
    kind: str = NUMBER
    #: of a category, the values that have an input of their own; all others share one more
    levels: tuple[str, ...] = ()

    @property
    def inputs(self) -> list[str]:
        """What each of its inputs is."""
        if self.kind != CATEGORY:
            return [self.name]
        return [f"{self.name} = {level}" for level in (*self.levels, "another")]

    def values(self, cell: str) -> list[float | None]:
        """A cell as the values of the inputs; all are None if it is missing."""
        if self.kind != CATEGORY:
            return [cells.truth(cell) if self.kind == TRUTH else cells.number(cell)]
        if cells.is_missing(cell):
            return [None] * (len(self.levels) + 1)
        is_level = [cell.strip() == level for level in self.levels]
        return [float(each) for each in (*is_level, not any(is_level))]


@dataclass(frozen=True)
class ColumnPlan:
    """Which columns a run uses, and what for."""

    #: how many cells a row has
    cells: int
    #: the columns that are inputs, the target first
    inputs: tuple[Column, ...]
    #: whether the target's value becomes known after the prediction, so that its input is the value before
    late: bool = False
    #: the column of times and their format
    time: Column | None = None
    time_format: str = ""

    @property
    def target(self) -> Column:
        """The column that is predicted."""
        return self.inputs[0]

    @property
    def names(self) -> list[str]:
        """What each input is."""
        first, *others = (name for column in self.inputs for name in column.inputs)
        return [f"{first}, a row before" if self.late else first, *others]


def plan_columns(table: str, header: Sequence[str], rows: Sequence[Sequence[str]], options: LearnOptions) -> ColumnPlan:
    """Which columns are used and how, from the first rows of the table of this name."""
    _check_header(table, header)
    place = lambda column, option: _place(table, header, column, option)
    target = place(options.target, "target")
    features = {place(each, "features") for each in options.features or ()}
    ignored = {place(each, "ignore") for each in options.ignore or ()}
    if target in ignored:
        raise InputError(f"`ignore` names {options.target!r}, which is the target: leave it out of one of the two.")
    if both := features & ignored:
        raise InputError(f"`features` and `ignore` both name {header[min(both)]!r}: leave it out of one of the two.")
    whole = [row for row in rows if len(row) == len(header)]
    known = [[row[at] for row in whole if not cells.is_missing(row[at])] for at in range(len(header))]

    used = {target} | features | ignored
    if options.time is not None:
        at = place(options.time, "time")
        if at in used:
            raise InputError(f"`time` is {options.time!r}, which is named for something else too: choose one.")
        time, found = at, cells.find_format(known[at], numbers=True)
        if known[at] and not found:
            text = cells.shown(known[at][0])
            raise InputError(
                f"`time` is {options.time!r}, and {text} in it is no date or time that is known: write them like "
                "2016-01-31 17:00."
            )
    else:
        free = [at for at, column in enumerate(header) if column and at not in used]
        dates = ((at, cells.find_format(known[at])) for at in free if known[at] and not cells.is_number(known[at][0]))
        time, found = next((each for each in dates if each[1]), (None, ""))

    first = _column(table, header[target], target, known[target], is_target=True)
    others = (features or set(range(len(header)))) - ignored - {target, time}
    inputs = [_column(table, header[at], at, known[at]) for at in sorted(others) if header[at]]
    if not options.horizon and not inputs:
        raise InputError(
            f"{table} has no column beside the target {options.target!r} to predict it from, as `horizon` 0 asks for: "
            "use --horizon 1 to predict it from its past."
        )
    is_late = not options.horizon
    if time is None:
        return ColumnPlan(len(header), (first, *inputs), is_late)
    return ColumnPlan(len(header), (first, *inputs), is_late, Column(header[time], time), found or cells.ISO)


def _check_header(table: str, header: Sequence[str]) -> None:
    named = [each for each in header if each]
    if not named:
        raise InputError(f"{table} has a first line without names: it has to name the columns.")
    if 2 * sum(cells.is_number(each) for each in named) > len(named):
        line = cells.shown(", ".join(header))
        raise InputError(
            f"{table} has no header: its first line is {line}. Add a line above it that names the columns."
        )
    for each, count in Counter(named).items():
        if count > 1:
            raise InputError(f"{table} has {count} columns of the name {cells.shown(each)}: rename all but one.")


def _place(table: str, header: Sequence[str], column: str, option: str) -> int:
    if column and column in header:
        return header.index(column)
    named = [each for each in header if each]
    near = difflib.get_close_matches(column, named, n=3, cutoff=0.5)
    lower = [each for each in named if each.lower() == column.lower()]
    near = list(dict.fromkeys([*lower, *near]))
    means = f"did you mean {' or '.join(map(repr, near))}?" if near else f"its columns are {_listed(named)}."
    raise InputError(f"`{option}` is {column!r}, and {table} has no such column: {means}")


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _column(table: str, column: str, place: int, known: list[str], is_target: bool = False) -> Column:
    """A column with what most of its cells look like; others are bad values then. The target must not be text."""
    values = [cell for cell in known if not cells.is_no_number(cell)]
    if 2 * sum(map(cells.is_number, values)) > len(values) or not values:
        return Column(column, place)
    if all(cell.strip().lower() in cells.TRUTHS for cell in values):
        return Column(column, place, TRUTH)
    commas = [cell for cell in known if cells.COMMAS.fullmatch(cell.strip())]
    if 2 * len(commas) > len(known):
        raise InputError(
            f"{table} has commas in the numbers of the column {column!r}, such as {cells.shown(commas[0])}: write them "
            f'with a decimal point and without other marks, or leave the column out with --ignore "{column}".'
        )
    if is_target:
        text = next(cell for cell in known if not cells.is_number(cell))
        raise InputError(
            f"{table} has text in the target {column!r}, such as {cells.shown(text)}: a target has to hold numbers."
        )
    levels = sorted({cell.strip() for cell in known})
    if len(levels) > CATEGORIES or max(map(len, levels)) > LONGEST_TEXT:
        what = f"{len(levels):,} different texts" if len(levels) > CATEGORIES else "long texts"
        raise InputError(
            f"{table} has {what} in the column {column!r}, such as {cells.shown(known[0])}. Texts are taken for "
            f"categories if they are at most {CATEGORIES} different ones: leave the column out with --ignore "
            f'"{column}".'
        )
    return Column(column, place, CATEGORY, tuple(levels))


class BadRowError(Exception):
    """A row that cannot be used: where it is, and why."""


class Chunk(NamedTuple):
    """Rows as arrays."""

    rows: Sequence[Record]
    #: (rows, inputs)
    x: np.ndarray
    #: (rows,); NaN where it is missing
    y: np.ndarray
    #: the cells of the time, and seconds since 1970, (rows,); NaN where they are unknown
    times: Sequence[str]
    seconds: np.ndarray


class Encoder:
    """Turns rows into numbers, and remembers the latest known values."""

    KEPT: ClassVar = {
        "latest": "_latest", "shift": "_shift", "counts": ("_is_first", "missing_inputs", "missing_targets"),
    }  # fmt: skip

    def __init__(self, plan: ColumnPlan):
        self.plan = plan
        self._may_shift = [each.kind == NUMBER for each in plan.inputs for _ in each.inputs]
        self._latest = np.zeros(len(plan.names))
        #: what is subtracted; NaN where the first known value is still to come
        self._shift = np.zeros(len(plan.names))
        if plan.late:  # at the first row no value of the target is known
            self._shift[0] = math.nan
        self._is_first = True
        #: how many cells of inputs, the target among them, and of the target alone were missing
        self.missing_inputs, self.missing_targets = 0, 0

    def encode(self, rows: Sequence[Record]) -> tuple[Chunk, BadRowError | None]:
        """The rows before the first bad one as arrays, and what is wrong with that one."""
        x, y, good, bad = np.empty((len(rows), len(self._latest))), np.empty(len(rows)), 0, None
        for row in rows:
            before = self._latest[0]
            try:
                y[good] = self._encode(row)
            except BadRowError as error:
                bad = BadRowError(f"{row.place}{error}")
                break
            x[good] = self._latest
            if self.plan.late:
                x[good, 0] = before
            good += 1
        return Chunk(rows[:good], x[:good], y[:good], *self._times(rows[:good])), bad

    def _encode(self, row: Record) -> float:
        """Take the values of a row in; the target's."""
        if row.problem:
            raise BadRowError(f": {row.problem}")
        if (count := len(row.cells)) != self.plan.cells:
            raise BadRowError(f": it has {count} cell{'s' * (count != 1)}, and the header {self.plan.cells}")
        found = []
        for column in self.plan.inputs:
            try:
                found.append(column.values(row.cells[column.place]))
            except cells.BadValueError as error:
                raise BadRowError(f", column {column.name!r}: {error}") from None
        values = [value for each in found for value in each]
        for i, value in enumerate(values):
            if value is None:
                if self._is_first and self._may_shift[i]:
                    self._shift[i] = math.nan
                continue
            if math.isnan(self._shift[i]):
                self._shift[i] = value
            self._latest[i] = max(-cells.LARGEST, min(value - self._shift[i], cells.LARGEST))
        self._is_first = False
        self.missing_inputs += sum(each[0] is None for each in found)
        self.missing_targets += values[0] is None
        return math.nan if values[0] is None else values[0]

    def _times(self, rows: Sequence[Record]) -> tuple[list[str], np.ndarray]:
        column = self.plan.time
        if column is None:
            return [""] * len(rows), np.full(len(rows), math.nan)
        written = [row.cells[column.place].strip() for row in rows]
        return written, np.array([cells.seconds(each, self.plan.time_format) for each in written], float)
