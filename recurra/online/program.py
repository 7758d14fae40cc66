"""The compiled loop over rows, one for all uses, and how a model's state travels to it and back.

A single row goes through the same program as many: a loop of as many rows as there are, at most `ROWS` a call. So it
makes no difference to a bit how a stream is cut. Programs are kept for the process, and models that differ in numbers
alone share one.

A compiled program of a small network takes a microsecond or two, and so does every array that is passed to it or
returned from it. So a small state travels as one vector of words. A large one travels as it is, since copying it would
cost more.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from recurra.engine.compiling import multiplies_small, options_for
from recurra.engine.hardware import core_device
from recurra.online.step import OnlineState, OnlineStep
from recurra.step import GivenCredit, GivenError, LearningState, LearningStep, Outcome

#: bytes from which on a tree travels as it is
LARGE = 2**22
#: Arrays as large as that are looked at every so many rows.
LOOK = 64
#: the words that numbers of so many bytes travel as; whole numbers, since nothing in a processor rounds or flushes them
WORDS = {4: "int32", 8: "int64"}


@dataclass(frozen=True)
class Packing:
    """Where each array of a tree is found."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @staticmethod
    def of(tree: PyTree) -> "Packing":
        """For trees like this one, of arrays or of their shapes."""
        leaves, structure = jax.tree.flatten(tree)
        return Packing(structure, tuple(leaf.shape for leaf in leaves), tuple(str(leaf.dtype) for leaf in leaves))

    @functools.cached_property
    def is_small(self) -> bool:
        """Whether arrays travel together."""
        sizes = (
            math.prod(shape) * jnp.dtype(kind).itemsize for shape, kind in zip(self.shapes, self.dtypes, strict=True)
        )
        return sum(sizes) < LARGE

    def pack(self, tree: PyTree) -> tuple[Array, ...]:
        """The vectors, one for each kind of word; or all arrays of a large tree."""
        leaves = jax.tree.leaves(tree)
        if not self.is_small:
            return tuple(leaves)
        return tuple(jnp.concatenate([_words(leaves[i]) for i in members]) for members in self.members.values())

    def unpack(self, packed: Sequence[Array]) -> PyTree:
        """The tree again."""
        if not self.is_small:
            return jax.tree.unflatten(self.structure, packed)
        leaves: list[Any] = [None] * len(self.shapes)
        for vector, members in zip(packed, self.members.values(), strict=True):
            for i, start in zip(members, self._starts(members), strict=True):
                words = jax.lax.slice(vector, (start,), (start + math.prod(self.shapes[i]),))
                leaves[i] = _numbers(words, self.dtypes[i]).reshape(self.shapes[i])
        return jax.tree.unflatten(self.structure, leaves)

    def pack_here(self, tree: PyTree) -> tuple[Any, ...]:
        """What `pack` returns, by NumPy: nothing is compiled for a single use."""
        leaves = jax.tree.leaves(tree)
        if not self.is_small:
            return tuple(leaves)
        words = lambda i: np.asarray(leaves[i]).astype("int32" if self.dtypes[i] == "bool" else self.dtypes[i])
        flat = lambda i: np.ravel(words(i)).view(_word(self.dtypes[i]))
        return tuple(np.concatenate([flat(i) for i in members]) for members in self.members.values())

    def unpack_here(self, packed: Sequence[Array | np.ndarray]) -> PyTree:
        """What `unpack` returns, as arrays of NumPy's."""
        parts = [np.asarray(part) for part in packed]
        if not self.is_small:
            return jax.tree.unflatten(self.structure, parts)
        leaves: list[Any] = [None] * len(self.shapes)
        for vector, members in zip(parts, self.members.values(), strict=True):
            for i, start in zip(members, self._starts(members), strict=True):
                words = vector[start : start + math.prod(self.shapes[i])]
                leaf = words != 0 if self.dtypes[i] == "bool" else words.view(self.dtypes[i])
                leaves[i] = leaf.reshape(self.shapes[i])
        return jax.tree.unflatten(self.structure, leaves)

    def first(self, packed: Sequence[Array | np.ndarray]) -> np.ndarray:
        """The first array of the tree, on the host, without unpacking the others."""
        words = np.asarray(packed[0])
        if not self.is_small:
            return words
        return words[: math.prod(self.shapes[0])].view(self.dtypes[0]).reshape(self.shapes[0])

    def first_row(self, packed: Sequence[Array | np.ndarray]) -> tuple[np.ndarray, Any]:
        """The first row of the first array, and the first number of its last row: `first`, in less time."""
        words = np.asarray(packed[0])
        if not self.is_small:
            return words[0], words[-1, 0]
        return words[: self._row].view(self.dtypes[0]), words[self._last]

    @functools.cached_property
    def _row(self) -> int:
        return self.shapes[0][1]

    @functools.cached_property
    def _last(self) -> int:
        return (self.shapes[0][0] - 1) * self.shapes[0][1]

    def put_first(self, packed: Sequence[Array], row: int, number: Array) -> tuple[Array, ...]:
        """The same with another number at the beginning of a row of the first array."""
        if not self.is_small:
            return packed[0].at[row, 0].set(number), *packed[1:]
        place = row * self.shapes[0][1]
        return jax.lax.dynamic_update_slice(packed[0], _words(number), (place,)), *packed[1:]

    def is_finite(self, packed: Sequence[Array]) -> Array:
        """Whether all floating-point numbers are finite. Of large trees small arrays alone are asked.

        To ask all would take as long as a row of RTRL or RFLO: `learn_one` would be half as fast. `_large_are_finite`
        tells of the others.
        """
        fine = jnp.ones((), bool)
        for part, members in zip(
            packed, self.members.values() if self.is_small else ([i] for i in self._all), strict=True
        ):
            fine &= self._floats_fine(part, members)
        return fine

    def _floats_fine(self, part: Array, members: list[int]) -> Array | bool:
        floats = [i for i in members if jnp.issubdtype(self.dtypes[i], jnp.floating)]
        if not floats or part.nbytes >= LARGE:
            return True
        words = jnp.ravel(part)[: sum(math.prod(self.shapes[i]) for i in floats)]
        if self.dtypes[floats[0]] != "float32":
            return jnp.all(jnp.isfinite(_numbers(words, self.dtypes[floats[0]])))
        # The largest word tells, without its sign: whole numbers are compared several at a time, unlike others.
        return jnp.max(_words(words) & 0x7FFFFFFF) < 0x7F800000

    @functools.cached_property
    def members(self) -> dict[str, list[int]]:
        """The arrays by the kind of word that they travel as, floating-point numbers first."""
        members: dict[str, list[int]] = {}
        is_float = [jnp.issubdtype(dtype, jnp.floating) for dtype in self.dtypes]
        for i in sorted(self._all, key=lambda i: not is_float[i]):
            members.setdefault(_word(self.dtypes[i]), []).append(i)
        return members

    @property
    def _all(self) -> range:
        return range(len(self.shapes))

    def _starts(self, members: list[int]) -> list[int]:
        sizes = [math.prod(self.shapes[i]) for i in members]
        return [sum(sizes[:k]) for k in range(len(sizes))]


def _word(dtype: str) -> str:
    return "int32" if dtype == "bool" else WORDS.get(jnp.dtype(dtype).itemsize, dtype)


def _words(leaf: Array) -> Array:
    leaf = jnp.ravel(leaf)
    return leaf.astype("int32") if leaf.dtype == bool else jax.lax.bitcast_convert_type(leaf, _word(str(leaf.dtype)))


def _numbers(words: Array, dtype: str) -> Array:
    return words != 0 if dtype == "bool" else jax.lax.bitcast_convert_type(words, dtype)


#: the most rows that one call takes
ROWS = 64


class Kind(NamedTuple):
    """What is done with a row, in this order: "observe", "learn", "told"; and what stands for its label."""

    actions: tuple[str, ...]
    target: type = jax.Array


class RowShape(NamedTuple):
    """The numbers of a row, for each stream: inputs, label, whether it is there, and whether a sequence begins.

    The last of these is left out for models without resets.
    """

    streams: int
    n_in: int
    n_label: int
    resets: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of the rows of a call. After the last row comes how many there are."""
        return ROWS + 1, self.streams, self.n_in + self.n_label + 1 + self.resets

    @property
    def present(self) -> int:
        """Where the number is that tells whether the label is there."""
        return self.n_in + self.n_label


def no_outs(step: OnlineStep) -> Float[Array, "rows_and_one numbers"]:
    """What came of each row: predictions, and 1 where all is finite. The last row tells it of the state after all."""
    learning = step.learning
    return jnp.zeros((ROWS + 1, learning.streams * step.n_out + 1), learning.network.cell.dtype)


#: Takes packed arrays and rows, and returns packed arrays. What is packed are outs, numbers of the step, and the state.
Program = Callable[..., tuple[Any, ...]]


def program_of(step: OnlineStep, packing: Packing, kind: Kind) -> Program:
    """The program for models of this structure."""
    leaves, structure = jax.tree.flatten(eqx.filter(step, eqx.is_array, inverse=True))
    return _program(tuple(leaves), structure, packing, kind)


@functools.lru_cache(maxsize=256)
def _program(leaves: tuple, structure: Any, packing: Packing, kind: Kind) -> Program:
    fixed = jax.tree.unflatten(structure, leaves)
    network = fixed.learning.network
    n_label = sum(network.cell.widths) if kind.target is GivenCredit else fixed.n_out
    row_shape = RowShape(fixed.learning.streams, fixed.n_in, n_label, fixed.resets)

    def run(*arguments: Array) -> tuple[Array, ...]:
        *packed, rows = arguments

        def all_rows(running: tuple) -> tuple:
            outs, numbers, state = packing.unpack(running[0])
            step = eqx.combine(numbers, fixed)

            def one(i: Array, running: tuple[OnlineState, Array]) -> tuple[OnlineState, Array]:
                state, output, is_fine = _taken(step, kind, row_shape, running[0], rows[i], packing.is_small)
                out = jnp.concatenate([output.reshape(-1), is_fine.astype(outs.dtype)[None]])
                return state, jax.lax.dynamic_update_slice(running[1], out[None], (i, jnp.int32(0)))

            state, outs = jax.lax.fori_loop(0, rows[ROWS, 0, 0].astype("int32"), one, (state, outs))
            after = packing.pack((outs, numbers, state))
            # What is not finite in the state may not have reached an output yet.
            is_fine = packing.is_finite(after).astype(outs.dtype)
            return packing.put_first(after, ROWS, is_fine), jnp.ones((), bool)

        if not packing.is_small:
            return all_rows((tuple(packed), None))[0]
        # A loop of one pass: the compiler makes one kernel of a small loop, and so packing is part of it.
        return jax.lax.while_loop(lambda running: ~running[1], all_rows, (tuple(packed), jnp.zeros((), bool)))[0]

    with jax.default_device(core_device()):
        rows = jax.ShapeDtypeStruct(row_shape.shape, network.cell.dtype)
        traced = jax.jit(run).trace(*_packed_shapes(packing), rows)
        small, few = multiplies_small(traced.jaxpr.jaxpr), "told" in kind.actions  # only the first rows are told of
        options: Any = options_for("cpu", runs_once=few, products_in_loop=small)
    return jax.jit(run, compiler_options=options or None)


def _packed_shapes(packing: Packing) -> tuple[Any, ...]:
    shapes = [jax.ShapeDtypeStruct(s, d) for s, d in zip(packing.shapes, packing.dtypes, strict=True)]
    return jax.eval_shape(packing.pack, jax.tree.unflatten(packing.structure, shapes))


def _taken(
    step: OnlineStep,
    kind: Kind,
    row_shape: RowShape,
    state: OnlineState,
    row: Float[Array, "streams numbers"],
    is_small: bool,
) -> tuple[OnlineState, Array, Array]:
    """One row: the next state, the prediction, and whether everything in and about it is finite.

    If the state is small, its arrays are left out: `Packing.is_finite` looks at all of them after the last row.
    """
    cells = row[0] if row_shape.streams == 1 else row
    last = row_shape.present
    x, y, present = cells[..., : row_shape.n_in], cells[..., row_shape.n_in : last], cells[..., last] > 0
    # A label that comes alone belongs to its row, whatever began since.
    reset = cells[..., -1] > 0 if row_shape.resets and "observe" in kind.actions else None
    output = jnp.zeros((*cells.shape[:-1], step.n_out), row.dtype)
    is_fine = jnp.all(jnp.isfinite(row))
    if kind.actions == ("observe", "learn"):
        state = state._replace(delayed=step.queue.caught_up(state.delayed))
    for action in kind.actions:
        if action == "observe":
            state, output = step.observe(state, x, reset)
        elif action == "told":
            state = step.told(state, y, present)
        else:
            state, outcome = step.learn(state, _target(step, kind, y), present, reset)
            is_fine &= jnp.all(jnp.isfinite(outcome.output))
            if not is_small:
                is_fine &= _large_are_finite(step.learning, outcome, state.delayed.learning)
    return state, output, is_fine & jnp.all(jnp.isfinite(output))


def _large_are_finite(learning: LearningStep, outcome: Outcome, after: LearningState) -> Array:
    """Whether the large arrays of a state are finite, told without a look at each of their numbers in every row.

    A gradient is linear in what a learner keeps, and 0 times infinity is nan. So a small gradient tells of all that the
    learner keeps, however large that is, also where there is no label. The large arrays themselves are looked at
    whenever the learner brings its own up to date, or every `LOOK` rows.
    """
    gradients = [leaf for leaf in jax.tree.leaves(outcome.gradients) if leaf.nbytes < LARGE]
    fine = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in gradients]).all() if gradients else jnp.ones((), bool)
    parts: list[tuple[PyTree, int]] = [((after.weights, after.optimizers), LOOK)]
    parts += [(kept, learning.learners[name].period or LOOK) for name, kept in after.learners.items()]
    for part, every in parts:
        is_large = lambda leaf: leaf.nbytes >= LARGE and jnp.issubdtype(leaf.dtype, jnp.floating)
        if large := list(filter(is_large, jax.tree.leaves(part))):
            look = lambda large=large: jnp.stack(list(map(_are_finite, large))).all()
            fine &= jax.lax.cond((outcome.t + 1) % every == 0, look, lambda: jnp.ones((), bool))
    return fine


def _are_finite(array: Array) -> Array:
    """Whether all numbers of a large array are finite: their sum tells, in a sixth of the time that asking each takes.

    A sum of large numbers may be infinite where each of them is finite. Only then is each of them asked.
    """
    each = lambda: jnp.all(jnp.isfinite(array))
    return jax.lax.cond(jnp.isfinite(jnp.sum(array)), lambda: jnp.ones((), bool), each)


def _target(step: OnlineStep, kind: Kind, y: Array) -> Any:
    if kind.target is GivenError:
        return GivenError(y)
    if kind.target is GivenCredit:
        edges = [
            sum(step.learning.network.cell.widths[: p + 1]) for p in range(len(step.learning.network.cell.widths) - 1)
        ]
        return GivenCredit(tuple(jnp.split(y, edges, axis=-1)))
    return y
