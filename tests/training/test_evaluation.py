"""Held-out losses along a run, and networks that run with nothing learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import Keys
from recurra.engine.protocol import Members
from recurra.network import NetworkWeights
from recurra.training.evaluating import HeldOut
from small_runs import asks_to_stop_after, regression, series, train

slow = pytest.mark.slow


def rows(steps=120, seed=0):
    return series(steps, seed)


def run(task, learner=None, steps=100, network=None, **settings):
    return train(
        learner or rc.RFLO(), task, network or regression(), steps=steps, **{"window": 1, "optimizer": 0.05, **settings}
    )


def of_seed(weights, i):
    return jax.tree.map(lambda leaf: leaf[i], weights)


def by_hand(weights, seeds, x, y, h=0, counts=None, network=None):
    """Each seed's mean loss, from the outputs of the network."""
    z = np.stack([(network or regression()).run(of_seed(weights, i), x) for i in range(seeds)])
    each = np.sum((z[:, : len(x) - h] - y[h:]) ** 2, axis=-1) / 2
    return each.mean(axis=1) if counts is None else each[:, counts[h:]].mean(axis=1)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def in_numpy(cell, weights, xs, a):
    """A network unrolled from its equations; a is the first state."""
    shown = []
    for x in xs:
        z = []
        for gate in jax.tree.map(np.asarray, weights.cell):
            rec = 0 if gate.rec is None else gate.rec @ a[0]
            z.append(rec + (0 if gate.inp is None else gate.inp @ x) + gate.bias[:, 0])
        if cell is rc.RNN:
            a = (np.tanh(z[0]),)
        elif cell is rc.GRU:
            r, u = sigmoid(z[0]), sigmoid(z[1])
            a = (u * a[0] + (1 - u) * np.tanh(z[3] + r * z[2]),)
        else:
            c = sigmoid(z[1]) * a[1] + sigmoid(z[0]) * np.tanh(z[2])
            a = (sigmoid(z[3]) * np.tanh(c), c)
        shown.append(a[0])
    W, b, V = weights.readout
    return np.array(shown) @ W.T + b + (0 if V is None else xs @ V.T)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("cell", [rc.RNN, rc.GRU, rc.LSTM], ids=lambda cell: cell.__name__)
def test_a_network_runs_as_its_equations_say(cell, skip):
    network, rng = regression(cell, skip=skip), np.random.default_rng(1)
    shake = lambda leaf: np.asarray(leaf) + 0.3 * rng.normal(size=leaf.shape)
    weights = jax.tree.map(shake, network.init(jax.random.key(0)))
    x, _ = rows(30)
    zero = jax.tree.map(np.zeros_like, network.cell.init_state())
    np.testing.assert_allclose(network.run(weights, x), in_numpy(cell, weights, x, zero), rtol=1e-10)
    other = jax.tree.map(lambda leaf: jnp.asarray(shake(leaf)), zero)
    found = network.run(weights, jnp.asarray(x), other)
    np.testing.assert_allclose(found, in_numpy(cell, weights, x, other), rtol=1e-10)
    assert not np.allclose(found, network.run(weights, x))
    with pytest.raises(ValueError, match=r"must have shape \(steps, 2\), .* and have shape \(30, 1\)"):
        network.run(weights, x[:, :1])


def test_held_out_losses_are_those_of_the_weights_of_the_moment():
    x, y = rows(100)
    held_out = rows(70, seed=1)
    settings = {"seeds": [5, 1], "learner": rc.Fixed()}
    plain = run(rc.Arrays(x, y), **settings)
    result = run(rc.Arrays(x, y), evaluate=rc.Arrays(*held_out), evaluate_every=40, **settings)
    np.testing.assert_array_equal(result.loss, plain.loss)
    assert result.evaluated_step.tolist() == [40, 80, 100]
    at = {40: run(rc.Arrays(x, y), steps=40, **settings), 80: run(rc.Arrays(x, y), steps=80, **settings), 100: plain}
    for i, step in enumerate((40, 80, 100)):
        np.testing.assert_allclose(result.evaluated_loss[:, i], by_hand(at[step].weights, 2, *held_out), rtol=1e-9)
    lowest = result.evaluated_loss.argmin(axis=1)
    np.testing.assert_array_equal(result.best_step, result.evaluated_step[lowest])
    best = by_hand(result.best_weights, 2, *held_out)
    np.testing.assert_allclose(best, result.evaluated_loss.min(axis=1), rtol=1e-9)
    data = result.to_xarray()
    assert data["evaluated_loss"].dims == ("seed", "evaluated_step")
    assert data["best_step"].values.tolist() == result.best_step.tolist()
    assert "evaluated_loss" not in plain.to_xarray()
    model = result.online(1, best=True)
    outputs = regression().run(of_seed(result.best_weights, 1), x)
    np.testing.assert_allclose(model.predict_one(x[0]), outputs[0], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:`labels` hold 1e.200 in row")
def test_a_seed_that_diverges_keeps_its_best():
    x, y = rows(100)
    held_out, wild = rows(50, seed=1), np.where(np.arange(100)[:, None] < 50, y, 1e200)
    with np.errstate(all="ignore"):
        result = run(rc.Arrays(x, wild), evaluate=rc.Arrays(*held_out), evaluate_every=20)
    assert result.diverged
    assert np.isfinite(result.evaluated_loss[:, :2]).all()
    assert not np.isfinite(result.evaluated_loss[:, 2:]).any()
    assert set(result.best_step) <= {20, 40}
    best = by_hand(result.best_weights, 2, *held_out)
    np.testing.assert_allclose(best, result.evaluated_loss[:, :2].min(axis=1), rtol=1e-9)
    with np.errstate(all="ignore"):
        never = run(rc.Arrays(x, 1e200 + 0 * y), evaluate=rc.Arrays(*held_out), evaluate_every=50)
    assert never.best_step.tolist() == [-1, -1]
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(never.best_weights))


@pytest.mark.parametrize("h", [0, pytest.param(4, marks=slow)])
def test_labels_of_several_streams_count_alike_however_many_come_in_a_step(h):
    x, y = rows(60)
    parts, present = (
        [rows(50, seed) for seed in (1, 2, 3)],
        np.random.default_rng(4).random((3, 50)) < [[0.2], [0.5], [1.0]],
    )
    held_out = rc.Arrays(*map(np.stack, zip(*parts, strict=True)), present=present, horizon=h)
    result = run(rc.Arrays(x, y), steps=60, evaluate=held_out, evaluate_every=60)
    counts = present[:, h:].sum(axis=1)
    each = [by_hand(result.weights, 2, *part, h, there) for part, there in zip(parts, present, strict=True)]
    np.testing.assert_allclose(result.evaluated_loss[:, 0], counts @ each / counts.sum(), rtol=1e-9)


@slow
def test_late_and_missing_labels_episodes_and_streams_count_in_evaluation_as_in_training():
    x, y = rows(100)
    other, wanted = rows(80, seed=1)
    present = np.random.default_rng(2).random(80) < 0.5
    task = rc.Arrays(other, wanted, present=present, horizon=6)
    result = run(rc.Arrays(x, y), evaluate=task)
    np.testing.assert_allclose(
        result.evaluated_loss[:, -1], by_hand(result.weights, 2, other, wanted, 6, present), rtol=1e-9
    )
    assert len(result.evaluated_step) == 10
    # An episode is as good as a sequence of its own.
    halves = rc.Arrays(other.reshape(2, 40, 2), wanted.reshape(2, 40, 1), horizon=6)
    whole = rc.Arrays(other, wanted, reset=np.arange(80) == 40, horizon=6)
    found = [run(rc.Arrays(x, y), evaluate=each, evaluate_every=100).evaluated_loss for each in (halves, whole)]
    np.testing.assert_allclose(*found, rtol=1e-9)
    few = run(rc.Arrays(x, y), evaluate=rc.Arrays(other, wanted), evaluate_every=100, evaluate_steps=30)
    np.testing.assert_allclose(few.evaluated_loss[:, 0], by_hand(few.weights, 2, other[:30], wanted[:30]), rtol=1e-9)


@slow
def test_other_rows_of_an_endless_task_have_the_same_thing_to_learn():
    """The network to mimic itself has no loss; its rows are not those of training, and the same each time."""
    task = rc.Mimic(rc.RNN(2, 3), outputs=2)
    network = rc.Network(rc.RNN(2, 3), 2, rc.SquaredError())
    keys = Keys(*jax.random.split(Members.of_seeds(jax.random.key(0), (0,)).keys[0], len(Keys._fields)))
    target = task.init(keys.task, network.cell.dtype)
    start = NetworkWeights(target.weights, target.readout, None)
    settings = {"evaluate": task, "evaluate_steps": 200, "evaluate_every": 50, "seeds": 1}
    perfect = run(task, network=network, start=start, **settings)
    np.testing.assert_allclose(perfect.evaluated_loss, 0, atol=1e-20)
    learning = run(task, network=network, optimizer=0.0, **settings)
    assert learning.evaluated_loss[0, 0] == learning.evaluated_loss[0, 1] > 0.01
    block = lambda task: task.block(target, keys.stream, jnp.zeros((), "int32"), network.cell.dtype)[0]
    assert not np.array_equal(block(task).x, block(HeldOut(task)).x)


def same(one, other):
    for field in ("loss", "evaluated_step", "evaluated_loss", "best_step"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert all(map(np.array_equal, jax.tree.leaves(one.best_weights), jax.tree.leaves(other.best_weights)))


@slow
def test_a_run_with_evaluations_goes_on_from_its_checkpoint(tmp_path):
    task, file = rc.Arrays(*rows(120)), tmp_path / "run.safetensors"
    settings = {"evaluate": rc.Arrays(*rows(50, seed=1)), "evaluate_every": 25}
    whole = run(task, steps=110, **settings)
    for steps in (10, 60, 75, 110, 110):
        result = run(task, steps=steps, checkpoint=file, **settings)
        assert result.evaluated_step[-1] == steps
    same(result, whole)
    assert whole.evaluated_step.tolist() == [25, 50, 75, 100, 110]
    with pytest.raises(rc.CheckpointError, match="is at step 110"):
        run(task, steps=60, checkpoint=file, **settings)
    other = run(task, steps=110, checkpoint=file, evaluate=rc.Arrays(*rows(50, seed=2)), evaluate_every=25)
    np.testing.assert_array_equal(other.loss, whole.loss)
    assert not np.allclose(other.evaluated_loss, whole.evaluated_loss)


@slow
def test_an_evaluation_that_a_kill_prevented_is_made_up_for(tmp_path, monkeypatch):
    from recurra.training.evaluating import Evaluation

    task, file = rc.Arrays(*rows(120)), tmp_path / "run.safetensors"
    settings = {"evaluate": rc.Arrays(*rows(50, seed=1)), "evaluate_every": 25, "steps": 100}
    whole = run(task, **settings)
    fine, seen = Evaluation.loss, []

    def fails(self, engine, members):
        seen.append(1)
        if len(seen) == 3:
            raise MemoryError("no more")
        return fine(self, engine, members)

    monkeypatch.setattr(Evaluation, "loss", fails)
    with pytest.raises(MemoryError, match="no more"):
        run(task, checkpoint=file, **settings)
    same(run(task, checkpoint=file, **settings), whole)


@slow
def test_a_run_that_is_stopped_has_the_evaluations_so_far():
    task = rc.Arrays(*rows(120), repeat=True)
    with pytest.raises(rc.Interrupted) as stopped:
        run(task, steps=10**9, window=10**4, evaluate=task, evaluate_every=10**9, progress=asks_to_stop_after(2000))
    assert stopped.value.result.evaluated_loss.shape == (2, 0)
    assert stopped.value.result.best_step.tolist() == [-1, -1]


def test_evaluations_that_make_no_sense_are_refused():
    task = rc.Arrays(*rows(100))
    for settings, match in [
        ({"evaluate_every": 10}, "give a task to `evaluate` too"),
        ({"evaluate": task, "evaluate_every": 0}, "`evaluate_every` must be at least 1"),
        ({"evaluate": task, "evaluate_steps": 101}, "the arrays have 100 rows"),
        ({"evaluate": rc.Arrays(*rows(9), horizon=5), "evaluate_steps": 5}, "no forecast would meet its label"),
        ({"evaluate": rc.Arrays(*rows(9), present=np.zeros(9, bool))}, "No row of `evaluate` has a label"),
        ({"evaluate": rc.Add()}, "The network has 1 outputs and the task of `evaluate` 2"),
    ]:
        with pytest.raises(ValueError, match=match):
            run(task, **settings)
