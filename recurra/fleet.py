"""All seeds of a run at once, on the cores or the accelerator, whichever is faster, without being asked.

On cores, many seeds that carry little go in equal groups, one or some for each core; others go one by one. A group
is vmapped and taken by a thread: a compiled program holds no lock while it runs, so all cores work without any setting
made before JAX starts. Groups of one size share one compilation; the last seed fills the last group up. On an
accelerator all seeds are one group.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from recurra.compiling import compiled, multiplies_small, traced
from recurra.loop import APPLIED, Carry, Keys, Loop
from recurra.machine import bytes_of, core, cores
from recurra.network import NetworkWeights
from recurra.schedule import advance, first_record, stride

#: Seconds that all seeds take together before progress is told, at least, and one call of a group: it costs 0.3 ms.
CHUNK_SECONDS, CALL_SECONDS = 0.5, 0.02
#: Bytes of per-step output that one compiled call may hold. Memory of so many serves the next call again; for more, the
#: system hands out new pages every time, and to fill them took a quarter of a GPU's time with 1,024 seeds. A GPU that
#: could not take a stride would lose more.
OUTPUT_BYTES, STRIDE_BYTES = 16 * 2**20, 64 * 2**20
#: Seeds are vmapped if a core has so many and each carries so few bytes from step to step; others are faster one by
#: one, in the core's nearest cache. Learners that are faster together are so until they carry more.
TOGETHER_SEEDS, TOGETHER_BYTES, TOGETHER_MOST_BYTES = 6, 22 * 2**10, 64 * 2**10
#: What a group of seeds carries stays in a core's cache.
GROUP_BYTES = 512 * 2**10
#: Bytes that the fullest core must carry, for each learner, for an accelerator to be faster. Its step takes some 20 µs
#: however small the network, until its kernels have started; in that time a core takes one step through about as many.
ACCELERATOR_BYTES = 192 * 2**10


class Fleet:
    """A loop over many seeds, somewhere between its first step and its last."""

    def __init__(self, loop: Loop, key: PRNGKeyArray, seeds: tuple[int, ...], chunk: int):
        self._count, self._x64 = len(seeds), jnp.result_type(float) == jnp.float64
        carried = _carried_bytes(loop, key)
        self._device = _device(carried, len(seeds), len(loop.learners))
        on_cores = self._device.platform == "cpu"
        with self._there():
            size = _group_size(loop, key, carried, len(seeds)) if on_cores else len(seeds)
        groups = [seeds[i : i + size] for i in range(0, len(seeds), size)]
        groups[-1] += seeds[-1:] * (size - len(groups[-1]))
        self._rows = [[seeds.index(seed) for seed in group] for group in groups]
        # With more threads than cores, no core is idle while the last groups finish.
        self._pool = ThreadPoolExecutor(min(2 * cores() if cores() > 1 else 1, len(groups)))
        with self._there():
            self._loop = jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_array(leaf) else leaf, loop)
            fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
            init = compiled(_init, self._device.platform, runs_once=True)
            self._groups = [init(self._loop, fold(key, np.array(group))) for group in groups]
            recorded = _recorded_bytes(loop, key) * size * len(groups)
            self.capacity = min(chunk, _most_steps(recorded, 1 if on_cores else stride(loop)))
            self._strides = not on_cores and self.capacity >= stride(loop)
            self._take = self._program()
        #: a number of steps that whole multiples of are best taken
        self.stride = stride(loop) if self._strides else 1
        #: how long a call of `advance` should last, so that its calls of the program are long enough to be worth it
        self.seconds = max(CHUNK_SECONDS, CALL_SECONDS * -(-len(groups) // cores()))
        # A call that takes no step compiles, once, before the threads that share the program start.
        self._call(self._groups[0], _bounds(0, 0), self._strides)

    def advance(self, start: int, stop: int) -> PyTree[np.ndarray]:
        """Take every seed from step `start` to `stop`: each step's loss and records, (seed, step, ...)."""
        if stop - start > self.capacity:
            raise ValueError(f"steps {start} to {stop} are more than the {self.capacity} that a call has room for")
        cuts = sorted({start, stop, *self._stride_edges(start, stop)})
        parts = [self._advance(*bounds) for bounds in itertools.pairwise(cuts)]
        return parts[0] if len(parts) == 1 else jax.tree.map(lambda *rows: np.concatenate(rows, axis=1), *parts)

    def _advance(self, start: int, stop: int) -> PyTree[np.ndarray]:
        strides = self._strides and start % self.stride == 0 and stop % self.stride == 0
        bounds = _bounds(start, stop)
        outputs = list(self._pool.map(lambda group: self._call(group, bounds, strides), self._groups))
        self._groups = [(carry, keys) for (carry, _), (_, keys) in zip(outputs, self._groups, strict=True)]
        taken = lambda record: jax.tree.map(lambda leaf: np.asarray(leaf)[:, : stop - start], record)
        return self._over_seeds([taken(record) for _, record in outputs])

    def stop_at(self, start: int, stop: int) -> int:
        """The step from `start` to `stop` at which to stop best: an accelerator prefers whole strides."""
        return max(self._stride_edges(start, stop), default=stop)

    def _stride_edges(self, start: int, stop: int) -> set[int]:
        """Where whole strides begin and end between two steps, if they are taken on their own."""
        first, last = -(-start // self.stride) * self.stride, stop // self.stride * self.stride
        return {first, last} if self._strides and first < last else set()

    def weights(self) -> NetworkWeights:
        """Each seed's weights now, (seed, ...)."""
        return jax.tree.map(np.array, self._over_seeds([carry.weights for carry, _ in self._groups]))  # a user's own

    def snapshot(self) -> list[np.ndarray]:
        """All that the run needs to go on, as plain arrays, (seed, ...)."""
        return jax.tree.leaves(self._over_seeds([jax.tree.map(_raw, group) for group in self._groups]))

    def restore(self, arrays: Sequence[np.ndarray]) -> None:
        """Go on from a snapshot of the same run, whatever number of cores took it."""
        treedef = jax.tree.structure(self._groups[0])
        with self._there():
            self._groups = [
                jax.tree.map(_like, self._groups[i], jax.tree.unflatten(treedef, [array[rows] for array in arrays]))
                for i, rows in enumerate(self._rows)
            ]

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    @contextlib.contextmanager
    def _there(self) -> Iterator[None]:
        # Choices that are made for one thread alone, and this may be another.
        with jax.default_device(self._device), jax.enable_x64(self._x64):
            yield

    def _call(
        self, group: tuple[Carry, Keys], bounds: tuple[np.int32, np.int32], strides: bool
    ) -> tuple[Carry, PyTree[Array]]:
        with self._there():
            return jax.block_until_ready(self._take(self._loop, *group, *bounds, self.capacity, strides))

    def _over_seeds(self, groups: Sequence[PyTree[Array | np.ndarray]]) -> PyTree[np.ndarray]:
        if len(groups) == 1:  # what is recorded may be large, and is not copied
            return jax.tree.map(lambda part: np.asarray(part)[: self._count], groups[0])
        return jax.tree.map(lambda *parts: np.concatenate(parts)[: self._count], *groups)

    def _program(self) -> Callable[..., tuple[Carry, PyTree[Array]]]:
        """`_advance`, compiled as it runs fastest."""
        if self._device.platform != "cpu":
            return compiled(_advance, self._device.platform)
        arguments = (self._loop, *self._groups[0], *_bounds(0, 0), self.capacity, self._strides)
        program, _ = traced(_advance, *arguments)
        return compiled(_advance, "cpu", products_in_loop=_products_in_loop(self._loop, program))


def _bounds(start: int, stop: int) -> tuple[np.int32, np.int32]:
    """As NumPy's numbers: they are arguments of the compiled program, as arrays are, but made in no time."""
    return np.int32(start), np.int32(stop)


def _init(loop: Loop, keys: Key[Array, " seeds"]) -> tuple[Carry, Keys]:
    return _over_group(loop.init, keys)


def _advance(
    loop: Loop, carry: Carry, keys: Keys, start: Int[Array, ""], stop: Int[Array, ""], capacity: int, strides: bool
) -> tuple[Carry, PyTree[Array]]:
    return _over_group(lambda carry, keys: advance(loop, carry, keys, start, stop, capacity, strides), carry, keys)


def _over_group(f: Callable[..., PyTree[Array]], *trees: PyTree[Array]) -> PyTree[Array]:
    """vmap, but a group of one is left unbatched inside, where batched products would cost more."""
    if jax.tree.leaves(trees)[0].shape[0] > 1:
        return jax.vmap(f)(*trees)
    one = f(*jax.tree.map(lambda leaf: leaf[0], trees))
    return jax.tree.map(lambda leaf: leaf[None], one)


def _raw(leaf: Array) -> Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _like(leaf: Array, raw: np.ndarray) -> Array:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.wrap_key_data(jnp.asarray(raw), impl=jax.random.key_impl(leaf)) if is_key else jnp.asarray(raw)


def _carried_bytes(loop: Loop, key: PRNGKeyArray) -> int:
    """What one seed takes from step to step."""
    carry, _ = eqx.filter_eval_shape(loop.init, key)
    return bytes_of(carry)


def _recorded_bytes(loop: Loop, key: PRNGKeyArray) -> int:
    """What one step of one seed leaves."""
    _, record = traced(_first_record, loop, key)
    return bytes_of(record)


def _most_steps(recorded: int, stride: int) -> int:
    """Steps of a call that leave so many bytes each: at least a stride, if that is not too much."""
    return max(1, OUTPUT_BYTES // recorded, min(stride, STRIDE_BYTES // recorded))


def _first_record(loop: Loop, key: PRNGKeyArray) -> PyTree[Array]:
    return first_record(loop, *loop.init(key))


def _device(carried: int, seeds: int, learners: int) -> Any:
    """The accelerator, or the cores where they are faster; the one that a user has made the default stays."""
    chosen, processor = jnp.zeros(0).devices().pop(), core()
    is_fixed = jax.config.jax_default_device is not None  # pyright: ignore[reportAttributeAccessIssue]
    if chosen.platform == "cpu" or is_fixed or processor is None:
        return chosen
    return processor if _cores_are_faster(carried, seeds, learners) else chosen


def _cores_are_faster(carried: int, seeds: int, learners: int) -> bool:
    """By what a core has to carry through a step, and how many kernels an accelerator has to start for it."""
    return -(-seeds // cores()) * carried < ACCELERATOR_BYTES * learners


def _group_size(loop: Loop, key: PRNGKeyArray, carried: int, seeds: int) -> int:
    """How many seeds are vmapped on a core: its share in as few equal groups as fit, so that few are filled up."""
    share = -(-seeds // cores())
    most = max(TOGETHER_SEEDS, GROUP_BYTES // carried)
    return -(-share // -(-share // most)) if _together(loop, key, carried, seeds, share) else 1


def _together(loop: Loop, key: PRNGKeyArray, carried: int, seeds: int, share: int) -> bool:
    """Whether the seeds of a core are vmapped, as the learner that trains prefers it."""
    preferred = loop.learners[APPLIED].together
    if preferred is None:
        return carried <= TOGETHER_BYTES and share >= TOGETHER_SEEDS
    busy = -(-seeds // share)  # cores that have a group: 20 seeds in twos leave 6 of 16 idle
    if not preferred or carried > TOGETHER_MOST_BYTES or busy < 0.75 * cores():
        return False
    # Small products are part of the loop of one seed, and it needs no company.
    return not _products_in_loop(loop, traced(_one_step, loop, key)[0])


def _products_in_loop(loop: Loop, program: Jaxpr) -> bool:
    # With streams every product is one of matrices, and calls for them are worth it.
    return loop.streams == 1 and multiplies_small(program)


def _one_step(loop: Loop, key: PRNGKeyArray) -> PyTree[Array]:
    zero = jnp.zeros((), "int32")
    return advance(loop, *loop.init(key), zero, zero, 1)[1]
