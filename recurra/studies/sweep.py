"""A study carried out: its networks are put into orders, what is missing is computed, what is finished is kept at once.

Networks that share a program go together, so many that an order is soon done. An order that is too small wastes time on
starting it, and one that is too large is lost when it is interrupted, or keeps one worker busy when the others have
ended. How fast a program is comes out when its first order is done.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from recurra.studies.choices import Point
from recurra.studies.dataset import whole
from recurra.studies.folder import Folder, NotKeptError
from recurra.studies.places.base import Failure, Member, Order, Outcome, Place, versions
from recurra.studies.settings import NUMBERS, Settings
from recurra.studies.study import Study
from recurra.training.console import say
from recurra.training.progress import progress
from recurra.training.provenance import machine
from recurra.training.provenance import versions as all_versions

if TYPE_CHECKING:
    import xarray

#: seconds that an order should take, and the network-steps of the first order of a program, when its pace is unknown
SECONDS, FIRST_STEPS = 30.0, 10_000_000
#: the least and the most networks in an order
LEAST, MOST = 8, 4096
#: Toward the end orders become smaller: at most this part of what each worker will still do.
SHARE = 3
#: the shortest probe of a program, in seconds, and its first number of steps
PROBE_SECONDS, PROBE_STEPS = 0.5, 64


@dataclass
class Batch:
    """Networks that most likely share a program: they differ in numbers alone."""

    settings: Settings
    members: list[tuple[int, int]]  # point and seed
    #: network-steps a second and order, once they are known
    pace: float | None = None


@dataclass
class Planner:
    """Hands out orders for the networks that are not done, as workers ask for them."""

    settings: Sequence[Settings]
    seeds: Sequence[int]
    versions: dict[str, str]
    workers: int = 1
    x64: bool = field(init=False)

    def __post_init__(self) -> None:
        self.x64 = any(each.dtype == "float64" for each in self.settings)
        self._batch_of: dict[int, Batch] = {}

    def batches(self, done: "set[tuple[int, int]]") -> list[Batch]:
        """What is to be computed, by program."""
        found: dict[Any, Batch] = {}
        for point, settings in enumerate(self.settings):
            missing = [(point, seed) for seed in self.seeds if (point, seed) not in done]
            if missing:
                batch = found.setdefault(program_key(settings), Batch(settings, []))
                batch.members += missing
                self._batch_of[point] = batch
        return list(found.values())

    def orders(self, batches: Sequence[Batch]) -> Iterator[Order]:
        """Orders, each made when it is asked for, with what is known by then about the pace."""
        left = sum(len(batch.members) for batch in batches)
        for batch in batches:
            gains: bool | None = None
            first = 0
            while first < len(batch.members):
                some = batch.members[first : first + self._size(batch, left)]
                first, left = first + len(some), left - len(some)
                gains = self._gains(batch.settings, len(some)) if gains is None else gains
                yield self.order(some, gains)

    def order(self, members: Sequence[tuple[int, int]], gains: bool = False) -> Order:
        """An order for some networks, each a point and a seed, for all of their steps."""
        points = list(dict.fromkeys(point for point, _ in members))
        row = {point: i for i, point in enumerate(points)}
        return Order(
            settings=tuple(plain(self.settings[point]) for point in points),
            points=tuple(points),
            members=tuple(Member(row[point], seed) for point, seed in members),
            stop=self.settings[points[0]].steps,
            versions=self.versions,
            x64=self.x64,
            gains=gains,
        )

    def learn(self, order: Order, outcome: Outcome) -> None:
        """Take note of how long an order took."""
        batch = self._batch_of[order.points[0]]
        batch.pace = order.steps / max(outcome.seconds, 1e-3)

    def _size(self, batch: Batch, left: int) -> int:
        steps = batch.settings.steps
        wanted = FIRST_STEPS / steps if batch.pace is None else SECONDS * batch.pace / steps
        fair = -(-left // (SHARE * self.workers)) if self.workers > 1 else left
        return max(LEAST, min(int(wanted), fair, MOST))

    def _gains(self, settings: Settings, count: int) -> bool:
        """Whether an accelerator is faster than the cores, as the engine judges it."""
        import equinox as eqx
        import jax

        from recurra.engine.hardware import bytes_of
        from recurra.engine.plan import cores_are_faster
        from recurra.studies.work import experiment_of

        with jax.enable_x64(self.x64):
            experiment = experiment_of(settings).traced
            carry, _ = eqx.filter_eval_shape(experiment.init, jax.random.key(0))
        return not cores_are_faster(bytes_of(carry), count, 1)


def plain(settings: Settings) -> dict[str, Any]:
    """The settings that were given, as JSON has them."""
    return settings.model_dump(mode="json", exclude_unset=True)


def program_key(settings: Settings) -> Any:
    """What networks must have in common to share a program, as far as their settings tell; more may be needed.

    It is for speed alone: `work` finds out for itself which of them do.
    """
    given = settings.model_dump(mode="json")
    tables = {
        learner: {name: value for name, value in table.items() if not isinstance(value, float)}
        for learner, table in given.pop("learner").items()
    }
    fixed = tuple((name, repr(value)) for name, value in given.items() if name not in NUMBERS)
    return fixed, repr(tables), _reach(settings.t1, settings.t2, settings.stretch) if settings.task == "add" else None


@functools.lru_cache(maxsize=1024)
def _reach(t1: int, t2: int, stretch: int) -> int:
    """How much of the past the add task keeps, which is a shape."""
    from recurra.tasks import Add

    return Add(t1, t2, stretch).reach


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
    from recurra.engine.hardware import cores
    from recurra.engine.tuning import FIXED_MEMBERS
    from recurra.studies.work import compute

    some = batch.members[: 2 * FIXED_MEMBERS * cores()]
    order, steps, compiling = planner.order(some), PROBE_STEPS, None
    while True:
        found = compute(replace(order, stop=min(steps, batch.settings.steps)))
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
