"""Adaptive leaky integrate-and-fire units with e-prop, which is RFLO.

    v = α v + W ahat - ϑ z,   z = Θ(v - ϑ - β b),   b = ρ b + z,   f = κ f + (1 - κ) z

The influence of a weight on v is the same for all units that hear a source, so it is a vector over sources.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bare.cells import N_IN
from bare.loop import Algorithm, silent
from bare.streams import few_terms

THRESHOLD, DAMPENING, REFRACTORY = 0.6, 0.3, 5
TAU_V, TAU_A, TAU_OUT = 20.0, 2000.0, 20.0


class Heard(NamedTuple):
    """Something for the spikes and the inputs that units hear."""

    rec: Any
    inp: Any


class ALIF:
    """The state is (f, z, v, b, steps that a unit still rests). Time constants are arguments, like α of an RNN."""

    def __init__(self, taus):
        self.alpha, self.rho, self.kappa = (jnp.exp(-1 / tau) for tau in taus)
        self.beta = 1.7 * (1 - self.rho) / (1 - self.alpha)

    def start(self, key, n):
        """Weights of n units, none of which hears itself."""
        key_rec, key_inp = jax.random.split(key)
        rec, inp = jax.random.normal(key_rec, (n, n)) / n**0.5, jax.random.normal(key_inp, (n, N_IN)) / N_IN**0.5
        return Heard(hollow(rec), inp)

    def still(self, n):
        """The first state."""
        return (jnp.zeros(n),) * 5

    def forward(self, W, a, x):
        """The next state, and the surrogate of its spikes' derivative."""
        f, z, v, b, rest = a
        v = self.alpha * v + W.rec @ z + few_terms(x, W.inp.T) - THRESHOLD * z
        u = (v - THRESHOLD - self.beta * b) / THRESHOLD
        z = jnp.where((u > 0) & (rest <= 0), 1, jnp.zeros_like(u))
        psi = jnp.where(rest > 0, 0, DAMPENING * jnp.maximum(1 - jnp.abs(u), 0) / THRESHOLD)
        rest = jnp.maximum(rest + REFRACTORY * z - 1, 0)
        return (self.kappa * f + (1 - self.kappa) * z, z, v, self.rho * b + z, rest), psi


def hollow(matrix):
    """Without its diagonal."""
    return jnp.where(jnp.eye(len(matrix), dtype=bool), 0, matrix)


def e_prop(s, state, noise):
    of_v, of_b, of_f = state
    cell, psi = s.cell, s.local[:, None]
    of_v = jax.tree.map(lambda e, u: cell.alpha * e + u, of_v, Heard(s.before[1], s.ahat.inp))
    of_z = jax.tree.map(lambda v, b: psi * (v - cell.beta * b), of_v, of_b)
    of_z = of_z._replace(rec=hollow(of_z.rec))
    of_b = jax.tree.map(lambda b, z: cell.rho * b + z, of_b, of_z)
    of_f = jax.tree.map(lambda f, z: cell.kappa * f + (1 - cell.kappa) * z, of_f, of_z)
    return s.descend(jax.tree.map(lambda f: s.cbar[:, None] * f, of_f)), (of_v, of_b, of_f)


def e_prop_start(key, cell, W):
    nothing = jax.tree.map(jnp.zeros_like, W)
    return jax.tree.map(lambda w: w[0], nothing), nothing, nothing


E_PROP = Algorithm(e_prop_start, silent, e_prop)
