"""What the columns of a table hold, decided from its first rows: numbers, truth values, categories or times."""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recurra.cli.learning import times
from recurra.cli.learning.feeds import InputError
from recurra.cli.learning.values import COMMAS, TRUTHS, is_missing, is_no_number, is_number, shown

#: rows from which the kinds are decided
SAMPLE = 1000
#: a text column of more different values is not taken for categories, nor one of longer ones
CATEGORIES, LONGEST = 32, 200

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


@dataclass(frozen=True)
class Choice:
    """What a user said of the columns."""

    target: str
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    time: str | None = None


def layout(name: str, header: Sequence[str], rows: Sequence[Sequence[str]], choice: Choice, horizon: int) -> Layout:
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
    choice: Choice,
    used: set[int],
    place: Callable[[str, str], int],
) -> tuple[Column | None, str]:
    """The column of times, given or found, and how they are written."""
    if choice.time is not None:
        at = place(choice.time, "time")
        if at in used:
            raise InputError(f"`time` is {choice.time!r}, which is named for something else too: choose one.")
        found = times.find_format(known(at), numbers=True)
        if known(at) and found is None:
            raise InputError(
                f"`time` is {choice.time!r}, and {shown(known(at)[0])} in it is no date or time that is known: write "
                "them like 2016-01-31 17:00."
            )
        return Column(header[at], at), found or times.ISO
    for at in range(len(header)):
        if at not in used and header[at] and not is_number((known(at) or ["0"])[0]):
            found = times.find_format(known(at))
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
    if len(levels) > CATEGORIES or max(map(len, levels)) > LONGEST:
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
