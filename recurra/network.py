"""A cell, an affine readout and a loss: the forward step, the error and the immediate credit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.initial import random_feedback
from recurra.linalg import matvec, vecmat
from recurra.losses import Loss, SoftmaxCrossEntropy


class Readout(NamedTuple):
    """z = W a + b, where a is the part of the state that the cell shows."""

    W: Float[Array, "n_out n"]
    b: Float[Array, " n_out"]


class NetworkWeights(NamedTuple):
    """What is trained, and the feedback that is not; feedback is None where credit is exact."""

    cell: Weights
    readout: Readout
    feedback: Float[Array, "n_out n"] | None


class Network(checks.Part):
    """A recurrent network with a readout, ready to learn.

    With `random_feedback` the immediate credit reaches the state through fixed random weights instead of the
    readout's own. The readout itself always follows its exact gradient.
    """

    cell: Cell
    n_out: int
    loss: Loss = SoftmaxCrossEntropy()
    random_feedback: bool = False

    def __check_init__(self) -> None:
        checks.whole(self, "n_out")
        checks.flag(self, "random_feedback")
        if not isinstance(self.cell, Cell):
            raise TypeError(
                f"`cell` of Network must be a recurra cell, and is {type(self.cell).__name__}: wrap an Equinox cell "
                "with recurra.GeneralCell."
            )
        if not isinstance(self.loss, Loss):
            raise TypeError(f"`loss` of Network must be a recurra loss such as SquaredError(), and is {self.loss!r}.")
        self.loss.check_outputs(self.n_out)

    def init(self, key: PRNGKeyArray) -> NetworkWeights:
        """w_out ~ N(0, 1/√n), b_out = 0, and the cell's own start."""
        key_cell, key_out, key_feedback = jax.random.split(key, 3)
        n, dtype = self.cell.shown_width, self.cell.dtype
        return NetworkWeights(
            self.cell.init_weights(key_cell),
            Readout(jax.random.normal(key_out, (self.n_out, n), dtype) / n**0.5, jnp.zeros(self.n_out, dtype)),
            random_feedback(key_feedback, self.n_out, n, dtype) if self.random_feedback else None,
        )

    def forward(
        self, weights: NetworkWeights, a: State, x: Float[Array, " n_in"]
    ) -> tuple[State, Any, Float[Array, " n_out"]]:
        """One step: the next state, its trace, and the output z."""
        state, trace = self.cell.forward(weights.cell, a, x)
        return state, trace, matvec(weights.readout.W, self.cell.show(state)) + weights.readout.b

    def credit(self, weights: NetworkWeights, error: Float[Array, " n_out"]) -> Credit:
        """cbar, the immediate credit of the state, from the error dL/dz."""
        feedback = weights.readout.W if weights.feedback is None else weights.feedback
        return self.cell.credit_shown(vecmat(error, feedback))
