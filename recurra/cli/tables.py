"""Tables on standard output, and the learners in rows, from their metadata: for people, programs and pages."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]], gap: int = 2, **how: Any) -> "Table":
    """Rows under a header."""
    from rich.table import Table

    table = Table(*header, box=None, padding=(0, gap, 0, 0), header_style="bold", **how)
    for row in rows:
        table.add_row(*row)
    return table


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], gap: int = 2) -> None:
    """Rows under a header, on standard output."""
    from rich.console import Console

    # A pipe or a file has no width: nothing is wrapped there.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, markup=False, highlight=False).print(table_of(header, rows, gap))


def counted(count: int, what: str) -> str:
    """A number of things in words: `1 row`, `1,000 rows`."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def printed() -> list[tuple[str, ...]]:
    """The header, and a row for each learner, as the command prints them."""
    from recurra.learners import LEARNERS

    header = ("Name", "Algorithm", "Facing", "Tensor", "Update", "Memory", "Time", "Cell")
    rows = []
    for name, kind in LEARNERS.items():
        about = kind.about
        chance = "stochastic" if about.stochastic else "deterministic"
        update = f"{chance}, {'numerical' if about.numerical else 'closed form'}"
        costs = about.memory, about.time, about.cells
        rows.append((name, about.name, kind.facing, about.tensor, update, *costs))
    return [header, *rows]


def for_programs() -> list[dict[str, Any]]:
    """Everything about each learner, ready for JSON."""
    from recurra.learners import LEARNERS
    from recurra.studies.parts import hyperparameters

    known = lambda text: None if text == "–" else text
    fields = ("tensor", "stochastic", "numerical", "memory", "time", "unitwise", "cells")
    return [
        {
            "name": name,
            "algorithm": kind.about.name,
            "facing": known(kind.facing),
            **{field: known(getattr(kind.about, field)) for field in fields},
            "hyperparameters": hyperparameters(kind()),
        }
        for name, kind in LEARNERS.items()
    ]


def rows_of_settings(beginning: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every setting whose path begins so: its name, what it may be, its default, and the parts that have it."""
    from recurra.studies.language import every_setting

    for setting, owners in every_setting(beginning):
        kind = "true or false" if setting.kind == "flag" else "a whole number" if setting.whole else "a number"
        default = "–" if setting.default is None else str(setting.default)
        yield setting.name, ", ".join(setting.choices) or kind, default, ", ".join(owners)
