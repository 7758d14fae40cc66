"""BP(λ) for the price of DNI: its eligibility trace stays within a unit."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra.cells.base import Cell
from recurra.cells.tick import Tick
from recurra.learners.base import About, unitwise
from recurra.learners.bp_lambda import TDLambda


class LocalBPLambda(TDLambda):
    """E = γλ H E + I ⊗ ã: BP(λ) with the network's own leak in place of J, as RFLO has it for M.

    The errors δ = cbar + γ (A ã') J' - A ã still have all of J. Where units do not hear each other it is BP(λ).
    """

    about = About("bp-lambda-local", "BP(λ), local", "A_li", memory="n²", time="n²", numerical=True, unitwise=True)

    # E[p, q, k, f]: how far the prediction for variable q of unit k, through feature f, is eligible for errors in p.

    def no_trace(self, cell: Cell, F: int) -> Float[Array, "P P n F"]:
        cell = unitwise(cell)
        return jnp.zeros((cell.states, cell.states, cell.n, F), cell.dtype)

    def joined(self, E: Float[Array, "P P n F"], features: Float[Array, " F"]) -> Float[Array, "P P n F"]:
        p = jnp.arange(len(E))
        return E.at[p, p].add(features)

    def pushed(self, tick: Tick, E: Float[Array, "P P n F"]) -> Float[Array, "P P n F"]:
        n = E.shape[2]
        leak = lambda h: jnp.zeros(n, E.dtype) if h is None else jnp.broadcast_to(h, (n,))
        H = jnp.stack([jnp.stack([leak(h) for h in row]) for row in tick.trace.H])
        return tick.unless_reset(jnp.sum(H[:, :, None, :, None] * E[None], axis=1))

    def weighed(self, delta: Float[Array, " S"], E: Float[Array, "P P n F"]) -> Float[Array, "S F"]:
        P, _, n, F = E.shape
        return jnp.sum(delta.reshape(P, 1, n, 1) * E, axis=0).reshape(P * n, F)
