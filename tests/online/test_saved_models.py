"""A model that was saved and loaded goes on with the same bits as one that never stopped."""

import copy
import os
import resource
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER
from online_models import CELLS, bits, full_step, plain_step, stream
from recurra.online import keeping
from recurra.saved import archive

ROWS = 150
LEARNERS = {**FOR_ONE_LAYER, "r-ok": lambda: rc.ROK(2)}


def check_resumed(model, never_stopped, path, seed=0):
    X, Y = stream(ROWS, missing=0.2, streams=len(model._shape))
    row = int(np.random.default_rng(seed).integers(1, ROWS - 1))
    model.learn_many(X[:row], Y[:row])
    before = bits(model)
    rc.save(path, model)
    loaded = rc.load(path)
    assert bits(model) == bits(loaded) == before
    wanted = never_stopped.learn_many(X, Y)
    assert (loaded.learn_many(X[row:], Y[row:]) == wanted[row:]).all()
    assert bits(loaded) == bits(never_stopped)
    assert loaded.rows == ROWS
    return X, Y, row, wanted


#: a script that goes on with a model in a process of its own
GO_ON = """
import sys
from pathlib import Path
import numpy as np
import recurra as rc
model = rc.load(sys.argv[1])
rows = np.load(sys.argv[2])
out = model.learn_many(rows["X"], np.ma.array(rows["Y"], mask=rows["mask"]))
rc.save(sys.argv[1], model)
np.save(sys.argv[3], out)
"""


def check_in_a_fresh_process(model, never_stopped, folder):
    X, Y, row, wanted = check_resumed(model, never_stopped, folder / "model")
    rc.save(folder / "model", model)
    np.savez(folder / "rows.npz", X=X[row:], Y=Y.data[row:], mask=Y.mask[row:])
    files = [str(folder / name) for name in ("model", "rows.npz", "out.npy")]
    subprocess.run([sys.executable, "-c", GO_ON, *files], check=True, timeout=600)
    assert (np.load(folder / "out.npy") == wanted[row:]).all()
    assert bits(rc.load(folder / "model")) == bits(never_stopped)


def test_going_on(tmp_path):
    step = full_step(3)
    check_resumed(rc.Online(step), rc.Online(step), tmp_path / "model")


def test_going_on_with_a_race_that_one_has_left(tmp_path):
    """Names that are not in the order of the alphabet, and numbers that are in no description."""

    def race():
        steps = {"wild": plain_step(optimizer=1e6), "b": plain_step(), "a": plain_step(optimizer=0.0)}
        return rc.Race({name: rc.Online(step, key=i) for i, (name, step) in enumerate(steps.items())}, 7, 1.5)

    model, other = race(), race()
    check_resumed(model, other, tmp_path / "race")
    assert list(model.left) == ["wild"]
    assert rc.load(tmp_path / "race").notes() == model.notes()


def test_a_model_whose_first_rows_wait(tmp_path):
    """Before anything was learned: the queue is not full, and origins are not yet chosen."""
    X, Y = stream(10)
    for rows in range(5):
        model = rc.Online(full_step(3))
        model.learn_many(X[:rows])
        rc.save(tmp_path / "model", model)
        loaded = rc.load(tmp_path / "model")
        assert bits(loaded) == bits(model)
        assert (loaded.learn_many(X, Y) == model.learn_many(X, Y)).all()
        assert bits(loaded) == bits(model)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", LEARNERS)
def test_going_on_with_every_learner_and_cell(tmp_path, name, cell):
    for i, step in enumerate((plain_step(1, learner=LEARNERS[name](), cell=cell), full_step(0, cell=cell, streams=2))):
        check_resumed(rc.Online(step, key=i), rc.Online(step, key=i), tmp_path / "model", seed=i)


@pytest.mark.slow
@pytest.mark.parametrize("learner", [rc.RTRL(), rc.UORO(), rc.EfficientBPTT(7)], ids=["rtrl", "uoro", "e-bptt"])
def test_going_on_in_a_fresh_process(tmp_path, learner):
    step = full_step(2, learner=learner)
    check_in_a_fresh_process(rc.Online(step), rc.Online(step), tmp_path)


@pytest.mark.slow
def test_going_on_with_a_race_in_a_fresh_process(tmp_path):
    race = lambda: rc.Race({"b": rc.Online(plain_step(1)), "a": rc.Online(full_step(1, cell="gru"))})
    check_in_a_fresh_process(race(), race(), tmp_path)


# Parts of a user's own


MOMENTUM = optax.sgd(0.01, momentum=0.9)


def with_optax(n=3):
    return rc.Online(plain_step(optimizer=MOMENTUM, n=n))


def with_own_cell():
    own = eqx.nn.GRUCell(2, 3, dtype="float32", key=jax.random.key(0))
    cell = rc.cell_of(own, carry=jnp.zeros(3, "float32"), x=2, unitwise=False)
    network = rc.Network(cell, 1, rc.SquaredError())
    step = rc.LearningStep(network, rc.UORO(), 0.01)
    return rc.Online(rc.OnlineStep(step))


@pytest.mark.parametrize("make", [with_optax, pytest.param(with_own_cell, marks=pytest.mark.slow)])
def test_parts_of_ones_own_need_a_template(tmp_path, make):
    model = rc.Online(make().step, key=1)
    rc.save(tmp_path / "model", model)
    with pytest.raises(rc.SavedFileError, match=r"needs a template: .* so a file cannot describe it.*like=model"):
        rc.load(tmp_path / "model")
    template = make()
    before = bits(template)
    assert bits(rc.load(tmp_path / "model", like=template)) == bits(model) != before
    assert bits(template) == before


def with_own_function(f=jnp.tanh):
    """A stack over a function, with a head that is one too."""
    step = lambda p, h, x: f(p["W"] @ h + p["U"] @ x)
    params = {"W": jnp.eye(3, dtype="float32"), "U": jnp.ones((3, 2), "float32")}
    cell = rc.cell_of(step, params, carry=jnp.zeros(3, "float32"), x=2)
    network = rc.Network(rc.Stack(cell, rc.RNN(3, 2, dtype="float32")), 1, rc.SquaredError())
    return rc.Online(rc.OnlineStep(rc.LearningStep(network, rc.Immediate(), 0.01)))


def test_a_template_with_another_function_of_the_same_shapes_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model"
    rc.save(path, with_own_function())
    assert bits(rc.load(path, like=with_own_function())) == bits(with_own_function())
    with pytest.raises(rc.SavedFileError, match=r"compute something else than those of `like` \(<lambda>\): build"):
        rc.load(path, like=with_own_function(jnp.sin))
    monkeypatch.setattr(keeping, "_packages", lambda: {"jax": "another"})
    rc.load(path, like=with_own_function())
    with pytest.warns(
        UserWarning, match=r"written with jax \d.* here are jax another, which may write a program in anot"
    ):
        rc.load(path, like=with_own_function(jnp.sin))


@pytest.mark.slow
def test_a_function_has_the_same_digest_in_a_fresh_process():
    here = dict(keeping.digests(with_own_function().step))
    code = "import test_saved_models as t; print(dict(t.keeping.digests(t.with_own_function().step)))"
    paths = os.pathsep.join(sys.path)
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert found.stdout.strip() == str(here)


@pytest.mark.slow
@pytest.mark.parametrize("make", [with_optax, with_own_cell])
def test_going_on_with_parts_of_ones_own(tmp_path, make):
    X, Y = stream(40)
    model, whole = make(), make()
    model.learn_many(X[:20], Y[:20])
    rc.save(tmp_path / "model", model)
    wanted = whole.learn_many(X, Y)
    assert (rc.load(tmp_path / "model", like=make()).learn_many(X[20:], Y[20:]) == wanted[20:]).all()


@pytest.mark.slow
def test_a_wrong_template(tmp_path):
    rc.save(tmp_path / "own", with_optax())
    with pytest.raises(rc.SavedFileError, match="`n` of RNN is 3 in the file, and 4 in `like`; build `like` as"):
        rc.load(tmp_path / "own", like=with_optax(n=4))
    with pytest.raises(rc.SavedFileError, match=r"`optimizer` of LearningStep is a Gradient.* in the file, and"):
        rc.load(tmp_path / "own", like=rc.Online(plain_step()))
    with pytest.raises(rc.SavedFileError, match="holds a model of class Online, and `like` is a Race"):
        rc.load(tmp_path / "own", like=rc.Race({"a": with_optax()}))
    rc.save(tmp_path / "described", rc.Online(plain_step(optimizer=0.02)))
    with pytest.raises(rc.SavedFileError, match="it holds a model with other settings than `like`"):
        rc.load(tmp_path / "described", like=rc.Online(plain_step(optimizer=0.01)))
    rc.load(tmp_path / "described", like=rc.Online(plain_step(optimizer=0.02)))
    rc.save(tmp_path / "race", rc.Race({"a": with_optax()}))
    with pytest.raises(rc.SavedFileError, match="its models have other names than those of `like`"):
        rc.load(tmp_path / "race", like=rc.Race({"b": with_optax()}))


# Files that lie


def test_weights_that_are_not_finite(tmp_path):
    model = rc.Online(plain_step())
    bad = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), model.weights)
    delayed = model.state.delayed
    delayed = delayed._replace(learning=delayed.learning._replace(weights=bad))
    rc.save(tmp_path / "model", model.with_state(model.state._replace(delayed=delayed)))
    with pytest.raises(rc.SavedFileError, match=r"the array '.*weights.cell.* holds nan or an infinity"):
        rc.load(tmp_path / "model")


def changed(document, path, value):
    """The document with another value at a place."""
    document = copy.deepcopy(document)
    *most, last = path
    part = document
    for name in most:
        part = part[name]
    part[last] = value
    return document


NETWORK = ("model", "step", "fields", "learning", "fields", "network", "fields")
HUGE = [
    (*NETWORK, "cell", "fields", "n"),
    (*NETWORK, "cell", "fields", "n_in"),
    (*NETWORK, "n_out"),
    ("model", "step", "fields", "learning", "fields", "streams"),
    ("model", "step", "fields", "horizon"),
]


@pytest.mark.parametrize(
    "learner",
    [rc.RTRL(), *(pytest.param(each, marks=pytest.mark.slow) for each in (rc.RFLO(), rc.EfficientBPTT(), rc.ROK(2)))],
    ids=lambda each: each.name,
)
def test_a_small_file_that_describes_something_huge(tmp_path, learner):
    rc.save(tmp_path / "model", rc.Online(plain_step(learner=learner)))
    arrays, document = archive.read(tmp_path / "model", "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for place in HUGE:
        archive.write(tmp_path / "huge", "model", arrays, changed(document, place, 10**7))
        with pytest.raises(rc.SavedFileError, match="cannot be used: "):
            rc.load(tmp_path / "huge")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def places(document, path=()):
    """Every place in a document."""
    if isinstance(document, dict | list):
        for name, part in document.items() if isinstance(document, dict) else enumerate(document):
            yield (*path, name)
            yield from places(part, (*path, name))


@pytest.mark.slow
def test_a_description_that_is_wrong_in_any_one_place(tmp_path):
    """It gives a model, or a `SavedFileError`, and nothing else."""
    race = rc.Race({"a": rc.Online(full_step(3)), "b": rc.Online(plain_step(3, readout=rc.RLS()))})
    race.learn_many(*stream(10))
    rc.save(tmp_path / "race", race)
    arrays, document = archive.read(tmp_path / "race", "model")
    refused = 0
    for place in places(document):
        for value in (None, -1, 0, 3, 1e30, "x", [], {}, [1], {"a": 1}, True):
            archive.write(tmp_path / "bad", "model", arrays, changed(document, place, value))
            try:
                rc.load(tmp_path / "bad")
            except rc.SavedFileError:
                refused += 1
    assert refused > 300
    for name in arrays:
        for bad in (
            None,
            arrays[name][..., None],
            np.zeros(3, "int8"),
            np.asarray(arrays[name].astype("float64") * np.nan),
        ):
            others = {key: array for key, array in arrays.items() if key != name}
            archive.write(tmp_path / "bad", "model", others if bad is None else {**others, name: bad}, document)
            if name in ("loss", "waiting") and bad is not None and np.isnan(bad).all():
                continue  # of models that left
            with pytest.raises(rc.SavedFileError):
                rc.load(tmp_path / "bad")


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(rc.SavedFileError, match="cannot be written"):
        rc.save(tmp_path / "no" / "folder", rc.Online(plain_step()))
