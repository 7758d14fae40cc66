"""A cell, an affine readout and a loss: the forward step, the error and the immediate credit."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.initial import random_feedback
from recurra.linalg import add, matvec, vecmat
from recurra.losses import Loss, Regularizer, SoftmaxCrossEntropy


class Readout(NamedTuple):
    """z = W a + V x + b, where a is the part of the state that the cell shows. V is None without direct connections."""

    W: Float[Array, "n_out n"]
    b: Float[Array, " n_out"]
    V: Float[Array, "n_out n_in"] | None = None


class NetworkWeights(NamedTuple):
    """What is trained, and the feedback that is not; feedback is None where credit is exact.

    >>> weights = rc.Network(rc.RNN(n_in=2, n=8), n_out=3).init(jax.random.key(0))
    >>> weights.readout.W.shape, weights.feedback
    ((3, 8), None)
    """

    cell: Weights
    readout: Readout
    feedback: Float[Array, "n_out n"] | None


class Network(checks.Part):
    """A recurrent network with a readout, ready to learn.

    With `skip` the readout also sees the input directly: z = W a + V x + b.

    With `regularizer` a term that depends on the state alone is added to what is minimised, at steps that have a label.
    The loss that is reported leaves it out.

    With `random_feedback` the immediate credit reaches the state through fixed random weights instead of the
    readout's own. The readout itself always follows its exact gradient.

    A part of another kind is a TypeError. Inputs of another shape are a ValueError.

    >>> network = rc.Network(rc.GRU(n_in=3, n=8), n_out=2, loss=rc.SquaredError())
    >>> weights = network.init(jax.random.key(0))
    >>> network.run(weights, np.zeros((5, 3))).shape
    (5, 2)
    """

    cell: Cell
    n_out: int
    loss: Loss = SoftmaxCrossEntropy()
    random_feedback: bool = False
    skip: bool = False
    regularizer: Regularizer | None = None

    def __check_init__(self) -> None:
        checks.whole(self, "n_out")
        checks.flag(self, "random_feedback")
        checks.flag(self, "skip")
        if not isinstance(self.cell, Cell):
            raise TypeError(
                f"`cell` of Network must be a recurra cell, and is {type(self.cell).__name__}: wrap an Equinox cell "
                "with recurra.GeneralCell."
            )
        if not isinstance(self.loss, Loss):
            raise TypeError(f"`loss` of Network must be a recurra loss such as SquaredError(), and is {self.loss!r}.")
        self.loss.check_outputs(self.n_out)
        if self.regularizer is not None and not isinstance(self.regularizer, Regularizer):
            raise TypeError(
                "`regularizer` of Network must be one such as recurra.FiringRate(target=0.01), and is "
                f"{self.regularizer!r}."
            )

    def init(self, key: PRNGKeyArray) -> NetworkWeights:
        """w_out ~ N(0, 1/√n), b_out = 0, V = 0, and the cell's own start."""
        key_cell, key_out, key_feedback = jax.random.split(key, 3)
        n, dtype = self.cell.shown_width, self.cell.dtype
        V = jnp.zeros((self.n_out, self.cell.n_in), dtype) if self.skip else None
        W = jax.random.normal(key_out, (self.n_out, n), dtype) / n**0.5
        return NetworkWeights(
            self.cell.init_weights(key_cell),
            Readout(W, jnp.zeros(self.n_out, dtype), V),
            random_feedback(key_feedback, self.n_out, n, dtype) if self.random_feedback else None,
        )

    def forward(
        self, weights: NetworkWeights, a: State, x: Float[Array, " n_in"]
    ) -> tuple[State, Any, Float[Array, " n_out"]]:
        """One step: the next state, its trace, and the output z."""
        state, trace = self.cell.forward(weights.cell, a, x)
        W, b, V = weights.readout
        z = matvec(W, self.cell.show(state)) + b
        return state, trace, z if V is None else z + matvec(V, x)

    def run(
        self, weights: NetworkWeights, inputs: Float[ArrayLike, "steps n_in"], state: State | None = None
    ) -> Float[Array, "steps n_out"]:
        """The outputs for a sequence of inputs, with nothing learned; from `state`, or from the cell's first one."""
        inputs = jnp.asarray(inputs, self.cell.dtype)
        if inputs.ndim != 2 or inputs.shape[1] != self.cell.n_in:
            raise ValueError(f"`inputs` must have shape (steps, {self.cell.n_in}), and have shape {inputs.shape}.")
        if not isinstance(weights, NetworkWeights):
            raise TypeError(
                f"`weights` must be NetworkWeights, as `init` returns them, and are {type(weights).__name__}."
            )
        if jnp.ndim(weights.readout.b) > 1:
            raise ValueError(
                f"`weights` must be those of one network, with {self.n_out} biases, and have biases of shape "
                f"{jnp.shape(weights.readout.b)}. Those of a result have a leading axis over seeds: take one of them, "
                "jax.tree.map(lambda leaf: leaf[0], weights)."
            )
        return _run(self, weights, inputs, self.cell.init_state() if state is None else state)

    def heard(self, a: State, x: Float[Array, " n_in"]) -> Float[Array, " u"]:
        """All that the readout multiplies, u = (1, a, x), with x only where there are direct connections."""
        shown = self.cell.show(a)
        return jnp.concatenate([jnp.ones(1, shown.dtype), shown, *([x] if self.skip else [])])

    def credit(self, weights: NetworkWeights, error: Float[Array, " n_out"], a: State) -> Credit:
        """cbar, the immediate credit of the state, from the error dL/dz; `a` is the state after the step."""
        feedback = weights.readout.W if weights.feedback is None else weights.feedback
        cbar = self.cell.credit_shown(vecmat(error, feedback))
        if self.regularizer is None:
            return cbar
        own = self.regularizer.credit(self.cell.show(a))
        return tuple(add(u, v) for u, v in zip(cbar, self.cell.credit_shown(own), strict=True))


@eqx.filter_jit
def _run(network: Network, weights: NetworkWeights, inputs: Array, state: State) -> Array:
    def step(a: State, x: Array) -> tuple[State, Array]:
        after, _, output = network.forward(weights, a, x)
        return after, output

    return jax.lax.scan(step, state, inputs)[1]
