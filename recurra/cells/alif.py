"""Leaky integrate-and-fire units whose threshold adapts."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from recurra import checks
from recurra.cells.base import State
from recurra.cells.spiking import SpikingCell


def _as_array(beta: Any) -> Any:
    """Several numbers as an array of the type that files keep; one number, or None, as it is."""
    return beta if np.ndim(beta) == 0 else jnp.asarray(beta)


class ALIF(SpikingCell):
    """A `LIF` whose threshold rises with every spike: z(t) = Θ(v(t) - ϑ - β b(t-1)),   b(t) = ρ b(t-1) + z(t).

    ρ is exp(-1/τ) with `tau_a`. `beta` is a number, or one for each unit: those with 0 do not adapt. None stands for
    1.7 (1 - ρ) / (1 - α). Another number of them is a ValueError. `RFLO` on this cell is e-prop (Bellec et al. 2020).

    >>> cell = rc.ALIF(n_in=4, n=4, beta=[0.0, 0.0, 1.7, 1.7])  # half of the units adapt
    >>> cell.beta.shape
    (4,)
    """

    tau_a: float | Float[Array, ""] = 2000.0
    beta: float | Float[Array, "*#n"] | None = eqx.field(default=None, converter=_as_array)

    states: ClassVar[int] = 5
    variables: ClassVar = ("z", "v", "b", "f", "r")
    shown: ClassVar = (3,)

    def __check_init__(self) -> None:
        checks.in_range(self, "tau_a", least=0.0)
        if self.beta is None:
            return
        if (shape := np.shape(self.beta)) == ():
            checks.in_range(self, "beta", least=0.0)
        elif shape != (self.n,):
            raise ValueError(f"`beta` of {self.name} must be a number, or {self.n} of them, and has shape {shape}.")

    def unit(self, a: State, z: State) -> State:
        # The papers write b(t) = ρ b(t-1) + z(t-1). This b is theirs of the next step. Units then do not read z again,
        # and learners need no trace of it.
        spiked, v, b, f, r = a
        alpha, rho, kappa = (self.decay(tau) for tau in (self.tau_v, self.tau_a, self.tau_out))
        beta = 1.7 * (1 - rho) / (1 - alpha) if self.beta is None else jnp.asarray(self.beta, self.dtype)
        v = alpha * v + z[0] - self.threshold * jax.lax.stop_gradient(spiked)
        spikes = self.spikes(v - self.threshold - beta * b, r)
        return spikes, v, rho * b + spikes, kappa * f + (1 - kappa) * spikes, self.resting(spikes, r)
