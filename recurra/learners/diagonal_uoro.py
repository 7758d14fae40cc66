"""SnAp-1, with what it leaves out sampled as in UORO. It is not from a paper: it is this library's own."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.gates import Gates, Sources
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, weighed
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import (
    add,
    add_or_zero,
    balance,
    balanced,
    combine,
    inner,
    matvec,
    mul,
    own,
    squared,
    total,
    vecmat,
    zeros_like,
)
from recurra.linalg.noise import Noise, signs


class DiagonalAndRankOne(NamedTuple):
    """M[k, (i, j)] ≈ δ_ki B[i, j] + A[k] C[i, j], for each state variable of unit k; C is the same for all of them."""

    B: Eligibility
    A: State
    C: Gates


class DiagonalUORO(PastFacing):
    """A = ρ0 J A + ρ1 Ĵ (g ν),   C = C / ρ0 + (ν / g) B[0] / ρ1, with B from SnAp-1 and Ĵ = J between units.

    SnAp-1 keeps what weights do to their own unit, and leaves out Ĵ B, what they do to others through it. That is a sum
    of a rank-one term for each unit, and ν reduces it to a single one. g_i balances the term of unit i, as ρ balances
    the whole: g_i² = ‖B_i‖ / ‖Ĵ_i‖, with column i of Ĵ. Units hear a[0] alone, so only B[0] spreads. At first M = 0.
    """

    nu: Noise = eqx.field(static=True, default=signs)

    about = About(
        "diagonal-uoro", "Diagonal-UORO", "δ_ki B_ij + A_k C_ij", memory="n²", time="n²", stochastic=True, unitwise=True
    )

    def __check_init__(self) -> None:
        checks.draws(self, "nu", "recurra.noise.gaussian", (3, 2))

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> DiagonalAndRankOne:
        B = SnAp1().init(cell, weights, key, n_out)
        return DiagonalAndRankOne(B, zeros_like(cell.init_state()), zeros_like(B[0]))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Float[Array, "steps n"]:
        return self.nu(key, (steps, unitwise(cell).n), cell.dtype)

    def advance(self, tick: Tick, state: DiagonalAndRankOne, noise: Float[Array, " n"]) -> DiagonalAndRankOne:
        B, A, C = state
        g, one_over_g = balanced(row_lengths(tick.cell, B[0]), column_lengths(tick))
        JA, Jhat_nu = tick.push(A), to_others(tick, g * noise)
        nu_B = by_unit(one_over_g * noise, B[0])
        rho0 = balance(C, JA)
        rho1 = balance(nu_B, Jhat_nu)
        return DiagonalAndRankOne(
            SnAp1().advance(tick, B, None),
            combine(rho0, JA, rho1, Jhat_nu),
            combine(1 / rho0, C, 1 / rho1, nu_B),
        )

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: DiagonalAndRankOne) -> Weights:
        B, A, C = state
        return weighed(weights, (*c, inner(c, A)[None]), (*B, C))  # A_k C_ij, as if it were one more state variable


def to_others(tick: Tick, v: Float[Array, " n"]) -> State:
    """Ĵ v, where v is a tangent of a[0]: what units hear from all others."""
    cell, nothing = unitwise(tick.cell), jnp.zeros_like(v)
    z = (nothing if W.rec is None else matvec(W.rec, v) - mul(own(W.rec), v) for W in tick.weights)
    return cell.spread(tick.trace, tuple(z))


def by_unit(v: Float[Array, " n"], B: Gates) -> Gates:
    """B, with what it has for unit i multiplied by v[i]."""
    return tuple(Sources(*(mul(v, b) for b in gate)) for gate in B)


def row_lengths(cell: Cell, B: Gates) -> Float[Array, " n"]:
    """‖B_i‖, over all that B has for unit i."""
    return jnp.sqrt(row_sums(cell, jax.tree.map(jnp.square, B)))


def row_sums(cell: Cell, B: Gates) -> Float[Array, " n"]:
    """Σ over all that B has for unit i."""
    one = [jnp.ones(m, jax.tree.leaves(B)[0].dtype) for m in (unitwise(cell).n, cell.n_in, 1)]
    # For an array a sum is faster than a product with ones.
    each = lambda b, one: jnp.sum(b, axis=1) if isinstance(b, Array) else matvec(b, one)
    return total(*(each(b, u) for gate in B for b, u in zip(gate, one, strict=True) if b is not None))


def column_lengths(tick: Tick) -> Float[Array, " n"]:
    """‖Ĵ_i‖, over the state variables of all other units. Gates count as if they were orthogonal.

    What is subtracted is subject to rounding. The bound from below keeps a column that is not zero from vanishing,
    which would be a bias.
    """
    D, nothing = tick.trace.D, jnp.zeros_like(tick.trace.ahat.rec)
    heard = [(add(*map(mul, d, d)), W.rec) for d, W in zip(zip(*D, strict=True), tick.weights, strict=True)]
    heard = [(d, W) for d, W in heard if d is not None and W is not None]
    column = add_or_zero(nothing, *(vecmat(d, squared(W)) for d, W in heard))
    itself = add_or_zero(nothing, *(mul(d, own(squared(W))) for d, W in heard))
    return jnp.sqrt(jnp.maximum(column - itself, jnp.finfo(column.dtype).eps * column))
