"""What a matrix must offer that has weights at some places only: see `recurra.linalg.patterned`."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


class Places(abc.ABC):
    """Where a matrix has weights."""

    @abc.abstractmethod
    def sampled(self, u: Float[Array, "*terms n"], v: Float[Array, "*terms m"]) -> "Patterned":
        """Σ u vᵀ over all leading axes, at these places."""


class Patterned(eqx.Module):
    """A matrix with weights at some places. A subclass has one array, and sums and multiples act on it."""

    @property
    @abc.abstractmethod
    def places(self) -> Places:
        """Where it has weights."""

    @abc.abstractmethod
    def matvec(self, v: Float[Array, "m *k"]) -> Float[Array, "n *k"]:
        """W v, for a vector or for the columns of a matrix."""

    @abc.abstractmethod
    def vecmat(self, c: Float[Array, " n"]) -> Float[Array, " m"]:
        """c W."""

    @abc.abstractmethod
    def scaled(self, d: Float[Array, " #n"]) -> "Patterned":
        """diag(d) W."""

    @abc.abstractmethod
    def own(self) -> Float[Array, " n"]:
        """The diagonal: the weight of each unit on itself, zero where it has none."""

    @abc.abstractmethod
    def full(self) -> Float[Array, "n m"]:
        """The same as a plain array."""

    @abc.abstractmethod
    def squared(self) -> "Patterned":
        """Every weight squared."""

    @abc.abstractmethod
    def cleared(self) -> "Patterned":
        """The same without what a change of its array may have put outside its places."""

    @abc.abstractmethod
    def __add__(self, other: Any) -> Any: ...
