"""A cell, a readout or a head of one's own, and a loss: the forward step, the error and the immediate credit."""

from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import GetAttrKey, KeyPath, keystr
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.initial import random_feedback
from recurra.cells.module import as_module
from recurra.linalg import Outer, add, matvec, vecmat
from recurra.losses import Loss, Regularizer, SoftmaxCrossEntropy


class Readout(NamedTuple):
    """The weights of a readout, z = W a + V x + b. V is None without direct connections.

    a is what the cell shows of its state, so W has the shape (n_out, shown), where `shown` is `cell.shown_width`: the
    number of units in most cells, and twice as many where the readout sees two variables of each unit. b has the shape
    (n_out,), and V the shape (n_out, n_in).

    >>> network = rc.Network(rc.LRU(n_in=3, n=8), n_out=2, skip=True)
    >>> readout = network.init(jax.random.key(0)).readout
    >>> readout.W.shape, readout.b.shape, readout.V.shape  # the readout sees both parts of h
    ((2, 16), (2,), (2, 3))
    """

    W: Float[Array, "n_out shown"]
    b: Float[Array, " n_out"]
    V: Float[Array, "n_out n_in"] | None = None


class NetworkWeights(NamedTuple):
    """What is trained, and the feedback that is not.

    For a unit-wise cell, `cell` is a tuple with `recurra.cells.Sources` for each gate, in the order of the cell's
    `gates`. For a `Stack` it has such a tuple for each layer, and for a `GeneralCell` the user's own tree. In a network
    with a head of your own, `readout` has its parameters. `feedback` is None where credit is exact.

    >>> cell = rc.LSTM(n_in=2, n=8)
    >>> weights = rc.Network(cell, n_out=3).init(jax.random.key(0))
    >>> weights.readout.W.shape, weights.feedback
    ((3, 8), None)
    >>> gates = dict(zip(cell.gates, weights.cell))
    >>> gates["f"].bias.shape
    (8, 1)
    """

    cell: Weights
    readout: Readout | PyTree[Array]
    feedback: Float[Array, "n_out shown"] | None


class Network(checks.Part):
    """A recurrent network with a readout, ready to learn.

    With `skip` the readout also sees the input directly: z = W a + V x + b.

    With a `head` of your own that takes the place of the readout: z = head(a), or with `skip` head(a, x) of one vector
    that has both. It is a module of Equinox or Flax NNX, or what `recurra.module_of` makes of others, and returns
    `n_out` numbers. Its parameters follow the gradient of each step's loss.

    With `regularizer` a term that depends on the state alone is added to what is minimised, at steps that have a label.
    The loss that is reported leaves it out.

    With `random_feedback` the immediate credit reaches the state through fixed random weights instead of the
    readout's own. The readout itself always follows its exact gradient.

    A part of another kind is a TypeError. Inputs of another shape are a ValueError.

    >>> network = rc.Network(rc.GRU(n_in=3, n=8), n_out=2, loss=rc.SquaredError())
    >>> weights = network.init(jax.random.key(0))
    >>> network.run(weights, np.zeros((5, 3))).shape
    (5, 2)
    >>> import equinox as eqx
    >>> head = eqx.nn.MLP(8, 2, width_size=16, depth=1, key=jax.random.key(0))
    >>> rc.Network(rc.GRU(n_in=3, n=8), n_out=2, head=head).head.size
    178
    """

    cell: Cell
    n_out: int
    loss: Loss = SoftmaxCrossEntropy()
    random_feedback: bool = False
    skip: bool = False
    regularizer: Regularizer | None = None
    head: Any = None  # a `Module` or None, once it is made

    def __post_init__(self) -> None:
        if self.head is not None and isinstance(self.cell, Cell):
            width = self.cell.shown_width + self.cell.n_in * bool(self.skip)
            self.head = as_module("`head` of Network", self.head, width, self.cell.dtype)

    def __check_init__(self) -> None:
        checks.whole(self, "n_out")
        checks.flag(self, "random_feedback")
        checks.flag(self, "skip")
        if not isinstance(self.cell, Cell):
            raise TypeError(
                f"`cell` of Network must be a recurra cell, and is {type(self.cell).__name__}: make one of a cell of "
                "Equinox or Flax, or of a function, with recurra.cell_of."
            )
        if not isinstance(self.loss, Loss):
            raise TypeError(f"`loss` of Network must be a recurra loss such as SquaredError(), and is {self.loss!r}.")
        self.loss.check_outputs(self.n_out)
        if self.head is not None and self.head.n_out != self.n_out:
            raise ValueError(
                f"`head` of Network returns {self.head.n_out} numbers, and `n_out` is {self.n_out}: make them the same."
            )
        if self.head is not None and self.random_feedback:
            raise ValueError(
                "Random feedback takes the place of the weights of a linear readout, and `head` is a module of your "
                "own: leave `random_feedback` or `head` out."
            )
        if self.regularizer is not None and not isinstance(self.regularizer, Regularizer):
            raise TypeError(
                "`regularizer` of Network must be one such as recurra.FiringRate(target=0.01), and is "
                f"{self.regularizer!r}."
            )

    def init(self, key: PRNGKeyArray) -> NetworkWeights:
        """w_out ~ N(0, 1/√n), b_out = 0, V = 0, and the cell's own start."""
        key_cell, key_out, key_feedback = jax.random.split(key, 3)
        n, dtype = self.cell.shown_width, self.cell.dtype
        cell = self.cell.init_weights(key_cell)
        if self.head is not None:
            return NetworkWeights(cell, self.head.init_params(key_out), None)
        V = jnp.zeros((self.n_out, self.cell.n_in), dtype) if self.skip else None
        W = jax.random.normal(key_out, (self.n_out, n), dtype) / n**0.5
        feedback = random_feedback(key_feedback, self.n_out, n, dtype) if self.random_feedback else None
        return NetworkWeights(cell, Readout(W, jnp.zeros(self.n_out, dtype), V), feedback)

    def forward(
        self, weights: NetworkWeights, a: State, x: Float[Array, " n_in"]
    ) -> tuple[State, Any, Float[Array, " n_out"]]:
        """One step: the next state, its trace, and the output z."""
        state, trace = self.cell.forward(self.cell.applied(weights.cell), a, x)
        return state, trace, self.output(weights, state, x)

    def output(self, weights: NetworkWeights, a: State, x: Float[Array, " n_in"]) -> Float[Array, " n_out"]:
        """The output z for the state after a step, and the input of the step."""
        if self.head is not None:
            return self.head(weights.readout, self.heard(a, x))
        W, b, V = weights.readout
        z = matvec(W, self.cell.show(a)) + b
        return z if V is None else z + matvec(V, x)

    def run(
        self,
        weights: NetworkWeights,
        inputs: Float[ArrayLike, "steps *streams n_in"],
        state: tuple[Float[ArrayLike, "..."], ...] | None = None,
    ) -> Float[Array, "steps *streams n_out"]:
        """The outputs for a sequence of inputs, with nothing learned; from `state`, or from the cell's first one.

        Several sequences run at once as streams, on an axis after that of time. A `state` then has a leading axis over
        streams. Arrays of other shapes are a ValueError that names the first of them.
        """
        inputs = jnp.asarray(inputs, self.cell.dtype)
        if inputs.ndim not in (2, 3) or inputs.shape[-1] != self.cell.n_in:
            raise ValueError(
                f"`inputs` must have shape (steps, {self.cell.n_in}), or for several streams (steps, streams, "
                f"{self.cell.n_in}), and have shape {inputs.shape}."
            )
        return _run(self, weights, inputs, state)

    def check_weights(self, weights: Any, what: str = "weights", seeds: int | None = None) -> None:
        """Raise unless `weights`, which errors call `what`, are weights of this network, with finite numbers.

        They must have the parts, shapes and types of those that `init` returns. With a number of `seeds`, arrays may
        have a leading axis over them. An error names the first array that does not fit, its gate by `cell.gates`, such
        as `weights.cell.f.bias`. `run`, `recurra.train(start=...)`, `recurra.Online(weights=...)` and the `start_from`
        of a `LearningStep` call this.
        """
        if not isinstance(weights, NetworkWeights):
            raise TypeError(
                f"`{what}` must be NetworkWeights, as `Network.init` returns them, and is {type(weights).__name__}."
            )
        like = jax.eval_shape(self.init, jax.random.key(0))
        biases: Any = getattr(weights.readout, "b", None)
        if seeds is None and biases is not None and jnp.ndim(biases) == 2:
            raise ValueError(
                f"`{what}` must be those of one network, and `{what}.readout.b` has shape {jnp.shape(biases)} in the "
                f"place of {like.readout.b.shape}. The weights of a result have a leading axis over seeds: take those "
                "of one with `Result.weights_of(seed)`."
            )
        checks.fits(what, weights, like, of="network", seeds=seeds, place=self.place)

    def place(self, path: KeyPath) -> str:
        """How error messages write the path of an array in the tree of the weights."""
        part, *within = path
        is_cell = part == GetAttrKey("cell")
        return f".cell{self.cell.place(tuple(within))}" if is_cell else keystr(path)

    def heard(self, a: State, x: Float[Array, " n_in"]) -> Float[Array, " u"]:
        """All that the readout or the head sees: a, and x where there are direct connections."""
        return jnp.concatenate([self.cell.show(a), x]) if self.skip else self.cell.show(a)

    def readout_gradient(
        self, weights: NetworkWeights, error: Float[Array, " n_out"], a: State, x: Float[Array, " n_in"]
    ) -> PyTree:
        """The gradient of the readout or the head from the error dL/dz, with outer products not multiplied out."""
        if self.head is not None:
            return self.head.deposit(weights.readout, self.heard(a, x), error)
        V = Outer(error, x) if self.skip else None
        return Readout(cast(Any, Outer(error, self.cell.show(a))), error, cast(Any, V))

    def credit(
        self, weights: NetworkWeights, error: Float[Array, " n_out"], a: State, x: Float[Array, " n_in"]
    ) -> Credit:
        """cbar, the immediate credit of the state after a step, from the error dL/dz; `x` is the step's input."""
        if self.head is not None:
            seen = self.head.pull(weights.readout, self.heard(a, x), error)[: self.cell.shown_width]
        else:
            seen = vecmat(error, weights.readout.W if weights.feedback is None else weights.feedback)
        cbar = self.cell.credit_shown(seen)
        if self.regularizer is None:
            return cbar
        own = self.regularizer.credit(self.cell.show(a))
        return tuple(add(u, v) for u, v in zip(cbar, self.cell.credit_shown(own), strict=True))


@eqx.filter_jit
def _run(network: Network, weights: NetworkWeights, inputs: Array, state: Any) -> Array:
    network.check_weights(weights)  # here, so that it costs nothing where the program is compiled already
    streams = inputs.shape[1:-1]
    first = jax.tree.map(lambda a: jnp.broadcast_to(a, (*streams, *a.shape)), network.cell.init_state())
    if state is not None:
        checks.fits("state", state, first, of="network")

    def step(a: State, x: Array) -> tuple[State, Array]:
        after, _, output = network.forward(weights, a, x)
        return after, output

    step = jax.vmap(step) if streams else step
    return jax.lax.scan(step, first if state is None else state, inputs)[1]
