"""What was measured of kernels: how many warps are fastest for a network, and how fast they are.

The table is for an NVIDIA H200, float32, two inputs and two outputs, and plain gradient descent. It is written by
`benchmarks/kernels.py`. Other sizes take the row of the next larger one, since sizes are padded to powers of two.
"""

import functools
import json
from importlib import resources
from typing import NamedTuple

from recurra.cells import CELLS
from recurra.cells.base import Cell
from recurra.engine.experiment import Experiment
from recurra.engine.forms import FORMS
from recurra.engine.on_chip.fits import padded_bytes
from recurra.engine.on_chip.padding import padded_size
from recurra.engine.tuning import FEW_NETWORKS, MOST_WARPS, WARP_BYTES_FEW, WARP_BYTES_MANY
from recurra.learners import LEARNERS
from recurra.learners.base import Learner
from recurra.step import APPLIED


class KernelTimes(NamedTuple):
    """The fastest kernels for few networks and for many.

    For few, every network has a multiprocessor to itself, and `microseconds_few` is how long a step takes. For many,
    `millions` is how many network-steps a second all multiprocessors take together.
    """

    warps_few: int
    microseconds_few: float
    warps_many: int
    millions: float
    #: the bytes that a network carried
    carried: int

    def warps(self, count: int, alike: bool = False) -> int:
        """The warps for so many networks; with `alike`, as many for any number of them."""
        return self.warps_few if are_few(count, alike) else self.warps_many

    def microseconds(self, count: int, carried: int | None = None) -> float:
        """How long a step of so many networks takes, in proportion longer where they carry more bytes."""
        more = 1 if carried is None else max(1, carried / self.carried)
        return more * max(self.microseconds_few, count / self.millions)


def are_few(count: int, alike: bool) -> bool:
    """Whether each of so many networks has a multiprocessor to itself; with `alike` it must not matter."""
    return count <= FEW_NETWORKS and not alike


@functools.cache
def table() -> dict[tuple[str, str, int], KernelTimes]:
    """All that was measured, by learner, cell and size."""
    rows = json.loads(resources.files("recurra.engine.on_chip").joinpath("measured.json").read_text())
    return {
        (row["learner"], row["cell"], row["n"]): KernelTimes(*row["fastest"], carried=row["carried"]) for row in rows
    }


def measured(experiment: Experiment) -> KernelTimes | None:
    """What was measured for this learner, cell and size; None if nothing was."""
    cell, learner = experiment.step.network.cell, experiment.step.learners[APPLIED]
    is_sparse = getattr(cell, "places", None) is not None
    if not _is_the_library_s(learner, cell) or not _reaches_as_far_as_usual(learner):
        return None
    if experiment.step.streams > 1 or experiment.horizon or is_sparse:
        return None
    return table().get((learner.about.id, cell.name.lower(), padded_size(getattr(cell, "n", 0))))


def _is_the_library_s(learner: Learner, cell: Cell) -> bool:
    """Whether learner and cell, or the form in which the learner runs, are what was measured under their names.

    A subclass of a user's has the name of its base, and may compute something else.
    """
    return type(learner) in (LEARNERS.get(learner.about.id), *FORMS) and type(cell) is CELLS.get(cell.name.lower())


def _reaches_as_far_as_usual(learner: Learner) -> bool:
    """Whether it goes back over as many steps as the one that was measured."""
    reach = lambda learner: tuple(getattr(learner, name) for name in (learner.about.lag, learner.about.period) if name)
    return not reach(learner) or reach(learner) == reach(type(learner)())


def warps_for(experiment: Experiment, count: int, alike: bool = False) -> int:
    """The warps that share a network: as measured, and more where it carries more than what was measured."""
    found, carried = measured(experiment), padded_bytes(experiment)
    if found and carried <= found.carried:
        return found.warps(count, alike)
    share = WARP_BYTES_FEW if are_few(count, alike) else WARP_BYTES_MANY
    enough = min(MOST_WARPS, padded_size(-(-carried // share)))
    return max(enough, found.warps(count, alike)) if found else enough
