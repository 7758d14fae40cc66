"""What every figure module gives back, and what they share in reading the data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure

#: experiment name -> its arrays
Data = Mapping[str, Mapping[str, np.ndarray]]
#: column name -> its entries, all of one length
Table = Mapping[str, Sequence | np.ndarray]


@dataclass(frozen=True)
class Drawn:
    """A finished figure: `caption` goes below it, `alt` stands in for it, `table` holds the numbers it shows.

    `rows`, where there are any, are shown as a table on the page: each maps a heading to a cell. `judged` gives, for
    each of them, the claims whose verdicts stand at its end: a word for what is judged, and the claim's id. `more` are
    further tables of numbers, by what they hold.
    """

    figure: Figure
    caption: str
    alt: str
    table: Table
    rows: Sequence[Mapping[str, str]] = ()
    judged: Sequence[Mapping[str, str]] = ()
    more: Mapping[str, Table] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, Table]:
        """All of its numbers, by the ending of the file they go to."""
        return {"": self.table, **{f"-{what}": table for what, table in self.more.items()}}


class Columns(dict[str, list]):
    """A table that grows by rows."""

    def add(self, **row: object) -> None:
        """One more row; its keys are the columns."""
        for column, entry in row.items():
            self.setdefault(column, []).append(entry)

    def extend(self, **columns: object) -> None:
        """Many rows at once: arrays of one length, and scalars that are repeated."""
        length = max(len(entry) for entry in columns.values() if isinstance(entry, np.ndarray))
        for column, entry in columns.items():
            many = entry.tolist() if isinstance(entry, np.ndarray) else [entry] * length
            self.setdefault(column, []).extend(many)


def listed(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *rest, last = list(words)
    return f"{', '.join(rest)} and {last}" if rest else last


def counted(numbers: Iterable[int]) -> str:
    """One number, or the range where they differ."""
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def seed_mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the first axis, of what is finite; nan where too little is."""
    seen = np.isfinite(values)
    count = seen.sum(axis=0)
    divided = lambda total, by: np.divide(total, by, out=np.full(np.shape(total), np.nan), where=by > 0)
    mean = divided(np.where(seen, values, 0.0).sum(axis=0), count)
    squares = np.where(seen, values - np.nan_to_num(mean), 0.0) ** 2
    return mean, np.asarray(np.sqrt(divided(squares.sum(axis=0), count * (count - 1))))
