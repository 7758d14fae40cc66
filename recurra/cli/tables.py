"""Tables on standard output, and the learners in rows, from their metadata: for people, programs and pages."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recurra.learners import Learner


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]], gap: int = 2) -> None:
    """Rows under a header, on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=None, padding=(0, gap, 0, 0), header_style="bold")
    for row in rows:
        table.add_row(*row)
    # A pipe or a file has no width: nothing is wrapped there.
    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)


def printed() -> list[tuple[str, ...]]:
    """The header, and a row for each learner, as the command prints them."""
    from recurra.learners import LEARNERS

    header = ("Name", "Algorithm", "Facing", "Tensor", "Update", "Memory", "Time", "Cell")
    return [header, *((name, kind.about.name, *_axes(kind)) for name, kind in LEARNERS.items())]


def for_programs() -> list[dict[str, Any]]:
    """Everything about each learner, ready for JSON."""
    from recurra.learners import LEARNERS
    from recurra.studies.parts import hyperparameters

    known = lambda text: None if text == "–" else text
    return [
        {
            "name": name,
            "algorithm": kind.about.name,
            "facing": known(kind.facing),
            "tensor": known(kind.about.tensor),
            "stochastic": kind.about.stochastic,
            "numerical": kind.about.numerical,
            "memory": known(kind.about.memory),
            "time": known(kind.about.time),
            "unitwise": kind.about.unitwise,
            "cells": kind.about.cells,
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


def _axes(kind: "type[Learner]") -> Iterator[str]:
    about = kind.about
    yield kind.facing
    yield about.tensor
    chance = "stochastic" if about.stochastic else "deterministic"
    yield f"{chance}, {'numerical' if about.numerical else 'closed form'}"
    yield about.memory
    yield about.time
    yield about.cells
