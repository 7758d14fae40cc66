"""Cells of users' steps wherever a cell of the library goes: runs, sweeps, live models, files, kernels."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, flat
from on_chip_steps import apart
from recurra.cells import ReadCell, Sources
from small_runs import train

N, M = 4, 2
#: of losses in single precision
CLOSE = 1e-5


def drawn(dtype="float32"):
    rng = np.random.default_rng(3)
    shapes = {"W": (N, N), "U": (N, M), "b": (N,)}
    return {name: jnp.asarray(0.5 * rng.normal(size=shape), dtype) for name, shape in shapes.items()}


def leaky(p, h, x):
    return 0.6 * h + 0.4 * jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])


def tied(p, h, x):
    return 0.6 * h + 0.4 * jnp.tanh((p["W"] + p["W"].T) @ h + p["U"] @ x + p["b"])


def reset_before(p, h, x):
    return jnp.tanh(p["W"] @ (jax.nn.sigmoid(p["b"]) * h * jax.nn.sigmoid(p["W"] @ h)) + p["U"] @ x)


def cell_of(step=leaky, dtype="float32", **how):
    return rc.cell_of(step, drawn(dtype), carry=jnp.zeros(N, dtype), x=M, **how)


class Model:
    """Somebody's class whose method is the step."""

    def __init__(self, leak):
        self.leak = leak

    def step(self, p, h, x):
        return leaky(p, h, x) if self.leak == 0.4 else h


def with_a_leak(leak, p, h, x):
    return (1 - leak) * h + leak * jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])


CALLABLES = {
    "function": leaky,
    "lambda": lambda p, h, x: leaky(p, h, x),
    "jit": jax.jit(leaky),
    "partial": functools.partial(with_a_leak, 0.4),
    "Partial": jax.tree_util.Partial(with_a_leak, 0.4),
    "Partial with an array": jax.tree_util.Partial(with_a_leak, jnp.float32(0.4)),
    "bound method": Model(0.4).step,
}


@functools.cache
def native(name):
    """The losses and weights of the library's own cell from the same start."""
    cell, own = rc.RNN(M, N, alpha=0.4, dtype="float32"), drawn()
    network = rc.Network(cell, 2)
    start = network.init(jax.random.key(0))
    start = start._replace(cell=(Sources(own["W"], own["U"], own["b"][:, None]),))
    return start, train(rc.LEARNERS[name](), net=network, start=start)


@pytest.mark.parametrize("kind", CALLABLES)
def test_a_run_is_that_of_the_cell_of_the_library(kind):
    """RTRL runs in the engine's own form."""
    start, expected = native("rtrl")
    cell = cell_of(CALLABLES[kind])
    assert isinstance(cell, ReadCell)
    found = train(rc.RTRL(), net=rc.Network(cell, 2), start=start)
    assert distance(found.loss, expected.loss) < CLOSE
    assert distance(found.weights, expected.weights) < CLOSE
    assert distance(start.cell[0].rec, expected.weights.cell[0].rec[0]) > 100 * CLOSE
    own = cell.parameters(found.weights_of(seed=1).cell)
    assert distance(own["W"], expected.weights_of(seed=1).cell[0].rec) < CLOSE


@pytest.mark.parametrize("learner", [rc.RTRL(), rc.RFLO(), rc.EfficientBPTT(5)], ids=lambda each: type(each).__name__)
def test_forms_of_the_engine_serve_gates_that_are_computed_from_parameters(learner):
    network = rc.Network(cell_of(tied, "float64"), 2)
    assert network.cell.converts
    plain, quick = (
        train(learner, net=network, engine=rc.ScanEngine(specialise=specialise)) for specialise in (False, True)
    )
    assert distance(plain.loss, quick.loss) < 1e-12
    assert distance(plain.weights, quick.weights) < 1e-12
    moved = flat(plain.weights_of(seed=0).cell) - flat(drawn("float64"))
    assert np.abs(moved).max() > 1e-4


@pytest.mark.parametrize("step", [leaky, pytest.param(tied, marks=pytest.mark.slow)])
@pytest.mark.parametrize("learner", ["rflo", pytest.param("uoro", marks=pytest.mark.slow)])
def test_a_kernel_takes_its_steps(step, learner):
    assert apart(cell_of(step), rc.LEARNERS[learner]()) < 1e-4


def test_a_finished_checkpoint_is_taken_up_by_the_same_step_alone(tmp_path):
    def run(step=leaky, **how):
        return train(net=rc.Network(cell_of(step), 2), **how).loss

    kept = {"checkpoint": tmp_path / "run.safetensors"}
    found = run(**kept)
    written = kept["checkpoint"].stat().st_mtime_ns
    assert np.array_equal(found, run())
    assert np.array_equal(run(**kept), found)
    assert kept["checkpoint"].stat().st_mtime_ns == written
    assert np.array_equal(run(tied, **kept), run(tied))
    assert not np.array_equal(run(tied), found)


def test_a_sweep_in_a_folder_computes_nothing_twice(tmp_path):
    def swept(step=leaky, rates=(1e-3, 1e-2), **how):
        return rc.sweep(
            rc.Network(cell_of(step), 2), rc.SnAp1(), rc.Add(1, 2), vary={"optimizer": list(rates)}, steps=60, seeds=2,
            progress=False, **how,
        )  # fmt: skip

    kept = lambda: {path.name: path.stat().st_mtime_ns for path in (tmp_path / "groups").iterdir()}
    first = swept(folder=tmp_path)
    assert first.identical(swept())
    before = kept()
    assert first.identical(swept(folder=tmp_path))
    assert kept() == before
    longer = swept(folder=tmp_path, rates=(1e-3, 1e-2, 3e-2))
    assert before.items() < kept().items()
    assert longer.sel(optimizer=1e-2)["loss"].identical(first.sel(optimizer=1e-2)["loss"])
    other = swept(tied, folder=tmp_path)  # another function is another network
    assert not np.array_equal(other["loss"], first["loss"])


@pytest.mark.slow
def test_other_processes_read_the_step_again():
    found = [
        rc.sweep(
            rc.Network(cell_of(tied), 2), rc.RFLO(), rc.Add(1, 2), vary={"optimizer": [1e-3, 1e-2]}, steps=60, seeds=2,
            progress=False, **place,
        )
        for place in ({}, {"place": rc.places.Processes(2)})
    ]  # fmt: skip
    assert found[0].identical(found[1])


def rows(count):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, M)).astype("float32")
    return x, np.cumsum(x, axis=0)[:, :1] / 10


@pytest.mark.parametrize("step", [leaky, pytest.param(tied, marks=pytest.mark.slow)])
def test_a_live_model_learns_is_saved_and_goes_on(tmp_path, step):
    def made():
        network = rc.Network(cell_of(step), 1, rc.SquaredError())
        return rc.Online(rc.OnlineStep(rc.LearningStep(network, rc.RFLO(), 0.01)))

    x, y = rows(40)
    model, whole = made(), made()
    told = whole.learn_many(x, y)
    model.learn_many(x[:20], y[:20])
    for x_row, y_row in zip(x[20:25], y[20:25], strict=True):
        model.learn_one(x_row, y_row)
    rc.save(tmp_path / "model", model)
    with pytest.raises(rc.SavedFileError, match=r"needs a template: .*ReadCell.*like=model"):
        rc.load(tmp_path / "model")
    assert np.array_equal(rc.load(tmp_path / "model", like=made()).learn_many(x[25:], y[25:]), told[25:])
    before = drawn()
    learned = model.step.learning.network.cell.parameters(model.weights.cell)
    assert learned.keys() == before.keys()
    assert distance(learned, before) > 1e-4


def test_a_layer_of_a_stack():
    """Also one whose weights are converted, beside one of the library."""
    stack = rc.Stack(cell_of(tied), rc.RNN(N, 3, dtype="float32"))
    result = train(rc.Layered(rc.RFLO()), net=rc.Network(stack, 2), optimizer=0.1, steps=600)
    assert result.weights.cell[0].keys() == drawn().keys()
    assert np.isfinite(result.loss).all()
    assert result.final_loss().mean() < result.loss[:, :6].mean()


def test_a_step_of_any_form_runs_too():
    cell = cell_of(reset_before)
    assert type(cell) is rc.GeneralCell
    result = train(rc.SnAp1(), net=rc.Network(cell, 2))
    assert result.weights.cell["W"].shape == (2, N, N)
    assert np.isfinite(result.loss).all()
