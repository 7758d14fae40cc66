"""One network, one Python loop, plain NumPy: what a course or a lab would write, and what the library is compared with.

    ahat = (a(t-1), x(t), 1)        a(t) = (1 - α) a(t-1) + α tanh(W ahat)        D = α tanh'(W ahat)

W is one matrix (n, m), m = n + n_in + 1, as the algebra has it. An algorithm is a class that remembers what it must and
answers every step with a gradient for W. Random numbers are drawn for a whole call at once. Nothing is done to make it
slow, and nothing that would make it hard to read.
"""

import math
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np

N_IN, N_OUT, RATE = 2, 2, 1e-4
#: lags of the Add task
T1, T2 = 6, 10


@dataclass
class Network:
    """The weights and the state, which training changes in place; their dtype is the dtype of everything else."""

    W: np.ndarray  # (n, m)
    W_out: np.ndarray  # (n_out, n)
    b_out: np.ndarray
    a: np.ndarray
    alpha: float = 1.0

    @classmethod
    def random(cls, n, rng, dtype="float32"):
        """Orthogonal recurrent weights, normal input and readout weights."""
        orthogonal, _ = np.linalg.qr(rng.normal(size=(n, n)))
        w_in = rng.normal(size=(n, N_IN)) / math.sqrt(N_IN)
        W = np.column_stack([orthogonal, w_in, np.zeros(n)])
        W_out = rng.normal(size=(N_OUT, n)) / math.sqrt(n)
        return cls(W.astype(dtype), W_out.astype(dtype), np.zeros(N_OUT, dtype), np.zeros(n, dtype))


class Step(NamedTuple):
    """One step as an algorithm sees it: c is credit, dL/da, and cbar its part that comes from this step's loss."""

    t: int
    W: np.ndarray
    alpha: float
    before: np.ndarray
    a: np.ndarray
    ahat: np.ndarray
    D: np.ndarray
    label: np.ndarray
    error: np.ndarray
    cbar: np.ndarray

    @property
    def W_rec(self):
        return self.W[:, : len(self.W)]

    def push(self, V):
        """J V, for a vector or the columns of a matrix."""
        return (1 - self.alpha) * V + (self.D * (self.W_rec @ V).T).T

    def pull(self, D, c):
        """c J, where J has the present weights and the D of some step."""
        return (1 - self.alpha) * c + (c * D) @ self.W_rec


class Learner:
    """An algorithm: made for a network, it answers each step with a gradient for W, or with None to leave W alone."""

    def __init__(self, net, rng):
        """Most algorithms begin with zeros or random numbers in the network's shape and dtype."""

    def draw(self, rng, steps):
        """The random numbers of the next steps, one row each; most algorithms need none."""
        return repeat(None, steps)

    def gradient(self, s, noise):
        raise NotImplementedError


class Add:
    """A fair coin x(t) is shown, and y(t) = 0.5 + 0.5 x(t-6) - 0.25 x(t-10) is wanted; either as (v, 1 - v).

    With `streams` as many coins are thrown at every step.
    """

    def __init__(self, *streams):
        self.past = np.zeros((T2, *streams))

    def draw(self, rng, steps, dtype="float32"):
        """Inputs and labels of the next steps, (step, stream, unit)."""
        x = rng.integers(0, 2, (steps, *self.past.shape[1:])).astype(float)
        coins = np.concatenate([self.past, x])
        y = 0.5 + 0.5 * coins[T2 - T1 : T2 - T1 + steps] - 0.25 * coins[:steps]
        self.past = coins[steps:]
        show = lambda v: np.stack([v, 1 - v], axis=-1).astype(dtype)
        return show(x), show(y)


def train(net, learner, inputs, labels, noise, first=0):
    """Take one step for each row and return the loss of each; plain gradient descent on W and on the readout."""
    alpha, losses = net.alpha, np.empty(len(inputs), net.W.dtype)
    one = np.ones(1, net.W.dtype)
    for i, (x, label, nu) in enumerate(zip(inputs, labels, noise, strict=True)):
        before, ahat = net.a, np.concatenate([net.a, x, one])
        phi = np.tanh(net.W @ ahat)
        a = (1 - alpha) * before + alpha * phi
        z = net.W_out @ a + net.b_out
        e = np.exp(z - z.max())
        y = e / e.sum()
        losses[i] = -label @ np.log(y)

        error = y - label
        D, cbar = alpha * (1 - phi**2), error @ net.W_out
        gradient = learner.gradient(Step(first + i, net.W, alpha, before, a, ahat, D, label, error, cbar), nu)
        if gradient is not None:
            net.W -= RATE * gradient
        net.W_out -= RATE * np.outer(error, a)
        net.b_out -= RATE * error
        net.a = a
    return losses


def signs(rng, shape, dtype):
    """±1, each as likely."""
    return (2 * rng.integers(0, 2, shape) - 1).astype(dtype)
