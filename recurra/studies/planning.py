"""The networks of a study put into orders: those that share a program go together, so many that an order is soon done.

An order that is too small wastes time on starting it, and one that is too large is lost when it is interrupted, or
keeps one worker busy when the others have ended. How fast a program is comes out when its first order is done.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from recurra.studies.places.base import Member, Order, Outcome
from recurra.studies.settings import NUMBERS, Settings

#: seconds that an order should take, and the network-steps of the first order of a program, when its pace is unknown
SECONDS, FIRST_STEPS = 30.0, 10_000_000
#: the least and the most networks in an order
LEAST, MOST = 8, 4096
#: Toward the end orders become smaller: at most this part of what each worker will still do.
SHARE = 3


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
