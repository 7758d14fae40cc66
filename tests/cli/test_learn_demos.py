"""Demos and Parquet files: tables out of other packages."""

import gzip
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from recurra.cli.learning.sources import DEMOS, InputError


def npy(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def zipped(text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("table", text)
    return stream.getvalue()


#: what the file of each demo looks like, and the first lines of the table it becomes
FILES = {
    "laser": (npy(np.array([[86], [141]])), "intensity\n86\n141\n"),
    "ecg": (npz(ecg=np.array([-0.245, 1e-3])), "millivolt\n-0.245\n0.001\n"),
    "electricity": (
        f"import pandas\nother = [1, 2]\ndef load():\n    return np.array({[22262, *range(1000)]})\n".encode(),
        "megawatt\n22262\n0\n1\n",
    ),
    "taxi": (gzip.compress(b",date,count\n0,2016-01-01 00:00:00,19865\n"), "time,pickups\n2016-01-01 00:00:00,19865\n"),
    "traffic": (zipped("a,b,c,d,e,f,g\n2016,20,0.0,0,286.22,1195,Clouds\n"), "time,clouds,rain,snow,kelvin,vehicles"),
    "sunspots": (gzip.compress(b" 58.0  62.6\n 70.0\n"), "month,sunspots\n1749-01-01,58.0\n1749-02-01,62.6\n"),
    "water": (
        b"Time,Water flow [l/s]\n2022-03-20T11:00:00+01:00,100.59\n",
        "time,flow\n2022-03-20T11:00:00+01:00,100.59",
    ),
}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a file into a package, which cannot be imported. Nothing else of the name is found."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(demo, content):
        monkeypatch.delitem(sys.modules, demo.package, raising=False)  # other tests may have imported it
        path = tmp_path / demo.package / demo.file
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        (tmp_path / demo.package / "__init__.py").write_text("raise ImportError('this must not be imported')")
        return path

    return put


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_is_read_out_of_its_package_without_importing_it(installed, name):
    content, start = FILES[name]
    installed(DEMOS[name], content)
    assert DEMOS[name].table().decode().startswith(start)
    assert DEMOS[name].target in start
    assert DEMOS[name].package not in sys.modules


@pytest.mark.parametrize("name", DEMOS)
def test_a_file_that_changed_is_said_to_be_so(installed, name):
    path = installed(DEMOS[name], b"something else")
    if name == "water":  # which is text of one kind or another
        path.unlink()
    with pytest.raises(InputError, match=f"this version of {DEMOS[name].package} does not have as it was"):
        DEMOS[name].table()


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("recurra.cli.learning.sources.find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"pip install 'recurra\[demo\]', or only the file: pip install --no-deps river"
    ):
        DEMOS["water"].table()


def test_a_demo_knows_its_target(learn, installed):
    installed(DEMOS["laser"], npy(np.arange(40) % 7))
    status, out, _ = learn("--demo", "laser")
    assert status == 0
    assert "40 rows of the demo laser, 39 of them scored." in out


def test_demos_are_listed(learn):
    status, out, _ = learn("--demo", "list")
    assert (status, [line.split()[0] for line in out.splitlines()]) == (0, list(DEMOS))


# Parquet


def test_a_parquet_file_gives_the_same_as_a_csv_file(learn):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    count = 1500
    columns = {
        "time": np.datetime64("2016-01-01T00:00:00") + np.arange(count) * np.timedelta64(3600, "s"),
        "y": [None if rng.random() < 0.1 else float(value) for value in rng.normal(size=count)],
        "flag": [bool(value) for value in rng.integers(0, 2, count)],
        "kind": [["a", "b"][value] for value in rng.integers(0, 2, count)],
        "number": rng.integers(0, 9, count),
    }
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    cell = lambda value: "" if value is None else str(value)
    lines = [",".join(columns), *(",".join(map(cell, row)) for row in zip(*columns.values(), strict=True))]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    outs = []
    for name in ("a.parquet", "a.csv"):
        status, out, err = learn(name, "--target", "y", "--json")
        assert status == 0, err
        outs.append(out.replace(name, ""))
    assert outs[0] == outs[1]
    parquet.write_table(pyarrow.table(columns).slice(0, 1100), "b.parquet")
    how = ("b.parquet", "--target", "y", "--json", "--checkpoint", "c.learn")
    assert learn(*how)[0] == 0
    Path("a.parquet").replace("b.parquet")  # which goes on where the other ended
    status, out, err = learn(*how)
    assert status == 0, err
    assert out.replace("b.parquet", "") == outs[0]
    assert "Parquet file, which nobody can append to" in learn("b.parquet", "--target", "y", "--follow")[2]
    Path("b.parquet").write_bytes(b"PAR1 is not enough")
    assert "cannot be read as Parquet" in learn("b.parquet", "--target", "y")[2]


def test_without_pyarrow_a_parquet_file_says_what_it_needs(learn, monkeypatch):
    monkeypatch.setattr("recurra.cli.environment._is_installed", lambda name: name != "pyarrow")
    Path("a.parquet").write_bytes(b"PAR1")
    status, _, err = learn("a.parquet", "--target", "y")
    assert status == 2
    assert err == "error: A Parquet file needs pyarrow, which is not installed: pip install 'recurra[parquet]'\n"


def test_help_needs_neither_jax_nor_the_plots(tmp_path):
    heavy = "jax", "matplotlib", "numpy", "pyarrow"
    code = "import sys; from recurra.cli import app; app.execute(['learn', '--help'])"
    code += f"; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.endswith("[]\n"), done.stdout[-200:]
    assert "--horizon" in done.stdout
