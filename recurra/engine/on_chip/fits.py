"""Which experiments a kernel can hold, and what to change where it cannot."""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from recurra.engine.compiling import traced
from recurra.engine.experiment import Carry, Experiment
from recurra.engine.on_chip.fold import advance
from recurra.engine.on_chip.loop import How
from recurra.engine.on_chip.padding import padded_shape, padded_size
from recurra.engine.on_chip.rules import UnsupportedError
from recurra.engine.tuning import ON_CHIP_STATE_BYTES
from recurra.step import APPLIED
from recurra.tasks.base import BLOCK

#: places of an array are counted in 32 bits
ADDRESSABLE = 2**31


class DoesNotFitError(ValueError):
    """An experiment that no kernel can hold: the text says why, and what would fit."""


def check_fitting(experiment: Experiment, device: Any, count: int = 1) -> None:
    """Raise if the on-chip engine cannot run so many members on the device; None is for a missing GPU."""
    if reason := misfit(experiment, device, count):
        raise DoesNotFitError(f"The on-chip engine cannot run this: {reason}, or use engine='scan'.")


def misfit(experiment: Experiment, device: Any, count: int = 1) -> str | None:
    """Why the on-chip engine cannot run so many members, and what to change; None if it can."""
    step, cell = experiment.step, experiment.step.network.cell
    if device is None:
        kind = jnp.zeros(0).devices().pop().device_kind
        is_fixed = jax.config.jax_default_device is not None  # pyright: ignore[reportAttributeAccessIssue]
        advice = "Set no default device" if is_fixed else "Install JAX with CUDA (pip install 'jax[cuda13]')"
        return f"it needs an NVIDIA GPU, and JAX computes on {kind!r} here. {advice}"
    if experiment.recorder is not None or len(step.learners) > 1:
        return "it neither records nor probes. Leave `record` and `probes` out"
    if cell.dtype != jnp.float32:
        return f"it computes in float32, and the cell is {cell.dtype}. Use dtype='float32'"
    if reason := _unsupported(experiment):
        return reason
    needed = padded_bytes(experiment)
    if needed > ON_CHIP_STATE_BYTES:
        smaller = _fitting_size(experiment)
        advice = f"use n = {smaller} or less" if smaller else "use a learner that keeps less"
        return f"its state takes {needed:,} bytes a network, and {ON_CHIP_STATE_BYTES:,} stay on the chip; {advice}"
    if count * max(map(padded_entries, jax.tree.leaves(shapes(experiment)))) >= ADDRESSABLE:
        return f"the entries of arrays of {count:,} networks cannot be counted in 32 bits. Take fewer at a time"
    return None


def padded_entries(leaf: jax.ShapeDtypeStruct) -> int:
    """How many entries an array has inside a kernel."""
    return math.prod(padded_shape(leaf.shape))


def shapes(experiment: Experiment) -> tuple[Carry, PyTree]:
    """The shapes of what a member carries, and of the rows and random numbers of a block."""
    return traced(_first_block, experiment, jax.random.key(0))[1]


def _first_block(experiment: Experiment, key: PRNGKeyArray) -> tuple[Carry, PyTree]:
    carry, keys = experiment.init(key)
    return carry, experiment.draw(carry, keys, jnp.zeros((), "int32"))[0]


def padded_bytes(experiment: Experiment) -> int:
    """The bytes that a network takes on the chip from step to step."""
    leaves = jax.tree.leaves(shapes(experiment)[0].learning)
    return sum(padded_entries(leaf) * leaf.dtype.itemsize for leaf in leaves)


def _fitting_size(experiment: Experiment) -> int | None:
    """The largest n, down from the present one by halves, whose network fits; None if there is none."""
    cell: Any = experiment.step.network.cell
    if not any(field.name == "n" for field in dataclasses.fields(cell)):
        return None
    n = padded_size(cell.n) // 2
    while n:
        smaller = eqx.tree_at(lambda each: each.step.network.cell, experiment, dataclasses.replace(cell, n=n))
        if padded_bytes(smaller) <= ON_CHIP_STATE_BYTES:
            return n
        n //= 2
    return None


def _unsupported(experiment: Experiment) -> str | None:
    """What a step, or the drawing of its inputs, does that has no form inside a kernel, if there is anything."""
    try:
        traced(
            _one_call, experiment, jax.random.key(0)
        )  # asked again when the run is prepared, but traced once if it fits
    except UnsupportedError as error:
        said = str(error).split("\n")[0]
    except (TypeError, ValueError, NotImplementedError) as error:  # of JAX's, from parts that no test has met
        said = f"cannot be traced for a kernel ({str(error).splitlines()[0]})"
    else:
        return None
    learner, cell = experiment.step.learners[APPLIED], experiment.step.network.cell
    return f"{learner.name} with {cell.name} {said}. Use another learner, cell, size or optimizer"


def _one_call(experiment: Experiment, key: PRNGKeyArray) -> Any:
    zero = jnp.zeros((), "int32")
    return advance(How(interpret=True), experiment, *experiment.init(key), zero, zero, BLOCK)
