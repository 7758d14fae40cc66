"""Where and how the members of a run are computed: decided before the first step, from the bytes a member carries."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr
from jaxtyping import PRNGKeyArray

from recurra.engine import tuning
from recurra.engine.compiling import calls_products, has_long_loops, loops_in_step, multiplies_small, traced
from recurra.engine.experiment import Experiment
from recurra.engine.fold import Running, advance, stride_of
from recurra.engine.hardware import bytes_of, core_device, cores


@dataclass(frozen=True)
class Plan:
    """How the members are computed on a device.

    They go in groups of `size`, and each group is vmapped. One call takes at most `chunk` steps. With a `stride` of
    more than one, whole strides are loops of known length. With `products_in_loop` products of matrices are compiled
    into the loop, and are not calls of a library.
    """

    size: int
    chunk: int
    stride: int
    products_in_loop: bool
    #: the bytes that one member carries from step to step
    carried: int
    #: the shapes of what one step of one member records
    recorded: Any


@runtime_checkable
class Wishes(Protocol):
    """What an engine was told: see `recurra.ScanEngine`."""

    @property
    def chunk(self) -> int: ...
    @property
    def group(self) -> int | None: ...
    @property
    def strides(self) -> bool | None: ...
    @property
    def alike(self) -> bool: ...


def plan(experiment: Experiment, key: PRNGKeyArray, count: int, platform: str, wishes: Wishes) -> Plan:
    """The plan for `count` members; what the wishes leave open is chosen."""
    on_cores, size, strides = platform == "cpu", wishes.group, wishes.strides
    program, (carry, kept) = traced(_one_step, experiment, key)
    carried = bytes_of(carry)
    # With streams, products with vectors become products of matrices, which are faster as calls of a library.
    products_in_loop = on_cores and experiment.step.streams == 1 and multiplies_small(program)
    if size is None:
        choose = fixed_size if wishes.alike else group_size
        size = choose(experiment, program, carried, count) if on_cores else count
    # A call for a fixed number of steps serves any number of members.
    is_counted = wishes.alike and count <= tuning.FEW_TIMES * tuning.COUNTED_MEMBERS
    together = tuning.COUNTED_MEMBERS if is_counted else size * -(-count // size)
    recorded = bytes_of(kept) * together
    stride = stride_of(experiment) if (not on_cores if strides is None else strides) else 1
    chunk = min(wishes.chunk, most_steps(recorded, stride))
    recorded_shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), kept.records)
    stride = stride if chunk >= stride else 1
    return Plan(size, chunk, stride, products_in_loop, carried, recorded_shapes)


def _one_step(experiment: Experiment, key: PRNGKeyArray) -> Running:
    """The whole program of one member, for a call that can record one step."""
    zero = jnp.zeros((), "int32")
    return advance(experiment, *experiment.init(key), zero, zero, 1)


def most_steps(recorded: int, stride: int) -> int:
    """How many steps one call may take, if each records so many bytes: at least a stride, if `STRIDE_BYTES` allow."""
    return max(1, tuning.OUTPUT_BYTES // recorded, min(stride, tuning.STRIDE_BYTES // recorded))


def choose_device(experiment: Experiment, key: PRNGKeyArray, count: int) -> Any:
    """The accelerator, or the cores where they are faster; the one that a user has made the default stays."""
    chosen, processor = jnp.zeros(0).devices().pop(), core_device()
    if chosen.platform == "cpu" or not cores_may_serve():
        return chosen
    carry, _ = eqx.filter_eval_shape(experiment.init, key)
    return processor if cores_are_faster(bytes_of(carry), count, len(experiment.step.learners)) else chosen


def cores_may_serve() -> bool:
    """Whether the cores may be taken in place of an accelerator: JAX knows them, and the user has set no device."""
    is_fixed = jax.config.jax_default_device is not None  # pyright: ignore[reportAttributeAccessIssue]
    return not is_fixed and core_device() is not None


def cores_are_faster(carried: int, count: int, learners: int) -> bool:
    """Whether the cores finish a step before an accelerator has started its kernels, those of each learner."""
    return on_cores(carried, count) < tuning.GPU_STEP_MICROSECONDS * learners


def on_cores(carried: int, count: int) -> float:
    """The microseconds that a step of so many members takes the fullest core, if each carries so many bytes."""
    return -(-count // cores()) * carried / tuning.CORE_BYTES_PER_MICROSECOND


def on_accelerator(carried: int, count: int) -> float:
    """The microseconds that a step of so many members takes in compiled loops on an accelerator."""
    return max(tuning.GPU_STEP_MICROSECONDS, count * carried / tuning.GPU_BYTES_PER_MICROSECOND)


def group_size(experiment: Experiment, program: Jaxpr, carried: int, count: int) -> int:
    """How many members are vmapped together: a core's share is cut into as few equal groups as fit its cache."""
    share = -(-count // cores())
    most = max(tuning.VMAPPED_MEMBERS, tuning.GROUP_BYTES // carried)
    return -(-share // -(-share // most)) if is_vmapped(experiment, program, carried, share) else 1


def fixed_size(experiment: Experiment, program: Jaxpr, carried: int, _: int) -> int:
    """The size of a group that does not depend on how many members there are, nor on the cores."""
    return tuning.FIXED_MEMBERS if is_vmapped(experiment, program, carried, tuning.FIXED_MEMBERS) else 1


def is_vmapped(experiment: Experiment, program: Jaxpr, carried: int, share: int) -> bool:
    """Whether the members of a core, `share` of them, are faster vmapped than one by one."""
    if share < tuning.VMAPPED_MEMBERS:
        return False
    if calls_products(program):
        return carried <= tuning.CALLED_BYTES
    return carried <= tuning.VMAPPED_BYTES and not _is_fast_alone(experiment, program, carried)


def _is_fast_alone(experiment: Experiment, program: Jaxpr, carried: int) -> bool:
    """Whether steps of a member alone fill the core's vectors: see `tuning.LONG` and `tuning.LOOPED_BYTES`."""
    if experiment.step.streams > 1:
        return False
    return has_long_loops(program) or (loops_in_step(program) and carried <= tuning.LOOPED_BYTES)
