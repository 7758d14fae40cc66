"""The algorithms that face the future: c(t) = cbar(t) + c(t+1) J(t+1), gradient = c Mbar; and no algorithm at all."""

import math
from collections import deque
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from textbook.loop import N_OUT, Learner

HORIZON = 10
SYNTHESIS_RATE, JACOBIAN_RATE, INTERVAL = 1e-3, 1e-3, 5


class Moment(NamedTuple):
    """What a step leaves for later: D, ahat and the credit that has reached it."""

    D: np.ndarray
    ahat: np.ndarray
    credit: np.ndarray


class EBPTT(Learner):
    """Every T steps, the gradient of the last T losses."""

    def __init__(self, net, rng):
        self.past = []

    def gradient(self, s, noise):
        self.past.append(Moment(s.D, s.ahat, s.cbar))
        if len(self.past) < HORIZON:
            return None
        c, through_z = np.zeros_like(s.a), []
        for moment in reversed(self.past):
            c = c + moment.credit
            through_z.append(c * moment.D)
            c = s.pull(moment.D, c)
        ahats = [moment.ahat for moment in reversed(self.past)]
        self.past.clear()
        return np.array(through_z).T @ np.array(ahats)


class FBPTT(Learner):
    """At step t, the gradient of the losses t-T..t in the weights applied at t-T."""

    def __init__(self, net, rng):
        self.past = deque(maxlen=HORIZON + 1)

    def gradient(self, s, noise):
        c = s.cbar
        self.past.append(Moment(s.D, s.ahat, c.copy()))
        for later, earlier in pairwise(reversed(self.past)):
            c = s.pull(later.D, c)
            earlier.credit[:] += c
        if s.t < HORIZON:
            return None
        oldest = self.past[0]
        return np.outer(oldest.credit * oldest.D, oldest.ahat)


class Synthesizer:
    """c ≈ A ã with ã = (a, y*, 1); the target for the previous step is bootstrapped from an older copy A*."""

    def __init__(self, net, rng):
        n, dtype = len(net.a), net.W.dtype
        self.A = (rng.normal(size=(n, n + N_OUT + 1)) / math.sqrt(n)).astype(dtype)
        self.A_star = self.A.copy()
        self.label, self.cbar = np.zeros(N_OUT, dtype), np.zeros(n, dtype)
        self.one = np.ones(1, dtype)

    def tilde(self, a, label):
        return np.concatenate([a, label, self.one])

    def fit(self, s, target, cbar):
        """A one step nearer to the target for the previous step, and A* renewed every few steps."""
        before = self.tilde(s.before, self.label if s.t > 0 else s.label)
        self.A -= SYNTHESIS_RATE * np.outer(self.A @ before - target, before)
        if (s.t + 1) % INTERVAL == 0:
            self.A_star = self.A.copy()
        self.label, self.cbar = s.label, cbar


class DNI(Learner):
    """The target is cbar(t-1) + (A* ã(t)) J(t)."""

    def __init__(self, net, rng):
        self.synthesizer = Synthesizer(net, rng)

    def gradient(self, s, noise):
        synthesizer, now = self.synthesizer, self.synthesizer.tilde(s.a, s.label)
        target = synthesizer.cbar + s.pull(s.D, synthesizer.A_star @ now)
        synthesizer.fit(s, target, s.cbar)
        return np.outer((synthesizer.A @ now) * s.D, s.ahat)


class DNIb(Learner):
    """The target is cbar(t-1) + tanh(A* ã(t)) J: J learned by the perceptron rule, cbar from random feedback."""

    def __init__(self, net, rng):
        n = len(net.a)
        self.synthesizer = Synthesizer(net, rng)
        self.J = net.W[:, :n].copy()
        self.W_fb = (rng.normal(size=(N_OUT, n)) / math.sqrt(N_OUT)).astype(net.W.dtype)

    def gradient(self, s, noise):
        synthesizer, now = self.synthesizer, self.synthesizer.tilde(s.a, s.label)
        self.J -= JACOBIAN_RATE * np.outer(self.J @ s.before - s.a, s.before)
        target = synthesizer.cbar + np.tanh(synthesizer.A_star @ now) @ self.J
        synthesizer.fit(s, target, s.error @ self.W_fb)
        return np.outer((synthesizer.A @ now) * s.D, s.ahat)


class Fixed(Learner):
    """Only the readout learns."""

    def gradient(self, s, noise):
        return None
