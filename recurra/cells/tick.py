"""What a learner sees of one step."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from recurra.cells.base import Cell, Credit, LazyWeights, State, Tangent, Weights
from recurra.linalg import where, zeros_like


class Tick(eqx.Module):
    """Step t: the state before and after it, how it can be linearized, and what the readout made of it.

    `loss` is the network's: called with an output and a label, it returns the loss and its error.

    `reset` tells that the state was set back just before this step, so that the past does not reach it: J(t) = 0.
    `first` is the step of the latest reset. Both are None in a run that is never set back.

    An example of its use is in docs/add-a-learner.md.
    """

    cell: Cell
    weights: Weights
    t: Int[Array, ""]
    before: State
    state: State
    trace: Any
    label: Float[Array, " n_out"]
    error: Float[Array, " n_out"]
    cbar: Credit
    reset: Bool[Array, ""] | None = None
    first: Int[Array, ""] | None = None
    loss: Any = None

    def push(self, v: Tangent) -> Tangent:
        """J v."""
        return self.unless_reset(self.cell.push(self.weights, self.trace, v))

    def pull(self, c: Credit) -> State:
        """c J."""
        return self.unless_reset(self.cell.pull(self.weights, self.trace, c))

    def deposit(self, c: Credit) -> LazyWeights:
        """c Mbar."""
        return self.cell.deposit(self.weights, self.trace, c)

    def unless_reset(self, through_J: Any) -> Any:
        """A product with J(t); zeros in its place after a reset, since then J(t) = 0."""
        return through_J if self.reset is None else where(self.reset, zeros_like(through_J), through_J)

    @property
    def steps_connected(self) -> Int[Array, ""]:
        """How many steps before this one influence it."""
        return self.t if self.first is None else self.t - self.first
