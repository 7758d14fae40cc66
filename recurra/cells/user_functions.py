"""A user's function or module, taken apart: what is called, which parameters are learned, and what makes it equal.

This is what steps (`recurra.cells.step`) and modules without memory (`recurra.cells.module`) have in common, whether
they were written as a function, with Equinox or with Flax. Flax is not imported here: whoever has a module of it has
done so.
"""

import math
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.tree_util import GetAttrKey, KeyPath
from jaxtyping import Array, PRNGKeyArray, PyTree


class Taken(NamedTuple):
    """A user's function in parts.

    `function(params, *arguments)` calls it with the `params` that are learned; the `fixed` rest is a part of it.
    `whole` has both. `init` draws what is learned from a key. `told` and `fixed` tell it from others, and `how` says in
    words how it is called. `rebuilt` puts learned parameters back into a module like the user's.
    """

    function: Callable[..., Any]
    params: PyTree
    fixed: PyTree
    whole: PyTree
    init: Callable[[PRNGKeyArray], PyTree] | None
    told: tuple[Any, ...]
    how: str
    rebuilt: Callable[[PyTree], Any]


def taken_apart(name: str, thing: Any, params: PyTree, arguments: tuple[PyTree, ...], init: Any) -> Taken:
    """The parts of a function, or of a module, that takes arguments like these; a carry comes before the input."""
    called = _called(name, thing, params, arguments, init)
    # As JAX takes them: numbers of NumPy have its precision, and a plain number is an array.
    whole = jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_inexact_array(leaf) else leaf, called.params)
    is_param = lambda path, leaf: eqx.is_inexact_array(leaf) and called.is_learned(path)
    mask = lambda tree: jax.tree_util.tree_map_with_path(is_param, tree)
    learned, fixed = eqx.partition(whole, mask(whole))
    draw = None
    if called.draw is not None:
        if not callable(called.draw) or isinstance(called.draw, type):
            raise TypeError(f"`init` of {name} must draw parameters from a key, and is {called.draw!r}.")
        draw = lambda key: eqx.filter(drawn := called.draw(key), mask(drawn))
    function = lambda params, *given: called.function(eqx.combine(params, fixed), *given)
    rebuilt = lambda params: called.rebuilt(eqx.combine(params, fixed))
    return Taken(function, learned, fixed, whole, draw, (type(thing), *called.told), called.how, rebuilt)


class _Called(NamedTuple):
    """How a thing is called, as a function of all its parameters, these, what draws others, what makes things equal.

    `is_learned` tells by its path whether an array of the parameters is learned.
    """

    how: str
    function: Callable
    params: PyTree
    draw: Any
    told: tuple[Any, ...]
    is_learned: Callable[[KeyPath], bool] = lambda path: True
    rebuilt: Callable[[PyTree], Any] = lambda params: params


def _called(name: str, thing: Any, params: PyTree, arguments: tuple[PyTree, ...], init: Any) -> _Called:
    kind, taking = ("cell", "carry, x") if len(arguments) > 1 else ("module", "x")
    if (nnx := _flax("nnx")) and isinstance(thing, nnx.Module):
        definition, own, rest = nnx.split(thing, nnx.Param, ...)
        if params is not None and not alike(params, own):
            raise TypeError(
                f"`params` of {name} must be its nnx.state({kind}, nnx.Param), of shapes {shapes(own)}, or be left out."
            )
        # A module that `init` makes is taken apart likewise.
        draw = None if init is None else (lambda key: nnx.state(init(key), nnx.Param))
        merged = lambda p: nnx.merge(definition, p, rest)
        given, told = own if params is None else params, (definition, rest, init)
        return _Called(f"{kind}({taking})", lambda p, *each: merged(p)(*each), given, draw, told, rebuilt=merged)
    if (linen := _flax("linen")) and isinstance(thing, linen.Module):
        draw = init or (None if params is not None else lambda key: thing.init(key, *arguments))
        if params is None and callable(draw):
            try:
                params = draw(jax.random.key(0))
            except Exception as error:
                raise TypeError(f"{name} could not be set up as {kind}.init(key, {taking}): {error}") from error
        # Other collections, such as the running means of a normalisation, are no parameters.
        first = lambda path: getattr(next(iter(path)), "key", None)
        is_learned = lambda path: first(path) == "params" or "params" not in dict(params or {})
        how = f"{kind}.apply(params, {taking})"
        return _Called(how, lambda p, *each: thing.apply(p, *each), params, draw, (thing, init), is_learned)
    if not callable(thing):
        what = f"a function {'step' if len(arguments) > 1 else 'f'}(params, {taking}) with its `params`"
        other = "a recurrent cell" if len(arguments) > 1 else "a module"
        raise TypeError(f"{thing!r} cannot be called: give {what}, or {other} of Equinox or Flax.")
    if params is None:  # a module of Equinox takes its input before the carry
        how = f"module({', '.join(reversed(taking.split(', ')))})"
        return _Called(how, lambda module, *each: module(*reversed(each)), thing, init, (init,))
    dtype = jax.tree.leaves(arguments)[0].dtype
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if isinstance(leaf, float) else leaf, params)
    return _Called(f"{'step' if len(arguments) > 1 else 'f'}(params, {taking})", thing, params, init, (thing, init))


def named(thing: Any) -> str:
    """What error messages call it."""
    return getattr(thing, "__name__", type(thing).__name__)


def check_given(name: str, thing: Any, given: Any) -> None:
    """Raise where something is given that cannot be a step or a module."""
    if isinstance(thing, type):
        raise TypeError(f"{name} is a class: give an instance of it, such as {name}(...).")
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given)):
        raise TypeError(
            f"{name} was given values that JAX traces: make it outside of jax.jit, jax.vmap and jax.lax.scan. "
            "Parameters are passed again at every step, and may be traced there."
        )


def check_init(name: str, init: Callable[[PRNGKeyArray], PyTree] | None, params: PyTree) -> None:
    """Raise unless `init` draws parameters like these."""
    if init is None:
        return
    try:
        drawn = jax.eval_shape(init, jax.random.key(0))
    except Exception as error:
        raise TypeError(f"`init` of {name} must draw parameters from a key, and failed: {error}") from error
    if not alike(drawn, params):
        raise TypeError(
            f"`init` of {name} must draw parameters like those given, of shapes {shapes(params)}, and draws "
            f"{shapes(drawn)}."
        )


def example_of(name: str, x: PyTree, dtype: jnp.dtype) -> PyTree:
    """An example of an input, as arrays of this type; it may be given as the number of its entries."""
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        if x < 1:
            raise ValueError(
                f"`x` of {name} must be an example of an input, or at least 1 as their number, and is {x}."
            )
        x = jnp.zeros(int(x), dtype)
    for leaf in jax.tree.leaves(x) or [x]:
        if not eqx.is_inexact_array(leaf):
            raise TypeError(
                f"`x` of {name} must be an example of an input, an array of floating-point numbers or a tree of them, "
                f"or the number of its entries, and has {leaf!r}. An index, such as into an embedding, is passed as a "
                "one-hot vector."
            )
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), x)


def parameter_names(params: PyTree) -> list[str]:
    """A name for each array of a tree: its path, without what all paths begin with."""
    paths = [list(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    if all(len(path) > 1 and path[-1] == GetAttrKey("value") for path in paths):  # Flax NNX writes it behind all
        paths = [path[:-1] for path in paths]
    while all(len(path) > 1 and path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    return [jax.tree_util.keystr(tuple(path), simple=True, separator=".") or "params" for path in paths]


def entries(tree: PyTree) -> int:
    """How many numbers the arrays of a tree hold."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def unflattened(v: Array, like: PyTree) -> PyTree:
    """A vector of all entries as a tree like this one."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([math.prod(leaf.shape) for leaf in leaves])[:-1]
    parts = zip(jnp.split(v, ends), leaves, strict=True)
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])


def _flax(kind: str) -> Any:
    """A module of Flax, if it was imported. Flax is not imported here: whoever has a cell of it has done so."""
    return sys.modules.get(f"flax.{kind}")


def shapes(tree: PyTree) -> str:
    """The shapes of a tree's arrays in words, such as float32[8]."""
    told = [f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}" for leaf in jax.tree.leaves(tree)]
    return f"({', '.join(told)})" if len(told) != 1 else told[0]


def alike(a: PyTree, b: PyTree) -> bool:
    """Whether two trees have the same structure, shapes and types."""
    return jax.tree.structure(a) == jax.tree.structure(b) and shapes(a) == shapes(b)


def same_shapes(a: PyTree, b: PyTree) -> bool:
    """Whether the arrays of two trees of the same structure have the same shapes."""
    return all(jnp.shape(u) == jnp.shape(v) for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def plain(leaf: Any) -> np.ndarray:
    """An array, or the numbers of a key."""
    is_key = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def text_of(program: ClosedJaxpr) -> str:
    """A traced program in words, without addresses: the same in every process, with the same versions of packages."""
    return re.sub("0x[0-9a-f]+", "", str(program.jaxpr))


def key_of(told: tuple[Any, ...], *others: PyTree) -> Any:
    """By what a function is equal to another: what it is made of, with its numbers, and the shapes of the others."""
    number = lambda leaf: (leaf.shape, str(leaf.dtype), plain(leaf).tobytes()) if eqx.is_array(leaf) else leaf
    kept = [(jax.tree.structure(tree), tuple(map(number, jax.tree.leaves(tree)))) for tree in told]
    key = tuple(kept), tuple((jax.tree.structure(tree), shapes(tree)) for tree in others)
    try:
        hash(key)
    except TypeError:
        return object()  # it is equal to itself alone
    return key
