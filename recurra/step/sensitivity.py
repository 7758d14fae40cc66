"""How a recurrent state depends on the weights, for users who compute credit themselves.

Reinforcement learning and three-factor rules have no label. They have credit c of their own, such as the derivative of
a value or of the logarithm of a policy, and often several at each step. All they need of a learner is c M:

    observe       a(t-1), M(t-1), x(t)  ->  a(t), M(t)
    gradient      c M(t), for any c and as often as you like
    eligibility   z <- keep z + c M(t), with keep = γλ

Here is one step of an actor-critic. `outputs(head, h)` is a function of one's own: it returns a value and three logits.

    sensitivity = Sensitivity(recurra.GRU(n_in=4, n=16), recurra.RFLO())
    weights = sensitivity.cell.init_weights(key)
    state = sensitivity.init(weights, key)
    z = jax.tree.map(jnp.zeros_like, weights)

    state = sensitivity.observe(weights, state, x)
    (value, logits), pull = jax.vjp(outputs, head, sensitivity.shown(state))
    of_head, c = pull((jnp.ones(()), jnp.zeros(3)))               # the value's derivatives, in the head and in h
    z = sensitivity.eligibility(weights, state, z, c, keep=0.9)   # and in the recurrent weights, with those before

For several streams with the same weights, map over the states: `jax.vmap(sensitivity.observe, (None, 0, 0))`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.learners import Layered, ThroughLayers, check_pairing
from recurra.learners.base import PastFacing
from recurra.learners.following import advanced, check_followed, first_influence, unlabelled
from recurra.linalg import combine, dense, where
from recurra.step.counting import set_back

#: learners of M see no label: one output is enough for their shapes
N_OUT = 1


class Sensed(NamedTuple):
    """The number of the next step, the step of the latest reset, a(t), and the learner's estimate of M(t)."""

    t: Int[Array, ""]
    first: Int[Array, ""]
    a: State
    M: PyTree


class Sensitivity(checks.Part):
    """A cell and a past-facing learner: pure functions that follow the state and its dependence on the weights.

    Weights are passed in at every step, and may have changed since the last one, as in any online learning. `c` is
    credit of what the readout would see, one array as long as `shown`, or a tuple with an array or None for each state
    variable of the cell.

    A learner that does not face the past is a TypeError, and credit of another shape a ValueError.

    >>> sensitivity = rc.Sensitivity(rc.RNN(n_in=2, n=8), rc.RFLO())
    >>> weights = sensitivity.cell.init_weights(jax.random.key(0))
    >>> state = sensitivity.init(weights, jax.random.key(1))
    >>> state = sensitivity.observe(weights, state, jnp.ones(2))
    >>> sensitivity.gradient(weights, state, jnp.ones(8))[0].rec.shape
    (8, 8)
    """

    cell: Cell
    learner: PastFacing

    def __check_init__(self) -> None:
        if not isinstance(self.cell, Cell):
            raise TypeError(
                f"`cell` of Sensitivity must be a recurra cell, and is {type(self.cell).__name__}: wrap an Equinox "
                "cell with recurra.GeneralCell."
            )
        check_followed("Sensitivity", "learner", self.learner)
        if isinstance(self.learner, Layered) and not isinstance(self.learner.handed, ThroughLayers):
            raise TypeError(
                f"Sensitivity has no label, and {type(self.learner.handed).__name__} makes credit out of labels: use "
                "Layered(..., handed=recurra.ThroughLayers())."
            )
        check_pairing(self.learner, self.cell)

    def init(self, weights: Weights, key: PRNGKeyArray) -> Sensed:
        """The state before the first step. The key is for learners that draw their start."""
        zero = jnp.zeros((), "int32")
        M = first_influence(self.learner, self.cell, weights, key, N_OUT)
        return Sensed(zero, zero, self.cell.init_state(), M)

    def noise(self, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        """The random numbers of so many steps, time first; None if the learner needs none. `observe` takes a row."""
        return self.learner.noise(self.cell, key, steps)

    def observe(
        self,
        weights: Weights,
        state: Sensed,
        x: Float[Array, " n_in"],
        noise: PyTree = None,
        reset: Bool[Array, ""] | None = None,
    ) -> Sensed:
        """Input x arrives. Where `reset` is true, the state is first set back to its start, and M to zero."""
        if noise is None and jax.eval_shape(lambda: self.noise(jax.random.key(0), 1)) is not None:
            raise ValueError(
                f"{type(self.learner).__name__} draws random numbers: pass `observe` a row of `noise(key, steps)`."
            )
        before, first = state.a, state.first
        if reset is not None:
            before, first = where(reset, self.cell.init_state(), before), jnp.where(reset, state.t, first)
        tick = unlabelled(self.cell, weights, state.t, before, x, N_OUT, reset, first)
        M = advanced(self.learner, tick, state.M, noise)
        t, first = set_back({"": self.learner}, state.t + 1, first)
        assert first is not None
        return Sensed(t, first, tick.state, M)

    def shown(self, state: Sensed) -> Float[Array, " shown"]:
        """What a readout or head sees of the state."""
        return self.cell.show(state.a)

    def gradient(self, weights: Weights, state: Sensed, c: Float[Array, " shown"] | Credit) -> Weights:
        """c M(t), like the weights."""
        return dense(self.learner.contract(self.cell, weights, self._credit(c), state.M))

    def eligibility(
        self,
        weights: Weights,
        state: Sensed,
        z: Weights,
        c: Float[Array, " shown"] | Credit,
        keep: float | Float[Array, ""],
    ) -> Weights:
        """keep z + c M(t). It starts with zeros like the weights; `keep` is γλ inside an episode, 0 at its start."""
        return combine(keep, z, 1.0, self.gradient(weights, state, c))

    def _credit(self, c: Float[Array, " shown"] | Credit) -> Credit:
        credit = c if isinstance(c, tuple) else (c,)
        widths = self.cell.widths if isinstance(c, tuple) else (self.cell.shown_width,)
        fits = lambda u, width: u is None or jnp.shape(u) == (width,)
        if len(credit) != len(widths) or not all(map(fits, credit, widths)):
            shapes = jax.tree.map(jnp.shape, c)
            raise ValueError(
                f"`c` must be an array of shape ({self.cell.shown_width},), credit of what the readout sees, or a "
                f"tuple with an array or None for each state variable, of lengths {self.cell.widths}. Its shape is "
                f"{shapes}."
            )
        return c if isinstance(c, tuple) else self.cell.credit_shown(c)
