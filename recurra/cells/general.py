"""Any Equinox recurrent cell as a general cell."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, Influence, State, Tangent, Weights
from recurra.cells.influence import WHOLE
from recurra.cells.structure import check_forwards
from recurra.linalg import matvec


class GeneralCell(Cell):
    """Wraps a module called as `cell(input, state) -> state`, such as `equinox.nn.GRUCell` or one of your own.

    Every floating-point array in the module is a weight. `state` is the state before the first step; the module must
    return a state of the same shapes and type. The readout sees the first array of the state. All seeds start from the
    module's own weights, unless `make` is given: it builds a new module from a key, so that seeds differ.

    A module that cannot be called in this way, or has no weights, is a TypeError.

    >>> import equinox as eqx
    >>> make = lambda key: eqx.nn.GRUCell(2, 8, key=key)
    >>> rc.GeneralCell(make(jax.random.key(0)), n_in=2, state=jnp.zeros(8), make=make).widths
    (8,)
    """

    weights: Weights
    buffers: PyTree[Array]
    skeleton: PyTree = eqx.field(static=True)
    first: PyTree[Array]
    n_in: int = eqx.field(static=True)
    dtype: jnp.dtype = eqx.field(static=True)
    make: Any = eqx.field(static=True)

    def __init__(self, cell: Any, n_in: int, state: PyTree[Array], make: Any = None):
        self.weights, rest = eqx.partition(cell, eqx.is_inexact_array)
        self.buffers, self.skeleton = eqx.partition(rest, eqx.is_array)
        self.first = jax.tree.map(jnp.asarray, state)
        self.n_in = n_in
        self.make = make
        checks.whole(self, "n_in")
        if not jax.tree.leaves(self.weights):
            raise TypeError(f"{self.name} has no floating-point arrays, so there are no weights to learn.")
        dtypes = {str(leaf.dtype) for leaf in jax.tree.leaves((self.weights, self.first))}
        if len(dtypes) != 1:
            raise TypeError(f"The weights and state of {self.name} must share one dtype, and have {sorted(dtypes)}.")
        self.dtype = checks.float_dtype(dtypes.pop())
        self._check_step(cell)
        self._check_make()

    @property
    def name(self) -> str:
        """The wrapped module's class."""
        return type(self.skeleton).__name__

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(leaf.size for leaf in jax.tree.leaves(self.first))

    def init_state(self) -> State:
        return self._split(self.first)

    def init_weights(self, key: PRNGKeyArray) -> Weights:
        return self.weights if self.make is None else eqx.filter(self.make(key), eqx.is_inexact_array)

    def forward(self, weights: Weights, a: State, x: Float[Array, " n_in"]) -> tuple[State, Any]:
        return self._step(weights, a, x), (a, x)

    def push(self, weights: Weights, trace: Any, v: Tangent) -> Tangent:
        if v[0].ndim == 2:
            return self.split(matvec(self._jacobian(weights, trace), jnp.concatenate(v)))
        a, x = trace
        step = lambda a: self._step(weights, a, x)
        check_forwards(f"{self.name}, with this learner,", jax.make_jaxpr(step)(a).jaxpr)
        return jax.jvp(step, (a,), (v,))[1]

    def pull(self, weights: Weights, trace: Any, c: Credit) -> State:
        a, x = trace
        return jax.vjp(lambda a: self._step(weights, a, x), a)[1](self.dense_credit(c))[0]

    def deposit(self, weights: Weights, trace: Any, c: Credit) -> Weights:
        a, x = trace
        return jax.vjp(lambda w: self._step(w, a, x), weights)[1](self.dense_credit(c))[0]

    def push_input(self, weights: Weights, trace: Any, v: Float[Array, "n_in *k"]) -> Tangent:
        a, x = trace
        along = lambda v: jax.jvp(lambda x: self._step(weights, a, x), (x,), (v,))[1]
        return along(v) if v.ndim == 1 else jax.vmap(along, in_axes=1, out_axes=1)(v)

    def pull_input(self, weights: Weights, trace: Any, c: Credit) -> Float[Array, " n_in"]:
        a, x = trace
        return jax.vjp(lambda x: self._step(weights, a, x), x)[1](self.dense_credit(c))[0]

    def no_influence(self, weights: Weights) -> Influence:
        return WHOLE.nothing(self, weights)

    def add_immediate(self, weights: Weights, trace: Any, M: Influence) -> Influence:
        return WHOLE.add_immediate(self, weights, trace, M)

    def contract(self, weights: Weights, c: Credit, M: Influence) -> Weights:
        return WHOLE.contract(self, weights, c, M)

    def _jacobian(self, weights: Weights, trace: Any) -> Float[Array, "S S"]:
        column = lambda basis: jnp.concatenate(self.push(weights, trace, self.split(basis)))
        return jax.vmap(column, out_axes=1)(jnp.eye(sum(self.widths), dtype=self.dtype))

    def _step(self, weights: Weights, a: State, x: Array) -> State:
        return self._split(eqx.combine(weights, self.buffers, self.skeleton)(x, self._joined(a)))

    def _split(self, state: PyTree[Array]) -> State:
        return tuple(leaf.reshape(-1) for leaf in jax.tree.leaves(state))

    def _joined(self, a: State) -> PyTree[Array]:
        leaves, treedef = jax.tree.flatten(self.first)
        return jax.tree.unflatten(treedef, [v.reshape(leaf.shape) for v, leaf in zip(a, leaves, strict=True)])

    def _check_make(self) -> None:
        if self.make is None:
            return
        checks.function(self, "make", "lambda key: equinox.nn.GRUCell(2, 32, key=key)")
        shapes = lambda tree: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]
        try:
            made = eqx.filter_eval_shape(self.init_weights, jax.random.key(0))
        except Exception as error:
            raise TypeError(
                f"`make` of GeneralCell must build a {self.name} from a key, as lambda key: {self.name}(..., key=key) "
                f"does, and failed: {error}"
            ) from error
        if shapes(made) != shapes(self.weights):
            raise TypeError(
                f"`make` of GeneralCell must build a {self.name} like the one given, whose weights have shapes "
                f"{shapes(self.weights)}, and builds {shapes(made)}."
            )

    def _check_step(self, cell: Any) -> None:
        shape = lambda tree: jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)
        try:
            after = eqx.filter_eval_shape(cell, jnp.zeros(self.n_in, self.dtype), self.first)
        except Exception as error:
            raise TypeError(
                f"{self.name} could not be called as cell(input, state) with an input of {self.n_in} numbers "
                f"and a state of shapes {shape(self.first)}: {error}"
            ) from error
        if shape(after) != shape(self.first):
            raise TypeError(
                f"{self.name} must return a state like the one it takes: it takes {shape(self.first)} and returns "
                f"{shape(after)}."
            )
