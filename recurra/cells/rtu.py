"""Recurrent trace units (Elelimy et al. 2024): rotations that shrink, with a nonlinearity after them or inside."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import State
from recurra.cells.lru import FEW_DIGITS, ring, rotation
from recurra.cells.unitwise import UnitwiseCell


class TraceUnits(UnitwiseCell):
    """What both kinds share: the rotation and how it starts, with r² ~ U(0, 1) and θ ~ U(0, 6.28)."""

    n_in: eqx.AbstractVar[int]
    n: eqx.AbstractVar[int]
    phi: eqx.AbstractVar[Callable[[Array], Array]]
    dtype: eqx.AbstractVar[jnp.dtype]

    w_rec: ClassVar[Any] = None
    gates: ClassVar = ("w_1", "w_2", "nu", "omega")
    listens: ClassVar = ((False, True, False),) * 2 + ((False, False, True),) * 2
    first_bias: ClassVar = (0.0,) * 4

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")
        checks.function(self, "phi", "jax.nn.relu")
        checks.warn_if_half(self.name, self.dtype, FEW_DIGITS)

    @abc.abstractmethod
    def unit(self, a: State, z: State) -> State: ...

    def rotated(self, h_1: Float[Array, " n"], h_2: Float[Array, " n"], z: State) -> State:
        """λ h + γ w x for h = (h_1, h_2), with |λ| = r = exp(-exp(ν)), its phase θ = exp(ω), and γ = √(1 - r²)."""
        x_1, x_2, nu, omega = z
        c, s = rotation(nu, omega)
        gamma = jnp.sqrt(-jnp.expm1(-2 * jnp.exp(nu)))
        return c * h_1 - s * h_2 + gamma * x_1, c * h_2 + s * h_1 + gamma * x_2

    def biases(self, key: PRNGKeyArray) -> tuple[Float[Array, " #n"], ...]:
        none = jnp.zeros(1, self.dtype)
        return none, none, *ring(key, self.n, self.dtype, 0.0, 1.0, 6.28)


class RTU(TraceUnits):
    """h(t) = λ h(t-1) + γ w x(t), and the readout sees φ(h): the recurrence is linear.

    A unit holds h as two numbers, and φ of both as two more. λ is a rotation that shrinks, of length exp(-exp(ν)) and
    phase exp(ω), and γ = √(1 - |λ|²).

    >>> rc.RTU(n_in=2, n=16).shown_width
    32
    """

    n_in: int
    n: int
    phi: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.relu)
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    states: ClassVar[int] = 4
    variables: ClassVar = ("h_1", "h_2", "phi_1", "phi_2")
    shown: ClassVar = (2, 3)

    def unit(self, a: State, z: State) -> State:
        h = self.rotated(a[0], a[1], z)
        return *h, *map(self.phi, h)


class NonlinearRTU(TraceUnits):
    """h(t) = φ(λ h(t-1) + γ w x(t)): what φ returns recurs. The readout sees both parts of h.

    >>> rc.NonlinearRTU(n_in=2, n=16, phi=jnp.tanh).shown_width
    32
    """

    n_in: int
    n: int
    phi: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.relu)
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    states: ClassVar[int] = 2
    variables: ClassVar = ("h_1", "h_2")
    shown: ClassVar = (0, 1)

    def unit(self, a: State, z: State) -> State:
        return tuple(map(self.phi, self.rotated(a[0], a[1], z)))
