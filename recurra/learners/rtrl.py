"""Real-time recurrent learning (Williams & Zipser 1989): the past-facing relation as it stands."""

from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Credit, Influence, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing


class RTRL(PastFacing):
    """M(t) = J M(t-1) + Mbar, in full."""

    about = About("rtrl", "RTRL", "M_kij", memory="n³", time="n⁴")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Influence:
        return cell.no_influence(weights)

    def advance(self, tick: Tick, state: Influence, noise: None) -> Influence:
        JM = tuple(map(tick.push, state))
        return tick.cell.add_immediate(tick.weights, tick.trace, JM)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Influence) -> Weights:
        return cell.contract(weights, c, state)
