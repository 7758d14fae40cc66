"""The engine of compiled loops, on the cores or on an accelerator."""

from dataclasses import dataclass

import jax
import numpy as np

from recurra import checks
from recurra.engine import tuning
from recurra.engine.experiment import Experiment
from recurra.engine.fold import advance
from recurra.engine.one_kernel import warn_if_late
from recurra.engine.plan import choose_device, plan
from recurra.engine.programs import programs
from recurra.engine.protocol import Members
from recurra.engine.run import MembersRun, Placing
from recurra.engine.specialise import in_form, numbers_for


@dataclass(frozen=True)
class ScanEngine:
    """Compiled loops over steps. The defaults are for speed; other values are for tests, benchmarks and comparisons.

    With `specialise` learners are replaced by forms that give the same gradients faster. One compiled call takes at
    most `chunk` steps. `group` is how many members are vmapped together. `strides` tells whether steps are taken in
    loops of known length, which are faster on an accelerator. Where these two are None the engine chooses.

    On cores, where a sum is vectorised depends on how many members are vmapped together, and so do the last bits of a
    member. With `alike` the size of groups depends on the program alone, and groups are filled up with copies. The bits
    of a member then depend neither on the other members nor on the number of cores. It costs time where there are
    fewer members than a group has.

    >>> engine = rc.ScanEngine(group=1)  # every network by itself, for `train(..., engine=engine)`
    >>> engine.group
    1
    """

    specialise: bool = True
    chunk: int = tuning.CHUNK
    group: int | None = None
    strides: bool | None = None
    alike: bool = False

    def __post_init__(self) -> None:
        checks.flag(self, "specialise")
        checks.flag(self, "alike")
        checks.whole(self, "chunk")
        object.__setattr__(self, "chunk", int(self.chunk))  # also where it is NumPy's
        if self.group is not None:
            checks.whole(self, "group")
            object.__setattr__(self, "group", int(self.group))
        if self.strides is not None:
            checks.flag(self, "strides")

    def prepare(self, experiment: Experiment, members: Members, window: int = 1) -> MembersRun:
        """Place all members before their first step, and compile."""
        count, first = len(members.keys), members.keys[0]
        if self.alike and members.numbers is None:  # a program knows which of its arguments differ by member
            members = members._replace(numbers=programs([experiment])[0].numbers_of(np.zeros(count, int)))
        device = choose_device(experiment.traced, first, count)
        if device.platform == "cpu":
            warn_if_late()
        with jax.default_device(device):
            experiment, start = in_form(experiment, members.start, device.platform if self.specialise else None)
            members = members._replace(numbers=numbers_for(experiment, members.numbers), start=start)
            chosen = plan(experiment.traced, first, count, device.platform, self)
        return MembersRun(Placing(experiment, members, device, chosen, advance, window))
