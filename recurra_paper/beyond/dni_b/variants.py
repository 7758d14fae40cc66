"""DNI with any of the three approximations that make it DNI(b).

DNI predicts credit by c(t) ≈ A ã(t) and fits A to cbar(t-1) + (A* ã(t)) J(t). DNI(b) changes three things in that
target:

    bounded            tanh(A* ã(t)) in the place of A* ã(t)
    random_feedback    cbar = error W_fb, with fixed random weights, in the place of error W_out
    learned_jacobian   a matrix that learns to predict a(t) from a(t-1), in the place of J(t)

A class with switches is no algorithm of the library; here the switches are the experiment.
"""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import About, FutureFacing, Tick, UnitwiseCell
from recurra.cells import Cell, Credit, State, Weights, random_feedback
from recurra.linalg import matvec, outer, vecmat, where


class VariantState(NamedTuple):
    """A, its slow copy A*, features and immediate credit of the previous step, a learned Jacobian, feedback weights."""

    A: Float[Array, "n f"]
    A_star: Float[Array, "n f"]
    features: Float[Array, " f"]
    cbar: Float[Array, " n"]
    J: Float[Array, "n n"]
    W_fb: Float[Array, "n_out n"]


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

    def check(self, cell: Cell) -> None:
        if len(cell.widths) != 1 or not isinstance(cell, UnitwiseCell) or len(cell.listens) != 1:
            raise ValueError(f"Variant takes cells with one state variable and one gate, and {cell.name} has more.")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> VariantState:
        key_A, key_fb = jax.random.split(key)
        (n,), (gate,) = cell.widths, weights
        keys = jax.random.split(key_A, 3)
        blocks = [
            jax.random.normal(own, (n, width), cell.dtype) for own, width in zip(keys, (n, n_out, 1), strict=True)
        ]
        A = jnp.concatenate(blocks, axis=1) / n**0.5
        W_fb = self.feedback_scale * random_feedback(key_fb, n_out, n, cell.dtype)
        nothing = jnp.zeros(n, cell.dtype)
        return VariantState(A, A, features(cell.init_state(), jnp.zeros(n_out, cell.dtype)), nothing, gate.rec, W_fb)

    def credit(self, tick: Tick, state: VariantState) -> tuple[Credit, Any, VariantState]:
        (before,), (after,), (exact,) = tick.before, tick.state, tick.cbar
        now = features(tick.state, tick.label)
        J = descended(state.J, before, after, self.jacobian_rate) if self.learned_jacobian else state.J
        cbar = vecmat(tick.error, state.W_fb) if self.random_feedback else cast(Array, exact)
        synthetic = matvec(state.A_star, now)
        synthetic = jnp.tanh(synthetic) if self.bounded else synthetic
        (through_J,) = (vecmat(synthetic, J),) if self.learned_jacobian else tick.pull((synthetic,))
        target = state.cbar + cast(Array, tick.unless_reset(through_J))
        # Before the first step there was no label: the present one stands for it, as in the authors' program.
        previous = where(tick.t == 0, features(tick.before, tick.label), state.features)
        A = descended(state.A, previous, target, self.learning_rate)
        A_star = where((tick.t + 1) % self.target_interval == 0, A, state.A_star)
        return (matvec(A, now),), tick.trace, VariantState(A, A_star, now, cbar, J, state.W_fb)


def features(a: State, label: Float[Array, " n_out"]) -> Float[Array, " f"]:
    """ã = (a, y*, 1)."""
    return jnp.concatenate([*a, label, jnp.ones(1, label.dtype)])


def descended(A: Float[Array, "m f"], u: Float[Array, " f"], target: Float[Array, " m"], rate: Any) -> Array:
    """One step of A down ½‖A u - target‖²."""
    return A - rate * outer(matvec(A, u) - target, u)
