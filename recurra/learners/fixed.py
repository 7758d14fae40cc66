"""The baseline that trains only the readout."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from recurra.cells.base import Cell, Weights
from recurra.learners.base import Learner, Tick


class Fixed(Learner):
    """No gradient for the recurrent weights, ever."""

    name: ClassVar[str] = "Fixed W"
    facing: ClassVar = "–"
    tensor: ClassVar[str] = "–"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "–"
    time: ClassVar[str] = "–"
    unitwise: ClassVar[bool] = False

    def emits(self, t: Int[Array, ""]) -> bool:
        return False

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> None:
        return None

    def step(self, tick: Tick, state: None, noise: None) -> tuple[Weights, None]:
        return jax.tree.map(jnp.zeros_like, tick.weights), None
