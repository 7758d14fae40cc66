"""Spikes, the surrogates of their derivative, and what cells of spiking units have in common.

A spike is a step function, z = 1 where u > 0, and its derivative is zero almost everywhere. Learning uses a *surrogate*
in its place, γ g(u). Here u is the distance of the membrane potential from the threshold, in units of the threshold. So
J is not the derivative of what the cell computes, and a finite difference does not see it.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra import checks
from recurra.cells.initial import MatrixInit, WithoutSelf
from recurra.cells.unitwise import UnitwiseCell

#: spikes from (u, γ), with a derivative in u of its own
Surrogate = Callable[[Float[Array, " n"], Any], Float[Array, " n"]]


def surrogate(slope: Callable[[Array], Array]) -> Surrogate:
    """A step function of (u, γ) whose derivative in u is γ slope(u). It decorates `slope`."""

    @jax.custom_jvp
    def spike(u: Array, gamma: Any) -> Array:
        return (u > 0).astype(u.dtype)

    @spike.defjvp
    def _(primals: tuple[Array, Any], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
        u, gamma = primals
        return spike(u, gamma), tangents[0] * (gamma * slope(u))

    return functools.wraps(slope)(spike)


@surrogate
def triangular(u: Array) -> Array:
    """max(0, 1 - |u|): e-prop's own (Bellec et al. 2020).

    >>> cell = rc.LIF(n_in=4, n=16, surrogate=rc.cells.triangular)
    >>> float(jax.grad(rc.cells.triangular)(jnp.array(0.5), 1.0))
    0.5
    """
    return jnp.maximum(1 - jnp.abs(u), 0)


@surrogate
def fast_sigmoid(u: Array) -> Array:
    """1 / (1 + 10 |u|)²: that of SuperSpike (Zenke & Ganguli 2018), with the steepness of Zenke & Vogels (2021).

    >>> cell = rc.LIF(n_in=4, n=16, surrogate=rc.cells.fast_sigmoid)
    >>> round(float(jax.grad(rc.cells.fast_sigmoid)(jnp.array(0.1), 1.0)), 3)
    0.25
    """
    return (1 + 10 * jnp.abs(u)) ** -2


@surrogate
def arctan(u: Array) -> Array:
    """1 / (1 + (π u)²) (Fang et al. 2021).

    >>> cell = rc.LIF(n_in=4, n=16, surrogate=rc.cells.arctan)
    >>> round(float(jax.grad(rc.cells.arctan)(jnp.array(1 / jnp.pi), 1.0)), 3)
    0.5
    """
    return 1 / (1 + (jnp.pi * u) ** 2)


class SpikingCell(UnitwiseCell):
    """Settings that `LIF` and `ALIF` share, with the values of Bellec et al. (2020). Time constants are in steps.

    Gates hear the spikes, and the readout sees them filtered. A unit spikes at most once in `refractory` steps, and
    with the default `w_rec` does not hear itself. `dampening` is the height γ of the `surrogate`.
    """

    n_in: int
    n: int
    tau_v: float | Float[Array, ""] = 20.0
    tau_out: float | Float[Array, ""] = 20.0
    threshold: float | Float[Array, ""] = 0.6
    dampening: float | Float[Array, ""] = 0.3
    refractory: int = eqx.field(static=True, default=5)
    surrogate: Surrogate = eqx.field(static=True, default=triangular)
    w_rec: MatrixInit = eqx.field(static=True, default=WithoutSelf())
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    smooth: ClassVar[bool] = False
    gates: ClassVar = ("w",)
    listens: ClassVar = ((True, True, False),)
    first_bias: ClassVar = (0.0,)

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")
        checks.in_range(self, "tau_v", least=0.0)
        checks.in_range(self, "tau_out", least=0.0)
        checks.in_range(self, "threshold", above=0.0)
        checks.in_range(self, "dampening", least=0.0)
        checks.whole(self, "refractory", least=0)
        checks.function(self, "surrogate", "recurra.cells.triangular")

    def decay(self, tau: float | Float[Array, ""]) -> Float[Array, ""]:
        """exp(-1/τ): how much is left after a step."""
        return jnp.exp(-1 / jnp.asarray(tau, self.dtype))

    def spikes(self, excess: Float[Array, " #n"], r: Float[Array, " #n"]) -> Float[Array, " #n"]:
        """Θ(excess), where `excess` is how far v is above the threshold; none while a unit is refractory, r > 0."""
        return jnp.where(r > 0, 0, self.surrogate(excess / self.threshold, self.dampening))

    def resting(self, z: Float[Array, " #n"], r: Float[Array, " #n"]) -> Float[Array, " #n"]:
        """For how many more steps units are refractory."""
        return jax.lax.stop_gradient(jnp.maximum(r + self.refractory * z - 1, 0))
