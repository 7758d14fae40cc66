"""A table that is read row by row: what a row is, how far one has read, and what every kind of table can do."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(slots=True)
class Row:
    """A row of the table, or what is wrong with it."""

    #: counted from 1, the header not counted
    number: int
    #: the line where it starts, counted from 1; 0 where there are no lines
    line: int
    raw: bytes
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    #: bytes and lines up to its end
    end: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Position:
    """How far a table was read, and what tells that it is still the same one."""

    row: int
    #: bytes and lines before the next row
    offset: int
    line: int
    #: length in bytes and digest of the header, and of the last row
    header: tuple[int, str]
    last: tuple[int, str] = (0, "")

    def plain(self) -> dict[str, Any]:
        """It as JSON has it."""
        header, last = list(self.header), list(self.last)
        return {"row": self.row, "offset": self.offset, "line": self.line, "header": header, "last": last}

    @staticmethod
    def of(plain: dict[str, Any]) -> "Position":
        """It from JSON."""
        (length, header), (last_length, last) = plain["header"], plain["last"]
        numbers = int(plain["row"]), int(plain["offset"]), int(plain["line"])
        return Position(*numbers, (int(length), str(header)), (int(last_length), str(last)))


@runtime_checkable
class Rows(Protocol):
    """A table, row by row."""

    name: str
    #: the names of the columns, once `begin` was successful
    columns: list[str]

    @property
    def ended(self) -> bool:
        """Whether there are no more rows, and never will be."""
        ...

    def begin(self) -> bool:
        """Read the header once it is there with a row; whether it is."""
        ...

    def go_on(self, position: Position, how: str) -> None:
        """Read on from there; `InputError` if the table is not the same any more."""
        ...

    def take(self, limit: int, patient: bool = False) -> list[Row]:
        """The next rows, at most so many; none if there are none now.

        One that comes over a pipe is waited for a little while. With `patient`, so is each after it.
        """
        ...

    def after(self, row: Row | None) -> Position:
        """The position after a row that was taken, or after the header."""
        ...

    @property
    def how(self) -> str:
        """What has to be known to read on: the separator."""
        ...

    def part(self) -> float | None:
        """How much of the table was read, from 0 to 1; None if that is unknown."""
        ...

    def close(self) -> None:
        """Let go of the input."""
        ...


def digest(raw: bytes) -> tuple[int, str]:
    """The length of a piece of the input, and what tells it from another piece."""
    return len(raw), hashlib.sha256(raw).hexdigest()[:32]
