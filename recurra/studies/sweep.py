"""A study carried out: what is missing is computed, what is finished is kept at once."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recurra.studies.dataset import whole
from recurra.studies.folder import Folder, NotKeptError
from recurra.studies.places.base import Failure, Order, Outcome, Place, versions
from recurra.studies.planning import Batch, Planner, plain
from recurra.studies.reading.points import Point
from recurra.studies.settings import Settings
from recurra.studies.study import Study
from recurra.training.console import say
from recurra.training.progress import progress
from recurra.training.provenance import machine
from recurra.training.provenance import versions as all_versions

if TYPE_CHECKING:
    import xarray

#: the shortest probe of a program, in seconds, and its first number of steps
PROBE_SECONDS, PROBE_STEPS = 0.5, 64


@dataclass
class Sweep:
    """The networks of a study, and how they are computed."""

    study: Study
    points: list[Point] = field(init=False)
    settings: list[Settings] = field(init=False)

    def __post_init__(self) -> None:
        self.points = self.study.points()
        self.settings = [self.study.settings(point) for point in self.points]

    def planner(self, workers: int = 1) -> Planner:
        """Who hands out orders."""
        return Planner(self.settings, self.study.seeds, versions(), workers)

    def done(self, folder: Folder) -> set[tuple[int, int]]:
        """The networks that are finished."""
        return folder.done([plain(each) for each in self.settings])

    def run(self, folder: Folder, place: Place) -> list[dict[str, Any]]:
        """Compute all that is missing, and keep each group as it is finished; what failed, and why."""
        planner = self.planner()
        batches = planner.batches(self.done(folder))
        total = _network_steps(batches)
        kept, failures = Keeping(folder), []
        count = sum(len(batch.members) for batch in batches)
        label = f"{count:,} network{'s' * (count != 1)}"
        taken = 0  # network-steps of orders that are finished
        with kept, place, progress(label, total, True, "network-steps") as report:
            planner.workers = place.workers()
            during = lambda done: report(taken + done)
            for order, found in place.each(_computing(place, during), planner.orders(batches)):
                taken += order.steps
                if isinstance(found, Failure):
                    failures.append({"points": list(order.points), "reason": found.reason})
                    say(f"{order.label()} failed: {found.reason}. The study goes on without them.")
                else:
                    planner.learn(order, found)
                    kept.add(order, found)
                report(taken)
        return failures

    def dataset(self, folder: Folder) -> "xarray.Dataset":
        """All that is kept, as one data set."""
        return whole(self.study, self.points, folder.groups(), folder.recall())

    def estimate(self, batches: list[Batch]) -> dict[str, Any]:
        """How long it will take, from a short probe of each program on this machine."""
        planner, seconds, compiling = self.planner(), 0.0, 0.0
        for batch in batches:
            pace, first = _probed(planner, batch)
            seconds += len(batch.members) * batch.settings.steps / pace
            compiling += first
        return {
            "networks": sum(len(batch.members) for batch in batches),
            "programs": len(batches),
            "network_steps": _network_steps(batches),
            "seconds": round(seconds + compiling, 1),
            "compile_seconds": round(compiling, 1),
        }


def _network_steps(batches: list[Batch]) -> int:
    return sum(len(batch.members) * batch.settings.steps for batch in batches)


def _computing(place: Place, report: Callable[[int], None]) -> Callable[[Order], Outcome]:
    """What computes an order. In this process it also reports on the way; elsewhere it is imported by its name."""
    from recurra.studies.places.dispatching import Local
    from recurra.studies.work import compute

    return functools.partial(compute, report=report) if isinstance(place, Local) else compute


def _probed(planner: Planner, batch: Batch) -> tuple[float, float]:
    """Network-steps a second of a program, and the seconds it takes to compile."""
    import dataclasses

    from recurra.engine.hardware import cores
    from recurra.engine.tuning import FIXED_MEMBERS
    from recurra.studies.work import compute

    some = batch.members[: 2 * FIXED_MEMBERS * cores()]
    order, steps, compiling = planner.order(some), PROBE_STEPS, None
    while True:
        found = compute(dataclasses.replace(order, stop=min(steps, batch.settings.steps)))
        compiling = found.compile_seconds if compiling is None else compiling
        if found.seconds >= PROBE_SECONDS or steps >= batch.settings.steps:
            return len(some) * min(steps, batch.settings.steps) / max(found.seconds, 1e-6), compiling
        steps *= 4 if found.seconds > PROBE_SECONDS / 8 else 16


class Keeping:
    """Groups on their way to the folder. Those that find no room wait in memory, and are tried again.

    In the end, also if that is an interruption, `NotKeptError` says that there still is no room.
    """

    def __init__(self, folder: Folder):
        self._folder = folder
        self._waiting: list[tuple[Order, Outcome]] = []
        self._has_complained = False

    def __enter__(self) -> "Keeping":
        return self

    def __exit__(self, *_: object) -> None:
        self._keep_all()

    def add(self, order: Order, outcome: Outcome) -> None:
        """Keep a finished order, and those that wait."""
        self._waiting.append((order, outcome))
        try:
            self._keep_all()
        except NotKeptError as error:
            if not self._has_complained:
                say(f"{error} Meanwhile the study goes on, and it is tried again after each group.")
            self._has_complained = True

    def _keep_all(self) -> None:
        while self._waiting:
            self._folder.keep(*self._waiting[0])
            del self._waiting[0]


def made_by(place: str, failures: list[dict[str, Any]]) -> dict[str, Any]:
    """How and where a study was carried out."""
    return {"place": place, "machine": machine(), "versions": all_versions(), "failures": failures}
