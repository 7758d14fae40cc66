"""e-prop 3 (Bellec et al. 2019): predicted credit on an eligibility trace."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, Learner, unitwise
from recurra.learners.dni import DNI
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, weighed
from recurra.learners.synthetic import Synthesizer
from recurra.linalg import where, zeros_like


class Predicted(NamedTuple):
    """The predictor of credit, and the eligibility trace of the step before."""

    synthesizer: Synthesizer
    B: Eligibility


class EProp3(Learner):
    """B(t) = H B(t-1) + D ahat,   gradient = cbar(t) B(t) + c(t) R(t) B(t-1),   c(t) ≈ A ã(t) as in DNI.

    R is the part of J = H + R that goes through recurrent weights. RFLO leaves it out; here predicted credit goes
    through it. With the exact c the gradients add up to those of full backpropagation: Σ cbar M = Σ (cbar B + c R B'),
    with B' the trace of the step before. Without a prediction, A = 0, it is RFLO.
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    target_interval: int = 5

    about = About("e-prop-3", "e-prop 3", "δ_ki B_ij, A_li", memory="n²", time="n²", numerical=True, unitwise=True)
    #: its gradient joins influence of the past with credit from the future
    facing: ClassVar[str] = "–"

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.whole(self, "target_interval")

    @property
    def _predictor(self) -> DNI:
        return DNI(self.learning_rate, self.target_interval)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Predicted:
        return Predicted(self._predictor.init(cell, weights, key, n_out), no_eligibility(cell, weights))

    def step(self, tick: Tick, state: Predicted, noise: None) -> tuple[Weights, Predicted]:
        before = state.B if tick.reset is None else where(tick.reset, zeros_like(state.B), state.B)
        B = filtered(tick.weights, tick.trace.H, tick.trace, before)
        c, _, synthesizer = self._predictor.credit(tick, state.synthesizer)
        terms = weighed(tick.weights, tick.cbar, B), weighed(tick.weights, _through_weights(tick, c), before)
        return jax.tree.map(jnp.add, *terms), Predicted(synthesizer, B)

    def emits(
        self, t: Int[Array, ""], unlabelled: Int[Array, "*streams"] | None = None
    ) -> Bool[Array, "*streams"] | bool:
        return True  # predicted credit needs no label of this step


def _through_weights(tick: Tick, c: Credit) -> State:
    """c R: the product with J, without leaks. After a reset the trace before it is zero, so R need not be."""
    states = range(unitwise(tick.cell).states)
    leaks = tuple(tuple(None for _ in states) for _ in states)
    return tick.cell.pull(tick.weights, tick.trace._replace(H=leaks), c)
