"""A cell behind an encoder, as one cell whose weights hold those of both.

    u(t) = encoder(w, x(t)),     a(t) = f(a(t-1), u(t))

The encoder has no memory. So J is that of the cell alone, and what the encoder's parameters do within a step goes
through the cell's input:

    Mbar = (Mbar of the cell,  ∂a/∂u ∂u/∂w)

Any learner that takes any cell learns both parts as one, and is as exact as it is without an encoder. Others learn the
cell by itself: see `recurra.learners.with_encoder`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.tree_util import GetAttrKey, KeyPath, keystr
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Credit, Influence, LazyWeights, State, Tangent, Weights
from recurra.cells.module import Module, module_of
from recurra.linalg import total, vecmat


class EncodedWeights(NamedTuple):
    """The weights of the cell and the parameters of the encoder, or gradients of them.

    >>> encoder = rc.module_of(lambda W, x: W @ x, jnp.ones((4, 3)), x=3)
    >>> weights = rc.Encoded(encoder, rc.RNN(n_in=4, n=8)).init_weights(jax.random.key(0))
    >>> weights.encoder.shape
    (4, 3)
    """

    cell: Weights
    encoder: PyTree[Array]


class EncodedTrace(NamedTuple):
    """The trace of the cell, and the input of the encoder."""

    cell: Any
    x: Float[Array, " n_in"]


class Encoded(Cell):
    """A cell that receives encoder(x) in the place of x: `Encoded(eqx.nn.MLP(...), rc.GRU(n_in=16, n=32), x=10)`.

    The encoder is a module of Equinox or Flax NNX, with an example `x` of its input or the number of its entries, or
    what `recurra.module_of` returns. It is learned together with the cell; `recurra.WithEncoder` has the ways.

    An encoder that does not return as many numbers as the cell takes is a ValueError.

    >>> import equinox as eqx
    >>> encoder = eqx.nn.MLP(10, 4, width_size=8, depth=1, key=jax.random.key(0))
    >>> cell = rc.Encoded(encoder, rc.GRU(n_in=4, n=8), x=10)
    >>> cell.n_in, cell.widths
    (10, (8,))
    >>> network = rc.Network(cell, n_out=2)
    >>> network.init(jax.random.key(0)).cell.encoder.layers[0].weight.shape
    (8, 10)
    """

    encoder: Module
    cell: Cell

    def __init__(self, encoder: Any, cell: Any, x: PyTree = None):
        if not isinstance(cell, Cell):
            raise TypeError(
                f"`cell` of Encoded must be a recurra cell, and is {cell!r:.100}: make one of a cell of Equinox or "
                "Flax, or of a function, with recurra.cell_of."
            )
        if isinstance(encoder, Module):
            if x is not None:
                raise TypeError("`x` of Encoded is given, and `encoder` knows its input already: leave `x` out.")
        elif x is None:
            raise TypeError(
                "`x` of Encoded must be an example of the encoder's input, or the number of its entries, and is "
                "missing: pass it, as in Encoded(encoder, cell, x=10)."
            )
        else:
            encoder = module_of(encoder, x=x, dtype=cell.dtype)
        self.encoder, self.cell = encoder, cell
        if (encoder.n_out, encoder.dtype) != (cell.n_in, cell.dtype):
            raise ValueError(
                f"`encoder` of Encoded, {encoder.name}, returns {encoder.n_out} numbers of {encoder.dtype}, and the "
                f"cell, {cell.name}, takes {cell.n_in} of {cell.dtype}: make them the same."
            )

    @property
    def name(self) -> str:
        return f"Encoded {self.cell.name}"

    @property
    def n_in(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The numbers that the encoder takes."""
        return self.encoder.n_in

    @property
    def dtype(self) -> jnp.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The type of numbers, which both parts share."""
        return self.cell.dtype

    @property
    def widths(self) -> tuple[int, ...]:
        return self.cell.widths

    @property
    def shown(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.cell.shown

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.cell.smooth

    def show(self, a: State) -> Float[Array, " shown"]:
        return self.cell.show(a)

    def credit_shown(self, c: Float[Array, " shown"]) -> Credit:
        return self.cell.credit_shown(c)

    def init_state(self) -> State:
        return self.cell.init_state()

    def init_weights(self, key: PRNGKeyArray) -> EncodedWeights:
        # the cell starts as it would alone
        return EncodedWeights(self.cell.init_weights(key), self.encoder.init_params(jax.random.fold_in(key, 0xE4C0DE)))

    @property
    def converts(self) -> bool:
        return self.cell.converts

    def applied(self, weights: EncodedWeights) -> EncodedWeights:
        return EncodedWeights(self.cell.applied(weights.cell), weights.encoder)

    def labels(self, weights: EncodedWeights) -> EncodedWeights:
        return EncodedWeights(self.cell.labels(weights.cell), jax.tree.map(lambda _: "encoder", weights.encoder))

    def place(self, path: KeyPath) -> str:
        part, *within = path
        return f".cell{self.cell.place(tuple(within))}" if part == GetAttrKey("cell") else keystr(path)

    def forward(self, weights: EncodedWeights, a: State, x: Float[Array, " n_in"]) -> tuple[State, EncodedTrace]:
        state, trace = self.cell.forward(weights.cell, a, self.encoder(weights.encoder, x))
        return state, EncodedTrace(trace, x)

    def differing(self, trace: EncodedTrace) -> EncodedTrace:
        return EncodedTrace(self.cell.differing(trace.cell), trace.x)

    def push(self, weights: EncodedWeights, trace: EncodedTrace, v: Tangent) -> Tangent:
        return self.cell.push(weights.cell, trace.cell, v)

    def pull(self, weights: EncodedWeights, trace: EncodedTrace, c: Credit) -> State:
        return self.cell.pull(weights.cell, trace.cell, c)

    def push_input(self, weights: EncodedWeights, trace: EncodedTrace, v: Float[Array, "n_in *k"]) -> Tangent:
        return self.cell.push_input(weights.cell, trace.cell, self.encoder.push(weights.encoder, trace.x, v))

    def pull_input(self, weights: EncodedWeights, trace: EncodedTrace, c: Credit) -> Float[Array, " n_in"]:
        return self.encoder.pull(weights.encoder, trace.x, self.cell.pull_input(weights.cell, trace.cell, c))

    def deposit(self, weights: EncodedWeights, trace: EncodedTrace, c: Credit) -> LazyWeights:
        return EncodedWeights(self.cell.deposit(weights.cell, trace.cell, c), self.deposit_encoder(weights, trace, c))

    def no_influence(self, weights: EncodedWeights) -> Influence:
        return (*self.cell.no_influence(weights.cell), self.no_encoder_influence())

    def add_immediate(self, weights: EncodedWeights, trace: EncodedTrace, M: Influence) -> Influence:
        *of_cell, of_encoder = M
        immediate = self.encoder_influence(weights, trace)
        of_cell = self.cell.add_immediate(weights.cell, trace.cell, tuple(of_cell))
        return (*of_cell, tuple(map(jnp.add, of_encoder, immediate)))

    def contract(self, weights: EncodedWeights, c: Credit, M: Influence) -> EncodedWeights:
        *of_cell, of_encoder = M
        return EncodedWeights(
            self.cell.contract(weights.cell, c, tuple(of_cell)), self.contract_encoder(weights, c, of_encoder)
        )

    # The encoder's part of these products.

    def deposit_encoder(self, weights: EncodedWeights, trace: EncodedTrace, c: Credit) -> PyTree[Array]:
        """c ∂a/∂u ∂u/∂w."""
        return self.encoder.deposit(weights.encoder, trace.x, self.cell.pull_input(weights.cell, trace.cell, c))

    def encoder_influence(self, weights: EncodedWeights, trace: EncodedTrace) -> Tangent:
        """∂a/∂u ∂u/∂w, with a column for each parameter of the encoder."""
        return self.cell.push_input(weights.cell, trace.cell, self.encoder.influence(weights.encoder, trace.x))

    def no_encoder_influence(self) -> Tangent:
        """The influence of the encoder before the first step: zero."""
        return tuple(jnp.zeros((width, self.encoder.size), self.dtype) for width in self.widths)

    def contract_encoder(self, weights: EncodedWeights, c: Credit, E: Tangent) -> PyTree[Array]:
        """c E, for an influence E of the encoder's parameters."""
        rows = (None if u is None else vecmat(u, part) for u, part in zip(c, E, strict=True))
        return ravel_pytree(weights.encoder)[1](total(*rows))
