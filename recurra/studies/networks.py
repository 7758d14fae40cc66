"""Networks that a search takes from comparison to comparison, wherever they are computed."""

from collections.abc import Sequence

import numpy as np

from recurra.studies.choices import Point
from recurra.studies.study import Study
from recurra.studies.sweep import check_engine, networks_of
from recurra.studies.tuning.tuned import TuningError
from recurra.training.interrupts import asked_to_stop
from recurra.training.places.base import Place, State, accelerators
from recurra.training.places.dispatching import Local

#: networks that a core, and an accelerator, is given at once, if there are so many
PER_CORE, PER_ACCELERATOR = 16, 1024


class TrialNetworks:
    """The networks of trials that are compared with each other: one of each point and seed.

    Points that differ in nothing that has an effect have the same networks.
    """

    def __init__(self, study: Study, place: Place, x64: bool, points: Sequence[Point], seeds: Sequence[int]):
        relevant = [tuple(study.relevant(point).items()) for point in points]
        different = list(dict.fromkeys(relevant))
        self._place, self._points = place, [*map(different.index, relevant)]
        settings = [study.settings(dict(each)) for each in different]
        self._networks = networks_of(settings, seeds, x64, _engine(settings[0].engine, place), _is_one_device(place))
        check_engine(self._networks, self._networks.programs, place)
        self._done, self._states = 0, dict[tuple[int, ...], State]()
        self._diverged = np.zeros((len(different), len(seeds)), bool)

    def advance(self, rows: Sequence[int], stop: int) -> np.ndarray:
        """Take these points, and from now on no others, to step `stop`; their losses, (row, seed), nan if diverged."""
        from recurra.training.computing import Collected
        from recurra.training.orders import Leg
        from recurra.training.sweep import compute_all

        points = [self._points[row] for row in rows]
        ended = {(point, seed) for point in {*self._points} - {*points} for seed in self._networks.seeds}
        batches = self._networks.batches(ended, Leg(stop, self._done, self._states))
        found = Collected(self._diverged.shape)
        with asked_to_stop() as asked:
            for order, failure in compute_all(self._networks, batches, found, self._place, asked):
                raise TuningError(f"{order.label()} could not be computed: {failure.reason}.")
        if asked.signal:
            raise KeyboardInterrupt
        self._done, self._states = stop, found.states
        self._diverged |= found.values["diverged_at"] >= 0
        return np.where(self._diverged, np.nan, found.values["final_loss"])[points]


def _engine(asked: str, place: Place) -> str:
    """The engine of a search. States go on where they were made, and so on the same kind of device.

    Where there are several devices or other machines, "auto" could choose another engine for a state than made it.
    """
    return "scan" if asked == "auto" and not _is_one_device(place) else asked


def _is_one_device(place: Place) -> bool:
    """Whether a place is this process, with no more than one accelerator."""
    return isinstance(place, Local) and place.workers() == 1


def batch_of(study: Study, place: Place) -> int:
    """How many trials are computed side by side, so that no core is idle."""
    from recurra.engine.hardware import cores

    each = PER_ACCELERATOR if accelerators() else PER_CORE * (cores() if isinstance(place, Local) else 1)
    return study.tune.batch or max(4, -(-each * place.workers() // len(study.seeds)))
