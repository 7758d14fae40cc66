"""What was measured of kernels: how many warps are fastest for a network, and how fast they are.

The table is for an NVIDIA H200, float32, two inputs and two outputs, and plain gradient descent. It is written by
`benchmarks/kernels.py`. Other sizes take the row of the next larger one, since sizes are padded to powers of two.
"""

import functools
import json
from importlib import resources
from typing import NamedTuple

from recurra.engine.experiment import Experiment
from recurra.engine.on_chip.padding import padded_size
from recurra.engine.tuning import FEW_NETWORKS
from recurra.step import APPLIED

#: warps that share a network, for each of its units, where nothing was measured
WARPS_PER_UNIT = 1 / 16


class Measured(NamedTuple):
    """The fastest kernels for few networks and for many.

    For few, every network has a multiprocessor to itself, and `microseconds_few` is how long a step takes. For many,
    `millions` is how many network-steps a second all multiprocessors take together.
    """

    warps_few: int
    microseconds_few: float
    warps_many: int
    millions: float

    def warps(self, count: int, alike: bool = False) -> int:
        """The warps for so many networks; with `alike`, as many for any number of them."""
        return self.warps_few if count <= FEW_NETWORKS and not alike else self.warps_many

    def microseconds(self, count: int) -> float:
        """How long a step of so many networks takes."""
        return max(self.microseconds_few, count / self.millions)


@functools.cache
def table() -> dict[tuple[str, str, int], Measured]:
    """All that was measured, by learner, cell and size."""
    rows = json.loads(resources.files("recurra.engine.on_chip").joinpath("measured.json").read_text())
    return {(row["learner"], row["cell"], row["n"]): Measured(*row["fastest"]) for row in rows}


def measured(experiment: Experiment) -> Measured | None:
    """What was measured for this learner, cell and size; None if nothing was."""
    cell, learner = experiment.step.network.cell, experiment.step.learners[APPLIED]
    if experiment.step.streams > 1 or experiment.horizon:
        return None
    return table().get((learner.about.id, cell.name.lower(), padded_size(getattr(cell, "n", 0))))


def warps_for(experiment: Experiment, count: int, alike: bool = False) -> int:
    """The warps that share a network: as measured, else one for every 16 units, from 1 to 8."""
    if found := measured(experiment):
        return found.warps(count, alike)
    n = padded_size(sum(experiment.step.network.cell.widths))
    return min(8, max(1, int(n * WARPS_PER_UNIT)))
