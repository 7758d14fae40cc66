"""The sparse n-step approximation with n = 1 (Menick et al. 2020), also known as diagonal RTRL."""

from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, weighed


class SnAp1(PastFacing):
    """B = diag(J) B + D ahat: a weight's influence on its own unit, with all that the unit does to itself."""

    about = About("snap-1", "SnAp-1", "δ_ki B_ij", memory="n²", time="n²", unitwise=True)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Eligibility:
        return no_eligibility(cell, weights, keep=unitwise(cell).own_jacobian)

    def advance(self, tick: Tick, state: Eligibility, noise: None) -> Eligibility:
        diag_J = unitwise(tick.cell).own_jacobian(tick.weights, tick.trace)
        return filtered(tick.weights, diag_J, tick.trace, state)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Eligibility) -> Weights:
        return weighed(weights, c, state)
