"""A user's step as a function of parameters, carry and input, whatever it was written with."""

import functools
from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from recurra import checks
from recurra.cells.affine import Affine, Known, linear_in
from recurra.cells.base import Cell
from recurra.cells.lanes import Reading, read
from recurra.cells.user_functions import (
    alike,
    check_given,
    check_init,
    entries,
    example_of,
    key_of,
    named,
    parameter_names,
    plain,
    same_shapes,
    shapes,
    taken_apart,
    text_of,
    unflattened,
)
from recurra.programs import flat

#: errors of Flax for a module that changes variables of its own, or draws random numbers
CHANGING = ("TraceContextError", "ModifyScopeVariableError", "InvalidRngError")


class Step:
    """A step(params, carry, x) of a user's, called with a vector of inputs. Arguments are those of `recurra.cell_of`.

    `params`, `carry` and `x` are examples, or where a run starts. Steps are equal if they are made of the same function
    or of equal modules, have arguments of the same shapes, and are one traced program: so that what was compiled for
    one serves the other.
    """

    def __init__(self, thing: Any, params: PyTree, carry: PyTree, x: PyTree, init: Any):
        self._given = thing, params, carry, x, init
        self.name = self.__name__ = named(thing)
        self.__module__, self.__wrapped__ = getattr(thing, "__module__", ""), thing
        check_given(self.name, thing, self._given)
        self.carry, self.x, self.dtype = _examples(self.name, carry, x)
        taken = taken_apart(self.name, thing, params, (self.carry, self.x), init)
        self._whole, self.params, self._function, self.init = taken.whole, taken.params, taken.function, taken.init
        program = self._checked(taken.how)
        self.beside = self._beside(program)
        self.text = text_of(program)
        self._key = key_of((*taken.told, taken.fixed, program.consts), self.params, self.carry, self.x), self.text

    def __reduce__(self) -> Any:
        return Step, self._given  # what was read is read again elsewhere: a traced program cannot be sent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def n_in(self) -> int:
        """How many numbers an input has."""
        return entries(self.x)

    def __call__(self, params: PyTree, carry: PyTree, x: Array) -> PyTree:
        """The next carry, without what the step returns beside it."""
        return self._carry_of(self.returned(params, carry, x))

    def returned(self, params: PyTree, carry: PyTree, x: Array) -> PyTree:
        """All that the step returns."""
        return self._function(params, carry, self.split_input(x))

    def split_input(self, v: Array) -> PyTree:
        """A vector of all inputs as a tree like the user's."""
        return unflattened(v, self.x)

    def input_of(self, x: PyTree) -> Array:
        """The vector of a user's input; a ValueError for one that is not like the example."""
        if jax.tree.structure(x) != jax.tree.structure(self.x) or not same_shapes(x, self.x):
            found, wanted = jax.tree.structure(x), jax.tree.structure(self.x)
            told = "" if found == wanted else f" in {found}, and not in {wanted}"
            raise ValueError(
                f"An input of {self.name} must be like the example that it was made with, of shapes {shapes(self.x)}, "
                f"and has {shapes(x)}{told}. For several streams, use jax.vmap."
            )
        return jnp.concatenate([jnp.ravel(leaf).astype(self.dtype) for leaf in jax.tree.leaves(x)])

    def of_carry(self, what: str, tree: PyTree) -> list[Any]:
        """The leaves of a tree like the carry, in which None may stand for an array; a ValueError for another tree."""
        leaves, structure = jax.tree.flatten(tree, lambda leaf: leaf is None)
        wanted = jax.tree.leaves(self.carry)
        fits = lambda leaf, like: leaf is None or jnp.shape(leaf) == like.shape
        if structure != jax.tree.structure(self.carry) or not all(map(fits, leaves, wanted)):
            raise ValueError(
                f"A tree of {what} must be like the carry of {self.name}, of shapes {shapes(self.carry)}, with an "
                f"array or None for each of its leaves, and has {shapes(tree)}."
            )
        return [None if leaf is None else jnp.asarray(leaf).astype(self.dtype) for leaf in leaves]

    def learned(self, params: PyTree) -> PyTree:
        """The parameters that are learned, of a tree like the user's; a ValueError for another tree.

        What is not learned, such as an integer, is as it was given first. It may be left out, with None in its place.
        """
        is_none = lambda leaf: leaf is None
        leaves, structure = jax.tree_util.tree_flatten_with_path(params, is_none)
        learned, own = jax.tree.flatten(self.params, is_none)
        if structure != own:
            raise ValueError(
                f"The parameters must be a tree like those that {self.name} was made with, {own}, and are {structure}."
            )
        for (path, leaf), wanted, first in zip(leaves, learned, jax.tree.leaves(self._whole, is_none), strict=True):
            place = f"params{jax.tree_util.keystr(path)}"
            is_number = isinstance(leaf, float) and wanted is not None and not wanted.shape
            if wanted is not None and not is_number and shapes(leaf) != shapes(wanted):
                raise ValueError(
                    f"`{place}` of {self.name} must be {shapes(wanted)}, as when it was made, and is {shapes(leaf)}."
                )
            if wanted is None and leaf is not None and not _is_same(leaf, first):
                raise ValueError(
                    f"`{place}` is not learned, so {self.name} keeps it as it was given first, {first!r}, and now it "
                    f"is {leaf!r}. Leave it out, with None in its place, or let it be a floating-point array."
                )
        kept = lambda leaf, wanted: None if wanted is None else jnp.asarray(leaf, wanted.dtype)
        return jax.tree.map(kept, params, self.params, is_leaf=is_none)

    def _carry_of(self, returned: PyTree) -> PyTree:
        if jax.tree.structure(returned) == jax.tree.structure(self.carry):
            return returned
        is_pair = isinstance(returned, tuple) and len(returned) == 2
        return returned[0] if is_pair else returned

    @functools.cached_property
    def reading(self) -> Reading:
        """The step as a unit-wise cell; a `NotUnitwise` error if it is none."""
        with jax.ensure_compile_time_eval():  # also where it is first asked for within a program that is traced
            return read(self._function, self.params, self.carry, self.x)

    @functools.cached_property
    def order(self) -> np.ndarray | None:
        """For each parameter its place among all weights of the gates; None if gates are no permutation of them."""
        with jax.ensure_compile_time_eval():
            flat_params, unravel = ravel_pytree(self.params)
            gates = jax.jit(lambda flat: ravel_pytree(self.reading.weights(unravel(flat)))[0])
            if not _is_linear(jax.make_jaxpr(gates)(flat_params)):
                return None
            numbers = np.asarray(gates(jnp.arange(flat_params.size, dtype=flat_params.dtype)))
            if numbers.size != flat_params.size or not np.array_equal(np.sort(numbers), np.arange(numbers.size)):
                return None
            numbers = numbers.astype(int)
            probe = jax.random.normal(jax.random.key(1), flat_params.shape, flat_params.dtype)
            return np.argsort(numbers) if np.array_equal(gates(probe), np.asarray(probe)[numbers]) else None

    @functools.cached_property
    def gates(self) -> tuple[str, ...]:
        """For each gate the parameters that its weights are, such as "W+U+b"; its number where that is not simple.

        Of a parameter that several gates share each has a part, as in "W[0]+b" and "W[1]".
        """
        blocks = [jax.tree.leaves(gate) for gate in jax.eval_shape(self.reading.weights, self.params)]
        if self.order is None:
            return tuple(map(str, range(len(blocks))))
        sizes, weights = [leaf.size for leaf in jax.tree.leaves(self.params)], np.argsort(self.order)
        leaf_of = np.repeat(np.arange(len(sizes)), sizes)
        parts = iter(np.split(weights, np.cumsum([block.size for gate in blocks for block in gate])))
        begins: list[dict[int, int]] = []  # for each gate its parameters, and the first entry that it has of each
        for gate in blocks:
            own = [(set(leaf_of[part].tolist()), int(part.min())) for part in (next(parts) for _ in gate)]
            is_simple = all(len(leaves) == 1 for leaves, _ in own)
            begins.append({leaf: first for leaves, first in own[::-1] for leaf in leaves} if is_simple else {})
        names, uses = parameter_names(self.params), Counter(leaf for gate in begins for leaf in gate)

        def told(leaf: int, first: int) -> str:
            number = sum(gate.get(leaf, first) < first for gate in begins)
            return names[leaf] if uses[leaf] == 1 else f"{names[leaf]}[{number}]"

        each = ("+".join(told(*part) for part in [*gate.items()][::-1]) for gate in begins)
        return tuple(name or str(number) for number, name in enumerate(each))

    def _checked(self, how: str) -> ClosedJaxpr:
        """The traced program; an error unless the step has weights, can be called, and returns a carry like its own."""
        if not jax.tree.leaves(self.params):
            raise TypeError(
                f"{self.name} has no floating-point arrays, so there are no weights to learn: give them as `params`, "
                "with a function step(params, carry, x)."
            )
        found = {str(leaf.dtype) for leaf in jax.tree.leaves((self.params, self.carry))}
        if len(found) != 1:
            raise TypeError(
                f"The parameters and the carry of {self.name} must share one dtype, and have {sorted(found)}."
            )
        given = self.params, self.carry, self.x
        try:
            program, returned = jax.make_jaxpr(self._function, return_shape=True)(*given)
        except Exception as error:
            if type(error).__name__ in CHANGING:
                raise TypeError(
                    f"{self.name} changes variables of its own when it is called, such as a counter or the random "
                    "state of a Dropout. That is not supported, since a step is a function of its arguments: set the "
                    "cell to its mode for inference, or make what changes a part of the carry or of the input, as "
                    "floating-point numbers."
                ) from error
            raise TypeError(
                f"{self.name} could not be called as {how}, with an input of shapes {shapes(self.x)} and a carry of "
                f"shapes {shapes(self.carry)}: {error}"
            ) from error
        after = self._carry_of(returned)
        if not alike(after, self.carry):
            raise TypeError(
                f"{self.name} must return a carry like the one it takes, or a pair of it and anything else: it takes "
                f"{shapes(self.carry)} and returns {shapes(after)}."
            )
        check_init(self.name, self.init, self.params)
        return program

    def check_derivative(self, why: str | None) -> None:
        """Raise where JAX has no derivative of the step, with what is known of why it is not unit-wise."""
        step = lambda *given: self._carry_of(self._function(*given))
        try:
            jax.eval_shape(lambda *given: jax.vjp(step, *given)[1](self.carry), self.params, self.carry, self.x)
        except Exception as error:
            line = f" ({why})" if why else ""
            raise TypeError(f"JAX has no derivative of the step of {self.name}{line}: {error}") from error

    def _beside(self, program: ClosedJaxpr) -> tuple[int, ...] | None:
        """The leaves of the carry that the step also returns beside it. None if it returns something else there."""
        count = len(jax.tree.leaves(self.carry))
        outputs = flat(program, len(program.jaxpr.outvars)).outputs
        also = outputs[count:]
        if not all(isinstance(each, int) and each in outputs[:count] for each in also):
            return None
        return tuple(dict.fromkeys(outputs.index(each) for each in also))


class StepCell(Cell):
    """What cells have in common that are made of a user's step."""

    step: eqx.AbstractVar[Step]
    is_smooth: eqx.AbstractVar[bool]

    @property
    def name(self) -> str:
        """The user's name of the step."""
        return self.step.name

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether J is the derivative of what the cell computes."""
        return self.is_smooth

    def learned(self, params: PyTree) -> PyTree:
        return self.step.learned(params)

    def labels(self, weights: PyTree) -> PyTree[str]:
        return jax.tree.unflatten(jax.tree.structure(weights), parameter_names(weights))

    def input_of(self, x: PyTree) -> Array:
        return self.step.input_of(x)

    def split_input(self, v: Array) -> PyTree:
        return self.step.split_input(v)


def _is_linear(program: ClosedJaxpr) -> bool:
    """Whether a program is known to be linear in its arguments, so that its derivative is the same everywhere."""
    written = flat(program, len(program.jaxpr.outvars))
    depends = set(written.inputs)
    value_of = lambda each: Affine({}, None) if isinstance(each, int) and each in depends else Known(None, False)
    for operation in written.operations:
        arguments = list(map(value_of, operation.arguments))
        if any(isinstance(each, Affine) for each in arguments):
            if operation.name not in ("scatter-add", "pad") and not linear_in(operation, arguments):
                return False
            depends |= set(operation.results)
    return True


def _examples(name: str, carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree, jnp.dtype]:
    """Examples of a carry and an input as arrays, and their type."""
    leaves = jax.tree_util.tree_leaves_with_path(carry)
    other = [(path, leaf) for path, leaf in leaves if not eqx.is_inexact_array_like(leaf)]
    if not leaves or other:
        path, leaf = other[0] if other else ((), carry)
        raise TypeError(
            f"`carry` of {name} must be an array of floating-point numbers, or a tree of them, such as "
            f"jax.numpy.zeros(32), and `carry{jax.tree_util.keystr(path)}` is {leaf!r}. A count of steps "
            "can be part of the input, as a floating-point number; a class of your own must be registered as a tree."
        )
    carry = jax.tree.map(jnp.asarray, carry)
    dtype = checks.float_dtype(jnp.result_type(jax.tree.leaves(carry)[0]))
    return carry, example_of(name, x, dtype), dtype


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values that are not learned are known to be equal."""
    if a is b or isinstance(a, jax.core.Tracer):
        return a is b
    return np.array_equal(plain(a), plain(b)) if eqx.is_array_like(a) and eqx.is_array_like(b) else a == b
