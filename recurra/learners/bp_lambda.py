"""BP(λ): credit predicted as values are in reinforcement learning, with TD(λ) (Pemberton & Costa 2024)."""

import abc
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, FutureFacing
from recurra.learners.synthetic import Map, apply, features, first_synthesizer
from recurra.linalg import combine, total, vecmat, where


class TDState(NamedTuple):
    """c ≈ A ã, its eligibility trace without the latest features, and features and cbar of the previous step."""

    A: Map
    E: Float[Array, "..."]
    features: State
    cbar: Credit


class TDLambda(FutureFacing):
    """c(t) ≈ A ã(t), with DNI's features ã = (a, y*, 1), learned by TD(λ). A learner says what is kept of E.

        δ(t) = cbar(t) + γ (A ã(t+1)) J(t+1) - A ã(t),   E(t) = γλ J(t) E(t-1) + I ⊗ ã(t),   A += η δ E

    All predictions since the latest reset learn from each error, not the last one alone. δ(t) is known at step t + 1,
    and A follows it before it predicts c(t+1). `lam` is λ: 0 bootstraps from the next step alone, as DNI does with
    target_interval=1 where γ = 1; 1 learns from the losses themselves.
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    lam: float | Float[Array, ""] = 0.9
    gamma: float | Float[Array, ""] = 1.0

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "lam", least=0.0, most=1.0)
        checks.in_range(self, "gamma", least=0.0, most=1.0)

    @abc.abstractmethod
    def no_trace(self, cell: Cell, F: int) -> Float[Array, "..."]:
        """E = 0, for so many features."""

    @abc.abstractmethod
    def joined(self, E: Float[Array, "..."], features: Float[Array, " F"]) -> Float[Array, "..."]:
        """E + I ⊗ ã."""

    @abc.abstractmethod
    def pushed(self, tick: Tick, E: Float[Array, "..."]) -> Float[Array, "..."]:
        """J E, or what stands for it."""

    @abc.abstractmethod
    def weighed(self, delta: Float[Array, " S"], E: Float[Array, "..."]) -> Float[Array, "S F"]:
        """δ E."""

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> TDState:
        no_cbar = cell.credit_shown(jnp.zeros(cell.shown_width, cell.dtype))
        A, _, first, _ = first_synthesizer(cell, key, n_out, no_cbar)
        return TDState(A, self.no_trace(cell, sum(map(len, first))), first, no_cbar)

    def credit(self, tick: Tick, state: TDState) -> tuple[Credit, Any, TDState]:
        now = features(tick.cell, tick.state, tick.label)
        # As in DNI: before the first step there was no label, and the present one stands for it.
        previous = where(tick.t == 0, features(tick.cell, tick.before, tick.label), state.features)
        bootstrap, predicted = tick.pull(apply(state.A, now)), apply(state.A, previous)
        each = zip(state.cbar, bootstrap, predicted, strict=True)
        delta = jnp.concatenate([total(cbar, self.gamma * cJ) - c for cbar, cJ, c in each])
        E = self.joined(state.E, jnp.concatenate(previous))
        A = combine(1.0, state.A, self.learning_rate, _like(state.A, self.weighed(delta, E)))
        return (
            apply(A, now),
            tick.trace,
            TDState(A, self.gamma * self.lam * self.pushed(tick, E), now, tick.cbar),
        )


class BPLambda(TDLambda):
    """TD(λ) for credit with all of E, which is as large as RTRL's influence.

    δ = cbar + γ (A ã') J' - A ã,   E = γλ J E + I ⊗ ã,   A += η δ E
    """

    about = About("bp-lambda", "BP(λ)", "A_li, E_kli", memory="n³", time="n⁴", numerical=True)

    def no_trace(self, cell: Cell, F: int) -> Float[Array, "S S F"]:
        S = sum(cell.widths)
        return jnp.zeros((S, S, F), cell.dtype)

    def joined(self, E: Float[Array, "S S F"], features: Float[Array, " F"]) -> Float[Array, "S S F"]:
        k = jnp.arange(len(E))
        return E.at[k, k].add(features)

    def pushed(self, tick: Tick, E: Float[Array, "S S F"]) -> Float[Array, "S S F"]:
        return jnp.concatenate(tick.push(tick.cell.split(E.reshape(len(E), -1)))).reshape(E.shape)

    def weighed(self, delta: Float[Array, " S"], E: Float[Array, "S S F"]) -> Float[Array, "S F"]:
        return vecmat(delta, E.reshape(len(E), -1)).reshape(E.shape[1:])


def _like(A: Map, rows: Float[Array, "S F"]) -> Map:
    """Numbers for all entries of A, in its blocks."""
    edges = lambda sizes: [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    heights, widths = [len(blocks[0]) for blocks in A], [block.shape[1] for block in A[0]]
    return tuple(tuple(jnp.split(part, edges(widths), axis=1)) for part in jnp.split(rows, edges(heights)))
