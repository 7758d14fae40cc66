"""Two layers of a plain RNN, each with RFLO of its own; credit goes down through the upper one within the step."""

import jax
import jax.numpy as jnp

from bare.cells import RNN, Sources
from bare.eligibility import filtered, weighed
from bare.loop import Algorithm, silent


class Two:
    """The state is (top, bottom): the readout sees the top. Weights go from the bottom to the top."""

    def __init__(self, alpha):
        self.layer = RNN(alpha)

    def start(self, key, n):
        """Weights of n units in each layer."""
        key_low, key_top, key_inp = jax.random.split(key, 3)
        (low,), (top,) = self.layer.start(key_low, n), self.layer.start(key_top, n)
        return low, top._replace(inp=jax.random.normal(key_inp, (n, n)) / n**0.5)

    def still(self, n):
        """The first state."""
        return jnp.zeros(n), jnp.zeros(n)

    def forward(self, W, a, x):
        """The next state, and the derivatives of each layer."""
        alpha, (low, top) = self.layer.alpha, W
        (bottom,), below = self.layer.forward((low,), (a[1],), x)
        phi = jnp.tanh(top.rec @ a[0] + top.inp @ bottom + top.bias)
        return ((1 - alpha) * a[0] + alpha * phi, bottom), (below.E[0], alpha * (1 - phi * phi))


def rflo(s, B, noise):
    layer = s.cell.layer
    # Weights are read before credit is known, or the compiler would copy them to be able to read them later.
    credit = jax.lax.optimization_barrier(((s.cbar * s.local[1]) @ s.W[1].inp, s.cbar))
    ahat = s.ahat._replace(rec=s.before[1]), Sources(s.before[0], s.a[1], s.ahat.bias)
    of_layer = lambda E, ahat, b: filtered(s._replace(cell=layer, ahat=ahat), (1 - layer.alpha,), (E,), (b,))[0]
    B = tuple(map(of_layer, s.local, ahat, B))
    return s.descend(weighed(credit, B)), B


RFLO = Algorithm(lambda key, cell, W: jax.tree.map(jnp.zeros_like, W), silent, rflo)
