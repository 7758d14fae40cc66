"""A model that learns from rows as they come is seed 0 of `train` on the same rows."""

import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER
from online_models import CELLS, plain_step, stream

ROWS = 150
LEARNERS = {**FOR_ONE_LAYER, "r-ok": lambda: rc.ROK(2)}


def both(key=3, horizon=0, missing=0.2, rate=0.01, **kwargs):
    """The predictions of `train` and of `learn_many`, the losses of `train`, and the labels."""
    step = plain_step(horizon, optimizer=rate, **kwargs)
    streams = step.learning.streams
    X, Y = stream(ROWS, streams=streams, missing=missing)
    X, Y = X.astype("float32"), Y.astype("float32")
    in_sequences = lambda rows: rows if streams == 1 else rows.swapaxes(0, 1)
    result = rc.train(
        step.learning.network,
        step.learning.learners["applied"],
        rc.Arrays(in_sequences(X), in_sequences(Y), **({"horizon": horizon} if horizon else {})),
        steps=ROWS,
        streams=streams,
        key=key,
        optimizer=rate,
        window=1,
        record={"output": lambda outcome: outcome.output},
        progress=False,
    )
    return result.records["output"][0], rc.Online(step, key=key).learn_many(X, Y), result.loss[0], Y


def check(name, cell, horizon=0):
    """The largest difference between the predictions.

    `train` records no step whose label or gradient does not come before the end. The loss of a forecast is that of the
    row with its label.
    """
    trained, online, losses, Y = both(learner=LEARNERS[name](), cell=cell, horizon=horizon)
    np.testing.assert_allclose(online[: len(trained)], trained, atol=2e-5)
    difference = np.abs(online[: len(trained)] - trained).max()
    online, Y = online[: ROWS - horizon], Y[horizon:]
    wanted = np.where(Y.mask[:, 0], np.nan, 0.5 * np.sum((online - Y.data) ** 2, axis=1))
    np.testing.assert_allclose(losses[horizon:], wanted, atol=2e-4)
    return difference


def test_the_same_as_training():
    check("uoro", "rnn")
    X, Y = stream(ROWS, missing=0.2)
    first, other = (rc.Online(plain_step(learner=rc.UORO()), key=key).learn_many(X, Y) for key in (3, 4))
    assert np.abs(first - other).max() > 0.01  # the control: another key


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_as_training_for_every_learner_and_cell(name, cell):
    print(name, cell, "largest difference", check(name, cell))


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("name", ["rflo", "rtrl", "uoro", "e-bptt", "f-bptt", "dni"])
def test_the_same_as_training_with_late_labels(name, horizon):
    check(name, "rnn", horizon)


@pytest.mark.slow
def test_the_same_as_training_with_several_streams():
    trained, online, _, _ = both(learner=rc.RFLO(), streams=2)
    np.testing.assert_allclose(online, trained, atol=2e-5)
