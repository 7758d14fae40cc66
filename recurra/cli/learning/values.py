"""Cells as numbers: what is one, what is missing, and what is neither."""

import re

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
