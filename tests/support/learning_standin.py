"""A small model in the place of the real ones: linear, with normalised steps, in float64 NumPy.

`python learning_standin.py learn ...` is the `recurra` program with it. It has what `recurra learn` needs of a model,
and nothing in common with the library's own: what is tested with it is the command.
"""

import os
import signal
import sys
import time

import numpy as np


class Diverged(ArithmeticError):
    pass


class Standin:
    """Forecasts y[t+h] linearly from x[t], h the horizon. It diverges at an input of 666.25, and rejects 777.25."""

    def __init__(self, n_in, horizon):
        self.n_in, self.horizon, self.rows = n_in, horizon, 0
        self.weights = np.zeros(n_in + 1)
        self.queue = np.zeros((horizon, n_in + 1))
        self.waiting = 0

    def learn_many(self, X, Y=None):
        X = np.asarray(X, float)
        assert X.shape == (len(X), self.n_in)
        assert np.isfinite(X).all()
        if (X == 777.25).any():
            raise ValueError("777.25 is not liked here")
        if (X == 666.25).any():
            raise Diverged("The model diverged: try another one.")
        labels = np.ma.masked_all((len(X), 1)) if Y is None else np.ma.asarray(Y)
        missing = np.ma.getmaskarray(labels)[:, 0]
        return np.array(
            [
                [self._one(x, None if gone else float(y))]
                for x, y, gone in zip(X, labels.data[:, 0], missing, strict=True)
            ]
        )

    def _one(self, x, y):
        x = np.append(x, 1.0)
        self.rows += 1
        if not self.horizon:
            forecast = float(self.weights @ x)
            self._learn(x, y)
            return forecast
        if self.waiting == self.horizon:
            self._learn(self.queue[0], y)
        self.queue = np.concatenate([self.queue[1:], x[None]])
        self.waiting = min(self.waiting + 1, self.horizon)
        return float(self.weights @ x)

    def _learn(self, x, y):
        if y is not None:
            self.weights = self.weights + 0.2 * (y - self.weights @ x) * x / (1.0 + x @ x)

    def state_arrays(self):
        return {"weights": self.weights, "queue": self.queue, "counts": np.array([self.rows, self.waiting])}

    def description(self):
        return {"n_in": self.n_in, "horizon": self.horizon}

    @staticmethod
    def from_saved(description, arrays):
        model = Standin(**description)
        model.weights, model.queue = arrays["weights"].copy(), arrays["queue"].copy()
        model.rows, model.waiting = map(int, arrays["counts"])
        return model

    def shares(self):
        share = 1 / (1 + self.rows / 1000)
        return {"first": share, "second": 1 - share}

    def notes(self):
        return ["The second member is better."] if self.rows >= 300 else []


def put_in(set_attribute):
    """Put it in the place of the models, by `setattr` or a test's own."""
    from recurra.cli.learning import session

    set_attribute(session, "build_model", lambda options, n_in: Standin(n_in, options.horizon))
    set_attribute(session, "restore_model", lambda _, description, arrays: Standin.from_saved(description, arrays))
    set_attribute(session, "divergence", lambda: Diverged)


def slow_down(seconds):
    """Take so long for each batch, so that a run can be killed in the middle."""
    learn_many = Standin.learn_many

    def slowly(self, X, Y=None):
        time.sleep(seconds)
        return learn_many(self, X, Y)

    Standin.learn_many = slowly


def die_at(number):
    """Kill this process at its so many-th call that changes the disk, half of a write done."""
    calls = iter(range(1, number + 1))

    def deadly(function):
        def call(*arguments, **named):
            if next(calls) == number:
                if function.__name__ == "write":
                    function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return call

    for name in ("fsync", "replace", "write", "ftruncate"):
        setattr(os, name, deadly(getattr(os, name)))


if __name__ == "__main__":
    from recurra.cli import main

    put_in(setattr)
    if "DIE_AT" in os.environ:
        die_at(int(os.environ["DIE_AT"]))
    if "SLOWLY" in os.environ:
        slow_down(float(os.environ["SLOWLY"]))
    sys.exit(main())
