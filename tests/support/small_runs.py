"""A small network on a small task, trained for a few steps."""

import os
import signal

import numpy as np

import recurra as rc


def network(n=4, **kwargs):
    return rc.Network(rc.RNN(2, n, **kwargs), 2)


def train(learner=None, task=None, net=None, **kwargs):
    settings = {"steps": 60, "seeds": 2, "progress": False, "optimizer": 0.01, **kwargs}
    return rc.train(net or network(), learner or rc.RFLO(), task or rc.Add(1, 2), **settings)


def arrays(rows=80, sequences=None, **kwargs):
    """Random inputs and labels that are distributions."""
    rng = np.random.default_rng(0)
    shape = (rows, 2) if sequences is None else (sequences, rows, 2)
    labels = rng.random(shape)
    return rc.Arrays(rng.normal(size=shape), labels / labels.sum(-1, keepdims=True), **kwargs)


def series(steps, seed=0):
    """Random inputs, and a number that depends on all of them so far."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(steps, 2))
    return x, np.tanh(np.cumsum(x, axis=0)[:, :1] / 4)


def regression(cell=rc.RNN, **kwargs):
    """A network for such a series."""
    return rc.Network(cell(2, 4), 1, rc.SquaredError(), **kwargs)


def asks_to_stop_after(steps, number=signal.SIGINT):
    """A progress report that presses Ctrl-C once, at that many steps, or sends another signal."""
    pressed = []

    def report(done):
        if done >= steps and not pressed:
            pressed.append(done)
            os.kill(os.getpid(), number)

    return report
