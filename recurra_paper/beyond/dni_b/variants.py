"""DNI with any of the three approximations that make it DNI(b).

DNI predicts credit by c(t) ≈ A ã(t) and fits A to cbar(t-1) + (A* ã(t)) J(t). DNI(b) changes three things in that
target:

    bounded            tanh(A* ã(t)) in the place of A* ã(t)
    random_feedback    cbar = error W_fb, with fixed random weights, in the place of error W_out
    learned_jacobian   a matrix that learns to predict a(t) from a(t-1), in the place of J(t)

A class with switches is no algorithm of the library; here the switches are the experiment.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.initial import random_feedback
from recurra.cells.tick import Tick
from recurra.learners.base import About, FutureFacing, unitwise
from recurra.learners.dni_b import BiologicalState
from recurra.learners.synthetic import apply, descended, features, first_synthesizer, fitted
from recurra.linalg import vecmat


class Variant(FutureFacing):
    """DNI with all switches off, DNI(b) with all of them on, for cells with one state variable and one gate.

    All variants start from the same A, feedback weights and learned Jacobian at a seed, those of DNI(b).
    `feedback_scale` multiplies the feedback weights: they are N(0, 1/√n_out), and the readout's start at N(0, 1/√n).
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    jacobian_rate: float | Float[Array, ""] = 1e-3
    bounded: bool = False
    random_feedback: bool = False
    learned_jacobian: bool = False
    feedback_scale: float | Float[Array, ""] = 1.0
    target_interval: int = 5

    about = About("dni-variant", "DNI variant", "A_li", memory="n²", time="n²", numerical=True, unitwise=True)

    def __check_init__(self) -> None:
        for name in ("learning_rate", "jacobian_rate", "feedback_scale"):
            checks.in_range(self, name, least=0.0)
        for name in ("bounded", "random_feedback", "learned_jacobian"):
            checks.flag(self, name)
        checks.whole(self, "target_interval")

    def check(self, cell: Cell) -> None:
        if len(cell.widths) != 1 or len(unitwise(cell).listens) != 1:
            raise ValueError(f"Variant takes cells with one state variable and one gate, and {cell.name} has more.")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> BiologicalState:
        cell = unitwise(cell)
        key_A, key_fb = jax.random.split(key)
        (gate,) = weights
        return BiologicalState(
            first_synthesizer(cell, key_A, n_out, (jnp.zeros(cell.n, cell.dtype),)),
            ((gate.rec,),),
            self.feedback_scale * random_feedback(key_fb, n_out, cell.n, cell.dtype),
        )

    def credit(self, tick: Tick, state: BiologicalState) -> tuple[Credit, Any, BiologicalState]:
        now = features(tick.cell, tick.state, tick.label)
        J = descended(state.J, tick.before, tick.state, self.jacobian_rate) if self.learned_jacobian else state.J
        cbar = (vecmat(tick.error, state.W_fb),) if self.random_feedback else tick.cbar
        (synthetic,) = apply(state.synthesizer.A_star, now)
        synthetic = jnp.tanh(synthetic) if self.bounded else synthetic
        through_J = (vecmat(synthetic, J[0][0]),) if self.learned_jacobian else tick.pull((synthetic,))
        bootstrap = tick.unless_reset(through_J)
        synthesizer = fitted(tick, state.synthesizer, cbar, bootstrap, self.learning_rate, self.target_interval)
        return apply(synthesizer.A, now), tick.trace, BiologicalState(synthesizer, J, state.W_fb)
