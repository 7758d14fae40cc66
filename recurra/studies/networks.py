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
    """Where networks are: which points of `all` they have, their steps, and the state of each, by point and seed."""

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
        settings = [self._study.settings(self._study.relevant(point)) for point in points]
        every = networks_of(settings, seeds, self._x64, ENGINE)
        return Handle(every, range(len(points)), 0, {}, np.zeros((len(points), len(seeds)), bool))

    def advance(self, handle: Handle, rows: Sequence[int], stop: int) -> tuple[Handle, np.ndarray]:
        """Take these points to step `stop`; a handle of them alone, and their losses, (point, seed)."""
        from recurra.training.computing import compute

        losses = np.full((len(rows), len(handle.all.seeds)), np.nan)
        diverged = handle.diverged[list(rows)]
        states: dict[tuple[int, int], State] = {}
        # An order that was sent away comes back as the same object.
        orders = {id(order): (order, places) for order, places in self._orders(handle, rows, stop)}
        for order, found in self._place.each(compute, [order for order, _ in orders.values()]):
            if isinstance(found, Failure):
                raise TuningError(f"{order.label()} could not be computed: {found.reason}.")
            for i, place in enumerate(orders[id(order)][1]):
                losses[place] = found.values["final_loss"][i]
                diverged[place] |= found.values["diverged_at"][i] >= 0
                if found.state is not None:
                    states[place] = found.state[i]
        after = Handle(handle.all, [handle.points[row] for row in rows], stop, states, diverged)
        return after, np.where(diverged, np.nan, losses)

    def _orders(self, handle: Handle, rows: Sequence[int], stop: int) -> "list[tuple[Order, list[tuple[int, int]]]]":
        """Orders for these points, and for each of its members its place in the losses."""
        every, found = handle.all, []
        row_of = {handle.points[row]: i for i, row in enumerate(rows)}
        for program in every.programs:
            own = [row_of[point] for point in program.rows if point in row_of]
            places = [(i, column) for i in sorted(own) for column in range(len(every.seeds))]
            share = min(-(-len(places) // self._place.workers()), MOST) if places else 1
            for first in range(0, len(places), share):
                some = places[first : first + share]
                states = tuple(handle.states[rows[i], column] for i, column in some) if handle.done else None
                members = [(handle.points[rows[i]], every.seeds[column]) for i, column in some]
                more = stop < every.made[members[0][0]].case.steps
                found.append((every.order(members, stop, handle.done, states, more), some))
        return found


def batch_of(study: Study, place: Place) -> int:
    """How many trials are computed side by side, so that no core is idle."""
    from recurra.engine.hardware import cores
    from recurra.training.places.base import accelerators
    from recurra.training.places.dispatching import Local

    each = PER_ACCELERATOR if accelerators() else PER_CORE * (cores() if isinstance(place, Local) else 1)
    return study.tune.batch or max(4, -(-each * place.workers() // len(study.seeds)))
