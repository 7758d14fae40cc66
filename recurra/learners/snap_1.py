"""The sparse n-step approximation with n = 1 (Menick et al. 2020), also known as diagonal RTRL."""

from jaxtyping import PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.tick import Tick
from recurra.cells.unitwise import UnitwiseCell
from recurra.learners import snap_1_general as general
from recurra.learners.base import About, PastFacing
from recurra.learners.eligibility import filtered, no_eligibility, weighed


class SnAp1(PastFacing):
    """B = diag(J) B + D ahat: a weight's influence on its own unit, with all that the unit does to itself.

    Where a cell is no `recurra.UnitwiseCell`, a weight's own units are those that it reaches within one step, and the
    equation is M = P ∘ (J M + Mbar) with P the places where Mbar can be nonzero. P is read from the cell's program.
    """

    about = About("snap-1", "SnAp-1", "δ_ki B_ij", memory="n²", time="n²")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PyTree:
        if not isinstance(cell, UnitwiseCell):
            return general.no_influence(cell, weights)
        return no_eligibility(cell, weights, keep=cell.own_jacobian)

    def advance(self, tick: Tick, state: PyTree, noise: None) -> PyTree:
        if not isinstance(tick.cell, UnitwiseCell):
            return general.advanced(tick, state)
        diag_J = tick.cell.own_jacobian(tick.weights, tick.trace)
        return filtered(tick.weights, diag_J, tick.trace, state)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PyTree) -> Weights:
        if not isinstance(cell, UnitwiseCell):
            return general.contracted(cell, weights, c, state)
        return weighed(weights, c, state)
