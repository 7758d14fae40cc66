"""Any step as a cell: its derivatives are those of JAX, and nothing is known of its form."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra.cells.base import Credit, Influence, State, Tangent, Weights
from recurra.cells.influence import WHOLE
from recurra.cells.step import Step, StepCell
from recurra.cells.structure import check_forwards
from recurra.linalg import matvec


class GeneralCell(StepCell):
    """A step of any form, which `recurra.cell_of` makes of functions and modules that are not unit-wise.

    Every floating-point array of the parameters is a weight, and weights are the user's own tree. `why` tells what
    stood in the way of a unit-wise cell; it is None if none was sought.

    >>> import equinox as eqx
    >>> module = eqx.nn.GRUCell(2, 8, key=jax.random.key(0))
    >>> rc.cell_of(module, carry=jnp.zeros(8), x=2, unitwise=False).widths
    (8,)
    """

    weights: Weights
    first: PyTree[Array]
    step: Step = eqx.field(static=True)
    n_in: int = eqx.field(static=True)
    dtype: jnp.dtype = eqx.field(static=True)
    why: str | None = eqx.field(static=True)
    shows: tuple[int, ...] = eqx.field(static=True)
    is_smooth: bool = eqx.field(static=True)

    def __init__(self, step: Step, why: str | None = None, shows: tuple[int, ...] = (0,), is_smooth: bool = True):
        step.check_derivative(why)
        self.weights, self.first, self.step, self.why = step.params, step.carry, step, why
        self.n_in, self.dtype, self.shows, self.is_smooth = step.n_in, step.dtype, shows, is_smooth

    @property
    def shown(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The state variables that the readout sees, by number."""
        return self.shows

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(leaf.size for leaf in jax.tree.leaves(self.first))

    def init_state(self) -> State:
        return self.state(self.first)

    def init_weights(self, key: PRNGKeyArray) -> Weights:
        return self.weights if self.step.init is None else self.step.init(key)

    def state(self, carry: PyTree) -> State:
        """The state of a carry."""
        return tuple(leaf.reshape(-1) for leaf in jax.tree.leaves(carry))

    def carry(self, a: State) -> PyTree:
        """The carry of a state."""
        leaves, structure = jax.tree.flatten(self.first)
        return jax.tree.unflatten(structure, [v.reshape(leaf.shape) for v, leaf in zip(a, leaves, strict=True)])

    def weights_of(self, params: PyTree) -> Weights:
        return self.learned(params)

    def credit_of(self, c: PyTree) -> Credit:
        return tuple(None if leaf is None else leaf.reshape(-1) for leaf in self.step.of_carry("credit", c))

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
        return self.state(self.step(weights, self.carry(a), x))
