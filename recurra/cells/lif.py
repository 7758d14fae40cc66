"""Leaky integrate-and-fire units."""

from typing import ClassVar

import jax

from recurra.cells.base import State
from recurra.cells.spiking import SpikingCell


class LIF(SpikingCell):
    """v(t) = α v(t-1) + W ahat - ϑ z(t-1),   z(t) = Θ(v(t) - ϑ),   f(t) = κ f(t-1) + (1 - κ) z(t).

    z are spikes, which gates hear. f is what the readout sees: a running mean, in spikes a step. α and κ are exp(-1/τ)
    with `tau_v` and `tau_out`, in steps, and ϑ is `threshold`. The reset - ϑ z has no derivative, as in e-prop. A unit
    spikes at most once in `refractory` steps. Learning uses `surrogate` for the derivative of a spike, of height
    `dampening`. `RFLO` on this cell is e-prop (Bellec et al. 2020).

    >>> cell = rc.LIF(n_in=4, n=16, tau_v=10.0)
    >>> cell.widths, cell.shown_width
    ((16, 16, 16, 16), 16)
    """

    states: ClassVar[int] = 4
    variables: ClassVar = ("z", "v", "f", "r")
    shown: ClassVar = (2,)

    def unit(self, a: State, z: State) -> State:
        spiked, v, f, r = a
        kappa = self.decay(self.tau_out)
        v = self.decay(self.tau_v) * v + z[0] - self.threshold * jax.lax.stop_gradient(spiked)
        spikes = self.spikes(v - self.threshold, r)
        return spikes, v, kappa * f + (1 - kappa) * spikes, self.resting(spikes, r)
