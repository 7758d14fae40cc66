"""All seeds of a run at once, on every core or the accelerator, without being asked.

Seeds go in equal groups, one for each core. A group is vmapped and has a thread of its own: a compiled program holds no
lock while it runs, so all cores work without any setting made before JAX starts. Groups of one size share one
compilation; the last seed fills the last group up.
"""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from recurra.loop import Carry, Keys, Loop
from recurra.machine import cores
from recurra.network import NetworkWeights

#: bytes of per-step output that one compiled call may hold
OUTPUT_BYTES = 64 * 2**20


class Fleet:
    """A loop over many seeds, somewhere between its first step and its last."""

    def __init__(self, loop: Loop, key: PRNGKeyArray, seeds: tuple[int, ...], chunk: int):
        self._loop, self._count, self._x64 = loop, len(seeds), jnp.result_type(float) == jnp.float64
        size = -(-len(seeds) // min(_side_by_side(), len(seeds)))
        groups = [seeds[i : i + size] for i in range(0, len(seeds), size)]
        groups[-1] += seeds[-1:] * (size - len(groups[-1]))
        self._rows = [[seeds.index(seed) for seed in group] for group in groups]
        fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        self._groups = [_init(loop, fold(key, np.array(group))) for group in groups]
        self._pool = ThreadPoolExecutor(len(groups))
        self.capacity = self._affordable(chunk)
        # A call that takes no step compiles, once, before the threads that share the program start.
        jax.block_until_ready(self._call(self._groups[0], 0, 0))

    def advance(self, start: int, stop: int) -> PyTree[np.ndarray]:
        """Take every seed from step `start` to `stop`: each step's loss and records, (seed, step, ...)."""
        step = lambda group: jax.block_until_ready(self._call(group, start, stop))
        outputs = list(self._pool.map(step, self._groups))
        self._groups = [(carry, keys) for (carry, _), (_, keys) in zip(outputs, self._groups, strict=True)]
        return jax.tree.map(lambda leaf: leaf[:, : stop - start], self._over_seeds([record for _, record in outputs]))

    def weights(self) -> NetworkWeights:
        """Each seed's weights now, (seed, ...)."""
        return self._over_seeds([carry.weights for carry, _ in self._groups])

    def snapshot(self) -> list[np.ndarray]:
        """All that the run needs to go on, as plain arrays, (seed, ...)."""
        return jax.tree.leaves(self._over_seeds([jax.tree.map(_raw, group) for group in self._groups]))

    def restore(self, arrays: Sequence[np.ndarray]) -> None:
        """Go on from a snapshot of the same run, whatever number of cores took it."""
        treedef = jax.tree.structure(self._groups[0])
        self._groups = [
            jax.tree.map(_like, self._groups[i], jax.tree.unflatten(treedef, [array[rows] for array in arrays]))
            for i, rows in enumerate(self._rows)
        ]

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def _call(self, group: tuple[Carry, Keys], start: int, stop: int) -> tuple[Carry, PyTree[Array]]:
        # Bounds go in as arrays, so that no number of steps compiles anew.
        with jax.enable_x64(self._x64):  # a choice made for one thread alone, and this may be another
            bounds = jnp.asarray(start, "int32"), jnp.asarray(stop, "int32")
            return _compiled_advance()(self._loop, *group, *bounds, self.capacity)

    def _over_seeds(self, groups: Sequence[PyTree[Array]]) -> PyTree[np.ndarray]:
        return jax.tree.map(lambda *parts: np.concatenate(parts)[: self._count], *groups)

    def _affordable(self, chunk: int) -> int:
        """Steps a call that keep its output within bounds."""
        zero = jnp.zeros((), "int32")
        _, one_step = eqx.filter_eval_shape(eqx.filter_jit(_advance), self._loop, *self._groups[0], zero, zero, 1)
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(one_step))
        return max(1, min(chunk, OUTPUT_BYTES // (size * len(self._groups))))


@eqx.filter_jit
def _init(loop: Loop, keys: Key[Array, " seeds"]) -> tuple[Carry, Keys]:
    return _over_group(loop.init, keys)


@functools.cache
def _compiled_advance() -> Callable[..., tuple[Carry, PyTree[Array]]]:
    """`_advance` compiled as it runs fastest.

    At its usual level 3 the compiler for CPUs unrolls rows of some 32 numbers whole and then does not vectorize them;
    at level 2 they stay loops, and are vectorized. What a user has set stays.
    """
    chosen = "xla_backend_optimization_level" in os.environ.get("XLA_FLAGS", "")
    options = {"xla_backend_optimization_level": 2} if jax.default_backend() == "cpu" and not chosen else None
    return eqx.filter_jit(_advance, compiler_options=options)  # pyright: ignore[reportCallIssue]: passed on to jax.jit


def _advance(
    loop: Loop, carry: Carry, keys: Keys, start: Int[Array, ""], stop: Int[Array, ""], capacity: int
) -> tuple[Carry, PyTree[Array]]:
    return _over_group(lambda carry, keys: loop.advance(carry, keys, start, stop, capacity), carry, keys)


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


def _side_by_side() -> int:
    """How many groups can run side by side: one for each core, and one where an accelerator does the work."""
    return cores() if jax.default_backend() == "cpu" else 1
