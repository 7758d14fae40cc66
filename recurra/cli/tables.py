"""The learners in rows, from their metadata: for `recurra learners`, for programs, and for the README.

python -m recurra.cli.tables README.md        writes its table anew: `make tables`
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recurra.learners import LEARNERS, Learner
from recurra.studies.options import hyperparameters

#: what stands around the table in a file
BEGIN, END = "<!-- learners: begin -->", "<!-- learners: end -->"


def printed() -> list[tuple[str, ...]]:
    """The header, and a row for each learner, as the command prints them."""
    header = ("Name", "Algorithm", "Facing", "Tensor", "Update", "Memory", "Time", "Cell")
    return [header, *((name, kind.about.name, *_axes(kind)) for name, kind in LEARNERS.items())]


def for_programs() -> list[dict[str, Any]]:
    """Everything about each learner, ready for JSON."""
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


def markdown() -> str:
    """The table of the README, with the name that Python uses."""
    header = ("name", "algorithm", "facing", "tensor", "update", "memory", "time", "cells")
    rows = [(f"`{name}`", kind.__name__, *_axes(kind)) for name, kind in LEARNERS.items()]
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines)


def _axes(kind: type[Learner]) -> Iterator[str]:
    about = kind.about
    yield kind.facing
    yield about.tensor
    chance = "stochastic" if about.stochastic else "deterministic"
    yield f"{chance}, {'numerical' if about.numerical else 'closed form'}"
    yield about.memory
    yield about.time
    yield about.cells


def rewritten(text: str) -> str:
    """A file's text with the table as it is now."""
    place = re.compile(f"{BEGIN}\n.*?{END}", re.DOTALL)
    if not place.search(text):
        raise SystemExit(f"The file has no place for the table: add the lines {BEGIN} and {END}.")
    return place.sub(lambda _: f"{BEGIN}\n{markdown()}\n{END}", text)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
