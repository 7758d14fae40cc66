"""Models whose rows are computed by compiled C agree with JAX, change between the two at any row, and fail safely."""

import copy
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import recurra as rc
from models_in_c import needs_c
from online_models import bits, full_step, learning_step, plain_step, stream
from recurra.native import building

pytestmark = needs_c


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(building.FOLDER, str(tmp_path / "cache"))
    building._loaded.cache_clear()


def native(step, **kwargs):
    model = rc.Online(step, native=True, **kwargs)
    assert model.native
    return model


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_predictions_are_those_of_jax(dtype):
    step = full_step(2, learner=rc.UORO(), dtype=dtype)
    plain, quick = rc.Online(step), native(step)
    X, Y = stream(200, missing=0.2)
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(quick.learn_many(X, Y), plain.learn_many(X, Y), atol=tolerance)
    for x, y in zip(X[:50], Y[:50], strict=True):
        np.testing.assert_allclose(quick.learn_one(x, y), plain.learn_one(x, y), atol=tolerance)
        np.testing.assert_allclose(quick.predict_one(x), plain.predict_one(x), atol=tolerance)
    assert (quick.rows, quick._waiting) == (plain.rows, plain._waiting)


def test_it_makes_no_difference_how_a_stream_is_cut():
    step = rc.OnlineStep(learning_step(learner=rc.RFLO(), optimizer=0.05))
    X, Y = stream(150)
    at_once, one_by_one, looked = (native(step) for _ in range(3))
    expected = at_once.learn_many(X, Y)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        np.testing.assert_array_equal(one_by_one.learn_one(x, y), expected[i])
        looked.predict_one(x)
        kept = looked.kept()
        looked.learn_one(-x, y)
        looked.go_back(kept)
        np.testing.assert_array_equal(looked.learn_one(x, y), expected[i])
    assert bits(at_once) == bits(one_by_one) == bits(looked)


@pytest.mark.parametrize("horizon", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_resets(horizon):
    step = rc.OnlineStep(learning_step(learner=rc.RFLO(), optimizer=0.05, dtype="float64"), horizon, resets=True)
    plain, quick, without = rc.Online(step), native(step), native(step)
    X, Y = stream(100)
    reset = np.arange(100) % 10 == 5
    found = quick.learn_many(X, Y, reset)
    np.testing.assert_allclose(found, plain.learn_many(X, Y, reset), atol=1e-10)
    assert np.abs(found - without.learn_many(X, Y)).max() > 1e-6


@pytest.mark.slow
def test_a_race_and_ranges():
    def make():
        steps = [rc.OnlineStep(learning_step(learner=each, dtype="float64")) for each in (rc.RFLO(), rc.UORO())]
        return rc.Intervals(rc.Race({str(i): rc.Online(step) for i, step in enumerate(steps)}))

    plain, quick = make(), make()
    quick.native = True
    assert quick.native
    assert not plain.native
    X, Y = stream(120)
    for x, y in zip(X, Y, strict=True):
        np.testing.assert_allclose(np.array(quick.learn_one(x, y)), np.array(plain.learn_one(x, y)), atol=1e-9)


def test_a_model_changes_between_the_two_at_any_row(tmp_path):
    step = rc.OnlineStep(learning_step(learner=rc.UORO(), optimizer=0.05))
    plain, changing = rc.Online(step), rc.Online(step)
    X, Y = stream(40)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        changing.native = i % 3 == 1
        if i == 20:  # files are the same, whichever wrote them
            rc.save(tmp_path / "model", changing)
            changing = rc.load(tmp_path / "model")
        np.testing.assert_allclose(changing.learn_one(x, y), plain.learn_one(x, y), atol=1e-4)
        changing.learn_one(x, rc.GivenError(np.zeros(1)))  # which C does not know, so that JAX takes this row
        plain.learn_one(x, rc.GivenError(np.zeros(1)))


def test_wrong_numbers_change_nothing():
    model = native(rc.OnlineStep(learning_step(learner=rc.RFLO())))
    X, Y = stream(30)
    model.learn_many(X, Y)
    before = bits(model)
    for x, y in (([np.nan, 0.0], [0.0]), ([0.0, 0.0], [np.inf]), ([1e30, 0.0], [0.0])):
        with pytest.raises(ValueError, match="Nothing was learned"):
            model.learn_one(np.array(x), np.array(y))
        assert bits(model) == before
    wild = native(plain_step(learner=rc.RFLO(), optimizer=1e30))
    diverged = False
    for x, y in zip(X, Y, strict=True):
        before = bits(wild)
        try:
            wild.learn_one(x, y)
        except rc.Diverged:
            diverged = True
            break
    assert diverged
    assert bits(wild) == before


def test_copies_go_ways_of_their_own():
    model = native(rc.OnlineStep(learning_step(learner=rc.RFLO(), optimizer=0.05)))
    X, Y = stream(40)
    model.learn_many(X[:20], Y[:20])
    model.learn_one(X[0], Y[0])
    other = copy.deepcopy(model)
    assert other.native
    apart = [each.learn_many(X[20:], sign * Y[20:]) for each, sign in ((model, 1), (other, -1))]
    again = rc.Online(rc.OnlineStep(learning_step(learner=rc.RFLO(), optimizer=0.05)), native=True)
    again.learn_many(X[:20], Y[:20])
    again.learn_one(X[0], Y[0])
    np.testing.assert_array_equal(again.learn_many(X[20:], -Y[20:]), apart[1])
    assert np.abs(apart[0] - apart[1]).max() > 0.1


def test_without_a_compiler_jax_goes_on(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.warns(UserWarning, match="computed by JAX.*there is no C compiler: install gcc or clang"):
        model = rc.Online(plain_step(), native=True)
    assert not model.native
    assert model.learn_one([0.0, 0.0], 1.0).shape == (1,)


def test_a_compiler_that_fails_is_quoted(monkeypatch, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\necho 'error: out of order' >&2\nexit 1\n")
    bad.chmod(0o700)
    monkeypatch.setenv("CC", str(bad))
    with pytest.warns(UserWarning, match="bad failed: error: out of order"):
        rc.Online(plain_step(), native=True)
    assert not [*(tmp_path / "cache" / "native").iterdir()]


ANSWER = "int answer(void); int answer(void) { return %d; }\n"


def library(number):
    return building.library(ANSWER % number).answer()


def kept(folder):
    return sorted(each.name for each in folder.iterdir())


def test_libraries_are_kept_and_found_again(tmp_path, monkeypatch):
    folder = tmp_path / "cache" / "native"
    assert library(42) == 42
    assert len(kept(folder)) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    building._loaded.cache_clear()
    monkeypatch.setattr(building, "_compiled", None)  # there is nothing to compile any more
    assert library(42) == 42


def test_what_it_did_not_write_is_never_loaded(tmp_path):
    folder = tmp_path / "cache" / "native"
    library(1)
    (path,) = folder.glob("*.so")
    good = path.read_bytes()

    def written(content):  # beside it: this process has the library itself open
        other = tmp_path / "other"
        other.write_bytes(content)
        other.chmod(0o700)
        other.replace(path)

    for spoil in (
        lambda: written(good[:-1]),
        lambda: written(b"not a library"),
        lambda: next(folder.glob("*.sha256")).unlink(),
        lambda: path.chmod(0o777),
    ):
        spoil()
        building._loaded.cache_clear()
        assert building._kept(folder, path.stem) is None
        assert library(1) == 1  # compiled again
        assert building._kept(folder, path.stem) is not None


def test_a_folder_that_others_may_write_to_is_left_alone(tmp_path):
    folder = tmp_path / "cache" / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert library(2) == 2
    assert kept(folder) == []
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    building._loaded.cache_clear()
    assert library(2) == 2
    assert kept(tmp_path / "elsewhere") == []


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert library(3) == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_disk_is_said(monkeypatch, tmp_path):
    full = OSError(28, "No space left on device")

    def no_room(*_, **__):
        raise full

    monkeypatch.setattr(building.tempfile, "TemporaryDirectory", no_room)
    with pytest.raises(building.NoCompilerError, match="no folder to compile in: No space left on device"):
        library(4)


@pytest.mark.slow
def test_processes_share_the_folder(tmp_path):
    program = (
        "from recurra.native import building; print(building.library("
        "'int answer(void); int answer(void) { return 5; }').answer())"
    )
    running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    killed = subprocess.Popen([sys.executable, "-c", program])
    killed.kill()
    assert [each.communicate()[0] for each in running] == ["5\n"] * 4
    killed.wait()
    folder = tmp_path / "cache" / "native"
    assert len([name for name in kept(folder) if not name.startswith("partial-")]) == 2
