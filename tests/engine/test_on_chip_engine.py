"""Runs on chip against runs in compiled loops: tasks, optimizers, streams, members, and however a run is cut.

Kernels are played by Pallas' interpreter on the cores.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from driving import experiment
from on_chip_steps import BUILT, lowered
from recurra.engine import tuning
from recurra.engine.experiment import Experiment
from recurra.engine.on_chip.fits import DoesNotFitError, padded_bytes
from recurra.engine.on_chip.fold import advance
from recurra.engine.on_chip.rules import UnsupportedError
from recurra.engine.protocol import Members
from recurra.step import APPLIED
from recurra.tasks import BLOCK
from small_runs import asks_to_stop_after
from small_runs import train as train_small

slow = pytest.mark.slow
PLAYED = rc.OnChipEngine(interpret=True, chunk=128)
#: float32 sums in another order, after hundreds of steps
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


def net(n=8, loss=None, n_out=2, cell=rc.RNN, n_in=2):
    return rc.Network(cell(n_in, n, dtype="float32"), n_out, loss or rc.SoftmaxCrossEntropy())


def train(learner=None, task=None, engine=PLAYED, **settings):
    settings = {"net": net(), "steps": 300, "window": 1, "optimizer": 0.03, **settings}
    return train_small(learner or rc.RFLO(), task, engine=engine, **settings)


def leaves(result):
    return jax.tree.leaves((result.loss, result.weights))


def same_bits(one, other):
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(leaves(one), leaves(other), strict=True))


def compare(*parts, **settings):
    """The same run by both engines: losses of every step, weights, and which steps had labels."""
    on_chip, scan = (train(*parts, engine=engine, **settings) for engine in (PLAYED, rc.ScanEngine()))
    for ours, theirs in zip(leaves(on_chip), leaves(scan), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert np.array_equal(np.isnan(on_chip.loss), np.isnan(scan.loss))
    assert np.nanstd(scan.loss) > 0.01  # else nothing was compared
    return on_chip, scan


def rows(count=300, sequences=None, **events):
    """Inputs, and labels that depend on the input before."""
    rng = np.random.default_rng(0)
    shape = (count,) if sequences is None else (sequences, count)
    x = rng.normal(size=(*shape, 2)).astype("float32")
    y = np.tanh(x + 0.5 * np.roll(x, 1, axis=-2))
    return rc.Arrays(x, y, **{name: np.broadcast_to(flags, shape) for name, flags in events.items()})


def late(horizon, **events):
    task = rows(**events)
    flags = {name: np.asarray(getattr(task, name)[0]) for name in events}
    return rc.Arrays(np.asarray(task.inputs[0]), np.asarray(task.labels[0]), horizon=horizon, **flags)


SPARSE_LABELS = np.arange(300) % 3 == 0
EPISODES = np.arange(300) % 40 == 0
EVENTS = {"present": SPARSE_LABELS, "reset": EPISODES}
squared = {"net": net(loss=rc.SquaredError())}
mimic = rc.Mimic(rc.RNN(4, 4, dtype="float32"), outputs=4)
TASKS = {
    "add": (rc.Add(1, 2), {"learner": rc.UORO()}),
    "late labels, missing, with episodes": (late(3, **EVENTS), squared),
}
MORE_TASKS = {
    "stretched": (rc.Add(3, 5, stretch=2), {}),
    "mimic": (mimic, {"net": net(loss=rc.SquaredError(), n_in=4, n_out=4)}),
    "arrays": (rows(), squared),
    "labels missing, episodes": (rows(**EVENTS), squared),
    "late labels": (late(3), squared),
    "labels a block late": (late(130), squared),
    "streams": (rc.Add(1, 2), {"streams": 2}),
    "streams of arrays": (rows(sequences=2, **EVENTS), {**squared, "streams": 2}),
}


@pytest.mark.parametrize("name", [*TASKS, *(pytest.param(name, marks=slow) for name in MORE_TASKS)])
def test_tasks(name):
    task, settings = {**TASKS, **MORE_TASKS}[name]
    compare(task=task, **settings)


@slow
@pytest.mark.parametrize("name", ["uoro", "e-bptt", "f-bptt", "dni"])
@pytest.mark.parametrize("events", [{}, EVENTS], ids=["plain", "events"])
def test_learners_with_labels_that_are_missing_or_late(name, events):
    compare(rc.LEARNERS[name](), late(3, **events), **squared, steps=200)
    compare(rc.LEARNERS[name](), rows(**events), **squared, steps=200)


OPTIMIZERS = {"momentum": rc.SGD(0.03, 0.9), "adam": rc.Adam(0.01), "rmsprop": optax.rmsprop(0.003)}


@slow
@pytest.mark.parametrize("learner", [rc.FutureBPTT(T=5), rc.EfficientBPTT(T=8)], ids=lambda learner: learner.about.id)
def test_rings_in_several_streams(learner):
    compare(learner, rc.Add(1, 2), streams=2, steps=150)


@slow
def test_what_is_due_after_a_round_is_refused_too():
    with pytest.raises((DoesNotFitError, UnsupportedError), match=r"reshapes axes \(2, 7\) to \(14,\)"):
        train(rc.EfficientBPTT(T=7), streams=2)


@slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    compare(optimizer=OPTIMIZERS[name])


@slow
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("steps", [1, 127, 128, 129])
def test_numbers_of_steps_and_seeds(steps, seeds):
    on_chip, scan = (train(engine=engine, steps=steps, seeds=seeds) for engine in (PLAYED, rc.ScanEngine()))
    for ours, theirs in zip(leaves(on_chip), leaves(scan), strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert on_chip.loss.shape == (seeds, steps)


def losses(run, *stops):
    return np.concatenate([piece.loss for stop in stops for piece in run.advance(stop)], axis=1)


@pytest.mark.parametrize("learner", [rc.UORO(), pytest.param(rc.EfficientBPTT(T=7), marks=slow)])
def test_a_run_has_the_same_bits_wherever_it_is_cut(learner):
    """Also where it goes on from a snapshot. Losses of steps that no piece has are not there twice."""
    whole, members = experiment(net(), learner, rc.Add(1, 2)), Members.of_seeds(jax.random.key(0), (0, 1))
    with PLAYED.prepare(whole, members) as run:
        straight, end = losses(run, 300), run.ends(2**30)()
    with PLAYED.prepare(whole, members) as run:
        first, kept = losses(run, 1, 127, 129, 130), run.snapshot()
    with PLAYED.prepare(whole, members) as run:
        run.restore(kept, 130)
        cut, other_end = np.concatenate([first, losses(run, 255, 256, 300)], axis=1), run.ends(2**30)()
    assert straight.shape == (2, 300)
    assert np.array_equal(cut, straight)
    assert all(map(np.array_equal, jax.tree.leaves(end), jax.tree.leaves(other_end)))


@slow
def test_a_piece_lies_in_as_many_blocks_as_a_call_draws():
    """Before labels come there are no whole strides, and pieces end anywhere."""
    whole = Experiment.of(squared["net"], {APPLIED: rc.RFLO()}, 0.03, late(130))
    straight, cut = [], []
    for found, stops in ((straight, (300,)), (cut, (5, 300))):
        with PLAYED.prepare(whole, Members.of_seeds(jax.random.key(0), (0,))) as run:
            found.append(losses(run, *stops))
    assert np.array_equal(straight, cut, equal_nan=True)


@slow
def test_without_64_bits_it_is_the_same():
    with jax.enable_x64(False):
        compare(rc.EfficientBPTT(T=7), late(3, **EVENTS), **squared)
        compare(rc.UORO(), rc.Add(1, 2))


@slow
def test_longer_kernels_have_the_same_bits():
    assert same_bits(train(engine=rc.OnChipEngine(interpret=True, chunk=384), steps=500), train(steps=500))


@slow
def test_evaluating_in_between_changes_nothing():
    plain = train(steps=300)
    found = train(steps=300, evaluate=rc.Add(1, 2), evaluate_every=77, evaluate_steps=100)
    assert same_bits(plain, found)
    scan = train(steps=300, evaluate=rc.Add(1, 2), evaluate_every=77, evaluate_steps=100, engine=rc.ScanEngine())
    np.testing.assert_allclose(found.evaluated_loss, scan.evaluated_loss, **CLOSE)


@slow
def test_an_interrupted_run_is_usable_and_goes_on_from_its_checkpoint(tmp_path):
    file = tmp_path / "run.safetensors"
    with pytest.raises(rc.Interrupted) as stopped:
        train(rc.UORO(), steps=2_000_000, window=100, progress=asks_to_stop_after(250), checkpoint=file)
    done = stopped.value.result.steps
    assert 250 <= done < 2_000_000
    assert np.isfinite(stopped.value.result.final_loss()).all()
    later = train(rc.UORO(), steps=done + 200, window=100, checkpoint=file)
    whole = train(rc.UORO(), steps=done + 200, window=100)
    assert later.steps == done + 200
    assert same_bits(later, whole)


@slow
def test_members_that_differ_in_numbers():
    vary = {"optimizer": [0.01, 0.1], "network.cell.alpha": [0.5, 1.0]}
    sweep = lambda engine: rc.sweep(
        net(), rc.RFLO(), rc.Add(1, 2), vary=vary, steps=200, seeds=2, window=1, engine=engine, progress=False
    )
    on_chip, scan = sweep(PLAYED), sweep(rc.ScanEngine())
    np.testing.assert_allclose(on_chip.loss, scan.loss, **CLOSE)
    each = on_chip.loss.values.reshape(4, -1)
    assert all(not np.allclose(each[i], each[j], **CLOSE) for i in range(4) for j in range(i))


@slow
@pytest.mark.parametrize("learner", [rc.RFLO(), rc.FutureBPTT(T=5)], ids=lambda learner: learner.about.id)
def test_starting_from_weights_and_from_states(learner):
    first = train(learner, steps=137, engine=rc.ScanEngine())
    compare(learner, start=first.weights, steps=150)
    compare(learner, start=first.states, steps=150)


@slow
def test_networks_that_diverge_are_reported():
    settings = {"net": net(loss=rc.SquaredError()), "task": rows(), "optimizer": 30.0, "seeds": 3, "window": 10}
    on_chip, scan = (train(engine=engine, **settings) for engine in (PLAYED, rc.ScanEngine()))
    assert set(on_chip.diverged) == set(scan.diverged) == {0, 1, 2}
    assert all(abs(on_chip.diverged[seed] - scan.diverged[seed]) <= 2 for seed in range(3))


REFUSED = {
    "records": ({"record": {"loss": lambda outcome: outcome.loss}}, "neither records nor probes. Leave `record`"),
    "float64": ({"net": rc.Network(rc.RNN(2, 4), 2)}, r"cell is float64\. Use dtype='float32', or use engine='scan'"),
    "size": ({"net": net(n=200)}, r"state takes [\d,]+ bytes .* stay on the chip; use n = \d+ or less, or use engine"),
    "learner": ({"learner": rc.BPLambda()}, r"BP\(λ\) with RNN uses 'scatter-add', which has no form inside a kernel"),
    "no GPU": ({"engine": rc.OnChipEngine()}, r"it needs an NVIDIA GPU, and JAX computes on .* Install JAX with CUDA"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_what_to_change(name):
    settings, said = REFUSED[name]
    with pytest.raises(DoesNotFitError, match=said):
        train(**settings)


def test_the_size_that_is_named_fits_and_the_next_one_does_not():
    with pytest.raises(DoesNotFitError) as error:
        train(net=net(n=200), steps=1)
    named = int(str(error.value).split("use n = ")[1].split()[0])
    whole = lambda n: experiment(net(n=n), rc.RFLO(), rc.Add(1, 2)).traced
    assert padded_bytes(whole(named)) <= tuning.ON_CHIP_STATE_BYTES < padded_bytes(whole(2 * named))


@pytest.mark.parametrize("settings", [{"warps": 3}, {"warps": 32}, {"warps": 0}, {"chunk": 0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises((ValueError, TypeError), match=f"`{next(iter(settings))}`"):
        rc.OnChipEngine(**settings)


# ---- whole runs lower to Triton, which needs no GPU

regression = squared["net"]
RUNS = {
    "plain": (net(), rc.RFLO(), rc.Add(1, 2), 1, 0.03),
    "mimic": (net(loss=rc.SquaredError(), n_in=4, n_out=4), rc.RFLO(), mimic, 1, 0.03),
    "late labels, missing, with episodes": (regression, rc.RFLO(), late(3, **EVENTS), 1, 0.03),
    "a ring of late labels": (regression, rc.FutureBPTT(T=5), late(3, **EVENTS), 1, 0.03),
    "streams": (net(), rc.UORO(), rc.Add(1, 2), 3, 0.03),
    "streams of arrays": (regression, rc.RFLO(), rows(sequences=2, **EVENTS), 2, 0.03),
    "rings in streams": (net(), rc.FutureBPTT(T=5), rc.Add(1, 2), 2, 0.03),
    "rounds in streams": (net(), rc.EfficientBPTT(T=8), rc.Add(1, 2), 2, 0.03),
    **{name: (net(), rc.RFLO(), rc.Add(1, 2), 1, optimizer) for name, optimizer in OPTIMIZERS.items()},
}


@pytest.mark.parametrize("members", [1, 3])
@slow
@lowered
@pytest.mark.parametrize("name", RUNS)
def test_runs_lower_to_triton(name, members):
    network, learner, task, streams, optimizer = RUNS[name]
    with jax.enable_x64(False):
        experiment = Experiment.of(network, {APPLIED: learner}, optimizer, task, streams).traced
        bounds = jnp.int32(0), jnp.int32(100)
        run = lambda key: advance(BUILT, experiment, *experiment.init(key), *bounds, BLOCK)
        keys = jax.random.split(jax.random.key(0), members)
        whole = jax.vmap(run) if members > 1 else lambda keys: run(keys[0])
        jax.jit(whole).trace(keys).lower(lowering_platforms=("cuda",))
