"""The learners in rows, from their metadata: for `recurra learners`, for programs, and for pages."""

from collections.abc import Iterator
from typing import Any

from recurra.learners import LEARNERS, Learner
from recurra.studies.settings import hyperparameters


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


def _axes(kind: type[Learner]) -> Iterator[str]:
    about = kind.about
    yield kind.facing
    yield about.tensor
    chance = "stochastic" if about.stochastic else "deterministic"
    yield f"{chance}, {'numerical' if about.numerical else 'closed form'}"
    yield about.memory
    yield about.time
    yield about.cells
