"""Metrics of held-out rows are means over all labels, as NumPy finds them from the outputs of the network."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc

NETWORK = rc.Network(rc.RNN(n_in=2, n=4, dtype="float64"), n_out=3)


def sequences(count, batch):
    rng = np.random.default_rng(count)
    inputs = [rng.normal(size=(length, 2)) for length in rng.integers(1, 6, count)]
    return rc.Sequences(inputs, np.eye(3)[rng.integers(0, 3, count)], batch=batch)


def confidence(output, label):
    return jnp.max(output)


METRICS = {"accuracy": rc.Accuracy(), "rmse": rc.RMSE(), "confidence": confidence}


@pytest.fixture(scope="module")
def trained():
    task, held_out = sequences(12, 4), sequences(7, 3)  # the last minibatch has one sequence, and two idle streams
    settings = dict(steps=3 * task.epoch, evaluate_every=task.epoch, seeds=2, optimizer=0.1, progress=False)
    return rc.train(NETWORK, rc.RFLO(), task, evaluate=held_out, metrics=METRICS, **settings), held_out


def outputs(network, weights, held_out):
    """The output at the end of each sequence, and its label."""
    z = np.asarray(network.run(weights, np.swapaxes(held_out.inputs, 0, 1)))
    return z[np.asarray(held_out.lengths) - 1, np.arange(len(held_out.lengths))], np.asarray(held_out.labels)


def test_metrics_are_means_over_all_labels(trained):
    result, held_out = trained
    for row in (0, 1):
        z, y = outputs(NETWORK, result.weights_of(row), held_out)
        truth = {
            "accuracy": np.mean(z.argmax(axis=1) == y.argmax(axis=1)),
            "rmse": np.sqrt(np.mean((z - y) ** 2)),
            "confidence": np.mean(z.max(axis=1)),
        }
        for name, value in truth.items():
            assert result.metrics[name].shape == (2, 3)
            np.testing.assert_allclose(result.metrics[name][row, -1], value, rtol=1e-12)


def test_a_label_at_every_step_and_one_output():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(50, 2)), rng.integers(0, 2, (50, 1)).astype(float)
    present = rng.random(50) < 0.7
    network = rc.Network(rc.RNN(n_in=2, n=4, dtype="float64"), n_out=1, loss=rc.SigmoidCrossEntropy())
    held_out = rc.Arrays(rows, labels, present=present)
    settings = dict(steps=20, optimizer=0.1, progress=False, metrics={"accuracy": rc.Accuracy()})
    result = rc.train(network, rc.RFLO(), rc.Arrays(rows, labels), evaluate=held_out, **settings)
    right = (np.asarray(network.run(result.weights_of(0), rows)) > 0) == (labels > 0.5)
    np.testing.assert_allclose(result.metrics["accuracy"][0, -1], right[present].mean(), rtol=1e-12)


def test_metrics_stand_in_the_data_set_and_in_words(trained):
    result, _ = trained
    data = result.to_xarray()
    np.testing.assert_array_equal(data["evaluated_rmse"], result.metrics["rmse"])
    assert data["evaluated_rmse"].dims == ("seed", "evaluated_step")
    assert f"accuracy {result.metrics['accuracy'][:, -1].mean():.4g}" in repr(result)


@pytest.mark.slow
def test_a_run_that_goes_on_from_its_checkpoint_has_all_its_metrics(tmp_path):
    task, held_out = sequences(6, 2), sequences(5, 2)
    settings = dict(evaluate=held_out, evaluate_every=task.epoch, metrics=METRICS, window=5, optimizer=0.1)
    run = lambda steps, **more: rc.train(
        NETWORK, rc.RFLO(), task, steps=steps * task.epoch, progress=False, **settings, **more
    )
    run(2, checkpoint=tmp_path / "run.safetensors")
    whole, resumed = run(4), run(4, checkpoint=tmp_path / "run.safetensors")
    for name in METRICS:
        np.testing.assert_array_equal(whole.metrics[name], resumed.metrics[name])


def test_progress_shows_what_was_found(capsys):
    task = sequences(6, 2)
    rc.train(NETWORK, rc.RFLO(), task, steps=2 * task.epoch, evaluate=task, evaluate_every=task.epoch, metrics=METRICS)
    line = next(line for line in capsys.readouterr().err.splitlines() if "held-out loss" in line)
    assert f"after {task.epoch:,} steps held-out loss" in line
    assert re.search(r"accuracy [01]\b.*, confidence \d", line)


REFUSED = {
    "no task": ({"metrics": METRICS}, ValueError, "give a task to `evaluate`"),
    "a class": ({"metrics": {"accuracy": rc.Accuracy}}, TypeError, "must be a metric such as"),
    "the name of something else": ({"metrics": {"loss": rc.RMSE()}}, ValueError, "cannot be called 'loss'"),
    "a vector": ({"metrics": {"both": lambda z, y: z}}, TypeError, r"returns an array of shape \(3,\)"),
    "what fails": ({"metrics": {"both": lambda z: z}}, TypeError, "could not be called with an output and a label"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_metric_is_refused(case):
    given, kind, words = REFUSED[case]
    task = sequences(6, 2)
    if case != "no task":
        given = {**given, "evaluate": task}
    with pytest.raises(kind, match=words):
        rc.train(NETWORK, rc.RFLO(), task, steps=10, progress=False, **given)
