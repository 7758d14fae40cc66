"""The baseline that trains only the readout."""

from jaxtyping import PRNGKeyArray

from recurra.cells.base import Cell, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, Unfaced


class Fixed(Unfaced):
    """No gradient for the recurrent weights, ever."""

    about = About("fixed", "Fixed W")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> None:
        return None

    def remember(self, tick: Tick, state: None, noise: None) -> None:
        return None
