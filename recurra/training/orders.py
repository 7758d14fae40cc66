"""Networks put into orders: those that share a program go together, so many that an order is soon done.

An order that is too small wastes time on starting it, and one that is too large is lost when it is interrupted, or
keeps one worker busy when the others have ended. How fast a program is comes out when its first order is done.
"""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from recurra.engine.hardware import bytes_of, cores
from recurra.engine.plan import cores_are_faster
from recurra.engine.programs import SharedProgram, programs
from recurra.engine.protocol import Engine
from recurra.engine.settings import having, settings
from recurra.engine.tuning import FIXED_MEMBERS
from recurra.training import arguments
from recurra.training.cases import Identity, Made, Sent, identities
from recurra.training.computing import compute
from recurra.training.places.base import Computed, Member, Order, State, versions

#: seconds that an order should take, and the network-steps of the first order of a program, when its pace is unknown
SECONDS, FIRST_STEPS = 30.0, 10_000_000
#: the least and the most networks in an order; their states are in memory together
LEAST, MOST = 8, 4096
#: Toward the end orders become smaller: at most this part of what each worker will still do.
SHARE = 3
#: the shortest probe of a program, in seconds, and its first number of steps
PROBE_SECONDS, PROBE_STEPS = 0.5, 64


class Leg(NamedTuple):
    """A part of the way: to step `stop`, from step `start`, where the `states` of networks are by point and column."""

    stop: int
    start: int = 0
    states: Mapping[tuple[int, ...], State] = {}


@dataclass
class Batch:
    """Networks that share a program and the number of steps, each as the number of its point and its seed."""

    program: SharedProgram
    steps: int
    members: list[tuple[int, int]]
    #: how many there are in all, also those that are done already
    among: int
    #: the part of the way that they take; None: all of it
    leg: Leg | None = None
    #: network-steps a second and order, once they are known
    pace: float | None = None


class Networks:
    """All networks of a sweep: a network of each case and seed, from one key.

    With `at_once` orders are as large as memory allows, since nothing is kept before the end.
    """

    def __init__(
        self,
        made: Sequence[Made],
        seeds: Sequence[int],
        key: PRNGKeyArray,
        engine: Engine | str = "auto",
        at_once: bool = False,
    ):
        self.made, self.seeds, self.key, self.engine, self._at_once = made, seeds, key, engine, at_once
        #: the column of each seed where networks are laid out as (point, seed)
        self.columns = {seed: column for column, seed in enumerate(seeds)}
        for each in made:
            arguments.warn_if_short(each.case.learner, each.case.steps - each.case.task.horizon)
        #: JAX's settings, which are those of all orders
        self.settings = settings()
        self.programs = programs([each.trees for each in made])
        #: the program of each point, and the point's place in it
        self._place = {point: (program, at) for program in self.programs for at, point in enumerate(program.rows)}
        #: how many orders are computed at the same time
        self.workers = 1
        self._batch_of: dict[int, Batch] = {}

    @functools.cached_property
    def identities(self) -> list[Identity]:
        """By what the case of each point is known again."""
        with having(self.settings):
            return identities(self.made, self.programs, self.key)

    def batches(self, done: Collection[tuple[int, int]] = (), leg: Leg | None = None) -> list[Batch]:
        """What is to be computed, by program: without networks that are `done`, and to the end of the `leg`."""
        found: list[Batch] = []
        for program in self.programs:
            by_steps: dict[int, list[int]] = {}
            for point in program.rows:
                by_steps.setdefault(self.made[point].case.steps, []).append(point)
            for steps, points in by_steps.items():
                missing = [(point, seed) for point in points for seed in self.seeds if (point, seed) not in done]
                if missing:
                    takes = steps if leg is None else leg.stop - leg.start
                    batch = Batch(program, takes, missing, len(points) * len(self.seeds), leg)
                    found.append(batch)
                    self._batch_of |= dict.fromkeys(points, batch)
        return found

    def orders(self, batches: Sequence[Batch]) -> Iterator[Order]:
        """Orders, each made when it is asked for, with what is known by then about the pace."""
        left = sum(len(batch.members) for batch in batches)
        for batch in batches:
            first, gains = 0, self._gains(batch) if self.workers > 1 else False
            while first < len(batch.members):
                some = batch.members[first : first + self._size(batch, left)]
                first, left = first + len(some), left - len(some)
                yield replace(self.order(some, batch.leg), gains=gains, among=batch.among)

    def order(self, members: Sequence[tuple[int, int]], leg: Leg | None = None) -> Order:
        """An order for some networks, to their last step or to the end of a leg."""
        points = list(dict.fromkeys(point for point, _ in members))
        row = {point: i for i, point in enumerate(points)}
        made = [self.made[point] for point in points]
        last = made[0].case.steps
        stop, start, states = Leg(last) if leg is None else leg
        return Order(
            cases=Sent(made, self._programs_of(points)),
            points=tuple(points),
            members=tuple(Member(row[point], seed) for point, seed in members),
            stop=stop,
            key=(np.asarray(jax.random.key_data(self.key)), str(jax.random.key_impl(self.key))),
            versions=versions(),
            engine=self.engine,
            learners=tuple(sorted({each.case.learner.about.id for each in made})),
            settings=self.settings,
            start=start,
            state=tuple(states[point, self.columns[seed]] for point, seed in members) if start else None,
            returns_state=stop < last,
        )

    def _programs_of(self, points: Sequence[int]) -> list[SharedProgram]:
        """The programs of these points."""
        at: dict[int, list[int]] = {}
        for row, point in enumerate(points):
            at.setdefault(id(self._place[point][0]), []).append(row)
        return [
            self._place[points[rows[0]]][0].of([self._place[points[row]][1] for row in rows], rows)
            for rows in at.values()
        ]

    def learn(self, order: Order, outcome: Computed) -> None:
        """Take note of how long an order took."""
        self._batch_of[order.points[0]].pace = order.steps / max(outcome.seconds, 1e-3)

    def estimate(self, batches: Sequence[Batch]) -> tuple[float, float]:
        """Seconds that it will take, and seconds of it to compile, by a short probe of each program on this machine."""
        running = compiling = 0.0
        for batch in batches:
            pace, first = self._probed(batch)
            running, compiling = running + len(batch.members) * batch.steps / pace, compiling + first
        return running + compiling, compiling

    def _probed(self, batch: Batch) -> tuple[float, float]:
        """Network-steps a second of a program, and the seconds it takes to compile."""
        some = batch.members[: 2 * FIXED_MEMBERS * cores()]
        steps, compiling = PROBE_STEPS, None
        while True:
            found = compute(replace(self.order(some), stop=min(steps, batch.steps)))
            compiling = found.compile_seconds if compiling is None else compiling
            if found.seconds >= PROBE_SECONDS or steps >= batch.steps:
                return len(some) * min(steps, batch.steps) / max(found.seconds, 1e-6), compiling
            steps *= 4 if found.seconds > PROBE_SECONDS / 8 else 16

    def _size(self, batch: Batch, left: int) -> int:
        if self._at_once:
            return MOST
        wanted = FIRST_STEPS / batch.steps if batch.pace is None else SECONDS * batch.pace / batch.steps
        fair = -(-left // (SHARE * self.workers)) if self.workers > 1 else left
        return min(-(-max(min(int(wanted), fair), 1) // LEAST) * LEAST, MOST)  # engines compute groups of so many

    def _gains(self, batch: Batch) -> bool:
        """Whether an accelerator is faster than the cores, as the engine judges it."""
        with having(self.settings):
            carry, _ = eqx.filter_eval_shape(batch.program.experiment[0].traced.init, jax.random.key(0))
        return not cores_are_faster(bytes_of(carry), batch.among, 1)


def network_steps(batches: Sequence[Batch]) -> int:
    """How many steps all networks take together."""
    return sum(len(batch.members) * batch.steps for batch in batches)
