"""What is computed elsewhere, and where: orders, their outcomes, and what every place offers.

What goes to a worker and comes back are plain data and arrays, no code. A worker imports the library that is installed
where it runs. So an order names the versions it was written with, and a worker that has others refuses it.

A place takes orders and gives back their outcomes. An order that fails is tried once more, elsewhere if possible. If
that fails too it is a `Failure`, and the other orders go on.
"""

import functools
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

#: how often an order is tried in all
TRIES = 2
#: reasons are cut to so many characters
LONGEST = 300

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


Compute = Callable[[Order], Outcome]
#: orders with their outcomes, as they are finished
Results = Iterator[tuple[Order, Outcome | Failure]]


class PlaceError(Exception):
    """A place cannot be used: what is wrong, what was seen, what to do."""


class PlaceLost(PlaceError):  # noqa: N818  (a name that says what happened)
    """A place that was there is there no more. What was handed out before is complete."""


@runtime_checkable
class Place(Protocol):
    """Somewhere to compute orders, for as long as it is entered as a context."""

    def __enter__(self) -> "Place": ...

    def __exit__(self, *exception: object) -> None: ...

    def workers(self) -> int:
        """How many orders are computed at the same time, at least 1."""
        ...

    def each(self, compute: Compute, orders: Iterable[Order]) -> Results:
        """Each order with its outcome, as they are finished, in any sequence.

        Orders are drawn when there is room for them: about two for each worker are under way.
        """
        ...


@dataclass(frozen=True)
class Tls:
    """Files in PEM format that a Dask cluster is reached with: `--tls-ca-file`, `--tls-cert`, `--tls-key` of Dask."""

    ca_file: Path
    cert: Path
    key: Path


@dataclass(frozen=True)
class Attempt:
    """One try at an order: its outcome, or in one line why there is none."""

    worker: str
    outcome: Outcome | None = None
    reason: str = ""
    #: whether the worker would refuse every order, since it has other versions
    is_unfit: bool = False
    #: whether the worker has an accelerator; None if it was not asked
    accelerated: bool | None = None


def attempt(compute: Compute, order: Order, worker: str) -> Attempt:
    """Compute an order here. Only what ends the process gets past it, such as Ctrl-C."""
    try:
        return Attempt(worker, compute(order))
    except Exception as error:
        return Attempt(worker, reason=one_line(error))


def failure(attempts: list[Attempt]) -> Failure:
    """What is said of an order of which no try came to an outcome."""
    *earlier, last = [each.reason for each in attempts]
    reason = last if all(each == last for each in earlier) else f"{'; '.join(earlier)}; then {last}"
    return Failure(reason, tuple(each.worker for each in attempts))


def one_line(error: BaseException) -> str:
    """An error's kind and the first line of what it says."""
    said = next((line for line in str(error).splitlines() if line.strip()), "")
    text = " ".join(f"{type(error).__name__}: {said}".split()).removesuffix(":")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def versions() -> dict[str, str]:
    """What results depend on, as it is installed here. An order carries it."""
    return dict(_versions())


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    import recurra

    python = ".".join(platform.python_version_tuple()[:2])
    return ("recurra", recurra.__version__), ("jax", version("jax")), ("jaxlib", version("jaxlib")), ("python", python)


def refusal(wanted: Mapping[str, str], here: Mapping[str, str], worker: str) -> str:
    """Why a worker takes no orders, in one line; empty if it does."""
    differ = [(name, here.get(name, "none"), value) for name, value in wanted.items() if here.get(name) != value]
    words = " and ".join(f"{name} {there} where the study has {value}" for name, there, value in differ)
    return f"worker {worker} has {words}: install the same there" if words else ""


def described() -> dict[str, Any]:
    """What a worker has: this runs on the worker, which imports it by name."""
    return {"versions": versions(), "accelerated": bool(accelerators())}


def accelerators() -> list[Any]:
    """The devices of this process that are faster than its cores."""
    import jax

    try:
        return [device for device in jax.local_devices() if device.platform != "cpu"]
    except RuntimeError:  # JAX was told to use something that is not there: computing will say so
        return []


def accelerated_so_far() -> bool | None:
    """Whether there is an accelerator, if JAX has been asked to compute at all."""
    return bool(accelerators()) if "jax" in sys.modules else None
