"""The mimic task: reproduce the outputs of a random network."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.cells.base import State
from recurra.cells.gates import Gates
from recurra.cells.rnn import RNN
from recurra.cells.unitwise import UnitwiseCell
from recurra.linalg import matvec
from recurra.linalg.noise import signs
from recurra.losses import Loss, SquaredError
from recurra.network import Network, Readout
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber, held, step_by_step


class Target(NamedTuple):
    """The network to be mimicked, its present state and its latest input."""

    weights: Gates
    readout: Readout
    state: State
    x: Float[Array, " n_in"]


class Mimic(Task):
    """Labels are the outputs of an untrained `target` network that hears the same fair bits.

    The target starts like a network to be trained, but N(0, `bias`) is added to its biases. With `stretch` each input
    lasts that many steps, while the target moves at every step.

    A loss of probabilities is a ValueError in `train`, and a network of another dtype than the target a TypeError.

    >>> task = rc.Mimic(target=rc.GRU(n_in=8, n=16), outputs=4)
    >>> task.n_in, task.n_out
    (8, 4)
    """

    default_loss: ClassVar[type[Loss]] = SquaredError

    target: UnitwiseCell = eqx.field(default_factory=lambda: RNN(n_in=32, n=32))
    outputs: int = 32
    stretch: WholeNumber = 1
    bias: float | Float[Array, ""] = 0.1

    def __check_init__(self) -> None:
        checks.whole(self, "outputs")
        checks.whole(self, "stretch")
        checks.in_range(self, "bias", least=0.0)
        if not isinstance(self.target, UnitwiseCell):
            raise TypeError(f"`target` of Mimic must be a unit-wise cell such as RNN(32, 32), and is {self.target!r}.")

    @property
    def n_in(self) -> int:
        return self.target.n_in

    @property
    def n_out(self) -> int:
        return self.outputs

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        if self.target.dtype != dtype:
            raise TypeError(f"The target of Mimic is {self.target.dtype} and the network is {dtype}: make them equal.")
        try:
            loss.check_labels(np.full((1, self.outputs), -1.0))  # a label that may occur
        except ValueError:
            raise ValueError(
                f"Labels of Mimic are any real numbers, and the loss is {type(loss).__name__}: use "
                "Network(..., loss=recurra.SquaredError())."
            ) from None

    def traced(self) -> Task:
        return eqx.tree_at(lambda task: task.stretch, self, jnp.asarray(self.stretch, "int32"))

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Target:
        key_network, key_bias, key_out = jax.random.split(key, 3)
        weights = Network(self.target, self.outputs, SquaredError()).init(key_network)
        normal = lambda key, like: self.bias * jax.random.normal(key, like.shape, like.dtype)
        keys = jax.random.split(key_bias, len(weights.cell))
        gates = tuple(
            gate._replace(bias=gate.bias + normal(key, gate.bias)) for gate, key in zip(weights.cell, keys, strict=True)
        )
        readout = weights.readout._replace(b=normal(key_out, weights.readout.b))
        return Target(gates, readout, self.target.init_state(), jnp.zeros(self.n_in, dtype))

    def block(self, state: Target, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype) -> tuple[Rows, Target]:
        x = held((1 + signs(key, (BLOCK, self.n_in), dtype)) / 2, state.x, number, self.stretch)

        def step(a: State, x: Array) -> tuple[State, Array]:
            a, _ = self.target.forward(state.weights, a, x)
            return a, a[0]

        last, states = step_by_step(step, state.state, x)
        # All outputs of the block in one matrix product, after the states are known.
        labels = matvec(states, state.readout.W.T) + state.readout.b[None]
        return Rows(x, labels), state._replace(state=last, x=x[-1])
