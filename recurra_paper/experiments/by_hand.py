"""One learner, driven by hand with the weights held: for experiments that look at a single step."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from recurra import Learner, Network, NetworkWeights, Tick
from recurra.cells import State, Weights
from recurra.linalg import dense, zeros_like


def tick_of(
    network: Network,
    weights: NetworkWeights,
    a: State,
    x: Float[Array, " n_in"],
    label: Float[Array, " n_out"],
    t: Int[Array, ""],
) -> Tick:
    """What a learner sees of one step."""
    state, trace, output = network.forward(weights, a, x)
    _, error = network.loss(output, label)
    cbar = network.credit(weights, error, state, x)
    return Tick(network.cell, weights.cell, jnp.asarray(t), a, state, trace, label, error, cbar)


def gradient_of(learner: Learner, tick: Tick, state: PyTree, noise: Any) -> tuple[Weights, PyTree]:
    """The gradient of a step, zero where there is none, and the learner's next state."""
    gradient, state = learner.step(tick, state, noise)
    return zeros_like(tick.weights) if gradient is None else dense(gradient), state


def due_of(learner: Learner, network: Network, weights: NetworkWeights, state: PyTree) -> tuple[Weights | None, PyTree]:
    """What is due after a period of steps: a gradient, None if there is none, and the learner's next state."""
    gradient, state = learner.due(network.cell, weights.cell, state)
    return None if gradient is None else dense(gradient), state
