"""Small models that learn from a stream, streams for them, and what tells whether two of them are the same."""

import itertools
import math

import numpy as np

import recurra as rc
from recurra.step import LearningStep

CELLS = {"rnn": rc.RNN, "gru": rc.GRU, "lstm": rc.LSTM}


def learning_step(
    learner=None, cell="rnn", n=3, n_in=2, n_out=1, streams=1, optimizer=0.01, readout=None, skip=False, dtype="float32"
):
    """A step of learning for squared errors, in which labels may be missing. UORO takes random numbers at each step."""
    network = rc.Network(CELLS[cell](n_in, n, dtype=dtype), n_out, rc.SquaredError(), skip=skip)
    return LearningStep(network, learner or rc.UORO(), optimizer, streams=streams, readout=readout)


def plain_step(horizon=0, **kwargs):
    """Rows and labels go into the network as they are."""
    return rc.OnlineStep(learning_step(**kwargs), horizon, scale_inputs=False, scale_target=False)


def full_step(horizon=1, lags=3, n_in=2, n_out=1, warmup=5, difference=True, **kwargs):
    """Everything at once: scaled inputs and targets, lags, differences, and least squares with direct connections."""
    kwargs = {"readout": rc.RLS(0.999), "skip": True, "optimizer": rc.Adam(1e-2, clip=1.0), **kwargs}
    wide = n_in + (lags - 1) * n_out
    return rc.OnlineStep(
        learning_step(n_in=wide, n_out=n_out, **kwargs), horizon, lags, n_out, difference=difference, warmup=warmup
    )


def stream(rows, n_in=2, n_out=1, streams=1, seed=0, missing=0.0):
    """A target that follows from the inputs of this row and the one before, with noise; some labels are masked."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, streams, n_in))
    before = np.concatenate([X[:1], X[:-1]])
    Y = np.tanh(X @ rng.normal(size=(n_in, n_out))) + before @ rng.normal(size=(n_in, n_out))
    Y = Y + 0.1 * rng.normal(size=Y.shape)
    mask = np.repeat(rng.random((rows, streams, 1)) < missing, n_out, axis=-1)
    Y = np.ma.array(Y, mask=mask) if missing else Y
    return (X[:, 0], Y[:, 0]) if streams == 1 else (X, Y)


def one_by_one(model, X, Y):
    """The predictions of `learn_one` in a loop."""
    return np.stack([model.learn_one(x, y) for x, y in zip(X, Y, strict=True)])


def in_cuts(model, X, Y, cuts):
    """The predictions of `learn_many` on the pieces between the cuts."""
    edges = [0, *cuts, len(X)]
    return np.concatenate([model.learn_many(X[a:b], Y[a:b]) for a, b in itertools.pairwise(edges)])


def bits(model):
    """All that a model goes on with, as it lies in memory."""
    if isinstance(model, rc.Race):
        each = [part for name, member in model.models.items() for part in (name.encode(), *bits(member))]
        own = model._loss, np.array(model._count), model._waiting.arrays()
        return [*each, *(array.tobytes() for array in own), repr((model.left, model._why)).encode()]
    packing, packed = model._packing, [np.asarray(part) for part in model._packed]
    first = packed[0][math.prod(packing.shapes[0]) :] if packing.is_small else packed[0][:0]  # after the outputs
    arrays = [first, *packed[1:], model._origins.x, model._origins.y]
    numbers = model.rows, model._waiting, model._origins.needs_x, model._origins.needs_y
    return [*(array.tobytes() for array in arrays), repr(numbers).encode()]
