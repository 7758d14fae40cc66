"""Random-feedback local online learning (Murray 2019). Random feedback itself is an option of `Network`."""

from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, weighed


class RFLO(PastFacing):
    """B = H B + D ahat: the network's own leak in place of J, so that M stays on its diagonal k = i."""

    about = About("rflo", "RFLO", "δ_ki B_ij", memory="n²", time="n²", unitwise=True)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Eligibility:
        return no_eligibility(cell, weights, kept=unitwise(cell).read)

    def advance(self, tick: Tick, state: Eligibility, noise: None) -> Eligibility:
        return filtered(tick.weights, tick.trace.H, tick.trace, state)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Eligibility) -> Weights:
        return weighed(weights, c, state)
