"""Members on their way, in groups: what all engines share.

An engine decides where and how its members are computed, and says so in a `Placing`. On cores, members that carry
little from step to step are computed in groups of equal size, one group or several for each core. Other members are
computed one by one. A group is vmapped, and runs in a thread. A compiled program holds no lock while it runs, so all
cores work without any setting made before JAX starts. All groups share one compilation; the last group is filled up
with copies of the last member. On an accelerator all members are one group.

An accelerator takes whole strides of steps, and may make more losses than the host can add up. Where the caller needs
only their means over windows, the losses of a stride are averaged on the device, over stretches that divide a window.
Which steps are averaged does not depend on the pace of the run, so neither do the bits.
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from recurra.engine import tuning
from recurra.engine.compiling import compiled
from recurra.engine.experiment import Carry, Experiment, Keys, Start, StepRecord
from recurra.engine.fold import Running
from recurra.engine.hardware import bytes_of, check_fits, cores
from recurra.engine.plan import Plan
from recurra.engine.protocol import Ends, Members, Piece
from recurra.engine.settings import settings_of_this_thread
from recurra.engine.specialise import tagged
from recurra.network import NetworkWeights
from recurra.step import DelayedState, LearningState, LearningStep
from recurra.tasks.base import BLOCK


def averaged(
    loss: Float[Array, "members chunk"], steps: int, every: int, platform: str
) -> tuple[Float[Array, "members stretches"], Int[Array, " members"]]:
    """Means over `every` steps each, and the first of so many `steps` whose loss is not finite; -1: none.

    They are as precise as sums on the host. Only the means of whole stretches are of use.
    """
    with jax.enable_x64(True):
        return compiled(_averaged, platform)(loss, np.int32(steps), every)


def _averaged(
    loss: Float[Array, "members chunk"], steps: Int[Array, ""], every: int
) -> tuple[Float[Array, "members stretches"], Int[Array, " members"]]:
    members, chunk = loss.shape
    is_taken = jnp.arange(chunk, dtype="int32") < steps
    loss = jnp.where(is_taken, loss, jnp.zeros_like(loss))  # after the last step it may be anything
    stretches = loss[:, : chunk // every * every].reshape(members, -1, every).astype("float64")
    wrong = ~jnp.isfinite(loss)
    return stretches.mean(axis=2), jnp.where(wrong.any(axis=1), wrong.argmax(axis=1), -1)


#: a group's numbers, carry and keys
Group = tuple[PyTree, Carry, Keys]


#: takes one member from one step to another, as `fold.advance` does
Advance = Callable[..., Running]


@dataclass(frozen=True)
class Placing:
    """Where and how the members of a run are computed: an engine's choice.

    `experiment` has its learners in the forms that run.
    `advance(experiment, carry, keys, start, stop, chunk, strides)` takes one member further. With `has_strides` it
    has a form of its own for whole strides. Losses are needed as means over windows of `window` steps. With
    `is_one_group` all members stay one group, also those of a snapshot that was made with others.
    """

    experiment: Experiment
    members: Members
    device: Any
    plan: Plan
    advance: Advance
    window: int = 1
    has_strides: bool = True
    is_one_group: bool = False


class MembersRun:
    """An experiment on its way."""

    def __init__(self, placing: Placing):
        self.done, self._count = 0, len(placing.members.keys)
        self._settings = settings_of_this_thread()
        self._device, self._plan, self._advance_one = placing.device, placing.plan, placing.advance
        self._has_strides, platform = placing.has_strides, self._device.platform
        self._is_one_group, self._members = placing.is_one_group, placing.members
        self._step = placing.experiment.step
        self.device = "cores" if platform == "cpu" else self._device.device_kind
        self.recorded, self._size = self._plan.recorded, self._plan.size
        with self._there():
            on_device = lambda leaf: jnp.asarray(leaf) if eqx.is_array(leaf) else leaf
            self._experiment = jax.tree.map(on_device, placing.experiment.traced)
            # Two states of every member, since the next is made from the present one.
            what, advice = (
                f"The states of {self._count:,} member{'s' * (self._count > 1)}",
                "take fewer seeds or a smaller network",
            )
            check_fits(2 * self._plan.carried * (self._count + self._size), what, advice, self._device)
            self._take = compiled(_advance, platform, products_in_loop=self._plan.products_in_loop)
        # A power of two, so that a mean has the bits of the sum. Where there are no strides it is one.
        self._every = math.gcd(placing.window, self._plan.stride, BLOCK)
        # With more threads than cores, no core is idle while the last groups finish.
        self._pool = ThreadPoolExecutor(min(2 * cores() if cores() > 1 else 1, -(-self._count // self._size)))
        self._groups = self._first_groups(placing.members.start)
        # A piece lasts so long that the time to start its calls does not matter.
        self._seconds = max(tuning.PIECE_SECONDS, tuning.CALL_SECONDS * -(-len(self._groups) // cores()))
        self._length = max(self._plan.stride, min(self._plan.chunk, tuning.FIRST_STEPS))
        self._compile()

    def _first_groups(self, begins: Start | None) -> list[Group]:
        init = compiled(_init, self._device.platform, runs_once=True)
        members = self._members
        kind, plain = jax.random.key_impl(members.keys), np.asarray(jax.random.key_data(members.keys))

        def start(each: Members) -> Group:
            with self._there():
                keys, (numbers, begun) = jnp.asarray(each.keys), jax.tree.map(jnp.asarray, (each.numbers, each.start))
                return numbers, *init(self._experiment, jax.random.wrap_key_data(keys, impl=kind), numbers, begun)

        # Arrays of NumPy's are cut without compiling anything.
        first, *others = self._in_groups(members._replace(keys=cast(Any, plain), start=begins))
        return [start(first), *self._pool.map(start, others)]  # the first call compiles

    def restart(self, weights: NetworkWeights) -> None:
        """Place all members before their first step again, with these weights, (member, ...)."""
        self._groups, self.done = self._first_groups(weights), 0

    def _compile(self) -> None:
        """A call that takes no step compiles, once, before the threads that share the program start."""
        _, kept = self._call(self._groups[0], _bounds(0, 0), self._plan.stride > 1)
        if kept.labelled is not None or jax.tree.leaves(kept.records):
            self._every = 1
        if self._every > 1:
            self._averaged(kept, 0)

    def _in_groups(self, tree: PyTree) -> Iterator[PyTree]:
        """A tree of arrays (member, ...), cut into groups of equal size. The last one is filled up with copies."""
        for first in range(0, self._count, self._size):
            rows = np.minimum(np.arange(first, first + self._size), self._count - 1)
            yield jax.tree.map(lambda leaf, rows=rows: leaf[rows], tree)

    def advance(self, stop: int) -> Iterator[Piece]:
        """Take every member to step `stop`, in pieces that take about half a second each."""
        if stop >= 2**31:
            raise OverflowError(f"Steps are counted to 2³¹ - 1, and {stop:,} were asked for.")
        while self.done < stop:
            start, began = self.done, time.perf_counter()
            piece = self._piece(start, self._end(start, min(start + self._length, stop)))
            pace = self._seconds / max(time.perf_counter() - began, 1e-3)
            longer = int((piece.stop - start) * min(pace, tuning.PIECE_GROWTH))
            # A piece that ended early, where strides begin or at the last step, is no reason for shorter ones.
            longer = max(longer, self._length) if pace >= 1 else longer
            self._length = max(self._plan.stride, min(self._plan.chunk, longer))
            yield piece

    def _piece(self, start: int, stop: int) -> Piece:
        stride = self._plan.stride
        strides = stride > 1 and start % stride == 0 and stop % stride == 0 and start >= self._experiment.horizon
        bounds = _bounds(start, stop)
        outputs = list(self._pool.map(lambda group: self._call(group, bounds, strides), self._groups))
        before = zip(outputs, self._groups, strict=True)
        after = [(numbers, carry, keys) for (carry, _), (numbers, _, keys) in before]
        self._groups, self.done = after, stop
        if strides and self._every > 1:
            loss, diverged = self._over_members([self._averaged(record, stop - start) for _, record in outputs])
            return Piece(start, stop, loss[:, : (stop - start) // self._every], None, {}, self._every, diverged)
        taken = lambda record: jax.tree.map(lambda leaf: np.asarray(leaf)[:, : stop - start], record)
        return Piece(start, stop, *self._over_members([taken(record) for _, record in outputs]))

    def _end(self, start: int, stop: int) -> int:
        """Where a piece ends: before the first whole stride, or after the last one before `stop`; there if neither is.

        Whole strides are faster, and begin when there are labels.
        """
        stride = self._plan.stride
        if stride == 1:
            return stop
        stop = min(stop, start // stride * stride + self._plan.chunk)  # a call holds so many whole strides
        first, last = -(-max(start, self._experiment.horizon) // stride) * stride, stop // stride * stride
        if start < first:
            return min(first, stop)
        return last if start < last else stop

    def weights(self) -> NetworkWeights:
        """Each member's weights now, (member, ...), where the run computes: on cores as arrays of NumPy's."""
        each = [carry.learning.weights for _, carry, _ in self._groups]
        if self._device.platform == "cpu":
            return self._over_members(each)  # nothing is compiled for a single use
        with self._there():
            whole = each[0] if len(each) == 1 else jax.tree.map(lambda *parts: jnp.concatenate(parts), *each)
            return jax.tree.map(lambda leaf: leaf[: self._count], whole)

    def ends(self, most: int) -> Callable[[], Ends] | None:
        """A function that brings to the host where each member is now; None if that takes more than `most` bytes."""
        if bytes_of(self._groups[0][1].learning) // self._size * self._count > most:
            return None
        every = [(carry.learning, jax.random.key_data(keys.noise)) for _, carry, keys in self._groups]
        # The function outlives the run, and must keep nothing of it but the states: neither data nor threads.
        return functools.partial(_ends, self._step, self._count, every)

    def snapshot(self) -> list[np.ndarray]:
        """All that the run needs to go on, as plain arrays: the size of groups, on which bits depend, and states."""
        states = self._over_members([jax.tree.map(_raw, group[1:]) for group in self._groups])
        return [np.array(self._size), *map(_plain, jax.tree.leaves(states))]

    def restore(self, arrays: Sequence[np.ndarray], done: int) -> None:
        """Go on from a snapshot of the same run, also one made with another number of cores."""
        kept_size, *states = arrays
        size = self._size if self._is_one_group else int(kept_size)
        numbers = self._over_members([group[0] for group in self._groups])
        like = self._groups[0][1:]
        is_other, self._size = size != self._size, size
        kept = jax.tree.unflatten(jax.tree.structure(like), states)
        with self._there():
            each = self._in_groups((numbers, kept))
            self._groups = [(jax.tree.map(jnp.asarray, own), *jax.tree.map(_like, like, raw)) for own, raw in each]
        self.done = done
        if is_other:
            self._compile()

    def __enter__(self) -> "MembersRun":
        return self

    def __exit__(self, *exception: object) -> None:
        is_regular = not exception or exception[0] is None
        self._pool.shutdown(wait=is_regular, cancel_futures=True)

    @contextlib.contextmanager
    def _there(self) -> Iterator[None]:
        with jax.default_device(self._device), self._settings():
            yield

    def _call(self, group: Group, bounds: tuple[np.int32, np.int32], strides: bool) -> Running:
        with self._there():
            how = self._plan.chunk, strides and self._has_strides
            return jax.block_until_ready(self._take(self._advance_one, self._experiment, *group, *bounds, *how))

    def _averaged(self, kept: StepRecord, steps: int) -> tuple[Array, Array]:
        with self._there():
            return averaged(kept.loss, steps, self._every, self._device.platform)

    def _over_members(self, groups: Sequence[PyTree[Array | np.ndarray]]) -> PyTree[np.ndarray]:
        return _joined(groups, self._count)


def _joined(groups: Sequence[PyTree[Array | np.ndarray]], count: int) -> PyTree[np.ndarray]:
    """Arrays (member, ...) of all groups as one of so many members."""
    if len(groups) == 1:  # what is recorded may be large, and is not copied
        return jax.tree.map(lambda part: np.asarray(part)[:count], groups[0])
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *groups)


def _ends(step: LearningStep, count: int, every: Sequence[tuple[LearningState | DelayedState, Array]]) -> Ends:
    """Where each of so many members is, from the state and the key of the noise of every group."""
    state, noise = jax.tree.map(np.array, _joined(every, count))
    learning = state.learning if isinstance(state, DelayedState) else state
    learning = learning._replace(learners=tagged(step, learning.learners))
    return Ends(state._replace(learning=learning) if isinstance(state, DelayedState) else learning, noise)


def _bounds(start: int, stop: int) -> tuple[np.int32, np.int32]:
    """The bounds as NumPy numbers: arguments of the compiled program, like arrays of JAX, but faster to make."""
    return np.int32(start), np.int32(stop)


def _init(
    experiment: Experiment, keys: Key[Array, " members"], numbers: PyTree, start: Start | None
) -> tuple[Carry, Keys]:
    return _over_group(lambda key, *each: member(experiment, each[0]).init(key, each[1]), keys, numbers, start)


def _advance(
    advance: Advance,
    experiment: Experiment,
    numbers: PyTree,
    carry: Carry,
    keys: Keys,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    chunk: int,
    strides: bool,
) -> Running:
    def one(numbers: PyTree, carry: Carry, keys: Keys) -> Running:
        return advance(member(experiment, numbers), carry, keys, start, stop, chunk, strides)

    return _over_group(one, numbers, carry, keys)


def member(experiment: Experiment, numbers: PyTree) -> Experiment:
    """The experiment with one member's own numbers."""
    return experiment if numbers is None else eqx.combine(numbers, experiment)


def _over_group(f: Callable[..., PyTree[Array]], *trees: PyTree[Array]) -> PyTree[Array]:
    """vmap; but a group of one is computed without a batch axis, since batched products would cost more."""
    if jax.tree.leaves(trees)[0].shape[0] > 1:
        return jax.vmap(f)(*trees)
    one = f(*jax.tree.map(lambda leaf: leaf[0], trees))
    return jax.tree.map(lambda leaf: leaf[None], one)


def _raw(leaf: Array) -> Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _plain(array: np.ndarray) -> np.ndarray:
    """An array of a type that NumPy's files know: bfloat16, which they do not, as whole numbers with the same bits."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _like(leaf: Any, raw: np.ndarray) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(raw), impl=jax.random.key_impl(leaf))
    return jnp.asarray(raw.view(leaf.dtype) if leaf.dtype.kind == "V" else raw)
