"""The biological form of decoupled neural interfaces (Marschall, Cho & Savin 2019)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.initial import random_feedback
from recurra.cells.tick import Tick
from recurra.learners.base import About, FutureFacing, unitwise
from recurra.learners.synthetic import Map, Synthesizer, apply, descended, features, first_synthesizer, fitted
from recurra.linalg import full, total, vecmat


class BiologicalState(NamedTuple):
    """DNI's state, the learned Jacobian of the firing rates, and fixed feedback weights."""

    synthesizer: Synthesizer
    J: Map
    W_fb: Float[Array, "n_out n"]


class DNIb(FutureFacing):
    """DNI from what a neuron could know: firing rates a[0], random feedback and a learned Jacobian.

    The bootstrapped credit passes through tanh, cbar through fixed random weights, and J is replaced by a matrix that
    learns to predict a[0](t) from a[0](t-1) by the perceptron rule. It starts at w_rec; a cell with several gates
    starts it at their mean. Its feedback weights are its own, whether or not the network's credit is exact. What a unit
    keeps to itself, such as an LSTM's memory, is assigned no credit of its own.
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    jacobian_rate: float | Float[Array, ""] = 1e-3
    target_interval: int = 5

    about = About("dni-b", "DNI(b)", "A_li", memory="n²", time="n²", numerical=True, unitwise=True)

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "jacobian_rate", least=0.0)
        checks.whole(self, "target_interval")

    def check(self, cell: Cell) -> None:
        if not any(rec for rec, _, _ in unitwise(cell).listens):
            raise ValueError(f"DNIb learns the Jacobian of recurrent weights, and {cell.name} has none: use DNI.")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> BiologicalState:
        cell = unitwise(cell)
        key_A, key_fb = jax.random.split(key)
        heard = [full(gate.rec) for gate in weights if gate.rec is not None]
        return BiologicalState(
            first_synthesizer(cell, key_A, n_out, (jnp.zeros(cell.n, cell.dtype),)),
            ((total(*heard) / len(heard),),),
            random_feedback(key_fb, n_out, cell.n, cell.dtype),
        )

    def credit(self, tick: Tick, state: BiologicalState) -> tuple[Credit, Any, BiologicalState]:
        now = features(tick.cell, tick.state, tick.label)
        J = descended(state.J, tick.before[:1], tick.state[:1], self.jacobian_rate)
        cbar = (vecmat(tick.error, state.W_fb),)
        (synthetic,) = apply(state.synthesizer.A_star, now)
        bootstrap = (tick.unless_reset(vecmat(jnp.tanh(synthetic), J[0][0])),)
        synthesizer = fitted(tick, state.synthesizer, cbar, bootstrap, self.learning_rate, self.target_interval)
        (c,) = apply(synthesizer.A, now)
        hidden = (None for _ in tick.state[1:])
        return (c, *hidden), tick.trace, BiologicalState(synthesizer, J, state.W_fb)
