"""Kernel RNN learning (Roth et al. 2018)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Tangent, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, weighed
from recurra.linalg import matvec, outer, total, vecmat, zeros_like


class Kernel(NamedTuple):
    """M[k, i, j] ≈ Σ_p A[k, (p, i)] B[p][i, j], and what A and the timescales α are fitted with."""

    A: tuple[tuple[Float[Array, "n n"], ...], ...]
    alpha: State
    B: Eligibility
    noisy: State
    Omega: State
    Gamma: State


class KeRNL(PastFacing):
    """B = (1 - α_i) B + D ahat; A and α are fitted so that A (1 - α)^Δt is the sensitivity of a(t) to a(t - Δt).

    A noisy copy of the network runs beside it, ã(t) = F(ã(t-1), x(t)) + ζ(t); the filtered noise is Ω(t) =
    (1 - α) Ω(t-1) + ζ(t), its derivative in α is Γ(t) = (1 - α) Γ(t-1) - Ω(t-1), and A and α descend
    ½‖A Ω - (ã - a)‖². `late_perturbation` fits with the copy as it was before ζ(t) reached it, as the paper authors'
    program does; A then settles away from the sensitivity it should learn.
    """

    learning_rate: float | Float[Array, ""] = 5.0
    perturbation: float | Float[Array, ""] = 1e-3
    first_alpha: float | Float[Array, ""] = 0.8
    late_perturbation: bool = False

    about = About("kernl", "KeRNL", "A_ki B_ij", memory="n²", time="n²", numerical=True, unitwise=True)

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "perturbation", above=0.0)
        checks.in_range(self, "first_alpha", least=0.0, most=1.0)
        checks.flag(self, "late_perturbation")

    def check(self, cell: Cell) -> None:
        if not cell.smooth:
            raise TypeError(
                f"KeRNL learns from small perturbations of the state, which the spikes of {cell.name} do not notice: "
                "use RFLO or SnAp1, which use the surrogate derivative."
            )

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Kernel:
        cell = unitwise(cell)
        eye, states = jnp.eye(cell.n, dtype=cell.dtype), range(cell.states)
        zero = tuple(jnp.zeros(cell.n, cell.dtype) for _ in states)
        return Kernel(
            A=tuple(tuple(eye if p == q else 0 * eye for q in states) for p in states),
            alpha=tuple(vector + self.first_alpha for vector in zero),
            B=no_eligibility(cell, weights),
            noisy=cell.init_state(),
            Omega=zero,
            Gamma=zero,
        )

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> Tangent:
        zeta = jax.random.normal(key, (len(cell.widths), steps, unitwise(cell).n), cell.dtype)
        return tuple(self.perturbation * zeta[p] for p in range(len(cell.widths)))

    def advance(self, tick: Tick, state: Kernel, noise: State) -> Kernel:
        zeta = noise
        each = lambda f, *trees: tuple(map(f, *trees))
        keep = each(lambda alpha: 1 - alpha, state.alpha)
        Gamma = each(lambda k, gamma, omega: k * gamma - omega, keep, state.Gamma, state.Omega)
        Omega = each(lambda k, omega, z: k * omega + z, keep, state.Omega, zeta)
        unperturbed, _ = tick.cell.forward(tick.weights, state.noisy, tick.trace.ahat.inp)
        noisy = each(jnp.add, unperturbed, zeta)
        deviation = each(jnp.subtract, unperturbed if self.late_perturbation else noisy, tick.state)
        error = tuple(
            total(*(matvec(a, omega) for a, omega in zip(A, Omega, strict=True))) - d
            for A, d in zip(state.A, deviation, strict=True)
        )
        rate = self.learning_rate
        A = tuple(
            tuple(a - rate * outer(e, omega) for a, omega in zip(A, Omega, strict=True))
            for A, e in zip(state.A, error, strict=True)
        )
        # α is kept inside [0, 1]. Outside it, the filter would change sign or grow, and α would be no timescale.
        alpha = tuple(
            jnp.clip(state.alpha[q] - rate * total(*map(vecmat, error, column)) * Gamma[q], 0, 1)
            for q, column in enumerate(zip(*state.A, strict=True))
        )
        leak = tuple(tuple(k if p == q else None for q in range(len(keep))) for p, k in enumerate(keep))
        return Kernel(A, alpha, filtered(tick.weights, leak, tick.trace, state.B), noisy, Omega, Gamma)

    def forget(self, cell: Cell, state: Kernel) -> Kernel:
        return zeros_like(state)._replace(A=state.A, alpha=state.alpha, noisy=cell.init_state())

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Kernel) -> Weights:
        rows = [(u, A) for u, A in zip(c, state.A, strict=True) if u is not None]
        spread = tuple(total(*(vecmat(u, A[q]) for u, A in rows)) for q in range(len(state.A)))
        return weighed(weights, spread, state.B)
