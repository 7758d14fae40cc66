"""Decoupled neural interfaces (Jaderberg et al. 2017)."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, FutureFacing
from recurra.learners.synthetic import Synthesizer, apply, features, first_synthesizer, fitted


class DNI(FutureFacing):
    """c(t) ≈ A ã(t), with features ã = (a, y*, 1), where a is what the readout sees.

    A descends ½‖A ã(t-1) - (cbar(t-1) + (A* ã(t)) J(t))‖²; A* becomes A every `target_interval` steps.
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    target_interval: int = 5

    about = About("dni", "DNI", "A_li", memory="n²", time="n²", numerical=True)

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.whole(self, "target_interval")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Synthesizer:
        no_cbar = cell.credit_shown(jnp.zeros(cell.shown_width, cell.dtype))
        return first_synthesizer(cell, key, n_out, no_cbar)

    def credit(self, tick: Tick, state: Synthesizer) -> tuple[Credit, Any, Synthesizer]:
        now = features(tick.cell, tick.state, tick.label)
        bootstrap = tick.pull(apply(state.A_star, now))
        state = fitted(tick, state, tick.cbar, bootstrap, self.learning_rate, self.target_interval)
        return apply(state.A, now), tick.trace, state
