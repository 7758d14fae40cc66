"""What goes to a worker, and what comes back: plain data and arrays, no code.

A worker imports the library that is installed where it runs. So an order names the versions it was written with, and a
worker that has others refuses it.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

#: what a member needs to go on
State = tuple[np.ndarray, ...]


class Member(NamedTuple):
    """One network: the row of its settings in the order, and its seed."""

    row: int
    seed: int


@dataclass(frozen=True)
class Order:
    """Networks that a worker computes together, from step `start` to step `stop`.

    `settings` are those of `recurra train`, for each point once, and `points` the points' numbers in the study. With a
    `state` the members go on from it: for each of them, arrays. With `returns_state` the outcome has the state after
    the last step.
    """

    settings: tuple[dict[str, Any], ...]
    points: tuple[int, ...]
    members: tuple[Member, ...]
    stop: int
    versions: dict[str, str]
    #: whether JAX computes with 64 bits where it is asked to: in a study all orders are alike in it
    x64: bool = False
    #: whether a worker with an accelerator is faster
    gains: bool = False
    start: int = 0
    state: tuple[State, ...] | None = None
    returns_state: bool = False

    @property
    def steps(self) -> int:
        """Network-steps: how many steps all members take together."""
        return len(self.members) * (self.stop - self.start)

    def label(self) -> str:
        """What it is, in a few words."""
        learners = sorted({name for each in self.settings for name in each["learners"]})
        count = len(self.members)
        return f"{count:,} network{'s' * (count != 1)} of {', '.join(learners)}"


@dataclass(frozen=True)
class Outcome:
    """What an order came to. Arrays have a row for each member.

    `loss[m, w]` is the mean loss of window w, which ends after step `step[w]`. `final_loss` is the mean over the last
    tenth of the steps so far, nan for a member that diverged. `diverged_at` is the first step at which the loss was not
    finite, -1 for none.
    """

    step: np.ndarray
    loss: np.ndarray
    final_loss: np.ndarray
    diverged_at: np.ndarray
    #: seconds of computing, and of getting ready, which is mostly compiling, for all members together
    seconds: float
    compile_seconds: float
    #: where it was computed
    worker: str
    device: str
    state: tuple[State, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Failure:
    """Why an order could not be computed, in one line, and where it was tried."""

    reason: str
    workers: tuple[str, ...] = ()
