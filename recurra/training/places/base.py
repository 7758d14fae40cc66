"""What is computed elsewhere, and where: orders, their outcomes, and what every place offers.

What goes to a worker and comes back are plain data and arrays; only parts that a user has written travel as code. A
worker imports the library that is installed where it runs. So an order names the versions it was written with, and a
worker that has others refuses it before it looks at the rest.

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

from recurra.engine.protocol import Engine
from recurra.training.cases import Sent
from recurra.training.interrupts import Asked

#: how often an order is tried in all
TRIES = 2
#: reasons are cut to so many characters
LONGEST = 300

#: what a member needs to go on
State = tuple[np.ndarray, ...]


class Member(NamedTuple):
    """One network: the row of its case in the order, and its seed."""

    row: int
    seed: int


@dataclass(frozen=True)
class Order:
    """Networks that a worker computes together, from step `start` to step `stop`.

    `cases` are what they are made of, for each point once, and `points` the points' numbers in the sweep. With a
    `state` the members go on from it: for each of them, arrays. With `returns_state` the outcome has the state after
    the last step.
    """

    cases: Sent
    points: tuple[int, ...]
    members: tuple[Member, ...]
    stop: int
    #: of all random numbers: its data, and the name of its kind
    key: tuple[np.ndarray, str]
    versions: dict[str, str]
    #: what runs it, and for how many networks in all that is chosen
    engine: Engine | str = "auto"
    among: int | None = None
    #: the learners, for messages
    learners: tuple[str, ...] = ()
    #: JAX's settings, by name: see `recurra.engine.settings`
    settings: Mapping[str, Any] = field(default_factory=dict)
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
        count = len(self.members)
        return f"{count:,} network{'s' * (count != 1)} of {', '.join(self.learners)}"


@dataclass(frozen=True)
class Computed:
    """What an order came to: arrays with a row for each member, by name.

    `loss[m, w]` is the mean loss of window w, which ends after step `axes["step"][w]`. `final_loss` is the mean over
    the last tenth of the steps so far, nan for a member that diverged. `diverged_at` is the first step at which the
    loss was not finite, -1 for none. `dims` has the names of the axes after the first, where an array has more.
    """

    values: dict[str, np.ndarray]
    axes: dict[str, np.ndarray]
    dims: dict[str, tuple[str, ...]]
    #: seconds of computing, and of getting ready, which is mostly compiling, for all members together
    seconds: float
    compile_seconds: float
    #: where it was computed
    worker: str
    device: str
    state: tuple[State, ...] | None = field(default=None, repr=False)
    #: the signal that ended it before its last step
    signal: int | None = None


@dataclass(frozen=True)
class Failure:
    """Why an order could not be computed, in one line, and where it was tried."""

    reason: str
    workers: tuple[str, ...] = ()
    #: what was raised, where that happened in this process
    error: Exception | None = field(default=None, repr=False, compare=False)


Compute = Callable[[Order], Computed]
#: orders with their outcomes, as they are finished
Results = Iterator[tuple[Order, Computed | Failure]]


class PlaceError(Exception):
    """A place cannot be used. The message says what is wrong, what was seen, and what to do.

    >>> try:
    ...     rc.places.Cluster("somewhere")
    ... except rc.places.PlaceError as error:
    ...     print("not the address of a Dask scheduler" in str(error))
    True
    """


class PlaceLost(PlaceError):  # noqa: N818  (a name that says what happened)
    """A place that was there is there no more, such as a cluster whose scheduler has ended. What was finished is kept.

    >>> issubclass(rc.places.PlaceLost, rc.places.PlaceError)
    True
    """


@runtime_checkable
class Place(Protocol):
    """Somewhere to compute orders, for as long as it is entered as a context."""

    def __enter__(self) -> "Place": ...

    def __exit__(self, *exception: object) -> None: ...

    def workers(self) -> int:
        """How many orders are computed at the same time, at least 1."""
        ...

    def each(self, compute: Compute, orders: Iterable[Order], asked: Asked | None = None) -> Results:
        """Each order with its outcome, as they are finished, in any sequence, until one is `asked` to stop.

        Orders are drawn when a worker has none, so one for each worker is under way.
        """
        ...


@dataclass(frozen=True)
class Tls:
    """Files in PEM format that a Dask cluster is reached with: `--tls-ca-file`, `--tls-cert`, `--tls-key` of Dask.

    >>> rc.places.Tls(Path("ca.pem"), Path("cert.pem"), Path("key.pem")).cert.name
    'cert.pem'
    """

    ca_file: Path
    cert: Path
    key: Path


@dataclass(frozen=True)
class Attempt:
    """One try at an order: its outcome, or in one line why there is none."""

    worker: str
    outcome: Computed | None = None
    reason: str = ""
    error: Exception | None = field(default=None, repr=False, compare=False)
    #: whether the worker would refuse every order, since it has other versions
    is_unfit: bool = False
    #: whether another try would be no use
    is_final: bool = False
    #: whether the worker has an accelerator; None if it was not asked
    accelerated: bool | None = None


class ReportError(Exception):
    """What is told how far a sweep is has raised its cause. The order that was being computed is not tried again."""


def attempt(compute: Compute, order: Order, worker: str) -> Attempt:
    """Compute an order here. Only what ends the process gets past it, such as Ctrl-C."""
    try:
        return Attempt(worker, compute(order))
    except Exception as error:
        cause = error.__cause__ if isinstance(error, ReportError) else None
        raised = cause if isinstance(cause, Exception) else error
        return Attempt(worker, reason=one_line(raised), error=raised, is_final=raised is not error)


def failure(attempts: list[Attempt]) -> Failure:
    """What is said of an order of which no try came to an outcome."""
    *earlier, last = [each.reason for each in attempts]
    reason = last if all(each == last for each in earlier) else f"{'; '.join(earlier)}; then {last}"
    return Failure(reason, tuple(each.worker for each in attempts), attempts[-1].error)


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
