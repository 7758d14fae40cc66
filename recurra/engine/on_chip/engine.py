"""The engine of kernels that hold a whole network each, on an NVIDIA GPU."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from recurra import checks
from recurra.engine import tuning
from recurra.engine.experiment import Experiment, Start
from recurra.engine.hardware import bytes_of, core_device
from recurra.engine.on_chip.fits import ADDRESSABLE, check_fitting, padded_entries, shapes
from recurra.engine.on_chip.fold import advance
from recurra.engine.on_chip.loop import How
from recurra.engine.on_chip.products import PRECISIONS
from recurra.engine.on_chip.table import warps_for
from recurra.engine.plan import Plan
from recurra.engine.protocol import Members
from recurra.engine.run import Advance, MembersRun, Placing
from recurra.engine.specialise import in_form, numbers_for
from recurra.tasks.base import BLOCK


@dataclass(frozen=True)
class OnChipEngine:
    """Thousands of steps in one kernel. A network, its learner and the loop stay on the chip, one program a network.

    It needs an NVIDIA GPU, numbers of type float32, and nothing to record. `warps` is how many groups of 32 threads
    share a network; None: as measured, for so many networks, or with `alike` for any number of them, so that the bits
    of a network depend on no other one. One kernel takes at most `chunk` steps, rounded up to whole blocks of 128.
    Products of matrices are exact to float32, unless `precision` is "tf32x3" or "tf32", which is faster for many
    networks of KF-RTRL and R-KF-RTRL. With `interpret` Pallas' interpreter runs the same kernels on the cores, slowly.

    What it cannot run is a ValueError with the reason.

    >>> engine = rc.OnChipEngine(warps=4)  # for `train(..., engine=engine)`
    >>> engine.warps
    4
    """

    warps: int | None = None
    chunk: int = tuning.ON_CHIP_STEPS
    alike: bool = False
    precision: str = "float32"
    interpret: bool = False

    def __post_init__(self) -> None:
        checks.flag(self, "alike")
        checks.flag(self, "interpret")
        checks.whole(self, "chunk")
        checks.one_of("`precision` of OnChipEngine", self.precision, PRECISIONS)
        if self.interpret and self.precision != "float32":
            raise ValueError(f"A CPU has no products in {self.precision}: leave `precision` or `interpret` out.")
        object.__setattr__(self, "chunk", int(self.chunk))
        if self.warps is not None:
            checks.whole(self, "warps")
            if self.warps & (self.warps - 1) or self.warps > tuning.MOST_WARPS:
                raise ValueError(
                    f"`warps` of OnChipEngine must be a power of two up to {tuning.MOST_WARPS}, and is {self.warps}."
                )

    def check(self, experiment: Experiment) -> None:
        """Raise if it cannot run this."""
        check_fitting(as_it_runs(experiment), self._device())

    def _device(self) -> Any:
        return core_device() if self.interpret else nvidia_gpu()

    def prepare(self, experiment: Experiment, members: Members, window: int = 1) -> MembersRun:
        """Place all members before their first step, and compile."""
        device, (form, start) = self._device(), in_form(experiment, members.start, "chip")
        members = members._replace(numbers=numbers_for(form, members.numbers), start=start)
        count, traced = len(members.keys), form.traced
        check_fitting(traced, device, count)
        how = How(self.warps or warps_for(traced, count, self.alike), self.precision, self.interpret)
        carry, rows = shapes(traced)
        chunk = BLOCK * min(-(-self.chunk // BLOCK), most_blocks(rows, count))
        plan = Plan(count, chunk, BLOCK, False, bytes_of(carry), {})
        return MembersRun(
            Placing(
                form,
                members,
                device,
                plan,
                _advance(how),
                window,
                has_strides=False,
                is_one_group=True,
            )
        )


def as_it_runs(experiment: Experiment, start: Start | None = None) -> Experiment:
    """The program that a kernel runs."""
    return in_form(experiment, start, "chip")[0].traced


def most_blocks(rows: PyTree, count: int) -> int:
    """How many blocks of steps one kernel may take: their rows fit the memory meant for them, and can be addressed."""
    leaves = jax.tree.leaves(rows)
    taken = count * sum(padded_entries(leaf) * leaf.dtype.itemsize for leaf in leaves)
    reached = count * max(map(padded_entries, leaves))
    return max(1, min(tuning.ON_CHIP_BYTES // taken, (ADDRESSABLE - 1) // reached))


@functools.cache
def _advance(how: How) -> Advance:
    """`advance` with kernels built like this. It is made once, since compiled programs are found by it."""
    return functools.partial(advance, how)


def nvidia_gpu() -> Any:
    """The GPU that JAX computes on; None if it is none of NVIDIA's."""
    device = jnp.zeros(0).devices().pop()
    is_gpu = device.platform == "gpu" and "cuda" in getattr(device.client, "platform_version", "").lower()
    return device if is_gpu else None
