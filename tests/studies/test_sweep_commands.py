"""`recurra sweep`, `recurra show` and `recurra tune`: every network is what `recurra.train` makes of its settings."""

import errno
import functools
import itertools
import json
import os
import re
import shutil
import signal
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

import recurra as rc
from recurra.cli import app, environment
from recurra.engine.choosing import AutoEngine
from recurra.engine.on_chip.fits import DoesNotFitError
from recurra.engine.settings import having
from recurra.saved import archive, whole_files
from recurra.saved.folders import FolderError
from recurra.studies import folder as folders
from recurra.studies.folder import Folder
from recurra.studies.parts import build
from recurra.studies.settings import SettingsError
from recurra.studies.study import Study
from recurra.studies.sweep import Sweep
from recurra.training import folder as groups_of_folders
from recurra.training import orders as sweeping
from recurra.training import sweep as work
from recurra.training.places.base import Failure
from recurra.training.places.dask import Cluster

RATES = """learners = ["rflo"]
n = 3
steps = 60
seeds = 3
[vary]
learning_rate = [0.001, 0.01, 0.1, 0.3]
"""
SEARCH = """learners = ["rflo"]
n = 3
steps = 40
seeds = 2
[vary]
learning_rate = { log_uniform = [1e-3, 0.1] }
[tune]
trials = 4
confirm_seeds = 2
"""
MEASURED = ("loss", "final_loss", "diverged_at", "steps_done")


def same_bits(one, other):
    """All that is computed, and the coordinates; how long it took differs, of course."""
    for name in MEASURED:
        assert one[name].dims == other[name].dims
        assert one[name].values.tobytes() == other[name].values.tobytes(), name
    assert one.coords.to_dataset().equals(other.coords.to_dataset())


@pytest.fixture
def recurra(capsys, tmp_path, monkeypatch):
    """Runs the command in an empty folder, with orders of few networks: (status, standard output, standard error)."""
    small_orders(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(RATES)

    def run(*arguments):
        capsys.readouterr()
        status = app.execute([str(each) for each in arguments])
        return status, *capsys.readouterr()

    return run


def small_orders(monkeypatch):
    monkeypatch.setattr(sweeping, "LEAST", 3)
    monkeypatch.setattr(sweeping, "FIRST_STEPS", 3 * 60)
    monkeypatch.setattr(sweeping, "SECONDS", 0.0)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A folder of RATES, all finished."""
    folder = tmp_path_factory.mktemp("complete")
    (folder / "study.toml").write_text(RATES)
    with pytest.MonkeyPatch.context() as patch:
        small_orders(patch)
        hide(patch, "jinja2")
        assert app.execute(["sweep", str(folder / "study.toml"), "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture
def finished(complete, tmp_path):
    """A copy of it in the folder `out`."""
    shutil.copytree(complete, tmp_path / "out")


@pytest.fixture
def no_pages(monkeypatch):
    """Without what draws them, which takes seconds."""
    hide(monkeypatch, "jinja2")


def hide(monkeypatch, *names):
    find = environment.find_spec
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name in names else find(name))


@pytest.fixture(scope="module")
def alone():
    """What the networks of RATES come to one by one, as `recurra.train` has it."""
    rates = (0.001, 0.01, 0.1, 0.3)
    with jax.enable_x64(False):
        runs = [
            rc.train(
                rc.Network(rc.RNN(2, 3, dtype="float32"), 2, rc.SoftmaxCrossEntropy()),
                rc.RFLO(),
                rc.Add(),
                steps=60,
                seeds=3,
                optimizer=rate,
                engine=rc.ScanEngine(alike=True),
                progress=False,
            )
            for rate in rates
        ]
    return np.stack([run.loss for run in runs]), np.stack([run.final_loss() for run in runs])


def kept(folder="out"):
    with xarray.open_dataset(f"{folder}/study.nc", engine="h5netcdf") as data:
        return data.load()


def groups(folder="out"):
    return {path.name: path.stat().st_mtime_ns for path in (Path(folder) / "groups").iterdir()}


def one_line(error):
    assert "Traceback" not in error
    lines = [line for line in error.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, error
    return lines[0]


# A network is what `recurra.train` makes of its settings


def check_points(study, same=True):
    """Every network of a study beside `recurra.train`, with the same bits if the engine is the same."""
    sweep = Sweep(study)
    planner = sweep.networks
    members = [(point, seed) for point in range(len(sweep.points)) for seed in study.seeds]
    place = {member: i for i, member in enumerate(members)}
    found = {}
    for batch in planner.batches():
        order = planner.order(batch.members)
        outcome = work.compute(order)
        found |= {member: (outcome, i) for i, member in enumerate(batch.members)}
    assert set(found) == set(place)
    for point, settings in enumerate(sweep.settings):
        with having(planner.settings):
            parts = build(settings)
            how = {"engine": rc.ScanEngine(alike=True)} if same else {}
            result = rc.train(
                parts.network,
                parts.learners[settings.learners[0]],
                parts.task,
                steps=settings.steps,
                seeds=list(study.seeds),
                streams=settings.streams,
                optimizer=parts.optimizer,
                window=settings.window,
                key=settings.key,
                progress=False,
                **how,
            )
        for column, seed in enumerate(study.seeds):
            outcome, i = found[point, seed]
            np.testing.assert_array_equal(outcome.axes["step"], result.step)
            losses = outcome.values["loss"][i]
            if same:
                assert losses.tobytes() == result.loss[column].tobytes(), sweep.points[point]
                np.testing.assert_array_equal(outcome.values["final_loss"][i], result.final_loss()[column])
            else:
                np.testing.assert_allclose(losses, result.loss[column], rtol=2e-4)
    return sweep


POINTS = """learners = ["rflo"]
n = 3
seeds = [4, 1]
key = 9
[vary]
steps = [40, 110]
[[points]]
task.t1 = 3
task.t2 = 5
[[points]]
"task.t1" = 2
"task.t2" = 100
"""
PRECISIONS = """learners = ["rflo"]
n = 3
steps = 30
seeds = 2
[vary]
dtype = ["float32", "float64"]
learning_rate = [0.01, 0.1]
"""
KINDS = """learners = ["rflo", "uoro"]
n = 3
steps = 30
seeds = 1
task = "mimic"
[set]
task.target.n_in = 2
task.outputs = 2
[vary]
optimizer = ["sgd", "rmsprop", "adam"]
"optimizer.momentum" = [0.5, 0.9]
learning_rate = [0.01, 0.03]
"""
CELLS = """learners = ["rflo", "kernl"]
n = 3
steps = 30
seeds = 1
streams = 2
[vary]
cell = ["rnn", "lstm"]
alpha = [0.5, 1.0]
[vary.learner.kernl]
perturbation = [1e-3, 1e-2]
"""
RANDOM = """learners = ["uoro"]
n = 3
steps = 30
seeds = 2
samples = 3
[vary]
learning_rate = { log_uniform = [1e-4, 1e-1] }
alpha = { uniform = [0.1, 1.0] }
w_rec = { choices = ["orthogonal", "gaussian"] }
"""


def test_a_network_is_what_train_makes_of_its_settings():
    check_points(Study.of_text(POINTS))


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("text", [POINTS, PRECISIONS, KINDS, CELLS, RANDOM])
def test_all_kinds_of_networks_are_what_train_makes_of_their_settings(text, same):
    check_points(Study.of_text(text), same)


def test_an_order_may_need_several_programs():
    """Points whose lags are of different shapes, in one order: as each would be alone, in the order's sequence."""
    study = Study.of_text(
        POINTS.replace("steps = [40, 110]", "learning_rate = [0.01, 0.1]").replace("n = 3", "n = 3\nsteps = 40")
    )
    sweep = Sweep(study)
    planner = sweep.networks
    members = [(point, seed) for seed in (4, 1) for point in (0, 1, 2, 3)]
    assert len({point["task.t2"] for point in sweep.points}) == 2
    assert len(planner.batches()) == 2
    mixed = work.compute(planner.order(members))
    for i, member in enumerate(members):
        one = work.compute(planner.order([member]))
        assert mixed.values["loss"][i].tobytes() == one.values["loss"][0].tobytes()
    assert len({row.tobytes() for row in mixed.values["loss"]}) == len(members)


def test_no_network_is_left_out_or_done_twice(monkeypatch):
    """However large orders are."""
    study = Study.of_text(POINTS)
    sweep = Sweep(study)
    wanted = set(itertools.product(range(4), (4, 1)))
    done = {(1, 4), (2, 1)}
    for least, workers in itertools.product((1, 3, 8), (1, 2, 5)):
        monkeypatch.setattr(sweeping, "LEAST", least)
        planner = sweep.networks
        planner.workers = workers
        monkeypatch.setattr(planner, "_gains", lambda *_: False)
        orders = list(planner.orders(planner.batches(done)))
        given = [(order.points[member.row], member.seed) for order in orders for member in order.members]
        assert sorted(given) == sorted(wanted - done)
        for order in orders:
            assert {sweep.settings[point].steps for point in order.points} == {order.stop}


# The command, its folder and its data set


def test_sweep_makes_a_data_set_and_a_page(recurra, alone):
    status, shown, said = recurra("sweep", "study.toml", "--out", "out")
    assert status == 0, said
    assert "RFLO" in shown or "learning_rate" in shown
    data = kept()
    assert data.loss.dims == ("learning_rate", "seed", "step")
    assert data.loss.values.tobytes() == alone[0].tobytes()
    np.testing.assert_array_equal(data.final_loss, alone[1])
    assert (data.steps_done == 60).all()
    assert (data.diverged_at == -1).all()
    assert "learning_rate" in Path("out/index.html").read_text()
    assert len(groups()) == 4

    before = groups()
    status, _, said = recurra("sweep", "study.toml", "--out", "out")
    assert (status, groups()) == (0, before)
    same_bits(kept(), data)


@pytest.mark.usefixtures("no_pages")
class TestFolders:
    def test_only_what_is_missing_is_computed(self, recurra, finished):
        whole, before = kept(), groups()
        gone = sorted(before)[1]
        os.unlink(f"out/groups/{gone}")
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
        after = groups()
        assert {name: after.get(name) for name in before if name != gone} == {
            name: time for name, time in before.items() if name != gone
        }
        assert len(after) == 4
        same_bits(kept(), whole)

    def test_damaged_groups_are_named(self, recurra, finished):
        path = Path("out/groups") / min(groups())
        content = path.read_bytes()
        for damage in (content[:-1], content[:100], b"", bytes([content[0] ^ 1]) + content[1:]):
            path.write_bytes(damage)
            for command in (("sweep", "study.toml", "--out", "out"), ("show", "out")):
                status, _, said = recurra(*command)
                assert status == 2
                line = one_line(said)
                assert str(path) in line
                assert "delete it" in line
                assert "3 networks" in line
            assert path.read_bytes() == damage

    def test_another_study_is_refused_and_its_lines_shown(self, recurra, finished):
        before, data = groups(), Path("out/study.nc").read_bytes()
        Path("study.toml").write_text(RATES.replace("steps = 60", "steps = 61"))
        for more in ([], ["--dry-run"]):
            status, _, said = recurra("sweep", "study.toml", "--out", "out", *more)
            assert status == 2
            assert "-steps = 60" in said
            assert "+steps = 61" in said
            assert "learning_rate" not in said
        assert groups() == before
        assert Path("out/study.nc").read_bytes() == data

    def test_a_study_is_extended_by_values_and_seeds(self, recurra, finished):
        """What is there is not computed again, and the data set is that of the larger study from the start."""
        before = groups()
        larger = RATES.replace("seeds = 3", "seeds = 4").replace("[0.001,", "[0.03, 0.001,")
        Path("study.toml").write_text(larger)
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 0, said
        after = groups()
        assert before.items() < after.items()
        assert sum(int(name.partition("-")[0]) for name in after) == 5 * 4
        assert recurra("sweep", "study.toml", "--out", "anew")[0] == 0
        same_bits(kept(), kept("anew"))
        Path("study.toml").write_text(RATES)  # which lacks what is there now
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 2
        assert "belongs to another study" in said
        assert groups() == after

    def test_a_dry_run_estimates_the_extended_study_and_writes_nothing(self, recurra, finished, tmp_path):
        larger = RATES.replace("seeds = 3", "seeds = 4").replace("[0.001,", "[0.03, 0.001,")
        Path("study.toml").write_text(larger)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        status, shown, said = recurra("sweep", "study.toml", "--out", "out", "--dry-run")
        assert status == 0, said
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        assert Path("out/study.toml").read_text() == RATES
        rows = (line.split(maxsplit=1) for line in shown.splitlines())
        found = {words[0]: words[1].strip() for words in rows if len(words) > 1}
        assert found["Networks"] == "20 (5 points, 4 seeds)"
        assert found["Finished"] == "12"
        assert found["Network-steps"] == f"{8 * 60}"

    def test_comments_and_the_order_of_lines_are_free(self, recurra):
        varied = "[vary]\nlearning_rate = [0.01, 0.1]\ntask.t1 = [3, 4]\n"
        turned = "# why\n[vary]\ntask.t1 = [3, 4]\nlearning_rate = [0.01, 0.1]\n"
        head = RATES.partition("[vary]")[0]
        Path("study.toml").write_text(head + varied)
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
        before, data = groups(), kept()
        Path("study.toml").write_text(head.replace("n = 3\n", "") + "n = 3  # few\n" + turned)
        for more in (["--dry-run"], []):
            status, _, said = recurra("sweep", "study.toml", "--out", "out", *more)
            assert status == 0, said
        assert groups() == before
        same_bits(kept(), data)

    def test_folders_that_cannot_be_used(self, recurra, tmp_path):
        (tmp_path / "file").write_text("mine")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "thesis.tex").write_text("mine")
        for out, word in (("file", "is a file"), ("full", "belong to no study"), ("file/in", "cannot be written")):
            status, _, said = recurra("sweep", "study.toml", "--out", out)
            assert status == 2
            assert word in one_line(said)
        assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]
        assert (tmp_path / "file").read_text() == "mine"
        (tmp_path / "empty").mkdir()
        assert recurra("sweep", "study.toml", "--out", "empty")[0] == 0

    def test_a_study_that_is_gone(self, recurra, finished):
        assert "nowhere.toml" in one_line(recurra("sweep", "nowhere.toml", "--out", "new")[2])
        assert not os.path.exists("new")
        os.unlink("out/study.toml")
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 2
        assert "belong to no study" in one_line(said)
        status, _, said = recurra("show", "out")
        assert status == 2
        assert "holds no study" in one_line(said)

    @pytest.mark.parametrize("text", [b"\xff\xfe", b"steps = \n"])
    def test_a_damaged_study_in_the_folder(self, recurra, finished, text):
        Path("out/study.toml").write_bytes(text)
        for command in (("sweep", "study.toml", "--out", "out"), ("show", "out")):
            status, _, said = recurra(*command)
            assert status == 2
            assert "out/study.toml" in said
            assert "Traceback" not in said

    def test_left_over_partial_files_go(self, recurra, finished):
        left = Path("out/groups/.4-abc.safetensors.01234567.partial")
        left.write_bytes(b"half")
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
        assert not left.exists()

    def test_a_folder_is_used_by_one_sweep_at_a_time(self, recurra, finished):
        study = Study.read(Path("study.toml"))
        with Folder(Path("out")).held(study, set):
            status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 2
        assert "in use" in one_line(said)
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 0

    def test_two_studies_that_begin_at_once_do_not_replace_each_other(self, tmp_path, monkeypatch):
        """One writes its file when the other has just seen that there is none."""
        first, second = Study.of_text(RATES), Study.of_text(RATES.replace("60", "61"))
        out = Folder(tmp_path / "out")

        def late(path, write, **how):
            monkeypatch.setattr(folders, "write_whole", whole_files.write_whole)
            Folder(tmp_path / "out").claim(first)
            return whole_files.write_whole(path, write, **how)

        monkeypatch.setattr(folders, "write_whole", late)
        with pytest.raises(FolderError, match="belongs to another study"):
            out.claim(second)
        assert (tmp_path / "out" / "study.toml").read_text() == RATES
        out.claim(first)

    def test_a_full_disk_for_a_while(self, recurra, alone, monkeypatch):
        """Groups wait in memory until there is room."""
        full = FullDisk(monkeypatch, fails=2)
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 0, said
        assert full.failed == 2
        assert said.count("No space left") == 1
        assert kept().loss.values.tobytes() == alone[0].tobytes()
        assert len(groups()) == 4

    def test_a_full_disk_to_the_end(self, recurra, alone, monkeypatch):
        with monkeypatch.context() as patch:
            FullDisk(patch, fails=10**6, after=1)
            status, _, said = recurra("sweep", "study.toml", "--out", "out")
            assert status == 1
            assert "No space left" in one_line(said)
            assert len(groups()) == 1
        before = groups()
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
        assert before.items() < groups().items()
        assert kept().loss.values.tobytes() == alone[0].tobytes()

    def test_a_full_disk_when_all_is_computed(self, recurra, finished, monkeypatch):
        """Only the data set does not fit."""
        os.unlink("out/study.nc")
        with monkeypatch.context() as patch:
            FullDisk(patch, fails=10**6, names=("study.nc",))
            status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 1
        assert "study.nc could not be kept" in one_line(said)
        before = groups()
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
        assert groups() == before

    def test_a_folder_that_becomes_read_only(self, recurra, monkeypatch):
        def refuse(path):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(groups_of_folders, "try_place", refuse)
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 2
        assert "Permission denied" in one_line(said)

    def test_what_waits_for_room_is_kept_when_interrupted(self, recurra, monkeypatch):
        FullDisk(monkeypatch, fails=1)
        compute, calls = work.compute, []

        def interrupted(order, report, asked):
            calls.append(order)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return compute(order, report, asked)

        monkeypatch.setattr(work, "compute", interrupted)
        assert recurra("sweep", "study.toml", "--out", "out")[0] == 130
        assert len(groups()) == 1


@pytest.mark.usefixtures("no_pages")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_while_a_data_set_is_packed(recurra, alone, monkeypatch, number):
    """An exception inside HDF5 would leave it unusable; what was computed is kept."""
    pack, came = xarray.Dataset.to_netcdf, []

    def disturbed(*arguments, **how):
        if not came:
            os.kill(os.getpid(), number)
            came.append(number)  # not reached if the signal raises at once
        return pack(*arguments, **how)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(xarray.Dataset, "to_netcdf", disturbed)
            assert recurra("sweep", "study.toml", "--out", "out")[0] == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came
    assert len(groups()) == 4
    assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
    assert kept().loss.values.tobytes() == alone[0].tobytes()


class FullDisk:
    """No room for groups, or for files of these names, a number of times."""

    def __init__(self, monkeypatch, fails, after=0, names=()):
        self.failed, seen, write = 0, [], whole_files.write_whole

        def full(path, content, **how):
            if path.name in names or (not names and path.parent.name == "groups"):
                seen.append(path)
                if len(seen) > after and self.failed < fails:
                    self.failed += 1
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(path, content, **how)

        for module in (folders, archive):
            monkeypatch.setattr(module, "write_whole", full)


# Orders that fail, interruptions


def test_what_fails_is_said_and_tried_again(recurra, alone, monkeypatch):
    compute = work.compute

    def failing(order, report, asked):
        if 2 in order.points:
            raise MemoryError("it is too large")
        return compute(order, report, asked)

    with monkeypatch.context() as patch:
        patch.setattr(work, "compute", failing)
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
    assert status == 1
    assert "MemoryError: it is too large" in said
    assert "1 point failed" in one_line(said)
    assert "it is too large" in Path("out/index.html").read_text()
    data = kept()
    np.testing.assert_array_equal(data.steps_done.sel(learning_rate=0.1), 0)
    assert data.loss.sel(learning_rate=0.1).isnull().all()
    assert data.loss.sel(learning_rate=[0.001, 0.01, 0.3]).values.tobytes() == alone[0][[0, 1, 3]].tobytes()
    before = groups()

    assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
    assert before.items() < groups().items()
    assert kept().loss.values.tobytes() == alone[0].tobytes()
    assert "it is too large" not in Path("out/index.html").read_text()


@pytest.mark.usefixtures("no_pages")
def test_an_interrupted_sweep_goes_on(recurra, alone, monkeypatch):
    """Once in each order, so that each run comes one order further."""
    compute, seen = work.compute, []

    def once(order, report, asked):
        if order.points not in seen:
            seen.append(order.points)
            raise KeyboardInterrupt
        return compute(order, report, asked)

    monkeypatch.setattr(work, "compute", once)
    for finished in range(4):
        before = groups() if finished else {}
        status, _, said = recurra("sweep", "study.toml", "--out", "out")
        assert status == 130
        assert "finished groups are kept" in said
        assert before.items() <= groups().items()
        assert len(groups()) == finished
        assert not os.path.exists("out/study.nc")
    assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
    assert kept().loss.values.tobytes() == alone[0].tobytes()


# What is shown


@pytest.mark.usefixtures("no_pages")
def test_show_tells_how_far_a_study_is(recurra, alone, monkeypatch):
    Folder(Path("out")).claim(Study.of_text(RATES))
    status, _, said = recurra("show", "out")
    assert status == 0, said
    assert json.loads(recurra("show", "out", "--json")[1]) is not None

    compute = work.compute
    with monkeypatch.context() as patch:
        patch.setattr(work, "compute", lambda order, **how: _stop() if 2 in order.points else compute(order, **how))
        recurra("sweep", "study.toml", "--out", "out")
    assert recurra("show", "out")[0] == 0
    [found] = json.loads(recurra("show", "out", "--json")[1])
    best = alone[1][:2].mean(axis=1)
    assert found["settings"] == {"learning_rate": [0.001, 0.01][best.argmin()]}
    np.testing.assert_allclose(found["mean"], best.min())

    recurra("sweep", "study.toml", "--out", "out")
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    [found] = json.loads(recurra("show", "out", "--json")[1])
    np.testing.assert_allclose(found["mean"], alone[1].mean(axis=1).min())
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before


def _stop():
    raise KeyboardInterrupt


def test_show_needs_a_study(recurra, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere", "study.toml"):
        status, shown, said = recurra("show", name)
        assert (status, shown) == (2, "")
        assert "holds no study" in one_line(said)


@pytest.mark.usefixtures("no_pages")
def test_dry_run_says_how_much_there_is_and_writes_nothing(recurra, tmp_path, complete):
    text = RATES.replace("steps = 60\n", "").replace(
        "[vary]", '[vary]\nsteps = [10, 30]\ntask = ["add", "mimic"]\n"task.t2" = [10, 60, 70]\n'
    )
    (tmp_path / "study.toml").write_text(text)
    status, shown, said = recurra("sweep", "study.toml", "--out", "out", "--dry-run")
    assert status == 0, said
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]
    said = {words[0]: words[1] for words in (line.split(maxsplit=1) for line in shown.splitlines()) if len(words) > 1}
    # with mimic there is no t2: 2 steps × (3 + 1) × 4 rates, 3 seeds; lags of 10 and 60 share a shape
    assert said["Networks"].startswith("96 (32 points, 3 seeds)")
    assert said["Programs"].split() == ["6"]
    assert said["Network-steps"].split() == [f"{(10 + 30) * 4 * 4 * 3:,}"]

    (tmp_path / "study.toml").write_text(RATES)
    shutil.copytree(complete, tmp_path / "out")
    os.unlink(f"out/groups/{min(groups())}")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    shown = recurra("sweep", "study.toml", "--out", "out", "--dry-run")[1]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert re.search(r"^Finished +9 *$", shown, re.MULTILINE)
    assert re.search(r"^Network-steps +180 *$", shown, re.MULTILINE)


@pytest.mark.usefixtures("no_pages")
def test_a_search_is_shown(recurra, tmp_path, monkeypatch):
    (tmp_path / "search.toml").write_text(SEARCH)
    Folder(tmp_path / "tuned").claim(Study.of_text(SEARCH), search=True)
    assert "no case whose search is finished" in one_line(recurra("show", "tuned")[2])
    monkeypatch.setattr("recurra.studies.tuning.search.find_spec", lambda name: None)
    status, shown, said = recurra("tune", "search.toml", "--out", "tuned")
    assert status == 0, said
    assert recurra("show", "tuned")[1] == shown
    [found] = json.loads(recurra("show", "tuned", "--json")[1])
    assert set(found["chosen"]["settings"]) == {"learning_rate"}
    assert f"learning_rate = {found['chosen']['settings']['learning_rate']:.4g}" in shown

    assert "belongs to `recurra tune`" in one_line(_sweep_of_search(recurra, tmp_path)[2])
    recurra("sweep", "study.toml", "--out", "out")
    assert "belongs to `recurra sweep`" in one_line(recurra("tune", "search.toml", "--out", "out")[2])
    (tmp_path / "tuned/trials/journal.log").write_text("nonsense\n{}\n")
    status, _, said = recurra("tune", "search.toml", "--out", "tuned")
    assert status == 1
    assert "journal.log" in one_line(said)


def _sweep_of_search(recurra, tmp_path):
    (tmp_path / "drawn.toml").write_text(f"samples = 2\n{SEARCH}")
    return recurra("sweep", "drawn.toml", "--out", "tuned")


@pytest.mark.usefixtures("no_pages")
def test_a_search_that_cannot_be_computed_or_kept(recurra, tmp_path, monkeypatch):
    (tmp_path / "search.toml").write_text(SEARCH)

    def failing(order, report=None, asked=None):
        raise MemoryError("it is too large")

    with monkeypatch.context() as patch:
        patch.setattr(work, "compute", failing)
        status, _, said = recurra("tune", "search.toml", "--out", "tuned")
    assert status == 1
    assert "it is too large" in one_line(said)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("recurra.studies.tuning.tuned.write_whole", full)
        status, _, said = recurra("tune", "search.toml", "--out", "tuned")
    assert status == 1
    assert "No space left" in one_line(said)


def test_a_search_needs_something_to_search(recurra):
    status, _, said = recurra("tune", "study.toml", "--out", "tuned")
    assert status == 2
    assert "nothing to search" in one_line(said)


# Engines


ON_CHIP = f'engine = "on-chip"\n{RATES}'


@pytest.mark.usefixtures("no_pages")
@pytest.mark.parametrize("where", [[], ["--workers", "2"], ["--dry-run"]])
def test_what_the_on_chip_engine_cannot_run_is_refused_before_anything_is_computed(recurra, where):
    """In the words of `rc.sweep`."""
    Path("study.toml").write_text(ON_CHIP)
    status, shown, said = recurra("sweep", "study.toml", "--out", "out", *where)
    assert (status, shown) == (2, "")
    with pytest.raises(DoesNotFitError, match=r"needs an NVIDIA GPU.* or use engine='scan'\.$") as error:
        rc.sweep(
            rc.Network(rc.RNN(2, 3, dtype="float32"), 2),
            rc.RFLO(),
            rc.Add(),
            steps=60,
            vary={"optimizer": [0.1]},
            engine="on-chip",
            progress=False,
        )
    assert one_line(said) == f"error: {error.value}"
    left = {path.name for path in Path("out").rglob("*") if path.is_file() and not path.name.startswith(".")}
    assert left <= {"study.toml"}
    Path("study.toml").write_text(RATES)  # the folder is free for what follows
    assert recurra("sweep", "study.toml", "--out", "out", "--dry-run")[0] == 0


@pytest.mark.usefixtures("no_pages")
def test_only_networks_that_are_missing_must_fit_the_engine(recurra, finished):
    """Those that were computed where there is a GPU are shown where there is none."""
    Path("study.toml").write_text(ON_CHIP)
    before = groups()
    assert recurra("sweep", "study.toml", "--out", "out")[0] == 0
    gone = min(before)
    os.unlink(f"out/groups/{gone}")
    status, _, said = recurra("sweep", "study.toml", "--out", "out")
    assert status == 2
    assert "needs an NVIDIA GPU" in one_line(said)
    assert groups() == {name: time for name, time in before.items() if name != gone}


class Elsewhere:
    """A place of other machines, which fails at once."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def workers(self):
        return 1

    def each(self, compute, orders, asked=None):
        return ((order, Failure("it was sent away")) for order in orders)


def test_machines_elsewhere_may_have_a_gpu(tmp_path):
    """All else that the engine needs is asked for here."""
    failures = Sweep(Study.of_text(ON_CHIP)).run(Folder(tmp_path), Elsewhere())
    assert {each["reason"] for each in failures} == {"it was sent away"}
    with pytest.raises(SettingsError, match="it computes in float32"):
        Sweep(Study.of_text(f'dtype = "float64"\n{ON_CHIP}')).run(Folder(tmp_path), Elsewhere())


@pytest.mark.usefixtures("no_pages")
def test_a_search_runs_on_the_engine_that_is_asked_for(recurra, tmp_path, monkeypatch):
    """Kernels are played on the cores here, where `auto` would never take them."""
    (tmp_path / "search.toml").write_text(SEARCH.replace("n = 3", 'engine = "on-chip"\nn = 3'))
    status, _, said = recurra("tune", "search.toml", "--out", "refused")
    assert status == 2
    assert "needs an NVIDIA GPU" in one_line(said)
    ran, prepare = [], rc.OnChipEngine.prepare
    monkeypatch.setattr(rc.OnChipEngine, "prepare", lambda *given: ran.append(given[0]) or prepare(*given))
    chip = rc.OnChipEngine(alike=True, interpret=True)
    monkeypatch.setattr(AutoEngine, "choose", lambda *_: (chip, "the test says so"))
    (tmp_path / "search.toml").write_text(f"{SEARCH}rungs = 2\n")
    status, _, said = recurra("tune", "search.toml", "--out", "tuned")
    assert status == 0, said
    assert set(ran) == {chip}
    [found] = json.loads(recurra("show", "tuned", "--json")[1])
    assert len(found["finalists"]) > 1
    assert np.isfinite(found["chosen"]["losses"]).all()


# Options


@pytest.mark.parametrize("command", ["sweep", "tune"])
@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--local", "--workers", "2"], "--local and --workers"),
        (["--cluster", "tcp://127.0.0.1:1", "--slurm", "job.toml"], "--cluster and --slurm"),
        (["--tls-cert", "cert.pem"], "belong to --cluster"),
        (["--workers", "2", "--tls-key", "key.pem"], "belong to --cluster"),
        (["--cluster", "tls://127.0.0.1:1", "--tls-cert", "cert.pem"], "all of --tls-ca-file"),
        (["--cluster", "tls://127.0.0.1:1"], "certificates"),
        (["--cluster", "nonsense"], "not the address"),
        (["--slurm", "nowhere.toml"], "nowhere.toml"),
        (["--workers", "0"], "--workers"),
    ],
)
def test_options_that_do_not_go_together(recurra, command, options, word):
    status, _, said = recurra(command, "study.toml", "--out", "out", *options)
    assert status == 2
    assert word in one_line(said)
    assert not os.path.exists("out")


def test_a_job_is_shown_with_slurm_alone(recurra):
    status, _, said = recurra("sweep", "study.toml", "--print-job")
    assert status == 2
    assert "--slurm" in one_line(said)


@pytest.mark.parametrize(
    ("absent", "command"),
    [
        ("xarray", ["sweep", "study.toml"]),
        ("h5netcdf", ["show", "out"]),
        ("distributed", ["sweep", "study.toml", "--workers", "2"]),
        ("distributed", ["tune", "study.toml", "--cluster", "tcp://127.0.0.1:1"]),
        ("dask_jobqueue", ["sweep", "study.toml", "--slurm", "job.toml"]),
        ("optuna", ["tune", "study.toml"]),
    ],
)
def test_what_is_not_installed_is_named(recurra, monkeypatch, absent, command):
    hide(monkeypatch, absent)
    status, _, said = recurra(*command)
    assert status == 2
    line = one_line(said)
    assert absent in line
    assert "pip install 'recurra[" in line


def test_a_cluster_that_does_not_answer(recurra, monkeypatch):
    monkeypatch.setattr(Cluster, "__init__", functools.partialmethod(Cluster.__init__, timeout=0.3))
    status, _, said = recurra("sweep", "study.toml", "--out", "out", "--cluster", "tcp://127.0.0.1:9")
    assert status == 2
    assert "No Dask scheduler answers" in one_line(said)
    assert groups() == {}
