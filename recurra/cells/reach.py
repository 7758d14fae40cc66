"""Which weights, and which entries of the old state, can act on which entries of the new state within one step.

The answer is read from the traced program of the step, entry by entry, before anything runs. A *source* is a weight or
an entry of the old state. Every entry of every value of the program has a set of sources, those that it is computed
from, and an operation makes the sets of its results from those of its arguments.

No numbers are computed, so the answer depends neither on the weights nor on a unit that happens to be silent. A set may
have a source too many, never one too few: an operation that is not known here is taken to mix all its arguments.
Constants of the program count where they are zero, as in a product with a mask. Arrays that are fields of a cell are
not constants: they count as nowhere zero.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jaxtyping import Int

from recurra.cells.base import Cell, Weights
from recurra.cells.reading import WITH_DERIVATIVE, entries, is_elementwise
from recurra.programs import CALLS, ELEMENTWISE, Operation, flat

#: operations that put entries at other places, and how many of their arguments have entries that are moved; 0: all
MOVES = {
    "broadcast_in_dim": 1, "reshape": 1, "squeeze": 1, "expand_dims": 1, "transpose": 1, "slice": 1, "split": 1,
    "rev": 1, "tile": 1, "gather": 1, "dynamic_slice": 1, "pad": 2, "dynamic_update_slice": 2, "concatenate": 0,
    "stack": 0, "unstack": 1,
}  # fmt: skip

#: operations of which each result reads all entries along some axes
ALONG = {
    "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax", "argmin", "cumsum", "cumprod", "cummax",
    "cummin", "cumlogsumexp",
}  # fmt: skip

#: for each entry of a value the number of its set of sources (`Sets`)
Numbers = Int[np.ndarray, " _"]


class Constant(NamedTuple):
    """A constant of the program, or what is computed from constants alone."""

    value: Any


class Reach(NamedTuple):
    """For each entry of the new state, the weights and the entries of the old state that it is computed from.

    `learned` is how many weights there are.
    """

    learned: int
    weights: tuple[Int[np.ndarray, " _"], ...]
    state: tuple[Int[np.ndarray, " _"], ...]


def description(cell: Cell, weights: Weights) -> tuple[Any, tuple[Any, ...]]:
    """A cell and its weights without the numbers in their arrays: the same inside a transformation and outside."""
    leaves, structure = jax.tree.flatten((cell, weights))
    shape = lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))
    return structure, tuple(shape(leaf) if isinstance(leaf, jax.Array | np.ndarray) else leaf for leaf in leaves)


def reach(structure: Any, leaves: tuple[Any, ...]) -> Reach:
    """What reaches each entry of the new state within one step, for a `description` of a cell and its weights.

    Weights are counted as `ravel_pytree` counts them.
    """
    is_array = [isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves]
    arrays = [leaf for leaf, own in zip(leaves, is_array, strict=True) if own]
    cell, weights = jax.tree.unflatten(structure, leaves)
    a = tuple(jax.ShapeDtypeStruct((width,), cell.dtype) for width in cell.widths)

    def step(arrays: list[Any], a: Any, x: Any) -> Any:
        rest = iter(arrays)
        cell, weights = jax.tree.unflatten(structure, [next(rest) if own else leaf for own, leaf in kinds])
        return cell.forward(weights, a, x)[0]

    kinds = list(zip(is_array, leaves, strict=True))
    program = jax.make_jaxpr(step)(arrays, a, jax.ShapeDtypeStruct((cell.n_in,), cell.dtype))
    sizes = [math.prod(var.aval.shape) for var in program.jaxpr.invars]
    of_cell = len(arrays) - len(jax.tree.leaves(weights))  # the cell's own arrays come first, and the input last
    first, last = sum(sizes[:of_cell]), sum(sizes[:-1])
    is_source = lambda number: np.where((number >= first) & (number < last), number - first + 1, 0)
    given = [is_source(end - size + np.arange(size)) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
    sets = Sets(last - first)
    with jax.ensure_compile_time_eval():
        found = np.concatenate([_numbers(*each) for each in sets.followed(program, given)])
    count = last - first - sum(cell.widths)
    members = [sets.members(number) for number in found.tolist()]
    return Reach(
        count, tuple(each[each < count] for each in members), tuple(each[each >= count] - count for each in members)
    )


class Sets:
    """Sets of sources, by numbers. Set 0 is empty, and set s + 1 has the source s alone."""

    def __init__(self, sources: int):
        self.sources = sources
        self._larger: list[Int[np.ndarray, " _"]] = []
        self._number: dict[bytes, int] = {}
        self._unions: dict[bytes, int] = {}

    def members(self, number: int) -> Int[np.ndarray, " _"]:
        """The sources in a set."""
        if number > self.sources:
            return self._larger[number - self.sources - 1]
        return np.arange(number - 1, number) if number else np.zeros(0, int)

    def union(self, numbers: Int[np.ndarray, " _"]) -> int:
        """The number of the union of sets."""
        different = np.unique(numbers[numbers > 0])
        if len(different) < 2:
            return int(different[0]) if len(different) else 0
        *others, last = different.tolist()
        if last > self.sources >= others[-1] and np.isin(np.subtract(others, 1), self.members(last)).all():
            return last  # as where all weights are divided by their norm: this is quicker than making the union
        known = self._unions.get(key := different.tobytes())
        if known is None:
            together = np.unique(np.concatenate([self.members(number) for number in different.tolist()]))
            known = self._number.setdefault(together.tobytes(), self.sources + 1 + len(self._larger))
            if known == self.sources + 1 + len(self._larger):
                self._larger.append(together)
            self._unions[key] = known
        return known

    def unions(self, rows: Int[np.ndarray, "entries _"]) -> Numbers:
        """The union of the sets in each row."""
        if rows.shape[1] == 1:
            return rows[:, 0]
        is_single = np.count_nonzero(rows, axis=1) < 2
        found = rows.max(axis=1, initial=0)
        for i in np.flatnonzero(~is_single):
            found[i] = self.union(rows[i])
        return found

    def followed(self, program: ClosedJaxpr, given: Sequence[Any]) -> list[tuple[Any, Any]]:
        """The sets of a program's results, each with the result's shape and type."""
        written = flat(program, len(program.jaxpr.outvars))
        is_traced = lambda value: isinstance(value, jax.core.Tracer)
        values = {name: _nothing(c) if is_traced(c) else Constant(c) for name, c in written.constants.items()}
        values |= dict(zip(written.inputs, given, strict=True))
        value_of = lambda name: Constant(name.val) if isinstance(name, Literal) else values[name]
        for operation in written.operations:
            results = self._results(operation, [value_of(name) for name in operation.arguments])
            values |= dict(zip(operation.results, results, strict=True))
        return [(value_of(name), var.aval) for name, var in zip(written.outputs, program.jaxpr.outvars, strict=True)]

    def _results(self, operation: Operation, arguments: list[Any]) -> Sequence[Any]:
        """The sets of the results of one operation."""
        name, parameters = operation.name, operation.equation.params
        results = [var.aval for var in operation.equation.outvars]
        if all(isinstance(each, Constant) for each in arguments) and (name in {"iota", *ELEMENTWISE, *MOVES}):
            return [Constant(value) for value in operation.bind(*(each.value for each in arguments))]
        if name == "stop_gradient" or not any(map(_is_any, arguments)):
            return list(map(_nothing, results))
        parts = [each if isinstance(each, tuple | list) else (each,) for each in parameters.values()]
        programs = [each for part in parts for each in part if isinstance(each, ClosedJaxpr)]
        if name == WITH_DERIVATIVE:  # its derivative need not be that of its program
            if is_elementwise(operation):
                return [self.unions(_side_by_side(operation, arguments))]
        elif name in CALLS and len(programs) == 1:
            taken = arguments[len(arguments) - len(programs[0].jaxpr.invars) :]
            return [each for each, _ in self.followed(programs[0], taken)]
        if name == "cond" and not _is_any(arguments[0]):
            branches = [[_numbers(*each) for each in self.followed(branch, arguments[1:])] for branch in programs]
            return [self.unions(np.stack(each, axis=1)) for each in zip(*branches, strict=True)]
        if name in ELEMENTWISE:
            return [self.unions(_side_by_side(operation, arguments))]
        if name in MOVES and all(isinstance(each, Constant) for each in arguments[MOVES[name] or len(arguments) :]):
            return _moved(operation, arguments, MOVES[name] or len(arguments))
        if name in ALONG and len(arguments) == len(results) == 1:
            axes = parameters["axes"] if "axes" in parameters else (parameters["axis"],)
            return [self._along(arguments[0], operation.equation.invars[0].aval.shape, axes, results[0].shape)]
        if name == "dot_general":
            return [self._product(operation, arguments)]
        everything = self.union(np.concatenate([each for each in arguments if not isinstance(each, Constant)]))
        return [np.full(math.prod(result.shape), everything) for result in results]

    def _along(self, numbers: Numbers, shape: tuple[int, ...], axes: Sequence[int], after: tuple[int, ...]) -> Numbers:
        """Every result reads all entries along these axes."""
        others = [axis for axis in range(len(shape)) if axis not in axes]
        rows = numbers.reshape(shape).transpose(*others, *axes).reshape(math.prod(shape[axis] for axis in others), -1)
        found = self.unions(rows)
        if math.prod(after) == len(found):
            return found
        kept = [1 if axis in axes else length for axis, length in enumerate(shape)]
        return np.broadcast_to(found.reshape(kept), shape).ravel()

    def _product(self, operation: Operation, arguments: list[Any]) -> Numbers:
        """Σ_k left[b, m, k] right[b, n, k] reads what both factors of each term read, unless one of them is zero."""
        sums, batches = operation.equation.params["dimension_numbers"]

        def laid_out(i: int, values: np.ndarray) -> np.ndarray:
            """A factor as (b, m, k), with its own axes in the middle."""
            shape = operation.equation.invars[i].aval.shape
            own = [axis for axis in range(len(shape)) if axis not in (*batches[i], *sums[i])]
            sizes = [math.prod(shape[axis] for axis in axes) for axes in (batches[i], own, sums[i])]
            return values.reshape(shape).transpose(*batches[i], *own, *sums[i]).reshape(sizes)

        shapes = [laid_out(i, np.zeros(var.aval.shape)).shape for i, var in enumerate(operation.equation.invars)]
        (b, m, _), (_, n, _) = shapes
        sets = [
            np.zeros(shape, int) if isinstance(each, Constant) else laid_out(i, each)
            for i, (each, shape) in enumerate(zip(arguments, shapes, strict=True))
        ]
        is_term = [
            laid_out(i, np.asarray(each.value)) != 0 if isinstance(each, Constant) else np.ones(shape, bool)
            for i, (each, shape) in enumerate(zip(arguments, shapes, strict=True))
        ]
        found = np.zeros((b, m, n), int)
        for i, j, l in np.ndindex(b, m, n):
            is_there = is_term[0][i, j] & is_term[1][i, l]
            found[i, j, l] = self.union(np.concatenate([sets[0][i, j][is_there], sets[1][i, l][is_there]]))
        return found.ravel()


def _is_any(each: Any) -> bool:
    """Whether an entry of a value is computed from a source."""
    return not isinstance(each, Constant) and bool(np.any(each))


def _nothing(like: Any) -> Numbers:
    return np.zeros(math.prod(like.shape), int)


def _numbers(each: Any, like: Any) -> Numbers:
    return _nothing(like) if isinstance(each, Constant) else each


def _side_by_side(operation: Operation, arguments: list[Any]) -> Int[np.ndarray, "entries _"]:
    """The sets of an elementwise operation's arguments. A factor that is always zero stops those of the other."""
    shape, given = operation.equation.outvars[0].aval.shape, operation.equation.invars
    known = [isinstance(each, Constant) for each in arguments]
    values = [
        entries(each.value if is_known else each, var.aval.shape, shape)
        for each, is_known, var in zip(arguments, known, given, strict=True)
    ]
    columns = []
    for i in np.flatnonzero(~np.array(known)).tolist():
        counts: Any = True
        if operation.name == "mul" and any(known):
            counts = values[known.index(True)] != 0
        if operation.name == "select_n" and known[0]:
            counts = values[0].astype(int) == i - 1
        columns.append(np.where(counts, values[i], 0))
    return np.stack(columns, axis=1)


def _moved(operation: Operation, arguments: list[Any], moved: int) -> list[Numbers]:
    """An entry has the set that it had at its former place; one that had no place has the empty set."""
    shapes = [var.aval.shape for var in operation.equation.invars[:moved]]
    numbers = [
        np.zeros(shape, np.int32) if isinstance(each, Constant) else each.astype(np.int32).reshape(shape)
        for each, shape in zip(arguments, shapes, strict=False)
    ]
    results = operation.bind(*map(jnp.asarray, numbers), *(each.value for each in arguments[moved:]))
    return [np.maximum(np.asarray(each).ravel(), 0) for each in results]
