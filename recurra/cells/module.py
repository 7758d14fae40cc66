"""A user's function without memory, such as an encoder or a head, and the products of its two derivatives."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.user_functions import (
    check_given,
    check_init,
    entries,
    example_of,
    key_of,
    named,
    shapes,
    taken_apart,
    text_of,
    unflattened,
)


class UserFunction:
    """A function f(params, x) of a user's. Two are equal if they are made of the same function or of equal modules.

    They must also have arguments of the same shapes, and be one traced program: so that what was compiled for one
    serves the other.
    """

    def __init__(self, thing: Any, params: PyTree, x: PyTree, init: Any, dtype: jnp.dtype | None):
        self._given = thing, params, x, init, dtype
        self.name = named(thing)
        check_given(self.name, thing, self._given)
        if dtype is None:
            found = [leaf for leaf in jax.tree.leaves((params, thing, x)) if eqx.is_inexact_array(leaf)]
            dtype = jnp.result_type(found[0]) if found else jnp.result_type(float)
        self.dtype = checks.float_dtype(dtype)
        self.x = example_of(self.name, x, self.dtype)
        taken = taken_apart(self.name, thing, params, (self.x,), init)
        self.params, self.init, self.call, self.rebuilt = taken.params, taken.init, taken.function, taken.rebuilt
        program = self._checked(taken.how)
        self.text = text_of(program)
        self._key = key_of((*taken.told, taken.fixed, program.consts), self.params, self.x), self.text
        check_init(self.name, self.init, self.params)

    def __reduce__(self) -> Any:
        return UserFunction, self._given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserFunction) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def _checked(self, how: str) -> Any:
        """The traced program; an error unless the module can be called, and returns one vector."""
        if not jax.tree.leaves(self.params):
            raise TypeError(
                f"{self.name} has no floating-point arrays, so there is nothing to learn: give them as `params`, with "
                "a function f(params, x). A function without parameters can be applied to the data beforehand."
            )
        found = {str(leaf.dtype) for leaf in jax.tree.leaves(self.params)} | {str(self.dtype)}
        if len(found) != 1:
            raise TypeError(
                f"The parameters and the input of {self.name} must share one dtype, and have {sorted(found)}."
            )
        try:
            program, z = jax.make_jaxpr(self.call, return_shape=True)(self.params, self.x)
        except Exception as error:
            raise TypeError(
                f"{self.name} could not be called as {how}, with an input of shapes {shapes(self.x)}: {error}. It must "
                "be a function of its input alone: a module that draws random numbers or keeps running means must be "
                "set to its mode for inference."
            ) from error
        if len(getattr(z, "shape", ())) != 1 or z.dtype != self.dtype:
            raise TypeError(
                f"{self.name} must return one vector of {self.dtype}, and returns {shapes(z)}: flatten it, as with "
                "jax.numpy.ravel."
            )
        self.n_out = z.shape[0]
        return program


class Module(checks.Part):
    """A function of a vector with parameters of its own, which `recurra.module_of` makes of a function or a module.

    It has no memory: a network takes one as its head, and `recurra.Encoded` one as its encoder.

    >>> import equinox as eqx
    >>> module = rc.module_of(eqx.nn.MLP(3, 2, width_size=8, depth=1, key=jax.random.key(0)), x=3)
    >>> module.n_in, module.n_out
    (3, 2)
    >>> module(module.init_params(jax.random.key(1)), jnp.ones(3)).shape
    (2,)
    """

    params: PyTree[Array]
    function: UserFunction = eqx.field(static=True)

    @property
    def name(self) -> str:
        """The user's name of it."""
        return self.function.name

    @property
    def n_in(self) -> int:
        """How many numbers an input has."""
        return entries(self.function.x)

    @property
    def n_out(self) -> int:
        """How many numbers it returns."""
        return self.function.n_out

    @property
    def dtype(self) -> jnp.dtype:
        """The type of its numbers."""
        return self.function.dtype

    @property
    def size(self) -> int:
        """How many parameters are learned."""
        return entries(self.params)

    def init_params(self, key: PRNGKeyArray) -> PyTree[Array]:
        """The first parameters: drawn from the key, if `init` was given, and else those that the module has."""
        return self.params if self.function.init is None else self.function.init(key)

    def module(self, params: PyTree[Array]) -> Any:
        """A module like the user's with these parameters; for a function and for Flax Linen, its parameters."""
        return self.function.rebuilt(params)

    def __call__(self, params: PyTree[Array], x: Float[Array, " n_in"]) -> Float[Array, " n_out"]:
        return self.function.call(params, unflattened(x, self.function.x))

    def push(
        self, params: PyTree[Array], x: Float[Array, " n_in"], v: Float[Array, "n_in *k"]
    ) -> Float[Array, "n_out *k"]:
        """(∂z/∂x) v, for a vector or for the columns of a matrix."""
        along = lambda v: jax.jvp(lambda x: self(params, x), (x,), (v,))[1]
        return along(v) if v.ndim == 1 else jax.vmap(along, in_axes=1, out_axes=1)(v)

    def pull(self, params: PyTree[Array], x: Float[Array, " n_in"], c: Float[Array, " n_out"]) -> Float[Array, " n_in"]:
        """c (∂z/∂x)."""
        return jax.vjp(lambda x: self(params, x), x)[1](c)[0]

    def deposit(self, params: PyTree[Array], x: Float[Array, " n_in"], c: Float[Array, " n_out"]) -> PyTree[Array]:
        """c (∂z/∂params)."""
        return jax.vjp(lambda params: self(params, x), params)[1](c)[0]

    def influence(self, params: PyTree[Array], x: Float[Array, " n_in"]) -> Float[Array, "n_out size"]:
        """∂z/∂params, whose columns are all parameters in the order of `ravel_pytree`."""
        row = lambda c: ravel_pytree(self.deposit(params, x, c))[0]
        return jax.vmap(row)(jnp.eye(self.n_out, dtype=self.dtype))


def module_of(
    thing: Any,
    params: PyTree = None,
    *,
    x: PyTree,
    init: Callable[[PRNGKeyArray], PyTree] | None = None,
    dtype: Any = None,
) -> Module:
    """A head or an encoder from a function of your own, or from a module of Equinox or Flax.

    `thing` is one of these:

    - a function `f(params, x)`, with its `params`;
    - an Equinox module, or another callable tree of arrays, called as `module(x)`;
    - a module of Flax NNX, called as `module(x)`;
    - a module of Flax Linen, called as `module.apply(params, x)`. `params` are the variables that its `init` returned;
      without them each seed draws its own.

    It takes an array like the example `x`, or a vector of so many entries if `x` is a number, and returns one vector.
    All seeds start from the same parameters, unless `init` draws them from a key, as
    `init=lambda key: eqx.nn.MLP(3, 2, 8, 1, key=key)` does. Every floating-point array of them is learned, and of the
    variables of Linen the collection "params".

    What cannot be called in this way, also because it is not a function of its input alone, is a TypeError.

    >>> f = lambda params, x: jnp.tanh(params["W"] @ x)
    >>> rc.module_of(f, {"W": jnp.ones((4, 3))}, x=3).n_out
    4
    """
    function = UserFunction(thing, params, x, init, dtype)
    return Module(params=function.params, function=function)


def as_module(what: str, given: Any, n_in: int, dtype: jnp.dtype) -> Module:
    """A module that a user gave as such, or as a thing that `module_of` takes; `n_in` numbers must fit it."""
    module = given if isinstance(given, Module) else module_of(given, x=n_in, dtype=dtype)
    if (module.n_in, module.dtype) != (n_in, dtype):
        raise ValueError(
            f"{what} takes {module.n_in} numbers of {module.dtype}, and is given {n_in} of {dtype}: make them the same."
        )
    return module
