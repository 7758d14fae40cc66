"""Rows of a Parquet file, as text, so that they are treated like those of any other file."""

from collections.abc import Iterator
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from recurra.cli.learning.feeds import InputError
from recurra.cli.learning.table import Position, Row, digest

#: rows that are read at once
BATCH = 1024


class ParquetRows:
    """The rows of a Parquet file. The offset of a position is the number of rows before it."""

    def __init__(self, path: Path):
        # By name, so that types can be checked where pyarrow is not installed.
        self._error: type[Exception] = import_module("pyarrow").ArrowException
        self.name, self.how, self.ended = str(path), "parquet", False
        try:
            self._file: Any = import_module("pyarrow.parquet").ParquetFile(path)
        except (OSError, self._error) as error:
            raise InputError(f"{path} cannot be read as Parquet: {_first_line(error)}.") from None
        self.columns: list[str] = [name.strip() for name in self._file.schema_arrow.names]
        self._header = digest(repr(self._file.schema_arrow.names).encode())
        self._rows = self._read(0)

    def _read(self, start: int) -> Iterator[Row]:
        number = 0
        for batch in self._file.iter_batches(BATCH):
            if number + batch.num_rows <= start:
                number += batch.num_rows
                continue
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                if number > start:
                    cells = [_written(value) for value in values]
                    yield Row(number, 0, repr(cells).encode("utf-8", "replace"), cells, end=(number, 0))

    def begin(self) -> bool:
        return True

    def go_on(self, position: Position, how: str) -> None:
        self._rows = self._read(max(position.row - 1, 0))
        before = self.take(1) if position.row else []
        changed = position.row and (not before or digest(before[0].raw) != position.last)
        if changed or how != self.how or position.header != self._header:
            raise InputError(
                f"{self.name} is not what it was when the checkpoint was written: up to row {position.row:,} it has "
                "changed, or become shorter. Start anew with another checkpoint, or bring the old file back."
            )

    def take(self, limit: int, patient: bool = False) -> list[Row]:
        found: list[Row] = []
        try:
            while len(found) < limit:
                found.append(next(self._rows))
        except StopIteration:
            self.ended = True
        except (OSError, self._error) as error:
            raise InputError(f"{self.name} is damaged: {_first_line(error)}.") from None
        return found

    def after(self, row: Row | None) -> Position:
        if row is None:
            return Position(0, 0, 0, self._header)
        return Position(row.number, *row.end, self._header, digest(row.raw))

    def part(self) -> float | None:
        return None

    def close(self) -> None:
        self._file.close()


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
