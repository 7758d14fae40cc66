"""Runs that are interrupted, killed or kept out of their files: nothing that was computed is lost."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import warnings
from functools import partial

import jax
import numpy as np
import optax
import pytest

import recurra as rc
from recurra.engine import plan
from recurra.saved import archive
from recurra.saved.whole_files import InUseError, held, write_whole
from recurra.training import checkpoint
from recurra.training.gathering import LossWindows
from recurra.training.interrupts import ASKING
from small_runs import asks_to_stop_after, network, train

#: a program that takes a place, written in
TAKES = "from pathlib import Path; from recurra.saved.whole_files import held; held(Path('{}')).__enter__()"


def interrupted(*arguments, after, number=signal.SIGINT, **settings):
    """What a run leaves that is asked to stop after so many steps."""
    with pytest.raises(rc.Interrupted) as stopped:
        train(*arguments, steps=2_000_000_000, window=1000, progress=asks_to_stop_after(after, number), **settings)
    return stopped.value


@pytest.mark.parametrize("number", ASKING, ids=lambda number: number.name)
def test_a_run_that_is_asked_to_stop_raises_with_what_there_is(number):
    before = signal.getsignal(number)
    stopped = interrupted(rc.RFLO(), seeds=1, after=2000, number=number)
    assert isinstance(stopped, KeyboardInterrupt)  # so that a loop around `train` ends too
    assert stopped.signal == number
    assert stopped.result.interrupted
    assert 2000 <= stopped.result.steps < 2_000_000_000
    assert np.isfinite(stopped.result.final_loss()).all()
    assert signal.getsignal(number) is before


def test_ignored_signals_stay_ignored_and_a_program_s_own_handler_stays():
    """As SIGHUP is under `nohup`, and as a queue's own handler of SIGTERM."""
    seen = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        for number in (signal.SIGHUP, signal.SIGTERM):
            assert train(steps=3000, progress=asks_to_stop_after(1, number)).steps == 3000
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])
    assert seen == [1]


def test_an_interrupted_run_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path):
    file = tmp_path / "run.safetensors"
    settings = {"steps": 40_000, "seeds": 3, "window": 1000}
    whole = train(rc.UORO(), **settings)
    stopped = interrupted(rc.UORO(), seeds=3, after=20_000, checkpoint=file)
    assert str(file) in str(stopped)
    assert file.exists()
    later = train(rc.UORO(), **{**settings, "steps": stopped.result.steps + 5000}, checkpoint=file)
    assert later.steps == stopped.result.steps + 5000
    both = min(len(whole.step), len(later.step))
    assert np.array_equal(whole.loss[:, :both], later.loss[:, :both])


def test_a_finished_run_stays_until_another_takes_its_file_over(tmp_path):
    """A kill between the end of the run and the moment its caller saves the result loses nothing."""
    file, seen = tmp_path / "run.safetensors", []
    first = train(steps=3000, checkpoint=file)
    again = train(steps=3000, checkpoint=file, progress=seen.append)
    assert seen == [3000]
    assert np.array_equal(first.loss, again.loss)
    assert all(map(np.array_equal, jax.tree.leaves(first.weights), jax.tree.leaves(again.weights)))
    other = train(steps=3000, key=1, checkpoint=file)
    assert not np.array_equal(first.loss, other.loss)
    assert np.array_equal(other.loss, train(steps=3000, key=1, checkpoint=file, progress=seen.append).loss)
    assert seen == [3000, 3000]


def test_checkpoints_come_as_often_as_asked(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(archive, "write", lambda path, kind, arrays, about: written.append(about["done"]))
    engine = rc.ScanEngine(chunk=100)
    train(steps=1000, engine=engine, checkpoint=tmp_path / "a", checkpoint_every=0)
    assert len(written) > 10
    assert written == sorted(written)
    assert written[-2:] == [1000, 1000]
    written.clear()
    train(steps=1000, engine=engine, checkpoint=tmp_path / "b")
    assert written == [1000]


def test_a_checkpoint_that_cannot_be_written_costs_the_checkpoint_alone(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    whole = train(steps=1000)
    monkeypatch.setattr(archive, "write_whole", full)
    with pytest.warns(UserWarning, match="No space left on device. The run goes on"):
        result = train(steps=1000, checkpoint=tmp_path / "run.safetensors", checkpoint_every=0)
    assert np.array_equal(whole.loss, result.loss)
    assert not list(tmp_path.iterdir())


def test_warnings_that_are_errors_cost_no_run(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "write_whole", full)
    with warnings.catch_warnings(action="error"):
        assert train(steps=300, checkpoint=tmp_path / "run.safetensors").steps == 300
    assert "The run goes on" in capsys.readouterr().err
    stopped = interrupted(after=1000, checkpoint=tmp_path / "run.safetensors")
    assert "run.safetensors" not in str(stopped)  # where nothing was kept


def test_an_exception_at_a_bad_moment_leaves_the_checkpoint_that_was_there(tmp_path, monkeypatch):
    """Losses and states in a file belong to the same step, or it is not written and not read."""
    file, whole, append = tmp_path / "run.safetensors", train(steps=1000), LossWindows.append

    def interrupted_once(self, *losses):
        if self.seen >= 300:
            raise KeyboardInterrupt
        append(self, *losses)

    monkeypatch.setattr(LossWindows, "append", interrupted_once)
    engine = rc.ScanEngine(chunk=100)
    with pytest.raises(KeyboardInterrupt):
        train(steps=1000, engine=engine, checkpoint=file, checkpoint_every=0)
    monkeypatch.setattr(LossWindows, "append", append)
    assert np.array_equal(train(steps=1000, engine=engine, checkpoint=file).loss, whole.loss)


def test_an_error_that_may_pass_is_no_reason_to_delete(tmp_path, monkeypatch):
    file = tmp_path / "run.safetensors"
    train(steps=300, checkpoint=file)

    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(archive, "_filled", broken)
    with pytest.raises(rc.CheckpointError, match=r"cannot be read: Input/output error\. Try again") as error:
        train(steps=300, checkpoint=file)
    assert not isinstance(error.value, checkpoint.UselessCheckpointError)


def test_where_writing_takes_long_checkpoints_come_less_often(tmp_path, monkeypatch):
    now, written = [0.0], []

    def slow(path, kind, arrays, about):
        now[0] += 100
        written.append(about["done"])

    def report(done):
        now[0] += 25

    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(archive, "write", slow)
    train(steps=4000, engine=rc.ScanEngine(chunk=100), checkpoint=tmp_path / "a", progress=report)
    first, second, last = written  # after 25 s, after 900 s more, and in the end
    assert (first < 100, last) == (True, 4000)
    assert second - first >= 3600


def test_a_run_in_bfloat16_goes_on(tmp_path):
    net = rc.Network(rc.RNN(2, 4, dtype="bfloat16"), 2)
    train(steps=200, window=50, net=net, checkpoint=tmp_path / "run")
    later = train(steps=400, window=50, net=net, checkpoint=tmp_path / "run")
    whole = train(steps=400, window=50, net=net)
    assert np.array_equal(later.loss, whole.loss)


def test_a_checkpoint_stays_where_it_is_and_a_stopped_run_travels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    stopped = interrupted(after=1000, checkpoint="run.safetensors", checkpoint_every=0)
    again = pickle.loads(pickle.dumps(stopped))
    assert (again.signal, again.result.steps, str(again)) == (stopped.signal, stopped.result.steps, str(stopped))
    train(steps=300, key=5, checkpoint="a.safetensors", progress=lambda done: os.chdir(tmp_path / "other"))
    assert (tmp_path / "a.safetensors").exists()
    assert not list((tmp_path / "other").iterdir())


def test_a_place_that_cannot_be_written_is_found_before_the_run(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(checkpoint, "try_place", refuse)
    with pytest.raises(rc.CheckpointError, match="cannot be written: Read-only file system"):
        train(steps=2_000_000_000, checkpoint=tmp_path / "run.safetensors")


def test_two_runs_cannot_share_a_checkpoint(tmp_path):
    """The second is refused at once, whether it is in this process or in another."""
    file, refused = tmp_path / "run.safetensors", []

    def meanwhile(done):
        if not refused:
            with pytest.raises(rc.CheckpointError, match="another run is using it"):
                train(steps=1000, checkpoint=file)
            refused.append(
                subprocess.run([sys.executable, "-c", TAKES.format(file)], capture_output=True, text=True).stderr
            )

    train(steps=1000, checkpoint=file, progress=meanwhile)
    assert "another run is using it" in refused[0]
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


@pytest.mark.slow
def test_a_checkpoint_of_four_cores_goes_on_with_the_same_bits_on_two(tmp_path, monkeypatch):
    """Bits depend on how many seeds are computed together, so a run keeps to the groups it began with."""
    net = rc.Network(rc.GRU(n_in=2, n=8), n_out=2)
    settings = {"learner": rc.PREUORO(), "seeds": 14, "window": 1000, "net": net, "steps": 3000}

    def on_cores(count, **more):
        monkeypatch.setattr(plan, "cores", lambda: count)
        return train(**{**settings, **more})

    on_cores(4, steps=2000, checkpoint=tmp_path / "run")
    later = on_cores(2, checkpoint=tmp_path / "run")
    assert np.array_equal(later.loss, on_cores(4).loss)
    assert not np.array_equal(later.loss, on_cores(2).loss)


@pytest.mark.parametrize("after", [500, 2999])
def test_an_exception_from_progress_loses_nothing(tmp_path, after):
    settings = dict(steps=3000, seeds=2, window=100)
    whole = train(rc.UORO(), **settings)

    def give_up(done):
        if done > after:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        train(rc.UORO(), **settings, checkpoint=tmp_path / "run", progress=give_up)
    seen = []
    later = train(rc.UORO(), **settings, checkpoint=tmp_path / "run", progress=seen.append)
    assert seen[0] > after
    np.testing.assert_array_equal(later.loss, whole.loss)


@pytest.mark.slow
def test_a_checkpoint_of_other_settings_is_refused_while_it_is_not_finished(tmp_path):
    file, rows = tmp_path / "run.safetensors", np.full((50, 2), 0.5)
    settings = {"optimizer": optax.sgd(0.01), "task": rc.Arrays(rows, rows, repeat=True)}
    interrupted(rc.UORO(), after=1, checkpoint=file, **settings)
    others = {"key": 7, "seeds": 3, "optimizer": optax.sgd(0.02), "task": rc.Arrays(rows + 0.1, rows, repeat=True)}
    others |= {"learner": rc.RFLO(), "net": network(phi=jax.nn.relu)}
    settings |= {"learner": rc.UORO(), "steps": 2_000_000_000, "window": 1000}
    for name, value in others.items():
        with pytest.raises(rc.CheckpointError, match="other settings, which is not finished"):
            train(**{**settings, name: value}, checkpoint=file)
    with pytest.raises(rc.CheckpointError, match="is at step"):
        train(**{**settings, "steps": 5}, checkpoint=file)
    with pytest.raises(ValueError, match="is a folder"):
        train(**settings, checkpoint=tmp_path)


def test_a_checkpoint_of_other_versions_goes_on_if_its_settings_are_the_same(tmp_path):
    """Programs change with versions. What cannot be compared is named; other settings are refused as ever."""
    file, own = tmp_path / "run.safetensors", lambda outcome: outcome.loss
    settings = {"optimizer": optax.sgd(0.01), "record": {"loss": own}, "record_every": 10**6}
    stopped = interrupted(rc.UORO(), after=1, checkpoint=file, **settings)
    arrays, about = archive.read(file, "run")
    assert {"recurra", "jax"} <= set(about["versions"])
    other = {**about, "identity": "0" * 64, "versions": {**about["versions"], "jax": "0.1"}}
    archive.write(file, "run", arrays, other)
    with pytest.raises(rc.CheckpointError, match="other settings"):
        train(rc.UORO(), steps=2_000_000_000, window=1000, checkpoint=file, **{**settings, "key": 1})
    with pytest.warns(
        UserWarning, match=r"made with jax 0\.1.*whether these are as they were: optax.*<lambda>"
    ) as told:
        again = interrupted(rc.UORO(), after=stopped.result.steps + 1, checkpoint=file, **settings)
    assert len(told) == 1
    before = stopped.result.steps // 1000
    np.testing.assert_array_equal(again.result.loss[:, :before], stopped.result.loss[:, :before])
    archive.write(
        file, "run", *((arrays, {**other, "versions": about["versions"]}))
    )  # so it is the program that differs
    with pytest.raises(rc.CheckpointError, match="other settings"):
        train(rc.UORO(), steps=2_000_000_000, window=1000, checkpoint=file, **settings)


def of_list(outcome, table):
    return outcome.loss * table[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "long", [{"seeds": range(100_000)}, {"record": {"a": partial(of_list, table=[*range(100_000), 10**30])}}]
)
def test_what_takes_long_to_tell_costs_no_checkpoint(tmp_path, monkeypatch, long):
    """Of a long account the file has a digest, by which it is compared as a short one is."""
    monkeypatch.setattr(checkpoint, "LONGEST", 300_000)
    file, settings = tmp_path / "run.safetensors", {"steps": 1, "streams": 1, **long}
    first = train(**settings, checkpoint=file)
    arrays, about = archive.read(file, "run")
    assert about["account"].keys() == {"sha256"}
    archive.write(file, "run", arrays, {**about, "identity": "0" * 64, "versions": {"jax": "0.1"}})
    calls = []
    with pytest.warns(UserWarning, match=r"jax 0\.1"):
        again = train(**settings, checkpoint=file, progress=calls.append)
    assert np.array_equal(again.loss, first.loss)
    assert calls == [1]  # it was there


def test_a_checkpoint_for_which_a_file_has_no_room_costs_no_result(tmp_path, monkeypatch):
    monkeypatch.setattr("recurra.saved.headers.LONGEST", 100)
    with pytest.warns(UserWarning, match=r"could not be written after step 60: The names, shapes and document take"):
        assert train(checkpoint=tmp_path / "run").steps == 60


def test_settings_of_jax_tell_runs_of_other_versions_apart(tmp_path):
    file = tmp_path / "run.safetensors"
    stopped = interrupted(rc.UORO(), after=1, checkpoint=file)
    arrays, about = archive.read(file, "run")
    archive.write(file, "run", arrays, {**about, "identity": "0" * 64, "versions": {**about["versions"], "jax": "0.1"}})
    with jax.threefry_partitionable(False), pytest.raises(rc.CheckpointError, match="other settings"):
        train(rc.UORO(), steps=2_000_000_000, window=1000, checkpoint=file)
    with pytest.warns(UserWarning, match=r"jax 0\.1"):
        interrupted(rc.UORO(), after=stopped.result.steps + 1, checkpoint=file)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run with a record: its settings, and its file."""
    file = tmp_path_factory.mktemp("recorded") / "run.safetensors"
    settings = {"steps": 300, "record": {"loss": lambda outcome: outcome.loss}}
    train(**settings, checkpoint=file)
    return settings, file.read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"done": -5},
        pytest.param({"done": None}, marks=pytest.mark.slow),
        pytest.param({"done": 1.5}, marks=pytest.mark.slow),
        {"identity": None},
        pytest.param({"identity": 3}, marks=pytest.mark.slow),
        {"means": None},
        pytest.param({"state.1": None}, marks=pytest.mark.slow),
        {"state.1": np.zeros((2, 3), np.int8)},
        {"seen": np.array(7)},
        pytest.param({"seen": np.array([7, 8])}, marks=pytest.mark.slow),
        pytest.param({"diverged": np.zeros(3, np.int64)}, marks=pytest.mark.slow),
        pytest.param({"next_record": np.array(7)}, marks=pytest.mark.slow),
        pytest.param({"records.loss": None}, marks=pytest.mark.slow),
        {"records.loss": np.zeros((2, 3))},
    ],
    ids=lambda changes: f"{next(iter(changes))}",
)
def test_a_checkpoint_that_is_not_whole_is_one_clear_error(tmp_path, recorded, changes):
    """Files that are undamaged, as far as their checksum tells, and make no sense."""
    file, (settings, kept) = tmp_path / "run.safetensors", recorded
    file.write_bytes(kept)
    arrays, about = archive.read(file, "run")
    for name, value in changes.items():
        of = about if name in about else arrays
        assert name in of
        of[name] = value
    present = lambda given: {name: value for name, value in given.items() if value is not None}
    archive.write(file, "run", present(arrays), present(about))
    with pytest.raises(rc.CheckpointError, match="delete it to start over"):
        train(**settings, checkpoint=file)


def test_a_cut_checkpoint_and_one_of_an_earlier_version_are_one_clear_error(tmp_path):
    file = tmp_path / "run.safetensors"
    train(steps=300, checkpoint=file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(rc.CheckpointError, match=r"a damaged one: .* Delete it to start over, or name another file"):
        train(steps=300, checkpoint=file)
    np.savez(tmp_path / "run.npz", done=np.array(300), identity=np.array("abc"), leaf0=np.ones(3))
    with pytest.raises(rc.CheckpointError, match=r"no file of recurra.*earlier versions kept runs\. Delete it"):
        train(steps=300, checkpoint=tmp_path / "run.npz")
    archive.write(file, "model", {}, {})
    with pytest.raises(rc.CheckpointError, match=r"holds something else: 'model', and 'run' is asked for") as error:
        train(steps=300, checkpoint=file)
    assert not isinstance(error.value, checkpoint.UselessCheckpointError)  # it is good, and nobody should delete it


@pytest.mark.slow
def test_a_checkpoint_keeps_another_kind_of_key(tmp_path):
    file, settings = tmp_path / "run.safetensors", {"key": jax.random.key(0, impl="rbg")}
    first = interrupted(rc.UORO(), **settings, after=1000, checkpoint=file).result
    later = train(rc.UORO(), steps=first.steps + 1000, window=1000, **settings, checkpoint=file)
    whole = train(rc.UORO(), steps=later.steps, window=1000, **settings)
    assert np.array_equal(whole.loss, later.loss)


def test_files_are_written_whole_or_not_at_all(tmp_path):
    file, link = tmp_path / "a", tmp_path / "link"
    link.symlink_to(file)

    def fail(opened):
        opened.write(b"half")
        raise OSError("full")

    write_whole(file, lambda opened: opened.write(b"first"))
    with pytest.raises(OSError, match="full"):
        write_whole(file, fail)
    assert file.read_bytes() == b"first"
    write_whole(link, lambda opened: opened.write(b"second"))  # a link stays one
    assert link.is_symlink()
    assert file.read_bytes() == b"second"
    with pytest.raises(FileExistsError):
        write_whole(file, lambda opened: opened.write(b"third"), new=True)
    write_whole(tmp_path / "b", lambda opened: opened.write(b"third"), new=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "link"]


def test_a_place_is_free_again_when_its_run_is_killed(tmp_path):
    file = tmp_path / "run"
    (tmp_path / ".run.0123abcd.partial").touch()  # what a killed run left
    killed = [sys.executable, "-c", f"{TAKES.format(file)}\nimport os; os.kill(os.getpid(), 9)"]
    assert subprocess.run(killed).returncode == -signal.SIGKILL
    with held(file), pytest.raises(InUseError), held(file):
        pass
    assert not list(tmp_path.iterdir())
