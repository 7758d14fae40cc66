"""Gradients through all the past, for loops and losses of one's own.

A `jax.grad` through time needs the whole past in memory. Here the past is followed forwards, by a learner's estimate of
M, the influence of the parameters on the state. What is done with the state is left to the user: any number of heads
and losses, or credit from elsewhere, such as the derivative of a value or of the logarithm of a policy.

    init          params                      ->  state
    observe       params, state(t-1), x(t)    ->  state(t), which holds a(t) and M(t)
    gradient      params, state(t), c         ->  c M(t), for any c and as often as you like

Here c = dL/dh is the credit of what a head sees. This is one step of online learning with a head of one's own, where
`loss(head, h, y)` is a function of the user's:

    grad = rc.online_grad(step, rc.SnAp1(), params, carry=h0, x=x0)
    state = grad.init(params, key)

    state = grad.observe(params, state, x)
    of_head, c = jax.grad(loss, argnums=(0, 1))(head, grad.shown(state), y)
    of_params = grad.gradient(params, state, c)         # in the user's own tree, for any optimizer

Where the step's weights stand in another order than a step uses them, such as stacked gates and transposed kernels, it
takes time to put them in order at every step. `packed = grad.pack(params)` does so once. Packed parameters are taken in
the place of the user's tree; their gradients are packed too, and any optimizer that treats each number alone may follow
them. `grad.unpack` returns the user's tree, of parameters and of gradients.

All of it is pure, for `jax.lax.scan`, `jax.jit` and `jax.vmap`. For several streams with the same parameters, map over
the states: `jax.vmap(grad.observe, (None, 0, 0))`.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.foreign import cell_of
from recurra.cells.step import StepCell
from recurra.cells.user_functions import same_shapes
from recurra.learners import check_pairing
from recurra.learners.base import PastFacing
from recurra.learners.following import advanced, check_followed, first_influence, unlabelled
from recurra.linalg import combine, dense, where
from recurra.step.counting import set_back
from recurra.step.given import check_noise

#: learners of M see no label: one output is enough for their shapes
N_OUT = 1


class OnlineGradState(NamedTuple):
    """The number of the next step, the step of the latest reset, a(t), the estimate of M(t), and what else is kept.

    `trace` is the latest step, linearized, and `key` draws the random numbers of the next one.
    """

    t: Int[Array, ""]
    first: Int[Array, ""]
    a: State
    M: PyTree
    trace: PyTree
    key: PRNGKeyArray


class Packed(NamedTuple):
    """Parameters in the order in which steps use them: see `OnlineGrad.pack`."""

    weights: Weights


@dataclasses.dataclass(frozen=True, eq=False)  # JAX knows its methods by the object, which may hold arrays
class OnlineGrad:
    """The pure functions that `recurra.online_grad` returns, for a cell and a past-facing learner.

    Parameters are passed in at every step, and may have changed since the last one, as in any online learning. They are
    the user's own tree where the cell was made of a user's step, and else the weights of the cell. `c` is credit of
    what a head sees, one array as long as `shown`. For credit of all that is carried, it is a tree like the carry, with
    an array or None for each leaf; for a cell of the library, a tuple with one for each state variable.

    A learner that does not face the past is a TypeError, and credit of another shape a ValueError.

    >>> grad = rc.OnlineGrad(rc.RNN(n_in=2, n=8), rc.RFLO())
    >>> weights = grad.cell.init_weights(jax.random.key(0))
    >>> state = grad.init(weights, jax.random.key(1))
    >>> state = grad.observe(weights, state, jnp.ones(2))
    >>> grad.gradient(weights, state, jnp.ones(8))[0].rec.shape
    (8, 8)
    """

    cell: Cell
    learner: PastFacing

    def __post_init__(self) -> None:
        if not isinstance(self.cell, Cell):
            raise TypeError(
                f"`cell` of OnlineGrad must be a recurra cell, and is {type(self.cell).__name__}: for a step of your "
                "own call recurra.online_grad(step, learner, params, carry=..., x=...)."
            )
        check_followed("OnlineGrad", "learner", self.learner)
        if not self.learner.uses_given_credit:
            raise TypeError(
                f"OnlineGrad has no label, and {self.learner.name} makes credit out of labels: use Layered(..., "
                "handed=recurra.ThroughLayers())."
            )
        check_pairing(self.learner, self.cell)

    def init(self, params: PyTree, key: PRNGKeyArray) -> OnlineGradState:
        """The state before the first step. The key is for learners that draw random numbers."""
        weights, zero = self._applied(params), jnp.zeros((), "int32")
        M = first_influence(self.learner, self.cell, weights, key, N_OUT)
        trace = jax.tree.map(lambda leaf: leaf[0], self.cell.no_traces(weights, 1))
        return OnlineGradState(zero, zero, self.cell.init_state(), M, trace, jax.random.fold_in(key, 0))

    def pack(self, params: PyTree) -> PyTree:
        """The parameters in the order in which steps use them, where there is one; else as they are.

        There is none where weights are computed from parameters, such as tied ones.
        """
        return params if self.cell.converts else Packed(self._weights(params))

    def unpack(self, packed: PyTree) -> PyTree:
        """The inverse of `pack`, also for gradients."""
        return self.cell.parameters(self._weights(packed)) if isinstance(packed, Packed) else packed

    def noise(self, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        """The random numbers of so many steps, time first; None if the learner needs none. `observe` takes a row."""
        return self.learner.noise(self.cell, key, steps)

    def observe(
        self,
        params: PyTree,
        state: OnlineGradState,
        x: PyTree,
        *,
        noise: PyTree = None,
        reset: Bool[Array, ""] | None = None,
    ) -> OnlineGradState:
        """Input x arrives. Where `reset` is true, the state is first set back to its start, and M to zero.

        Random numbers of the learner are drawn with the key of the state, unless `noise` has them: one row of what the
        method `noise` returns.
        """
        weights, key = self._applied(params), state.key
        draw = lambda key: jax.tree.map(lambda rows: rows[0], self.noise(key, 1))
        shapes = jax.eval_shape(draw, jax.random.key(0))
        if noise is not None:
            check_noise(noise, shapes)
        elif shapes is not None:
            key, own = jax.random.split(key)
            noise = draw(own)
        before, first = state.a, state.first
        if reset is not None:
            before, first = where(reset, self.cell.init_state(), before), jnp.where(reset, state.t, first)
        tick = unlabelled(self.cell, weights, state.t, before, self.cell.input_of(x), N_OUT, reset, first)
        M = advanced(self.learner, tick, state.M, noise)
        t, first = set_back({"": self.learner}, state.t + 1, first)
        assert first is not None
        return OnlineGradState(t, first, tick.state, M, tick.trace, key)

    def shown(self, state: OnlineGradState) -> Float[Array, " shown"]:
        """What a head sees of the state."""
        return self.cell.show(state.a)

    def gradient(self, params: PyTree, state: OnlineGradState, c: PyTree) -> PyTree:
        """c M(t), in a tree like the parameters."""
        weights, pull = jax.vjp(self._applied, params if isinstance(params, Packed) else self.cell.learned(params))
        found = dense(self.learner.contract(self.cell, weights, self._credit(c), state.M))
        return pull(found)[0]

    def input_gradient(self, params: PyTree, state: OnlineGradState, c: PyTree) -> PyTree:
        """c ∂a(t)/∂x(t), the credit of the latest input, such as for a module below. Earlier inputs get none here."""
        credit = self.cell.dense_credit(self._credit(c))
        return self.cell.split_input(self.cell.pull_input(self._applied(params), state.trace, credit))

    def eligibility(
        self,
        params: PyTree,
        state: OnlineGradState,
        z: PyTree,
        c: PyTree,
        keep: float | Float[Array, ""],
    ) -> PyTree:
        """keep z + c M(t). It starts with zeros like the parameters; `keep` is γλ inside an episode, 0 at its start."""
        return combine(keep, z, 1.0, self.gradient(params, state, c))

    def _applied(self, params: PyTree) -> Weights:
        return self.cell.applied(self._weights(params))

    def _weights(self, params: PyTree) -> Weights:
        if not isinstance(params, Packed):
            return self.cell.weights_of(params)
        found, own = params.weights, self._packed
        if self.cell.converts or jax.tree.structure(found) != jax.tree.structure(own) or not same_shapes(found, own):
            raise ValueError(
                f"These parameters were packed for another step than {self.cell.name}, or for other shapes: `pack` and "
                "`unpack` those of one `online_grad` with its own methods."
            )
        return found

    @functools.cached_property
    def _packed(self) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes of packed parameters."""
        return jax.eval_shape(self.cell.init_weights, jax.random.key(0))

    def _credit(self, c: PyTree) -> Credit:
        width = self.cell.shown_width
        if eqx.is_array_like(c) and jnp.shape(c) == (width,):
            return self.cell.credit_shown(jnp.asarray(c).astype(self.cell.dtype))
        carry: Any = self.cell.step.carry if isinstance(self.cell, StepCell) else None
        is_carry = eqx.is_array(carry) and jnp.shape(c) == carry.shape
        if c is None or (eqx.is_array_like(c) and not is_carry):
            raise ValueError(
                f"`c` must be an array of shape ({width},), credit of what a head sees, or a tree like the carry, and "
                f"is {c if c is None else f'of shape {jnp.shape(c)}'}. For several streams, use jax.vmap."
            )
        return self.cell.credit_of(c)


def online_grad(
    step: Any,
    learner: PastFacing,
    params: PyTree = None,
    *,
    carry: PyTree = None,
    x: PyTree = None,
    shown: int | tuple[int, ...] | None = None,
    smooth: bool = True,
) -> OnlineGrad:
    """Pure functions that follow how a recurrent state depends on its parameters, for loops and losses of one's own.

    `step` is a function `step(params, carry, x)`, or a recurrent cell of Equinox or Flax, with examples of its
    arguments as `recurra.cell_of` takes them, and `shown` and `smooth` likewise. Or it is a cell of recurra, and needs
    none of them.

    Learners that need a step that acts on one unit at a time are a TypeError where it does not, with the line.

    >>> step = lambda p, h, x: jnp.tanh(p["W"] @ h + p["U"] @ x)
    >>> params = {"W": jnp.eye(8), "U": jnp.ones((8, 2))}
    >>> grad = rc.online_grad(step, rc.RTRL(), params, carry=jnp.zeros(8), x=jnp.zeros(2))
    >>> state = grad.init(params, jax.random.key(0))
    >>> state = grad.observe(params, state, jnp.ones(2))
    >>> grad.gradient(params, state, jnp.ones(8))["U"].shape
    (8, 2)
    """
    if isinstance(step, Cell):
        given = [name for name, value in (("params", params), ("carry", carry), ("x", x)) if value is not None]
        if given:
            raise TypeError(f"{step.name} is a cell of recurra, which has its own: leave out `{'`, `'.join(given)}`.")
        return OnlineGrad(step, learner)
    return OnlineGrad(cell_of(step, params, carry=carry, x=x, shown=shown, smooth=smooth), learner)
