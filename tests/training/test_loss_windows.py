"""Losses become window means: on the host, or first over short stretches on the device, with the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import experiment
from recurra.engine.protocol import Members
from recurra.engine.run import averaged
from recurra.training.gathering import PIECE, LossWindows
from small_runs import asks_to_stop_after, network, train

#: an engine that takes whole strides on cores too, of 32 steps, and so averages losses as an accelerator does
STRIDES = rc.ScanEngine(strides=True, chunk=100)
ON_CHIP = rc.OnChipEngine(interpret=True, chunk=256)


def random_losses(members, steps):
    return np.exp(np.random.default_rng(0).normal(size=(members, steps))).astype(np.float32)


def bounded(losses, cuts):
    return zip([0, *cuts], [*cuts, losses.shape[1]], strict=True)


def as_means(losses, every):
    """Means over `every` steps each, as an engine hands them over, with the first step that is not finite."""
    with np.errstate(invalid="ignore"):
        means = losses.astype(np.float64).reshape(len(losses), -1, every).mean(axis=2)
    wrong = ~np.isfinite(losses)
    return means, None, every, np.where(wrong.any(axis=1), wrong.argmax(axis=1), -1)


def test_window_means_do_not_depend_on_how_losses_arrive():
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(3, 1000)).astype(np.float32)
    losses[1, 700] = np.inf
    whole, cut = LossWindows((0, 1, 2), 64), LossWindows((0, 1, 2), 64)
    whole.append(losses)
    edges = np.sort(rng.choice(np.arange(1, 1000), 40, replace=False))
    for part in np.split(losses, edges, axis=1):
        cut.append(part)
    np.testing.assert_array_equal(whole.means(), cut.means())
    np.testing.assert_array_equal(whole.ends(), cut.ends())
    assert whole.diverged == cut.diverged == {1: 700}


def test_windows_are_means_over_labelled_steps():
    rng = np.random.default_rng(0)
    labelled, losses = rng.random((3, 1000)) < 0.3, rng.normal(size=(3, 1000))
    labelled[2, 200:300] = False
    windows = LossWindows((4, 5, 6), 100)
    for part in np.split(np.arange(1000), [130, 555]):
        windows.append(np.where(labelled, losses, np.nan)[:, part], labelled[:, part])
    with np.errstate(invalid="ignore"):
        wanted = np.where(labelled, losses, 0).reshape(3, 10, 100).sum(2) / labelled.reshape(3, 10, 100).sum(2)
    np.testing.assert_allclose(windows.means(), wanted)
    assert np.isnan(windows.means()[2, 2])
    assert not windows.diverged


@pytest.mark.parametrize("window", [1, 7, 64, 1000, PIECE, PIECE + 1, 10_000])
def test_a_window_is_added_up_in_parts_of_known_length(window):
    """To the bit: a part is one sum in double precision, and parts are added one after the other."""
    losses = random_losses(3, 15_000)
    windows = LossWindows(range(3), window)
    for start, stop in bounded(losses, [5, 130, 9000]):
        windows.append(losses[:, start:stop])
    means = windows.means()
    for k, end in enumerate(windows.ends()):
        total = np.zeros(3)
        for first in range(k * window, end, PIECE):
            total += losses[:, first : min(first + PIECE, end)].astype(np.float64).sum(axis=1)
        np.testing.assert_array_equal(means[:, k], total / (end - k * window))


@pytest.mark.parametrize("window", [16, 48, 4096, 6000, 100_000])
def test_means_over_stretches_and_single_steps_can_follow_each_other(window):
    losses = random_losses(3, 20_000)
    losses[1, 7000], losses[2, 19_999] = np.nan, -np.inf
    single, mixed, cut = (LossWindows((7, 8, 9), window) for _ in range(3))
    single.append(losses)
    averaged_from = {160, 512, 6000, 16_016}
    for start, stop in bounded(losses, [100, 160, 496, 512, 5600, 6000, 16_000, 16_016, 19_984]):
        some = losses[:, start:stop]
        mixed.append(*(as_means(some, 16) if start in averaged_from else (some,)))
        for piece in np.split(some, range(32, stop - start, 32), axis=1):  # in more pieces, the same numbers
            cut.append(*(as_means(piece, 16) if start in averaged_from else (piece,)))
            kept, cut = cut.state(), LossWindows((7, 8, 9), window)
            cut.restore(kept)
    assert single.diverged == mixed.diverged == cut.diverged == {8: 7000, 9: 19_999}
    np.testing.assert_allclose(mixed.means(), single.means(), rtol=1e-13)
    np.testing.assert_array_equal(mixed.means(), cut.means())
    for each in (mixed, cut):
        np.testing.assert_array_equal(each.labelled(), single.labelled())
        np.testing.assert_array_equal(each.ends(), single.ends())


@pytest.mark.parametrize(("window", "before", "every"), [(100, 0, 16), (64, 5, 16), (3 * PIECE, 0, 3)])
def test_means_that_do_not_fit_into_windows_are_refused(window, before, every):
    windows = LossWindows((0,), window)
    windows.append(np.ones((1, before), np.float32))
    with pytest.raises(ValueError, match=f"over {every} steps, after {before}, do not fit windows of {window}"):
        windows.append(np.ones((1, 4)), None, every)


def test_a_state_without_sizes_is_one_of_single_steps():
    losses = random_losses(2, 300)
    whole, first, second = (LossWindows((0, 1), 100) for _ in range(3))
    whole.append(losses)
    first.append(losses[:, :130])
    kept = first.state()
    del kept["sizes"]
    second.restore(kept)
    second.append(losses[:, 130:])
    np.testing.assert_array_equal(second.means(), whole.means())
    with pytest.raises(ValueError, match="another shape"):
        second.restore(first.state() | {"sizes": np.full(30, 4)})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_device_averages_in_double_precision_and_finds_the_first_step_that_is_not_finite(dtype):
    losses = random_losses(4, 100).astype(jnp.dtype(dtype))
    losses[1, 17], losses[2, 95], losses[3, 96] = np.nan, np.inf, np.nan  # the last one lies after the last step
    with jax.enable_x64(dtype == "float64"):
        means, diverged = averaged(jnp.asarray(losses), 96, 16, "cpu")
        assert jnp.zeros(0).dtype == ("float64" if dtype == "float64" else "float32")  # the setting is as it was
    assert diverged.tolist() == [-1, 17, 95, -1]
    wanted, *_ = as_means(losses[:, :96].astype(np.float64), 16)
    np.testing.assert_allclose(np.asarray(means), wanted, rtol=1e-15)


def pieces_of(engine, window, stops, **kwargs):
    whole = experiment(network(dtype="float32"), rc.RFLO(), rc.Add(1, 2), **kwargs)
    with engine.prepare(whole, Members.of_seeds(jax.random.key(0), range(3)), window) as run:
        pieces = []
        for stop in stops:
            for piece in run.advance(stop):
                assert run.done == piece.stop
                pieces.append(piece)
    return pieces


def test_whole_strides_are_averaged_over_the_stretches_that_divide_a_window():
    for window, every in ((1, 1), (75, 1), (96, 32), (1000, 8), (128, 32)):
        pieces = pieces_of(STRIDES, window, [50, 300])
        for piece in pieces:
            is_whole = piece.start % 32 == 0 and piece.stop % 32 == 0
            assert piece.every == (every if is_whole else 1)
            assert piece.loss.shape == (3, (piece.stop - piece.start) // piece.every)
        assert {(32, 50), (50, 64)} < {(piece.start, piece.stop) for piece in pieces}
    assert {piece.every for piece in pieces_of(rc.ScanEngine(), 128, [300])} == {1}  # on cores


def test_labels_that_may_be_missing_and_records_are_handed_over_step_by_step():
    rng = np.random.default_rng(0)
    task = rc.Arrays(rng.normal(size=(300, 2)), rng.random((300, 2)), present=rng.random(300) < 0.5)
    net = rc.Network(rc.RNN(2, 4), 2, rc.SquaredError())
    found, wanted = (
        train(task=task, net=net, steps=300, window=64, engine=each) for each in (STRIDES, rc.ScanEngine())
    )
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-12)
    np.testing.assert_array_equal(found.labelled, wanted.labelled)
    found = train(steps=300, window=100, engine=STRIDES, record={"loss": lambda outcome: outcome.loss})
    np.testing.assert_allclose(found.loss, found.records["loss"].reshape(2, 3, 100).mean(axis=2), rtol=1e-12)


@pytest.mark.parametrize("window", [48, 75, 1000])
def test_averaged_losses_are_those_of_every_step(window):
    settings = {"steps": 700, "window": window, "seeds": 3, "evaluate": rc.Add(1, 2), "evaluate_every": 300}
    found, wanted = (train(**settings, engine=each, evaluate_steps=100) for each in (STRIDES, rc.ScanEngine()))
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-9)
    np.testing.assert_allclose(found.evaluated_loss, wanted.evaluated_loss, rtol=1e-9)
    np.testing.assert_array_equal(found.step, wanted.step)
    np.testing.assert_array_equal(found.labelled, wanted.labelled)
    # The same call in other pieces.
    again = train(**settings, engine=rc.ScanEngine(strides=True, chunk=32), evaluate_steps=100)
    np.testing.assert_array_equal(found.loss, again.loss)


def test_the_step_at_which_a_seed_diverged_is_exact():
    def explode(z):  # a network that leaves the floats after some steps, faster for some weights
        return jnp.where(jnp.abs(z) > 3, jnp.inf, 0.8 * z)

    net = rc.Network(rc.RNN(2, 3, phi=explode), 2, rc.SquaredError())
    task = rc.Arrays(np.ones((400, 2)), np.full((400, 2), 0.5))
    settings = {"steps": 400, "seeds": 12, "window": 64, "optimizer": 0.0}
    found, wanted = (train(rc.Fixed(), task, net, **settings, engine=each) for each in (STRIDES, rc.ScanEngine()))
    assert 0 < len(found.diverged) < 12
    assert found.diverged == wanted.diverged
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-12)


def test_a_run_on_chip_goes_on_from_its_checkpoint_in_the_middle_of_a_window(tmp_path):
    settings = {"net": network(2, dtype="float32"), "steps": 500, "window": 80}
    wanted, whole = (train(**settings, engine=each) for each in (rc.ScanEngine(), ON_CHIP))
    np.testing.assert_allclose(whole.loss, wanted.loss, rtol=1e-6)
    kept = {"engine": ON_CHIP, "checkpoint": tmp_path / "run.safetensors"}
    with pytest.raises(rc.Interrupted) as stopped:
        train(**settings, **kept, progress=asks_to_stop_after(128))
    assert 0 < stopped.value.result.steps < 500
    assert stopped.value.result.steps % 80
    np.testing.assert_array_equal(train(**settings, **kept).loss, whole.loss)
