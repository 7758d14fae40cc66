"""Studies whose processes are killed, stopped or shared come to the same bits as one that nothing happened to."""

import contextlib
import json
import os
import signal
import subprocess
import time

import jax
import numpy as np
import psutil
import pytest
import xarray

import recurra as rc
from places_processes import nobody_left, scheduler, worker
from processes import PROGRAM, in_a_process
from recurra.saved.folders import FolderError
from recurra.studies.folder import Folder
from recurra.studies.study import Study

#: eight programs, each of which takes about a second to compile, and two orders of each
STUDY = """learners = ["rflo", "uoro"]
steps = 2000
seeds = 8
[vary]
n = [3, 4, 5, 6]
learning_rate = [0.01, 0.1]
"""
SEARCH = """learners = ["rflo", "uoro"]
steps = 300
n = 3
seeds = 2
[vary]
learning_rate = { log_uniform = [1e-3, 0.1] }
alpha = { uniform = [0.2, 1.0] }
[tune]
trials = 16
batch = 4
startup = 8
confirm_seeds = 3
"""
#: the program with orders of few networks
SMALL = "import recurra.training.orders as p; p.FIRST_STEPS, p.SECONDS = 16_000, 0.0; "
PROGRAM_SMALL = [*PROGRAM[:-1], SMALL + PROGRAM[-1]]
MEASURED = ("loss", "final_loss", "diverged_at", "steps_done")


def same_bits(folder, whole):
    """All that is computed, and the coordinates; how long it took differs, of course."""
    one, other = (xarray.load_dataset(each / "study.nc", engine="h5netcdf") for each in (folder, whole))
    for name in MEASURED:
        assert one[name].dims == other[name].dims
        assert one[name].values.tobytes() == other[name].values.tobytes(), name
    assert one.coords.to_dataset().equals(other.coords.to_dataset())
    assert bool((one.steps_done == 2000).all())


def sweep(folder, *more):
    """Sweep into a folder to the end."""
    (folder.parent / "study.toml").write_text(STUDY)
    command = [*PROGRAM_SMALL, "sweep", "study.toml", "--out", str(folder), *more]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr
    return done


@contextlib.contextmanager
def begun(folder, *more, text=STUDY, command="sweep"):
    """A process that does so, which ends in any case together with its children."""
    (folder.parent / "study.toml").write_text(text)
    arguments = [*PROGRAM_SMALL, command, "study.toml", "--out", str(folder), *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, cwd=folder.parent, **pipes) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                    each.kill()


def groups(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "groups").glob("*.safetensors")}


def wait(process, condition):
    """Until something is the case, while the process is still at it."""
    deadline = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_complete(folder):
    return len(groups(folder)) >= 16


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep in one process that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    sweep(folder)
    assert is_complete(folder)
    return folder


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path, whole):
    out = tmp_path / "out"
    with nobody_left(), begun(out, "--workers", "2") as process:
        wait(process, lambda: groups(out))
        children = psutil.Process(process.pid).children(recursive=True)
        workers = [each for each in children if "spawn_main" in " ".join(each.cmdline())]
        assert len(workers) == 2
        workers[0].kill()
        had = len(groups(out))
        _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert had < len(groups(out))  # it was in the middle
    assert "Traceback" not in said
    same_bits(out, whole)


@pytest.mark.slow
def test_a_scheduler_is_killed(tmp_path, whole):
    out = tmp_path / "out"
    with (
        scheduler() as (address, dask),
        worker(address),
        worker(address),
        begun(out, "--cluster", address) as process,
    ):
        wait(process, lambda: len(groups(out)) > 1)
        dask.kill()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in said
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert address in line
    assert "What was finished is kept" in line
    before = groups(out)
    assert not is_complete(out)
    sweep(out, "--local")
    assert before.items() < groups(out).items()
    same_bits(out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_command_is_stopped(tmp_path, whole, number):
    """Twice in the middle; what was finished is not computed again."""
    out = tmp_path / "out"
    before = {}
    for least in (2, 5):
        with begun(out) as process:
            wait(process, lambda least=least: len(groups(out)) >= least)
            time.sleep(0.3)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
        assert "Traceback" not in said
        assert number == signal.SIGKILL or "finished groups are kept" in said
        assert before.items() <= groups(out).items()
        assert not is_complete(out)
        before = groups(out)
    sweep(out)
    assert before.items() < groups(out).items()
    assert not list(out.rglob("*.partial"))
    same_bits(out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sweep_with_workers_is_stopped(tmp_path, whole, number):
    out = tmp_path / "out"
    with nobody_left(), begun(out, "--workers", "2") as process:
        wait(process, lambda: groups(out))
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 128 + number, said
        assert "Traceback" not in said
    before = groups(out)
    sweep(out, "--workers", "2")
    assert before.items() < groups(out).items()
    same_bits(out, whole)


@pytest.mark.slow
def test_two_sweeps_into_one_folder(tmp_path, whole):
    out = tmp_path / "out"
    with begun(out) as process:
        wait(process, lambda: groups(out))
        status, shown, said = in_a_process(tmp_path, "sweep", "study.toml", "--out", str(out))
        assert (status, shown) == (2, "")
        assert "in use by another sweep" in said
        assert len(said.splitlines()) == 1
        assert process.poll() is None
        # whoever only looks may
        assert in_a_process(tmp_path, "show", str(out), "--json")[0] == 0
        _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    same_bits(out, whole)


@pytest.mark.slow
def test_two_sweeps_begin_at_once(tmp_path, whole):
    """In a folder that is new: one of them has it."""
    out = tmp_path / "out"
    with begun(out) as one, begun(out) as other:
        said = {each: each.communicate(timeout=200)[1] for each in (one, other)}
    lucky, refused = sorted((one, other), key=lambda each: each.returncode)
    assert (lucky.returncode, refused.returncode) == (0, 2), list(said.values())
    assert "in use by another" in said[refused]
    same_bits(out, whole)


@pytest.mark.slow
def test_files_may_not_grow(tmp_path, whole):
    """As on a full disk: groups do not fit, and nothing that is half-written is left."""
    out = tmp_path / "out"
    (tmp_path / "study.toml").write_text(STUDY.replace("[3, 4, 5, 6]", "[3, 4]"))
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY)); "
    )
    command = [*PROGRAM_SMALL, "sweep", "study.toml", "--out", str(out)]
    at = command.index("-c") + 1
    in_little = [*command[:at], limited + command[at], *command[at + 1 :]]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 200, "env": environment}
    done = subprocess.run(in_little, **how)
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert groups(out) == {}
    assert not list(out.rglob("*.partial"))
    assert subprocess.run(command, **how).returncode == 0


# Searches


def tuned(folder):
    return [case["chosen"] for case in json.loads((folder / "tuned.json").read_text())["cases"]]


def trials(folder):
    """How many trials have ended, of whichever case."""
    with contextlib.suppress(OSError):
        lines = (folder / "trials" / "journal.log").read_text().splitlines()
        return sum('"state"' in line for line in lines)
    return 0


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """What a search that nothing happened to has chosen."""
    folder = tmp_path_factory.mktemp("searched") / "out"
    with begun(folder, text=SEARCH, command="tune") as process:
        _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    return tuned(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_is_stopped(tmp_path, searched, number):
    out = tmp_path / "out"
    with begun(out, text=SEARCH, command="tune") as process:
        wait(process, lambda: trials(out) >= 4)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    assert "Traceback" not in said
    with begun(out, text=SEARCH, command="tune") as process:
        _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert tuned(out) == searched


@pytest.mark.slow
def test_two_processes_search_together(tmp_path):
    out = tmp_path / "out"
    with begun(out, text=SEARCH, command="tune") as one, begun(out, text=SEARCH, command="tune") as other:
        said = [each.communicate(timeout=300)[1] for each in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    found = json.loads((out / "tuned.json").read_text())["cases"]
    for case in found:  # which settings are tried depends on who was faster, and what they come to does not
        assert sorted(trial["place"] for trial in case["trials"]) == list(range(16))
        chosen = case["chosen"]
        assert set(chosen["seeds"]).isdisjoint(case["seeds"])
        losses = trained(case["case"]["learner"], chosen["settings"], chosen["seeds"])
        np.testing.assert_allclose(chosen["losses"], losses, rtol=1e-6)
        # a control: the same settings on the seeds that chose them
        assert not np.allclose(trained(case["case"]["learner"], chosen["settings"], [0, 1, 2]), losses, rtol=1e-6)


def trained(learner, settings, seeds):
    """Final losses of these settings of SEARCH, as `recurra.train` has them."""
    cell = rc.RNN(2, 3, alpha=settings["alpha"], dtype="float32")
    with jax.enable_x64(False):
        result = rc.train(
            rc.Network(cell, 2, rc.SoftmaxCrossEntropy()),
            rc.LEARNERS[learner](),
            rc.Add(),
            steps=300,
            seeds=seeds,
            optimizer=settings["learning_rate"],
            engine=rc.ScanEngine(alike=True),
            progress=False,
        )
    return result.final_loss()


def test_the_helpers_find_a_difference(tmp_path):
    """A control: another bit in the data set is found."""
    loss = xarray.DataArray([0.5, 0.25], dims="point", coords={"point": [0, 1]})
    data = xarray.Dataset({name: loss for name in MEASURED} | {"steps_done": 2000 + 0 * loss.astype(int)})
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        data.to_netcdf(tmp_path / name / "study.nc", engine="h5netcdf")
    same_bits(tmp_path / "a", tmp_path / "b")
    data["loss"][0] = 0.5 + 2**-52
    data.to_netcdf(tmp_path / "b" / "study.nc", engine="h5netcdf")
    with pytest.raises(AssertionError, match="loss"):
        same_bits(tmp_path / "a", tmp_path / "b")


def test_a_folder_in_which_nothing_was_computed_takes_another_study(tmp_path):
    """A start that failed, as at a scheduler that is not there, must not keep its folder from the study once mended."""
    first = Study.of_text('learners = ["rflo"]\n[vary]\nlearning_rate = [0.1]\n')
    second = Study.of_text('learners = ["rflo"]\n[vary]\nlearning_rate = [0.1, 0.2]\n')
    folder = Folder(tmp_path / "out")
    folder.claim(first, search=True)
    with folder.held(second, lambda groups: False):
        assert folder.study().varied == second.varied
        other = Folder(tmp_path / "out")
        with pytest.raises(FolderError, match="belongs to another study"):
            other.claim(first)  # while someone has it
    (tmp_path / "out" / "groups" / "1-0.safetensors").write_bytes(b"something")
    with pytest.raises(FolderError, match="belongs to another study"):
        folder.claim(first)
