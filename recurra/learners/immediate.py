"""The gradient of the present step alone: the baseline that says what memory in a rule buys."""

from typing import Any

from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing


class Immediate(PastFacing):
    """M = Mbar: what the weights did at earlier steps is left out."""

    about = About("immediate", "Immediate", "δ_ki D_i ahat_j", memory="n", time="n²")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> None:
        return None

    def advance(self, tick: Tick, state: None, noise: None) -> Any:
        return tick.trace

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Any) -> LazyWeights:
        return cell.deposit(weights, state, c)
