"""Networks that a search takes from comparison to comparison, wherever they are computed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recurra.studies.choices import Point
from recurra.studies.study import Study
from recurra.studies.sweep import networks_of
from recurra.studies.tuning.tuned import TuningError
from recurra.training.orders import MOST, Networks
from recurra.training.places.base import Failure, Order, Place, State

#: The engine of a whole search. Trials go on from states, which compiled loops alone hand on. Finalists have none, and
#: run on the same engine so that their losses can be compared with those of trials.
ENGINE = "scan"
#: networks that a core, and an accelerator, is given at once, if there are so many
PER_CORE, PER_ACCELERATOR = 16, 1024


class Handle(NamedTuple):
    """Where networks are: the point of `all` that each row has, their steps, and the state of each, by point and seed.

    Rows that differ in nothing that has an effect have one point.
    """

    all: Networks
    points: Sequence[int]
    done: int
    states: dict[tuple[int, int], State]
    diverged: np.ndarray


class TrialNetworks:
    """The networks of a study at the points that a search asks for."""

    def __init__(self, study: Study, place: Place, x64: bool):
        self._study, self._place, self._x64 = study, place, x64

    def start(self, points: Sequence[Point], seeds: Sequence[int]) -> Handle:
        """A handle for a network of each point and seed. Nothing is computed yet."""
        relevant = [tuple(self._study.relevant(point).items()) for point in points]
        different = list(dict.fromkeys(relevant))
        every = networks_of([self._study.settings(dict(each)) for each in different], seeds, self._x64, ENGINE)
        return Handle(every, [*map(different.index, relevant)], 0, {}, np.zeros((len(different), len(seeds)), bool))

    def advance(self, handle: Handle, rows: Sequence[int], stop: int) -> tuple[Handle, np.ndarray]:
        """Take these points to step `stop`; a handle of them alone, and their losses, (point, seed)."""
        from recurra.training.computing import compute

        points, diverged = [handle.points[row] for row in rows], handle.diverged.copy()
        losses, states = np.full(diverged.shape, np.nan), dict[tuple[int, int], State]()
        for order, found in self._place.each(compute, self._orders(handle, points, stop)):
            if isinstance(found, Failure):
                raise TuningError(f"{order.label()} could not be computed: {found.reason}.")
            for i, (row, seed) in enumerate(order.members):
                at = order.points[row], handle.all.seeds.index(seed)
                losses[at] = found.values["final_loss"][i]
                diverged[at] |= found.values["diverged_at"][i] >= 0
                if found.state is not None:
                    states[order.points[row], seed] = found.state[i]
        return Handle(handle.all, points, stop, states, diverged), np.where(diverged, np.nan, losses)[points]

    def _orders(self, handle: Handle, points: Sequence[int], stop: int) -> list[Order]:
        """Orders for these points, so many that no worker is idle."""
        every, found = handle.all, []
        for program in every.programs:
            members = [(point, seed) for point in sorted({*program.rows} & {*points}) for seed in every.seeds]
            share = min(-(-len(members) // self._place.workers()), MOST) if members else 1
            for first in range(0, len(members), share):
                some = members[first : first + share]
                states = tuple(handle.states[each] for each in some) if handle.done else None
                more = stop < every.made[some[0][0]].case.steps
                found.append(every.order(some, stop, handle.done, states, more))
        return found


def batch_of(study: Study, place: Place) -> int:
    """How many trials are computed side by side, so that no core is idle."""
    from recurra.engine.hardware import cores
    from recurra.training.places.base import accelerators
    from recurra.training.places.dispatching import Local

    each = PER_ACCELERATOR if accelerators() else PER_CORE * (cores() if isinstance(place, Local) else 1)
    return study.tune.batch or max(4, -(-each * place.workers() // len(study.seeds)))
