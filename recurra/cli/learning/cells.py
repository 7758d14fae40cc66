"""What one cell of a table holds: a number, a truth value, nothing, or a date and time as commonly written."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

#: the largest number of 32 bits, in which the models compute
LARGEST = 3.4028234663852886e38
#: what stands for a missing value; letters may be small or capital
MISSING = frozenset(("", "na", "nan", "n/a", "null"))
#: what does so where numbers are expected; among texts it may be a value like any other
NO_NUMBER = MISSING | {"none", "nil"}
TRUTHS = {"true": 1.0, "false": 0.0}
#: a decimal comma, or commas between thousands
COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d+)?([eE][+-]?\d+)?|[+-]?\d{1,3}(\.\d{3})*,\d+")
#: letters of a bad value that a message shows
SHOWN = 40


class BadValueError(Exception):
    """A cell that cannot be used, and why."""


def shown(cell: str) -> str:
    """A cell as a message shows it."""
    return repr(cell if len(cell) <= SHOWN else cell[:SHOWN] + "…")


def is_missing(cell: str) -> bool:
    """Whether a cell holds no value."""
    return cell.strip().lower() in MISSING


def is_no_number(cell: str) -> bool:
    """Whether a cell of a column of numbers holds none."""
    return cell.strip().lower() in NO_NUMBER


def number(cell: str) -> float | None:
    """A cell as a number; None if it is missing."""
    try:
        value = float(cell)
    except ValueError:
        if is_no_number(cell):
            return None
        hint = "; numbers have a decimal point, and no other marks" if COMMAS.fullmatch(cell.strip()) else ""
        raise BadValueError(f"{shown(cell)} is not a number{hint}") from None
    if value != value:
        return None
    if not -LARGEST <= value <= LARGEST:
        raise BadValueError(f"{shown(cell)} is infinite, or beyond the range of 32-bit numbers")
    if "_" in cell:
        raise BadValueError(f"{shown(cell)} is not a number")
    return value


def truth(cell: str) -> float | None:
    """A cell of true or false as 1 or 0; None if it is missing."""
    value = TRUTHS.get(cell.strip().lower())
    if value is not None:
        return value
    value = number(cell)
    if value not in (None, 0.0, 1.0):
        raise BadValueError(f"{shown(cell)} is neither true nor false")
    return value


def is_number(cell: str) -> bool:
    """Whether a cell holds a number, be it a bad one."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


ISO, SECONDS = "iso", "seconds"
DAYS = ("%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y")
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
#: what an ISO date has, and most numbers have not
SHORTEST_ISO = len("2016-01-01")
#: Times after the year 5000 in seconds are taken for milliseconds.
LATEST = 1e11


def find_format(cells: Sequence[str], numbers: bool = False) -> str | None:
    """The format that all these cells have; None if there is none. With `numbers`, seconds since 1970 are one."""
    if not cells:
        return None
    formats = [ISO, *(day + clock for day in DAYS for clock in CLOCKS), *([SECONDS] if numbers else [])]
    # Most formats fail at the first cell.
    formats = [each for each in formats if not math.isnan(seconds(cells[0], each))]
    return next((each for each in formats if not any(math.isnan(seconds(cell, each)) for cell in cells)), None)


def seconds(text: str, how: str) -> float:
    """A time in seconds since 1970; NaN if it has another format. Without a time zone it is taken as UTC."""
    text = text.strip()
    try:
        if how == SECONDS:
            value = float(text)
            return value if abs(value) < LATEST else value / 1000
        if how == ISO:
            if len(text) < SHORTEST_ISO:
                return math.nan
            found = datetime.fromisoformat(text)
        else:
            found = datetime.strptime(text, how)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def moment(value: float) -> datetime | None:
    """The date and time, in UTC; None if there is none."""
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
