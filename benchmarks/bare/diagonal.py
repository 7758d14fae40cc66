"""SnAp-1 and pp_prop of a plain RNN: what a weight does to its own unit, as a matrix or as two vectors."""

import jax
import jax.numpy as jnp

from bare.cells import RNN, Sources
from bare.eligibility import filtered, weighed
from bare.loop import Algorithm, silent

DECAY = 0.9


class Leaky(RNN):
    """The RNN, with its first state."""

    def still(self, n):
        return (jnp.zeros(n),)


# SnAp-1: M ≈ B[i, j], the influence of a weight on its own unit, with the weight of the unit on itself.


def snap_1(s, B, noise):
    keep = 1 - s.cell.alpha + s.local.E[0] * jnp.diagonal(s.W[0].rec)
    B = filtered(s, (keep,), s.local.E, B)
    return s.descend(weighed((s.cbar,), B)), B


SNAP_1 = Algorithm(lambda key, cell, W: jax.tree.map(jnp.zeros_like, W), silent, snap_1)


# pp_prop: M ≈ F[i] X[j] / share, what was heard and what was driven, each filtered by itself.


def pp_prop(s, state, noise):
    rec, inp, F, share = state
    rec, inp = DECAY * rec + s.ahat.rec, DECAY * inp + s.ahat.inp
    F = DECAY * (1 - s.cell.alpha) * F + (1 - DECAY) * s.local.E[0]
    share = DECAY * share + 1 - DECAY
    return s.descend_along((s.cbar * F / share,), Sources(rec, inp, s.ahat.bias)), (rec, inp, F, share)


def pp_prop_start(key, cell, W):
    return tuple(map(jnp.zeros, (len(W[0].bias), W[0].inp.shape[1], len(W[0].bias), ())))


PP_PROP = Algorithm(pp_prop_start, silent, pp_prop)
