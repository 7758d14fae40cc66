"""What a run survives: full disks, closed terminals, broken pipes, other jobs, and being asked to stop."""

import os
import pty
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray

from processes import ENDLESS, TRAIN, in_a_process, read_until, started
from recurra import FolderError
from recurra.cli import app, bench
from recurra.cli.bench import StepTime
from recurra.cli.environment import FOLDER, keep_compiled_programs
from recurra.cli.output import Output
from recurra.studies.settings import SettingsError, read_toml
from recurra_paper.store import Store


@pytest.fixture
def recurra_command(capsys, tmp_path, monkeypatch):
    """Runs a command in an empty folder: (status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        return app.execute([str(each) for each in arguments]), *capsys.readouterr()

    return run


def full(*_, **__):
    raise OSError(28, "No space left on device")


# Full disks


def test_a_full_disk_costs_the_file_and_nothing_else(tmp_path):
    """No file may grow beyond 4 kB: neither the result nor the compiled programs can be written."""
    folder, cache = tmp_path / "here", tmp_path / "cache"
    folder.mkdir()
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); from recurra.cli import main; main()"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop(FOLDER, None)
    command = [sys.executable, "-c", code, *TRAIN, "--out", "runs.nc"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert {line.split()[0] for line in done.stdout.splitlines()[1:3]} == {"rflo", "fixed"}
    assert done.stderr.startswith("error: `out` is runs.nc, which could not be written: File too large.")
    assert done.stderr.count("\n") == 1
    assert not os.listdir(folder)
    assert cache.exists()
    assert all(0 < path.stat().st_size < 4096 for path in cache.rglob("*-cache"))  # none is cut short


def test_programs_that_cannot_be_kept_are_only_compiled_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path)})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        keep_compiled_programs()
        folder = Path(os.environ.pop(FOLDER))
        for name in ("jit_f-1", "jit_f-2", "jit_g-3"):
            (folder / f"{name}-cache").write_text("cut sh")
        warnings.warn("Error reading persistent compilation cache entry for 'jit_f': zlib.error", stacklevel=1)
        assert os.listdir(folder) == ["jit_g-3-cache"]
        warnings.warn("Something else.", stacklevel=1)
        assert capsys.readouterr().err == "warning: Something else.\n"
        monkeypatch.setattr("recurra.cli.environment.try_place", full)
        keep_compiled_programs()
    assert FOLDER not in os.environ


ROW = StepTime("rflo", "rnn", 4, 1, 1, 1.0, 1.0, 1.0, 1.0, 4, "bytes", 1.0)


@pytest.fixture
def instant_bench(monkeypatch):
    """Replaces measuring, on a system that lets no program choose its cores. Returns what was measured."""
    measured = []
    monkeypatch.setattr(bench, "bench", lambda *_: measured.append(ROW) or iter([ROW]))
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    return measured


def test_bench_tries_the_place_before_it_measures(recurra_command, instant_bench, monkeypatch):
    monkeypatch.setattr(bench, "try_place", full)
    status, out, err = recurra_command("bench", "--out", "speed")
    assert (status, out, instant_bench) == (2, "", [])
    assert "error: `out` is speed, which cannot be written: No space left on device." in err


def test_bench_says_what_it_could_not_write(recurra_command, instant_bench, monkeypatch):
    monkeypatch.setattr(bench, "write_whole", full)
    status, out, err = recurra_command("bench", "--cores", 1, "--out", "speed")
    assert status == 1
    assert "rflo" in out
    cores, error = err.splitlines()
    assert "--cores has no effect: all of them are used" in cores
    assert error.startswith("error: speed/bench.json could not be written: No space left on device.")
    assert not os.listdir("speed")


# The file of --out


@pytest.fixture
def data():
    return xarray.Dataset({"loss": ("step", np.arange(3.0))})


def test_a_file_is_for_one_job_at_a_time(tmp_path, data):
    path = tmp_path / "runs.nc"
    with Output(path, False):
        for force in (False, True):
            with pytest.raises(SettingsError, match="another run is writing: wait until"), Output(path, force):
                pass
    with Output(path, False) as output:
        assert output.save(data, True)
    assert os.listdir(tmp_path) == ["runs.nc"]


def test_what_another_wrote_meanwhile_is_never_overwritten(tmp_path, data):
    """Not before the first save, and not between two; its own file a job replaces."""
    path = tmp_path / "runs.nc"
    with Output(path, False) as output:
        path.write_text("first")
        (tmp_path / "runs-2.nc").write_text("second")
        assert output.save(data, False)
        assert output.save(data, False)
        assert output.path == tmp_path / "runs-3.nc"
        assert output.where() == f"Saved in {tmp_path}/runs-3.nc, for something else has appeared at {path} meanwhile."
        output.path.write_text("third")
        assert output.save(data, True)
    assert [(tmp_path / name).read_text() for name in ("runs.nc", "runs-2.nc", "runs-3.nc")] == [
        "first", "second", "third",
    ]  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == ["runs-2.nc", "runs-3.nc", "runs-4.nc", "runs.nc"]
    with Output(path, True) as output:
        assert output.save(data, True)
    assert path.read_bytes()[:4] == b"\x89HDF"


def test_links_stay_and_lead_somewhere(tmp_path, data):
    link, target = tmp_path / "link.nc", tmp_path / "target.nc"
    link.symlink_to(target.name)
    for force in (False, True):
        with pytest.raises(SettingsError, match=r"a link to target\.nc, which does not exist"), Output(link, force):
            pass
    target.write_text("old")
    with Output(link, True) as output:
        assert output.save(data, True)
    assert link.is_symlink()
    assert target.read_bytes()[:4] == b"\x89HDF"


# Being asked to stop


def test_a_queue_ends_a_job_while_others_want_its_file(tmp_path, recurra_command):
    """SIGTERM to a real process that trains. A second job is refused, and a file that appears is left alone."""
    leader, follower = pty.openpty()
    arguments = ["train", "--learner", "fixed", "--learner", "rflo", *ENDLESS, "--out", "runs.nc"]
    with started(*arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=follower) as process:
        os.close(follower)
        shown = read_until(leader, b"steps/s")
        status, _, err = recurra_command(*TRAIN, "--out", "runs.nc")
        assert (status, "another run is writing" in err) == (2, True)
        (tmp_path / "runs.nc").write_text("mine")
        process.send_signal(signal.SIGTERM)
        shown += read_until(leader, b"never")
        out = process.communicate()[0].decode()
    os.close(leader)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Saved in runs-2.nc" in shown
    assert b"Interrupted: fixed stopped after" in shown
    assert out.splitlines()[1].startswith("fixed")
    assert (tmp_path / "runs.nc").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["runs-2.nc", "runs.nc"]


def test_a_job_that_has_nothing_yet_leaves_nothing(tmp_path):
    with started(*TRAIN, "--out", "runs.nc", cwd=tmp_path, stderr=subprocess.PIPE) as process:
        while not os.listdir(tmp_path):
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        err = process.communicate()[1].decode()
    assert process.returncode == 128 + signal.SIGHUP
    assert err.startswith("Interrupted: ")
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_reproduce_is_ended_and_its_folder_is_its_own(tmp_path):
    """A terminal that closes sends SIGHUP more than once."""
    arguments = ["reproduce", "rflo_results", "--profile", "tiny", "--steps", str(10**9), "--out", "paper"]
    with started(*arguments, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert b"of the whole" in process.stderr.readline()
        with pytest.raises(FolderError, match="in use by another"), Store(tmp_path / "paper").own.held():
            pass
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
        err = process.communicate()[1].decode()
    assert process.returncode == 128 + signal.SIGHUP
    assert "Interrupted: finished runs are kept" in err
    assert "Traceback" not in err
    assert not [path for path in (tmp_path / "paper").rglob(".*")]


IGNORED = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for how in (stopping.watch, stopping.hand_over, stopping.keep, lambda: stopping.status(KeyboardInterrupt())):
    how()
    os.kill(os.getpid(), signal.SIGHUP)
print("still here")
"""
REPEATED = """
stopping.watch()
stopping.keep(stopping.raise_once)
for _ in range(2):
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        print("unmoved")
    except KeyboardInterrupt:
        print("asked")
print(stopping.status(KeyboardInterrupt()))
"""


@pytest.mark.parametrize(("code", "said"), [(IGNORED, "still here\n"), (REPEATED, "asked\nunmoved\n129\n")])
def test_a_signal_that_is_ignored_and_one_that_comes_again(code, said):
    """After `nohup` SIGHUP is ignored, and stays so. One that was heard changes nothing when it comes again."""
    code = f"import os, signal\nfrom recurra.cli import stopping\n{code}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == said


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_goes_out_at_once_where_streams_are_unbuffered(stream):
    """A process that leaves at once flushes nothing, and PYTHONUNBUFFERED=1 is usual in containers."""
    code = (
        f"import os, sys; from recurra.cli.streams import guard; guard(); print('seen', file=sys.{stream}); os._exit(0)"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600)
    assert getattr(done, stream) == "seen\n"


# Settings, devices and memory


def test_settings_through_a_pipe():
    reader, writer = os.pipe()
    os.write(writer, b"steps = 5")
    os.close(writer)
    assert read_toml(Path(f"/dev/fd/{reader}"))[0] == {"steps": 5}
    os.close(reader)


@pytest.mark.parametrize("command", [TRAIN, ["bench"], ["reproduce", "--profile", "tiny"]])
def test_a_device_that_is_not_there_is_one_line(recurra_command, instant_bench, monkeypatch, command):
    def devices():
        raise RuntimeError("Unable to initialize backend 'cuda': it is not known. (set JAX_PLATFORMS='' to choose)")

    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setattr(jax, "devices", devices)
    status, out, err = recurra_command(*command)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == (
        "error: JAX_PLATFORMS is 'cuda', which JAX cannot use here: Unable to initialize backend 'cuda': it is not "
        "known. Unset it, or set JAX_PLATFORMS=cpu."
    )


def test_jax_itself_lacks_a_device(tmp_path):
    status, out, err = in_a_process(tmp_path, *TRAIN, env={**os.environ, "JAX_PLATFORMS": "cuda"})
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: JAX_PLATFORMS is 'cuda'")


def test_too_many_seeds_end_at_once(tmp_path):
    status, out, err = in_a_process(tmp_path, "train", "--learner", "rflo", "--seeds", str(10**9), "--steps", "10")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "seeds would take" in err
    assert "Try fewer" not in err
