"""`recurra learn` killed, interrupted, followed and starved of room: it goes on to the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import learning_standin
from recurra.cli import app
from recurra.saved.archive import read

STANDIN = [sys.executable, str(Path(__file__).parents[1] / "support" / "learning_standin.py")]
HOW = ["learn", "a.csv", "--target", "y", "--horizon", "2", "--coverage", "0.9", "--checkpoint", "c.learn",
       "--checkpoint-every", "0", "--predictions", "p.csv", "--json", "--on-bad", "skip"]  # fmt: skip


def a_table(rows, seed=0):
    rng = np.random.default_rng(seed)
    lines = ["y,x"]
    for i in range(rows):
        x = "" if rng.random() < 0.1 else "soon" if rng.random() < 0.01 else f"{rng.normal():.3f}"
        lines.append(f"{np.sin(i / 5) + rng.normal() / 9:.4f},{x}")
    return "\n".join(lines) + "\n"


def start(folder, *arguments, **environment):
    settings = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*STANDIN, *map(str, arguments)], cwd=folder, env=settings, **pipes)


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def outcome(folder, out):
    arrays, document = read(folder / "c.learn", "learn")
    return out, (folder / "p.csv").read_bytes(), {name: a.tobytes() for name, a in arrays.items()}, document


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Runs the command in this process, in a folder."""
    learning_standin.put_in(monkeypatch.setattr)

    def run(folder, *arguments):
        monkeypatch.chdir(folder)
        capsys.readouterr()
        return app.execute([*map(str, arguments)]), *capsys.readouterr()

    return run


@pytest.fixture
def uninterrupted(here, tmp_path):
    """What comes of a table at once."""

    def run(text):
        folder = tmp_path / "whole"
        folder.mkdir()
        (folder / "a.csv").write_text(text)
        status, out, err = here(folder, *HOW)
        assert status == 0, err
        return outcome(folder, out)

    return run


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


@pytest.mark.parametrize("call", [2, 6, 17])  # in the first checkpoint, in a line of predictions, in a later checkpoint
def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path, here, uninterrupted, call):
    text = a_table(400)
    (tmp_path / "a.csv").write_text(text)
    status, _, _ = finish(start(tmp_path, *HOW, DIE_AT=call))
    assert status == -signal.SIGKILL
    status, out, err = here(tmp_path, *HOW)
    assert status == 0, err
    assert outcome(tmp_path, out) == uninterrupted(text)
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")]


@pytest.mark.slow
def test_a_run_that_is_killed_200_times_goes_on_to_the_same_bits(tmp_path, uninterrupted):
    rng = np.random.default_rng(0)
    rows = 40_000
    text = a_table(rows)
    wanted = uninterrupted(text)
    kills = finished = 0
    while kills < 200:
        folder = tmp_path / str(finished)
        folder.mkdir()
        (folder / "a.csv").write_text(text)
        while True:
            if rng.random() < 0.5:  # at a random call that changes the disk
                process = start(folder, *HOW, DIE_AT=int(rng.integers(1, 150)))
            else:  # at a random moment
                process = start(folder, *HOW, SLOWLY=0.002)
                time.sleep(rng.uniform(0.3, 2.5))
                process.kill()
            status, out, err = finish(process)
            if status == 0:
                break
            assert status == -signal.SIGKILL, err
            kills += 1
        assert outcome(folder, out) == wanted
        finished += 1


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_keeps_what_it_has_and_goes_on(tmp_path, here, uninterrupted, number):
    text = a_table(400)
    (tmp_path / "a.csv").write_text(text)
    process = start(tmp_path, *HOW, "--out", "page", SLOWLY=0.4)
    wait_for(lambda: (tmp_path / "p.csv").exists() and (tmp_path / "p.csv").stat().st_size > 1000)
    process.send_signal(number)
    status, out, err = finish(process)
    assert status == 128 + number
    assert "Interrupted after" in err
    assert "The same command goes on from there." in err
    assert "recurra learn" in (tmp_path / "page/index.html").read_text()
    assert 0 < json.loads(out)["rows"] < 390
    assert json.loads(out)["interrupted"]
    status, out, _ = here(tmp_path, *HOW)
    assert status == 0
    assert outcome(tmp_path, out) == uninterrupted(text)


def test_a_file_is_followed_until_ctrl_c(tmp_path, uninterrupted):
    rows = a_table(300).splitlines(keepends=True)
    path = tmp_path / "a.csv"
    path.write_text("".join(rows[:1]))
    process = start(tmp_path, *HOW, "--follow")
    count = lambda: (tmp_path / "p.csv").read_bytes().count(b"\n") if (tmp_path / "p.csv").exists() else 0
    with path.open("a") as file:
        file.write("".join(rows[1:201]) + rows[201][:3])
        file.flush()
        wait_for(lambda: count() > 190)
        time.sleep(0.3)
        before = count()
        file.write(rows[201][3:] + "".join(rows[202:]))
        file.flush()
        wait_for(lambda: count() > before + 90)
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    status, out, _ = finish(process)
    assert status == 130
    found = json.loads(out)
    assert found["rows"] + found["skipped"] == 300
    wanted, predictions, *_ = uninterrupted("".join(rows))
    assert found["forecasts"] == json.loads(wanted)["forecasts"]
    assert (tmp_path / "p.csv").read_bytes() == predictions


@pytest.mark.slow
def test_a_followed_file_that_is_cut_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text(a_table(50))
    process = start(tmp_path, *HOW, "--follow")
    wait_for(lambda: (tmp_path / "p.csv").exists() and (tmp_path / "p.csv").stat().st_size > 1000)
    (tmp_path / "a.csv").write_text("y,x\n")
    status, out, err = finish(process)
    assert status == 2
    assert "error: a.csv became shorter while it was followed" in err
    assert json.loads(out)["rows"] > 40


@pytest.mark.slow
def test_rows_from_a_pipe_are_learned_as_they_come(tmp_path):
    rows = a_table(12).splitlines(keepends=True)
    how = [each for each in HOW if each != "a.csv"]
    process = subprocess.Popen([*STANDIN, how[0], "-", *how[1:]], cwd=tmp_path, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdin is not None
    count = lambda: (tmp_path / "p.csv").read_bytes().count(b"\n") if (tmp_path / "p.csv").exists() else 0
    for done, row in enumerate(rows):
        process.stdin.write(row)
        process.stdin.flush()
        if done:
            wait_for(lambda done=done: count() == done + 1)  # also its header
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(out)["rows"] == 12
    # The same rows again, and more: it goes on after those that it knows.
    more = "".join(rows) + "0.5,1\n"
    again = subprocess.run([*STANDIN, how[0], "-", *how[1:]], cwd=tmp_path, input=more, capture_output=True, text=True)
    assert (again.returncode, json.loads(again.stdout)["rows"]) == (0, 13)


@pytest.mark.slow
def test_ctrl_c_before_the_first_row_says_so(tmp_path):
    (tmp_path / "a.csv").write_text("y,x\n")
    process = start(tmp_path, *HOW, "--follow")
    wait_for(lambda: (tmp_path / ".c.learn.lock").exists())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    assert (status, out) == (130, "")
    assert err in ("Interrupted before the first row.\n", "Interrupted: nothing new was kept.\n")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv"}


@pytest.mark.slow
def test_predictions_that_find_no_room_end_in_a_whole_line(tmp_path):
    (tmp_path / "a.csv").write_text(a_table(700))
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)); "
    limited = [sys.executable, "-c", f"{limit}os.execv(sys.argv[1], sys.argv[1:])", *STANDIN]
    how = ["learn", "a.csv", "--target", "y", "--predictions", "p.csv", "--json", "--on-bad", "skip"]
    done = subprocess.run([*limited, *how], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("there is no room for more of it") == 1
    assert json.loads(done.stdout)["rows"] > 600  # the run is worth its table
    content = (tmp_path / "p.csv").read_text()
    assert content.endswith("\n")
    assert 9_000 < len(content) <= 10_000
    assert {line.count(",") for line in content.splitlines()} == {3}
