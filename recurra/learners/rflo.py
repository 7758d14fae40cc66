"""Random-feedback online learning (Murray 2019), with the feedback left to the network."""

from typing import ClassVar

from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.learners.base import PastFacing, Tick
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, weighed


class RFLO(PastFacing):
    """B = H B + D ahat: the network's own leak in place of J, so that M stays on its diagonal k = i."""

    name: ClassVar[str] = "RFLO"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "δ_ki B_ij"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "n²"
    time: ClassVar[str] = "n²"
    unitwise: ClassVar[bool] = True

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Eligibility:
        return no_eligibility(cell, weights)

    def advance(self, tick: Tick, state: Eligibility, noise: None) -> Eligibility:
        return filtered(tick.trace.H, tick.trace, state)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Eligibility) -> Weights:
        return weighed(c, state)
