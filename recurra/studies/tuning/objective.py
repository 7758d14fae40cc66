"""What the search asks of those who compute networks, and what it is told about its own bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

Point = dict[str, bool | int | float | str]


class TuningError(Exception):
    """Why a search cannot go on: what was seen, and what to do."""


@runtime_checkable
class Objective(Protocol):
    """Networks on their way: trials that are computed side by side."""

    def start(self, points: Sequence[Point], seeds: Sequence[int]) -> Any:
        """A handle for a network of each point and seed. Nothing is computed yet."""
        ...

    def advance(self, handle: Any, rows: Sequence[int], stop: int) -> tuple[Any, np.ndarray]:
        """Take these rows (indices into the handle's present points) to step `stop`.

        Returns a new handle with these points alone, and their losses (point, seed): the mean over the last tenth of
        the steps so far, nan where the network diverged.
        """
        ...


@runtime_checkable
class Bounds(Protocol):
    """How far a search goes: the settings under [tune] of a study file."""

    @property
    def trials(self) -> int:
        """How many settings are tried for each case."""
        ...

    @property
    def seeds(self) -> int | None:
        """How many seeds a trial has; None for those of the study."""
        ...

    @property
    def startup(self) -> int | None:
        """How many trials are spread evenly before the search begins; None for a number that suits the settings."""
        ...

    @property
    def rungs(self) -> int:
        """How often trials are compared on their way, the last step included."""
        ...

    @property
    def eta(self) -> int:
        """One in `eta` trials goes on from a comparison."""
        ...

    @property
    def finalists(self) -> int:
        """How many of the best are compared once more, on fresh seeds."""
        ...

    @property
    def confirm_seeds(self) -> int:
        """On how many further seeds the chosen settings are measured."""
        ...


@dataclass(frozen=True)
class Progress:
    """Where the search of one case stands; reported whenever networks have been taken further."""

    case: Point
    #: "search", "finalists" or "confirmation"
    phase: str
    #: trials that are done, among all processes, and how many there will be
    finished: int
    trials: int
    #: network-steps that this process took in the work just done
    network_steps: int
    #: lowest loss of a trial that reached the last step, None before there is one
    best: float | None


Report = Callable[[Progress], object]
