"""Recurrent trace units with exact RTRL.

    h(t) = λ h(t-1) + γ (w_1 + i w_2) x,   |λ| = exp(-exp(ν)), its phase exp(ω),   γ = √(1 - |λ|²)

The readout sees relu of both parts of h. The influence of w_2 is i times that of w_1, so it is not kept. Weights and
influences of inputs are kept as (input, unit): a loop over two inputs would be slow.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bare.cells import N_IN
from bare.loop import Algorithm, silent
from bare.streams import few_terms


class Weights(NamedTuple):
    """The weights, or something for each of them."""

    w_1: Any
    w_2: Any
    nu: Any
    omega: Any


class Turning(NamedTuple):
    """The weights, with what follows from them: λ, γ, exp(ν) and exp(ω).

    If these were computed where they are used, the compiler would do it again in every loop that uses them.
    """

    weights: Weights
    cos: jax.Array
    sin: jax.Array
    gamma: jax.Array
    speed: jax.Array
    theta: jax.Array


def turning(weights):
    """Weights, with what follows from them."""
    speed, theta = jnp.exp(weights.nu), jnp.exp(weights.omega)
    r, gamma = jnp.exp(-speed), jnp.sqrt(-jnp.expm1(-2 * speed))
    return Turning(weights, r * jnp.cos(theta), r * jnp.sin(theta), gamma, speed, theta)


class RTU:
    """The state is (relu(h), Re h, Im h)."""

    def start(self, key, n):
        """Weights of n units."""
        keys = jax.random.split(key, 4)
        draw = lambda key: jax.random.normal(key, (N_IN, n)) / N_IN**0.5
        r, theta = (jax.random.uniform(key, n, minval=0.01, maxval=0.99) for key in keys[2:])
        return turning(Weights(draw(keys[0]), draw(keys[1]), jnp.log(-jnp.log(r) / 2), jnp.log(6.28 * theta)))

    def still(self, n):
        """The first state."""
        return jnp.zeros(2 * n), jnp.zeros(n), jnp.zeros(n)

    def forward(self, W, a, x):
        """The next state, λ h(t-1), and what the inputs drive."""
        old, new = turned(W, a[1:]), (few_terms(x, W.weights.w_1), few_terms(x, W.weights.w_2))
        h = tuple(o + W.gamma * u for o, u in zip(old, new, strict=True))
        return (jnp.concatenate([jax.nn.relu(part) for part in h]), *h), (old, new)


def turned(W, h):
    """λ h."""
    re, im = h
    return W.cos * re - W.sin * im, W.cos * im + W.sin * re


def rtrl(s, M, noise):
    W, (old, new), (_, re, im) = s.W, s.local, s.a
    of_w, of_nu, of_omega = (turned(W, m) for m in M)
    slope = W.speed * jnp.exp(-2 * W.speed) / W.gamma  # dγ/dν
    of_w = of_w[0] + W.gamma * s.ahat.inp[:, None], of_w[1]
    of_nu = tuple(m - W.speed * o + slope * u for m, o, u in zip(of_nu, old, new, strict=True))
    of_omega = of_omega[0] - W.theta * old[1], of_omega[1] + W.theta * old[0]
    shown = jnp.split(s.cbar, 2)
    p, q = jnp.where(re > 0, shown[0], 0), jnp.where(im > 0, shown[1], 0)
    along = lambda m: p * m[0] + q * m[1]
    gradient = Weights(along(of_w), q * of_w[0] - p * of_w[1], along(of_nu), along(of_omega))
    return turning(s._replace(W=W.weights).descend(gradient)), (of_w, of_nu, of_omega)


def rtrl_start(key, cell, W):
    nothing = lambda w: (jnp.zeros_like(w),) * 2
    return nothing(W.weights.w_1), nothing(W.weights.nu), nothing(W.weights.omega)


RTRL = Algorithm(rtrl_start, silent, rtrl)
