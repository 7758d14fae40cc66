"""A user's step as a function of parameters, carry and input, whatever it was written with."""

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.lanes import Reading, read


class Step:
    """A step(params, carry, x) of a user's, called with a vector of inputs. Arguments are those of `recurra.cell_of`.

    `params`, `carry` and `x` are examples, or where a run starts. Steps are equal if they are made of the same function
    or of equal modules, and have arguments of the same shapes: so that what was compiled for one serves the other.
    """

    def __init__(self, thing: Any, params: PyTree, carry: PyTree, x: PyTree, init: Any):
        self._given = thing, params, carry, x, init
        self.name = self.__name__ = getattr(thing, "__name__", type(thing).__name__)
        self.__module__, self.__wrapped__ = getattr(thing, "__module__", ""), thing
        self.carry, self.x, self.dtype = _examples(self.name, carry, x)
        how, function, params, init, told = _called(thing, params, self.carry, self.x, init)
        self.params, fixed = eqx.partition(params, eqx.is_inexact_array)
        self._function = lambda params, carry, x: function(eqx.combine(params, fixed), carry, x)
        self.init: Callable[[PRNGKeyArray], PyTree] | None = None
        if init is not None:
            if not callable(init) or isinstance(init, type):
                raise TypeError(f"`init` of {self.name} must draw parameters from a key, and is {init!r}.")
            self.init = lambda key: eqx.filter(init(key), eqx.is_inexact_array)
        self._key = _key((type(thing), *told), fixed, self.params, self.carry, self.x)
        self._check(how)

    def __reduce__(self) -> Any:
        return Step, self._given  # what was read is read again elsewhere: a traced program cannot be sent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def n_in(self) -> int:
        """How many numbers an input has."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.x))

    def __call__(self, params: PyTree, carry: PyTree, x: Array) -> PyTree:
        """The next carry, without what the step returns beside it."""
        leaves, structure = jax.tree.flatten(self.x)
        ends = np.cumsum([math.prod(leaf.shape) for leaf in leaves])[:-1]
        parts = zip(jnp.split(x, ends), leaves, strict=True)
        x = jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])
        return self._carry_of(self._function(params, carry, x))

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
            flat, unravel = ravel_pytree(self.params)
            gates = jax.jit(lambda flat: ravel_pytree(self.reading.weights(unravel(flat)))[0])
            numbers = np.asarray(gates(jnp.arange(flat.size, dtype=flat.dtype)))
            if numbers.size != flat.size or not np.array_equal(np.sort(numbers), np.arange(flat.size)):
                return None
            numbers, probe = numbers.astype(int), jax.random.normal(jax.random.key(1), flat.shape, flat.dtype)
            is_so = np.array_equal(gates(probe), np.asarray(probe)[numbers])
            return np.argsort(numbers) if is_so else None

    def _check(self, how: str) -> None:
        """Raise unless the step has weights, can be called, and returns a carry like the one it takes."""
        if not jax.tree.leaves(self.params):
            raise TypeError(f"{self.name} has no floating-point arrays, so there are no weights to learn.")
        found = {str(leaf.dtype) for leaf in jax.tree.leaves((self.params, self.carry))}
        if len(found) != 1:
            raise TypeError(
                f"The parameters and the carry of {self.name} must share one dtype, and have {sorted(found)}."
            )
        x = jax.ShapeDtypeStruct((self.n_in,), self.dtype)
        try:
            after = jax.eval_shape(self, self.params, self.carry, x)
        except Exception as error:
            raise TypeError(
                f"{self.name} could not be called as {how}, with an input of shapes {_shapes(self.x)} and a carry of "
                f"shapes {_shapes(self.carry)}: {error}"
            ) from error
        if not _alike(after, self.carry):
            raise TypeError(
                f"{self.name} must return a carry like the one it takes, or a pair of it and anything else: it takes "
                f"{_shapes(self.carry)} and returns {_shapes(after)}."
            )
        if self.init is None:
            return
        try:
            drawn = jax.eval_shape(self.init, jax.random.key(0))
        except Exception as error:
            raise TypeError(f"`init` of {self.name} must draw parameters from a key, and failed: {error}") from error
        if not _alike(drawn, self.params):
            raise TypeError(
                f"`init` of {self.name} must draw parameters like those given, of shapes {_shapes(self.params)}, and "
                f"draws {_shapes(drawn)}."
            )


def _examples(name: str, carry: PyTree, x: PyTree) -> tuple[PyTree, PyTree, jnp.dtype]:
    """Examples of a carry and an input as arrays, and their type."""
    leaves = jax.tree.leaves(carry)
    if not leaves or not all(eqx.is_inexact_array_like(leaf) for leaf in leaves):
        raise TypeError(
            f"`carry` of {name} must be an array of floating-point numbers, or a tree of them, such as "
            f"jax.numpy.zeros(32), and is {carry!r}."
        )
    carry = jax.tree.map(jnp.asarray, carry)
    dtype = checks.float_dtype(jnp.result_type(jax.tree.leaves(carry)[0]))
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        if x < 1:
            raise ValueError(
                f"`x` of {name} must be an example of an input, or at least 1 as their number, and is {x}."
            )
        x = jnp.zeros(int(x), dtype)
    if not jax.tree.leaves(x):
        raise TypeError(f"`x` of {name} must be an example of an input, or the number of its entries, and is {x!r}.")
    return carry, jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), x), dtype


def _called(
    thing: Any, params: PyTree, carry: PyTree, x: PyTree, init: Any
) -> tuple[str, Callable, PyTree, Any, tuple[Any, ...]]:
    """How a thing is called, its step as a function, its parameters, what draws others, and what makes steps equal."""
    if (nnx := _flax("nnx")) and isinstance(thing, nnx.Module):
        definition, own, rest = nnx.split(thing, nnx.Param, ...)
        # A cell that `init` makes is taken apart likewise.
        draw = None if init is None else (lambda key: nnx.state(init(key), nnx.Param))
        step = lambda p, carry, x: nnx.merge(definition, p, rest)(carry, x)
        rest_told = jax.tree.map(lambda leaf: leaf if eqx.is_array(leaf) else jax.random.key_data(leaf), rest)
        return "cell(carry, x)", step, own, draw, (definition, rest_told, init)
    if (linen := _flax("linen")) and isinstance(thing, linen.Module):
        draw = init or (None if params is not None else lambda key: thing.init(key, carry, x))
        params = draw(jax.random.key(0)) if params is None and callable(draw) else params
        step = lambda p, carry, x: thing.apply(p, carry, x)
        return "cell.apply(params, carry, x)", step, params, draw, (thing, init)
    if not callable(thing):
        raise TypeError(
            f"{thing!r} cannot be called: give a function step(params, carry, x) with its `params`, or a recurrent "
            "cell of Equinox or Flax."
        )
    if params is None:
        return "module(x, carry)", lambda module, carry, x: module(x, carry), thing, init, (init,)
    return "step(params, carry, x)", thing, params, init, (thing, init)


def _flax(kind: str) -> Any:
    """A module of Flax, if it was imported. Flax is not imported here: whoever has a cell of it has done so."""
    return sys.modules.get(f"flax.{kind}")


def _shapes(tree: PyTree) -> str:
    """The shapes of a tree's arrays in words, such as float32[8]."""
    told = [f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}" for leaf in jax.tree.leaves(tree)]
    return f"({', '.join(told)})" if len(told) != 1 else told[0]


def _alike(a: PyTree, b: PyTree) -> bool:
    return jax.tree.structure(a) == jax.tree.structure(b) and _shapes(a) == _shapes(b)


def _key(told: tuple[Any, ...], fixed: PyTree, *others: PyTree) -> Any:
    """By what a step is equal to another: its functions, the numbers that stay fixed, and the shapes of the others."""
    number = lambda leaf: (leaf.shape, str(leaf.dtype), np.asarray(leaf).tobytes()) if eqx.is_array(leaf) else leaf
    kept = [(jax.tree.structure(tree), tuple(map(number, jax.tree.leaves(tree)))) for tree in (*told, fixed)]
    key = tuple(kept), tuple((jax.tree.structure(tree), _shapes(tree)) for tree in others)
    try:
        hash(key)
    except TypeError:
        return object()  # it is equal to itself alone
    return key
