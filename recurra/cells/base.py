"""What a network is: a transition a(t-1), x(t) -> a(t) and products with its two derivatives.

A state is a tuple of vectors; the readout sees the first. A cell's `forward` also returns a *trace*: what must be kept
of a step to linearize it later. Given the weights and a trace, the derivatives are met only through products:

    push      J v       a tangent of a(t-1) to one of a(t)
    pull      c J       credit of a(t) to credit of a(t-1)
    deposit   c Mbar    credit of a(t) to a gradient for the weights applied at t

Learners that ask for more than these need a `UnitwiseCell`.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

State = tuple[Float[Array, " _"], ...]
#: a vector for each state variable, or a matrix whose columns are pushed together
Tangent = tuple[Float[Array, "_ ..."], ...]
Credit = tuple[Float[Array, " _"] | None, ...]
#: M, as matrices whose rows are all state variables and whose columns are weights
Influence = tuple[Float[Array, "S _"], ...]
Weights = PyTree[Array]


class Cell(eqx.Module):
    """A recurrent transition whose weights live outside it, so that the same cell serves every seed."""

    n_in: eqx.AbstractVar[int]
    dtype: eqx.AbstractVar[jnp.dtype]

    @property
    @abc.abstractmethod
    def widths(self) -> tuple[int, ...]:
        """The length of each state variable; the readout sees the first."""

    def split(self, array: Float[Array, "..."], axis: int = 0) -> Tangent:
        """An array whose axis runs over all state variables, cut into one array for each."""
        edges = [sum(self.widths[: p + 1]) for p in range(len(self.widths) - 1)]
        return tuple(jnp.split(array, edges, axis=axis))

    def dense(self, c: Credit) -> State:
        """Credit with zeros where nothing is handed to a state variable."""
        return tuple(jnp.zeros(width, self.dtype) if u is None else u for u, width in zip(c, self.widths, strict=True))

    def no_traces(self, weights: Weights, length: int) -> PyTree[Array]:
        """Room for the traces of so many steps, leading axis time."""
        _, trace = jax.eval_shape(self.forward, weights, self.init_state(), jnp.zeros(self.n_in, self.dtype))
        return jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), trace)

    @abc.abstractmethod
    def init_weights(self, key: PRNGKeyArray) -> Weights: ...

    def init_state(self) -> State:
        return tuple(jnp.zeros(width, self.dtype) for width in self.widths)

    @abc.abstractmethod
    def forward(self, weights: Weights, a: State, x: Float[Array, " n_in"]) -> tuple[State, Any]:
        """One step: the next state, and its trace."""

    def passing(self, trace: Any) -> Any:
        """The part of a trace, or of many, that may differ from step to step, with None for the rest."""
        return trace

    @abc.abstractmethod
    def push(self, weights: Weights, trace: Any, v: Tangent) -> Tangent:
        """J v."""

    @abc.abstractmethod
    def pull(self, weights: Weights, trace: Any, c: Credit) -> State:
        """c J."""

    @abc.abstractmethod
    def deposit(self, weights: Weights, trace: Any, c: Credit) -> Weights:
        """c Mbar."""

    @abc.abstractmethod
    def deposit_norm(self, weights: Weights, trace: Any, c: Credit) -> Float[Array, ""]:
        """‖c Mbar‖."""

    @abc.abstractmethod
    def deposit_all(self, weights: Weights, traces: Any, c: PyTree[Array]) -> Weights:
        """Σ c Mbar over steps, the leading axis of traces and credit."""

    @abc.abstractmethod
    def init_influence(self, weights: Weights) -> Influence:
        """M = 0, in the layout that `advance_influence` keeps."""

    @abc.abstractmethod
    def advance_influence(self, weights: Weights, trace: Any, M: Influence) -> Influence:
        """J M + Mbar."""

    @abc.abstractmethod
    def unravel(self, weights: Weights, row: tuple[Float[Array, " _"], ...]) -> Weights:
        """A row of each matrix of M, together a gradient for the weights."""
