"""Where orders are computed: what every place offers, and one try at an order.

A place takes orders and gives back what they came to. An order that fails is tried once more, elsewhere if possible.
If that fails too it is a `Failure`, and the other orders go on.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from recurra.studies.order import Failure, Order, Outcome

#: how often an order is tried in all
TRIES = 2
#: reasons are cut to so many characters
LONGEST = 300

Compute = Callable[[Order], Outcome]


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

    def each(self, compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
        """Each order with what it came to, as they are finished, in any sequence.

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
