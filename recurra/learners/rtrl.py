"""Real-time recurrent learning (Williams & Zipser 1989): the past-facing relation as it stands."""

from typing import ClassVar

from jaxtyping import Array, Float, PRNGKeyArray

from recurra.algebra import total, vecmat
from recurra.cells.base import Cell, Credit, Weights
from recurra.learners.base import PastFacing, Tick


class RTRL(PastFacing):
    """M(t) = J M(t-1) + Mbar, in full."""

    name: ClassVar[str] = "RTRL"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "M_kij"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "n³"
    time: ClassVar[str] = "n⁴"
    unitwise: ClassVar[bool] = False

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Float[Array, "S P"]:
        return cell.init_influence(weights)

    def advance(self, tick: Tick, state: Float[Array, "S P"], noise: None) -> Float[Array, "S P"]:
        return tick.cell.advance_influence(tick.weights, tick.trace, state)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Float[Array, "S P"]) -> Weights:
        rows = zip(c, cell.split(state), strict=True)
        return cell.unravel(weights, total(*(None if u is None else vecmat(u, M) for u, M in rows)))
