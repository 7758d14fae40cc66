"""Which experiments a kernel can hold, and what to change where it cannot."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from recurra.engine.experiment import Carry, Experiment
from recurra.engine.on_chip.fold import take
from recurra.engine.on_chip.padding import padded_shape
from recurra.engine.on_chip.program import carry_out
from recurra.engine.on_chip.rules import UnsupportedError
from recurra.engine.tuning import ON_CHIP_STATE_BYTES


class DoesNotFitError(ValueError):
    """An experiment that no kernel can hold: the text says why, and what would fit."""


def check_fitting(experiment: Experiment, device: Any) -> None:
    """Raise if the on-chip engine cannot run this on the device, which is None where there is no such GPU."""
    if reason := misfit(experiment, device):
        raise DoesNotFitError(f"The on-chip engine cannot run this: {reason}, or use engine='scan'.")


def misfit(experiment: Experiment, device: Any) -> str | None:
    """Why the on-chip engine cannot run this, and what to change; None if it can."""
    step, cell = experiment.step, experiment.step.network.cell
    if device is None:
        return (
            "it needs an NVIDIA GPU, and JAX computes on "
            f"{jnp.zeros(0).devices().pop().device_kind!r} here. Install JAX with CUDA (pip install 'jax[cuda13]')"
        )
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
    return None


def shapes(experiment: Experiment) -> tuple[Carry, PyTree]:
    """The shapes of what a member carries, and of the rows and random numbers of a block."""

    def first(experiment: Experiment, key: PRNGKeyArray) -> tuple[Carry, PyTree]:
        carry, keys = experiment.init(key)
        return carry, experiment.draw(carry, keys, jnp.zeros((), "int32"))[0]

    return eqx.filter_eval_shape(first, experiment, jax.random.key(0))


def padded_bytes(experiment: Experiment) -> int:
    """The bytes that a network takes on the chip from step to step."""
    leaves = jax.tree.leaves(shapes(experiment)[0].learning)
    return sum(int(np.prod(padded_shape(leaf.shape))) * leaf.dtype.itemsize for leaf in leaves)


def _fitting_size(experiment: Experiment) -> int | None:
    """The largest n, down from the present one by halves, whose network fits; None if there is none."""
    cell = experiment.step.network.cell
    n = getattr(cell, "n", 1)
    n = 1 << (int(n) - 1).bit_length() - 1
    while n >= 1:
        smaller = eqx.tree_at(lambda each: each.step.network.cell, experiment, dataclasses.replace(cell, n=n))
        if padded_bytes(smaller) <= ON_CHIP_STATE_BYTES:
            return n
        n //= 2
    return None


def _unsupported(experiment: Experiment) -> str | None:
    """What a step does that has no form inside a kernel, if there is anything."""
    learner = next(iter(experiment.step.learners.values()))
    carry, rows = shapes(experiment)
    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), rows)
    t = jax.ShapeDtypeStruct((), jnp.int32)
    step = lambda learning, row, t: take(experiment, learning, row, t)
    program = jax.make_jaxpr(step)(carry.learning, row, t)
    padded = lambda leaf: jax.ShapeDtypeStruct(padded_shape(leaf.shape), leaf.dtype)
    given = jax.tree.map(padded, (list(program.consts), jax.tree.leaves((carry.learning, row, t))))
    try:
        jax.eval_shape(lambda constants, values: carry_out(program, *values, constants=constants), *given)
    except UnsupportedError as error:
        return f"{learner.name} with {experiment.step.network.cell.name} {error}. Use another learner or size"
    return None
