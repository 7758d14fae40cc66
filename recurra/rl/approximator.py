"""What all agents are made of: a recurrent network whose outputs are followed, with eligibility traces.

The network sees an observation at each step, and its outputs are values, or what a policy is made of. Of every step an
agent names what it is to be judged for: some combination e · outputs(t), or several of them. A trace remembers how they
depend on the weights w, and a reward that comes later moves the weights along it:

    z(t) = γλ z(t-1) + e(t) ∂outputs(t)/∂w          w ← w + (a step along) δ(t) z(t)

∂outputs/∂w of the readout or head is the ordinary derivative of the present step. Of the recurrent weights it reaches
back to the start of the episode, c M(t), and M is what a past-facing learner keeps: see `recurra.step.online_grad`.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell
from recurra.learners import suited
from recurra.learners.following import check_followed
from recurra.linalg import dense, where, zeros_like
from recurra.losses import SquaredError
from recurra.network import Network, NetworkWeights
from recurra.step.online_grad import OnlineGrad, OnlineGradState
from recurra.step.optimizers import Optimizer, checked_optimizer, descend, init_optimizer
from recurra.step.per_gate import PerGate


class Followed(NamedTuple):
    """The weights, what their optimizer keeps, the state of the network and M, its latest input, and the traces.

    `z` has the structure of (recurrent weights, readout), each array with a leading axis over traces.
    """

    weights: NetworkWeights
    optimizer: PyTree
    sensed: OnlineGradState
    x: Float[Array, " n_in"]
    z: PyTree[Array]


class Approximator(checks.Part):
    """A recurrent network with `n_out` outputs, its learner, an optimizer, and so many eligibility traces.

    `head` is a module as `recurra.Network` takes it, and without one the outputs are a linear readout.

    >>> net = rc.rl.Approximator(rc.RTU(n_in=2, n=8), rc.RTRL(), n_out=3)
    >>> state, outputs = net.observe(net.init(jax.random.key(0)), jnp.ones(2), jnp.array(True))
    >>> outputs.shape
    (3,)
    """

    cell: Cell
    learner: Any
    n_out: int
    optimizer: Optimizer = eqx.field(default=1e-3, converter=checked_optimizer)
    head: Any = None
    traces: int = 1

    def __check_init__(self) -> None:
        checks.whole(self, "traces")
        check_followed("an agent", "learner", self.learner)
        if isinstance(self.optimizer, PerGate):
            raise TypeError(
                "An agent's optimizer moves recurrent weights and readout together, and PerGate knows the gates of a "
                "cell alone: use optax.multi_transform, or one optimizer for all."
            )
        _ = self.network, self.grad  # which refuse parts that do not fit

    @property
    def network(self) -> Network:
        """The cell with its readout or head. Its loss is of no importance."""
        return Network(self.cell, self.n_out, SquaredError(), head=self.head)

    @property
    def grad(self) -> OnlineGrad:
        """The cell with its learner."""
        return OnlineGrad(self.cell, suited(self.learner, self.cell))  # pyright: ignore[reportArgumentType]

    def init(self, key: PRNGKeyArray) -> Followed:
        """The state before the first step."""
        key_weights, key_learner = jax.random.split(key)
        weights, network = self.network.init(key_weights), self.network
        learned = weights.cell, weights.readout
        z = jax.tree.map(lambda w: jnp.zeros((self.traces, *w.shape), w.dtype), learned)
        x = jnp.zeros(network.cell.n_in, network.cell.dtype)
        sensed = self.grad.init(weights.cell, key_learner)
        return Followed(weights, init_optimizer(self.optimizer, learned), sensed, x, z)

    def observe(
        self, state: Followed, x: Float[Array, " n_in"], reset: Bool[Array, ""]
    ) -> tuple[Followed, Float[Array, " n_out"]]:
        """An observation arrives, which is the first of an episode where `reset` is true. Returns the outputs too."""
        x = self.cell.input_of(x)
        sensed = self.grad.observe(state.weights.cell, state.sensed, x, reset=reset)
        return state._replace(sensed=sensed, x=x), self.network.output(state.weights, sensed.a, x)

    def outputs_at(self, state: Followed, x: Float[Array, " n_in"]) -> Float[Array, " n_out"]:
        """The outputs if x were the next observation. Nothing moves on."""
        return self.network.forward(state.weights, state.sensed.a, self.cell.input_of(x))[2]

    def derivative(self, state: Followed, e: Float[Array, " n_out"]) -> PyTree[Array]:
        """e ∂outputs/∂w at the latest step, for the recurrent weights and the readout."""
        network, weights, (a, x) = self.network, state.weights, (state.sensed.a, state.x)
        c = self.cell.show(self.cell.dense_credit(network.credit(weights, e, a, x)))
        return self.grad.gradient(weights.cell, state.sensed, c), dense(network.readout_gradient(weights, e, a, x))

    def learn(
        self,
        state: Followed,
        e: Float[Array, "traces n_out"],
        keep: Float[Array, " traces"],
        delta: Float[Array, " traces"],
        ends: Bool[Array, ""],
    ) -> Followed:
        """z ← keep z + e ∂outputs/∂w, then a step along Σ δ z, one δ for each trace. Traces are zero after an end."""
        over = lambda factor, leaf: jnp.expand_dims(factor, range(1, leaf.ndim)).astype(leaf.dtype) * leaf
        now = jax.vmap(lambda e: self.derivative(state, e))(e)
        z = jax.tree.map(lambda z, d: over(keep, z) + d, state.z, now)
        downhill = jax.tree.map(lambda z: -over(delta, z).sum(axis=0), z)
        # what ObGD bounds: see `recurra.step.obgd`
        reach = jax.tree.map(lambda z: over(jnp.maximum(jnp.abs(delta), 1), jnp.abs(z)).sum(axis=0), z)
        learned = state.weights.cell, state.weights.readout
        (cell, readout), optimizer = descend(self.optimizer, downhill, state.optimizer, learned, reach=reach)
        weights = state.weights._replace(cell=cell, readout=readout)
        return state._replace(weights=weights, optimizer=optimizer, z=where(ends, zeros_like(z), z))
