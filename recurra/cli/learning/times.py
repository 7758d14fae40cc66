"""Dates and times in the ways they are commonly written, for the axis of a plot."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

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
