"""What a network is: a transition a(t-1), x(t) -> a(t) and products with its two derivatives.

A state is a tuple of vectors, the state variables. A cell's `forward` also returns a *trace*: what must be kept of a
step to linearize it later. Given the weights and a trace, the derivatives are used only through products:

    push      J v       a tangent of a(t-1) to one of a(t)
    pull      c J       credit of a(t) to credit of a(t-1)
    deposit   c Mbar    credit of a(t) to a gradient for the weights applied at t

and, where cells are stacked, through the derivative in the input:

    push_input   (∂a/∂x) v       a tangent of x(t) to one of a(t)
    pull_input   c (∂a/∂x)       credit of a(t) to credit of x(t)

Learners that ask for more than these need a `UnitwiseCell`. RTRL keeps all of M, in the layout that the cell chooses.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import KeyPath
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.linalg import zeros_like

State = tuple[Float[Array, " _"], ...]
#: a vector for each state variable; or a matrix for each, whose columns are pushed together
Tangent = tuple[Float[Array, "_ ..."], ...]
Credit = tuple[Float[Array, " _"] | None, ...]
#: M: tangents with a column for each weight. The cell decides into how many pieces M is cut
Influence = tuple[Tangent, ...]
Weights = PyTree[Array]
#: a tree like the weights, of matrices or of outer products not multiplied out yet
LazyWeights = PyTree


class Cell(checks.Part):
    """A recurrent transition whose weights live outside it, so that the same cell serves every seed.

    >>> cell = rc.LSTM(n_in=2, n=8)
    >>> isinstance(cell, rc.cells.Cell), cell.widths, cell.shown_width
    (True, (8, 8), 8)
    """

    n_in: eqx.AbstractVar[int]
    dtype: eqx.AbstractVar[jnp.dtype]

    #: The state variables that the readout sees, by number. A cell may choose any of its variables.
    shown: ClassVar[tuple[int, ...]] = (0,)

    #: whether J is the derivative of what the cell computes; that of a spiking cell is a surrogate
    smooth: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What error messages call it."""
        return type(self).__name__

    @property
    @abc.abstractmethod
    def widths(self) -> tuple[int, ...]:
        """The length of each state variable."""

    def show(self, a: Tangent) -> Float[Array, "shown *k"]:
        """What the readout sees of a state, or of a tangent of it."""
        parts = [a[p] for p in self.shown]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    @property
    def shown_width(self) -> int:
        """How many numbers the readout sees."""
        return sum(self.widths[p] for p in self.shown)

    def credit_shown(self, c: Float[Array, " shown"]) -> Credit:
        """Credit of what the readout sees, as credit of the state: None for variables it does not see."""
        edges = [sum(self.widths[p] for p in self.shown[: i + 1]) for i in range(len(self.shown) - 1)]
        parts = dict(zip(self.shown, jnp.split(c, edges) if edges else [c], strict=True))
        return tuple(parts.get(p) for p in range(len(self.widths)))

    def split(self, array: Float[Array, "..."], axis: int = 0) -> Tangent:
        """An array whose axis runs over all state variables, cut into one array for each."""
        edges = [sum(self.widths[: p + 1]) for p in range(len(self.widths) - 1)]
        return tuple(jnp.split(array, edges, axis=axis))

    def dense_credit(self, c: Credit) -> State:
        """Credit with zeros in the place of None."""
        return tuple(jnp.zeros(width, self.dtype) if u is None else u for u, width in zip(c, self.widths, strict=True))

    def no_traces(self, weights: Weights, length: int) -> PyTree[Array]:
        """Zeros in the shapes of the traces of so many steps, leading axis time."""
        _, trace = jax.eval_shape(self.forward, weights, self.init_state(), jnp.zeros(self.n_in, self.dtype))
        return zeros_like(jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((length, *leaf.shape), leaf.dtype), trace))

    @abc.abstractmethod
    def init_weights(self, key: PRNGKeyArray) -> Weights:
        """The first weights, drawn from the key."""

    def learned(self, params: PyTree) -> PyTree:
        """What is learned of the parameters of a user's step, with None for the rest."""
        return params

    def weights_of(self, params: PyTree) -> Weights:
        """The weights for the parameters of a user's step; the weights themselves for other cells."""
        return params

    def parameters(self, weights: Weights) -> PyTree:
        """The inverse of `weights_of`, also for gradients."""
        return weights

    def input_of(self, x: PyTree) -> Float[Array, " n_in"]:
        """The vector of an input, which is a tree for a user's step."""
        if jnp.shape(x) != (self.n_in,):
            raise ValueError(
                f"An input of {self.name} must have shape ({self.n_in},), and has {jax.tree.map(jnp.shape, x)}. For "
                "several streams, use jax.vmap."
            )
        return jnp.asarray(x).astype(self.dtype)

    def split_input(self, v: Float[Array, " n_in"]) -> PyTree:
        """The inverse of `input_of`, also for credit."""
        return v

    def credit_of(self, c: PyTree) -> Credit:
        """Credit of the state: for a user's step from a tree like its carry, None for what has none."""
        fits = lambda u, width: u is None or jnp.shape(u) == (width,)
        if not isinstance(c, tuple) or len(c) != len(self.widths) or not all(map(fits, c, self.widths)):
            raise ValueError(
                f"Credit of the state of {self.name} must be a tuple with an array or None for each state variable, of "
                f"lengths {self.widths}, and its shape is {jax.tree.map(jnp.shape, c)}."
            )
        return jax.tree.map(lambda u: jnp.asarray(u).astype(self.dtype), c)

    @property
    def converts(self) -> bool:
        """Whether `applied` computes anything."""
        return False

    def applied(self, weights: Weights) -> Weights:
        """The weights as `forward` and learners take them: those that are trained, unless a cell computes others."""
        return weights

    def applied_with_pull(self, weights: Weights) -> tuple[Weights, Callable[[Weights], Weights]]:
        """`applied`, and what carries gradients of its result back to the weights that are trained."""
        if not self.converts:
            return weights, lambda gradient: gradient
        applied, pull = jax.vjp(self.applied, weights)
        return applied, lambda gradient: pull(gradient)[0]

    def labels(self, weights: Weights) -> PyTree[str]:
        """A name for every array of the weights, by which an optimizer may tell them apart."""
        return jax.tree.map(lambda _: "weights", weights)

    def place(self, path: KeyPath) -> str:
        """How error messages write the path of an array in the tree of the weights."""
        return jax.tree_util.keystr(path)

    def init_state(self) -> State:
        """The state before the first step: zeros, unless a cell says otherwise."""
        return tuple(jnp.zeros(width, self.dtype) for width in self.widths)

    @abc.abstractmethod
    def forward(self, weights: Weights, a: State, x: Float[Array, " n_in"]) -> tuple[State, Any]:
        """One step: the next state, and its trace."""

    def differing(self, trace: Any) -> Any:
        """The part of a trace that may differ from step to step, with None for the rest: what to keep of many steps."""
        return trace

    @abc.abstractmethod
    def push(self, weights: Weights, trace: Any, v: Tangent) -> Tangent:
        """J v."""

    @abc.abstractmethod
    def pull(self, weights: Weights, trace: Any, c: Credit) -> State:
        """c J."""

    @abc.abstractmethod
    def push_input(self, weights: Weights, trace: Any, v: Float[Array, "n_in *k"]) -> Tangent:
        """(∂a/∂x) v, for a vector or for the columns of a matrix."""

    @abc.abstractmethod
    def pull_input(self, weights: Weights, trace: Any, c: Credit) -> Float[Array, " n_in"]:
        """c (∂a/∂x)."""

    @abc.abstractmethod
    def deposit(self, weights: Weights, trace: Any, c: Credit) -> LazyWeights:
        """c Mbar."""

    @abc.abstractmethod
    def no_influence(self, weights: Weights) -> Influence:
        """M = 0."""

    @abc.abstractmethod
    def add_immediate(self, weights: Weights, trace: Any, M: Influence) -> Influence:
        """M + Mbar."""

    @abc.abstractmethod
    def contract(self, weights: Weights, c: Credit, M: Influence) -> Weights:
        """c M."""
