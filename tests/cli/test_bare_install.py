"""The library with nothing but what it depends on, and the command's one line where an extra is not installed."""

import subprocess
import sys

import pytest

#: All but SciPy, without which JAX itself does not run: that the library does not use it is checked by `make lint`.
EXTRAS = ("matplotlib", "rich", "typer", "pydantic", "xarray", "h5netcdf", "h5py", "jinja2")

#: refuses packages as if they were not installed
REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""

TRAIN = """
import recurra as rc

task = rc.Add(1, 2)
network = rc.Network(rc.RNN(n_in=task.n_in, n=3), n_out=task.n_out)
result = rc.train(network, rc.RFLO(), task, steps=20, seeds=2)
assert result.loss.shape == (2, 20)
try:
    result.to_xarray()
except ImportError as error:
    print(error)
"""

COMMAND = "from recurra.cli import main; main()"


def without(names, script, cwd, *arguments):
    """A script in a process that lacks some packages."""
    whole = REFUSE.format(names=set(names)) + script
    command = [sys.executable, "-c", whole, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def test_the_library_trains_with_nothing_else_installed(tmp_path):
    done = without(EXTRAS, TRAIN, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "`to_xarray` needs xarray, which is not installed: pip install 'recurra[results]'\n"


def test_rooms_that_need_an_extra_say_so_when_they_are_asked_for(tmp_path):
    script = """
import recurra as rc
print(hasattr(rc, "places"), hasattr(rc, "river"))
try:
    from recurra import places
except ImportError as error:
    print(error)
rc.places
"""
    done = without(["distributed", "river"], script, tmp_path)
    told = "recurra.places needs Dask, which is not installed: pip install 'recurra[scale]'"
    assert done.stdout == f"False False\n{told}\n"
    assert done.stderr.endswith(f"AttributeError: {told}\n")


def test_the_refusal_refuses(tmp_path):
    done = without(EXTRAS, "import xarray", tmp_path)
    assert "No module named 'xarray'" in done.stderr


@pytest.mark.parametrize(
    ("absent", "arguments", "words"),
    [
        (EXTRAS, ["learners"], ["typer, rich and pydantic", "are not installed", "'recurra[cli]'"]),
        (["rich"], ["--help"], ["rich", "is not installed", "'recurra[cli]'"]),
        (["xarray"], ["train", "--learner", "rflo", "--out", "a.nc"], ["--out", "xarray", "'recurra[results]'"]),
        (["h5netcdf"], ["train", "--learner", "rflo", "--out", "a.nc"], ["h5netcdf", "'recurra[results]'"]),
        (["matplotlib"], ["bench", "--out", "speed"], ["bench --out", "matplotlib", "'recurra[paper]'"]),
        (["scipy"], ["reproduce"], ["reproduce", "scipy", "'recurra[paper]'"]),
        (["jinja2", "matplotlib"], ["report", "."], ["report", "matplotlib and jinja2", "'recurra[paper]'"]),
    ],
)
def test_what_is_not_installed_is_one_line_before_anything_is_computed(tmp_path, absent, arguments, words):
    done = without(absent, COMMAND, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert not list(tmp_path.iterdir())


def test_what_needs_no_extra_works_without(tmp_path):
    absent = set(EXTRAS) - {"typer", "rich", "pydantic"}
    small = ["--learner", "rflo", "--n", "3", "--seeds", "1"]
    trained = without(absent, COMMAND, tmp_path, "train", *small, "--steps", "20")
    assert trained.returncode == 0, trained.stderr
    measured = without(absent, COMMAND, tmp_path, "bench", *small, "--repeats", "1")
    assert measured.returncode == 0, measured.stderr
    assert "rflo" in measured.stdout
