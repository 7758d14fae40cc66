"""Networks that a search takes from comparison to comparison, wherever they are computed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from recurra.studies.choices import Point
from recurra.studies.places.base import Failure, Member, Order, Place, State, versions
from recurra.studies.settings import Settings
from recurra.studies.study import Study
from recurra.studies.sweep import MOST, plain, program_key
from recurra.studies.tuning.tuned import TuningError

#: networks that a core, and an accelerator, is given at once, if there are so many
PER_CORE, PER_ACCELERATOR = 16, 1024


class Handle(NamedTuple):
    """Where networks are: their settings, seeds and steps, and the state of each, by point and seed."""

    settings: list[Settings]
    seeds: Sequence[int]
    done: int
    states: dict[tuple[int, int], State]
    diverged: np.ndarray


class Networks:
    """The networks of a study at the points that a search asks for."""

    def __init__(self, study: Study, place: Place, x64: bool):
        self._study, self._place, self._x64 = study, place, x64

    def start(self, points: Sequence[Point], seeds: Sequence[int]) -> Handle:
        """A handle for a network of each point and seed. Nothing is computed yet."""
        settings = [self._study.settings(self._study.relevant(point)) for point in points]
        return Handle(settings, seeds, 0, {}, np.zeros((len(points), len(seeds)), bool))

    def advance(self, handle: Handle, rows: Sequence[int], stop: int) -> tuple[Handle, np.ndarray]:
        """Take these points to step `stop`; a handle of them alone, and their losses, (point, seed)."""
        from recurra.studies.work import compute

        losses = np.full((len(rows), len(handle.seeds)), np.nan)
        diverged = handle.diverged[list(rows)]
        states: dict[tuple[int, int], State] = {}
        orders = {id(order): (order, places) for order, places in self._orders(handle, rows, stop)}
        for order, found in self._place.each(compute, [order for order, _ in orders.values()]):
            if isinstance(found, Failure):
                raise TuningError(f"{order.label()} could not be computed: {found.reason}.")
            for i, place in enumerate(_places_of(order, orders)):
                losses[place], diverged[place] = found.final_loss[i], diverged[place] | (found.diverged_at[i] >= 0)
                if found.state is not None:
                    states[place] = found.state[i]
        after = Handle([handle.settings[row] for row in rows], handle.seeds, stop, states, diverged)
        return after, np.where(diverged, np.nan, losses)

    def _orders(self, handle: Handle, rows: Sequence[int], stop: int) -> "list[tuple[Order, list[tuple[int, int]]]]":
        """Orders for these points, and for each of its members its place in the losses."""
        by_program: dict[Any, list[tuple[int, int]]] = {}
        for i, row in enumerate(rows):
            networks = by_program.setdefault(program_key(handle.settings[row]), [])
            networks += [(i, column) for column in range(len(handle.seeds))]
        found = []
        for networks in by_program.values():
            share = min(-(-len(networks) // self._place.workers()), MOST)
            for first in range(0, len(networks), share):
                places = networks[first : first + share]
                found.append((self._order(handle, rows, places, stop), places))
        return found

    def _order(self, handle: Handle, rows: Sequence[int], places: list[tuple[int, int]], stop: int) -> Order:
        own = list(dict.fromkeys(i for i, _ in places))
        at = {i: row for row, i in enumerate(own)}
        states = tuple(handle.states[rows[i], column] for i, column in places) if handle.done else None
        return Order(
            settings=tuple(plain(handle.settings[rows[i]]) for i in own),
            points=tuple(own),
            members=tuple(Member(at[i], handle.seeds[column]) for i, column in places),
            stop=stop,
            versions=versions(),
            x64=self._x64,
            gains=True,
            start=handle.done,
            state=states,
            returns_state=stop < handle.settings[0].steps,
        )


def _places_of(order: Order, orders: dict[int, tuple[Order, list[tuple[int, int]]]]) -> list[tuple[int, int]]:
    """The places of an order's members. An order that was sent away comes back as the same object."""
    return orders[id(order)][1]


def batch_of(study: Study, place: Place) -> int:
    """How many trials are computed side by side, so that no core is idle."""
    from recurra.engine.hardware import cores
    from recurra.studies.places.base import accelerators
    from recurra.studies.places.dispatching import Local

    each = PER_ACCELERATOR if accelerators() else PER_CORE * (cores() if isinstance(place, Local) else 1)
    return study.tune.batch or max(4, -(-each * place.workers() // len(study.seeds)))
