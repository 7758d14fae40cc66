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


def asks_to_stop_after(steps, number=signal.SIGINT):
    """A progress report that presses Ctrl-C once, at that many steps, or sends another signal."""
    pressed = []

    def report(done):
        if done >= steps and not pressed:
            pressed.append(done)
            os.kill(os.getpid(), number)

    return report
