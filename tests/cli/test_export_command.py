"""`recurra export` writes a saved model as C, and says what is wrong in a line."""

import subprocess
import sys

import pytest

import recurra as rc
from online_models import plain_step

PROGRAM = [sys.executable, "-c", "from recurra.cli import main; raise SystemExit(main())"]


def run(folder, *arguments):
    return subprocess.run([*PROGRAM, "export", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    rc.save(folder / "pump.safetensors", rc.Online(plain_step(learner=rc.RFLO())))
    return folder


def test_a_model_becomes_three_files(folder):
    done = run(folder, "pump.safetensors", "--c", "board")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["board/pump.h", "board/pump.c", "board/pump.bin"]
    assert "struct pump {" in (folder / "board" / "pump.h").read_text()
    again = run(folder, "pump.safetensors", "--c", "other", "--name", "pump")
    assert again.returncode == 0
    assert (folder / "board" / "pump.c").read_bytes() == (folder / "other" / "pump.c").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nothing.safetensors", "--c", "new"), "nothing.safetensors cannot be read"),
        (("pump.safetensors", "--c", "new", "--name", "../x"), "`--name` names the files"),
        (("pump.safetensors", "--c", "pump.safetensors"), "which cannot be written"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(folder, arguments, told):
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert told in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not (folder / "new").exists()
