"""Which engine runs an experiment: the one that a user names, or the fastest by what was measured."""

import logging
from dataclasses import dataclass, field
from typing import Any

from recurra import checks
from recurra.engine.experiment import Experiment, Start
from recurra.engine.hardware import bytes_of
from recurra.engine.on_chip.engine import OnChipEngine, as_it_runs, nvidia_gpu
from recurra.engine.on_chip.fits import misfit, padded_bytes, shapes
from recurra.engine.on_chip.table import measured
from recurra.engine.plan import cores_may_serve, on_accelerator, on_cores
from recurra.engine.protocol import Engine, Members, Run
from recurra.engine.scan import ScanEngine

logger = logging.getLogger("recurra")


@dataclass(frozen=True)
class AutoEngine:
    """The on-chip engine where it fits and is faster by its measured table, else compiled loops.

    It says which one runs, and why, in the log of the name "recurra". With `alike` the bits of a member depend on no
    other member, as in `recurra.ScanEngine`, unless their number makes it choose the other engine. It chooses for the
    number of members of a run, or for `among` members where these run in several parts. `specialise` is that of
    `recurra.ScanEngine`.
    """

    alike: bool = False
    among: int | None = None
    specialise: bool = True
    _said: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.flag(self, "alike")
        checks.flag(self, "specialise")

    def prepare(self, experiment: Experiment, members: Members, window: int = 1) -> Run:
        """Choose, place all members before their first step, and compile."""
        engine, why = self.choose(experiment, self.among or len(members.keys), members.start)
        said = f"engine: {'on-chip' if isinstance(engine, OnChipEngine) else 'scan'}, since {why}"
        if said not in self._said:  # a sweep prepares a run for each of its programs
            self._said.add(said)
            # Without a GPU there is nothing to choose.
            logger.log(logging.DEBUG if nvidia_gpu() is None else logging.INFO, said)
        return engine.prepare(experiment, members, window)

    def choose(self, experiment: Experiment, count: int, start: Start | None = None) -> tuple[Engine, str]:
        """The engine for so many members that start from there, and why it is this one."""
        scan = ScanEngine(self.specialise, alike=self.alike)
        if (device := nvidia_gpu()) is None:
            return scan, "JAX computes on no NVIDIA GPU here"
        form = as_it_runs(experiment, start)
        if reason := misfit(form, device, count):
            return scan, reason
        if (kernel := measured(experiment)) is None:
            return scan, "kernels of this learner, cell and size were not measured. engine='on-chip' runs them"
        loops = loops_microseconds(bytes_of(shapes(experiment.traced)[0]), count)
        on_chip = kernel.microseconds(count, padded_bytes(form))
        compared = f"a step takes about {on_chip:.3g} µs on chip and {loops:.3g} µs in compiled loops"
        if loops <= on_chip:
            return scan, compared
        return OnChipEngine(alike=self.alike), compared


def loops_microseconds(carried: int, count: int) -> float:
    """How long a step of so many members takes in compiled loops, where the scan engine would run them."""
    on_gpu = on_accelerator(carried, count)
    return min(on_cores(carried, count), on_gpu) if cores_may_serve() else on_gpu


#: engines by the names that `train` and the command line take: to register one, import it above
ENGINES: dict[str, type[Any]] = {
    name.removesuffix("-engine"): kind
    for name, kind in checks.registered({"auto": AutoEngine, **globals()}, Engine, leave_out=(Engine,)).items()
}


def engine_of(given: Any, alike: bool = False) -> Engine:
    """The engine that a user asked for: by name, or one with settings of its own."""
    if given is None or isinstance(given, str):
        return ENGINES[checks.one_of("`engine`", "auto" if given is None else given, ENGINES)](alike=alike)
    if isinstance(given, type) or not isinstance(given, Engine):
        raise TypeError(
            f"`engine` must be 'auto', 'scan', 'on-chip' or an engine such as recurra.ScanEngine(), and is {given!r}."
        )
    return given
