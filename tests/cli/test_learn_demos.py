"""Demos and Parquet files."""

import hashlib
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from recurra.cli.learning import demos
from recurra.cli.learning.demos import DEMOS, InputError, lorenz
from recurra.cli.learning.rows import open_demo, open_rows


def table_of(name):
    table = open_demo(name)
    assert table.begin()
    rows = table.take(20_000)
    assert not table.take(1)
    table.close()
    return table.columns, [row.cells for row in rows]


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_is_the_table_that_it_is_said_to_be(name):
    columns, rows = table_of(name)
    assert DEMOS[name].target in columns
    assert f"{len(rows):,} rows" in DEMOS[name].about
    assert {len(row) for row in rows} == {len(columns)}
    values = [float(row[columns.index(DEMOS[name].target)]) for row in rows]
    assert np.isfinite(values).all()


@pytest.mark.parametrize(("name", "first", "last"), [("sunspots", "1749-01", "1983-12"), ("sea", "1950-01", "2010-12")])
def test_a_demo_of_months_has_every_month_once(name, first, last):
    _, rows = table_of(name)
    months = np.arange(np.datetime64(first), np.datetime64(last) + np.timedelta64(1, "M"))
    assert [row[0] for row in rows] == [f"{month}-01" for month in months]


def test_every_file_that_is_shipped_has_its_source_and_licence():
    folder = Path(demos.__file__).parent
    text = (folder / "SOURCES.md").read_text()
    files = {path.name for path in folder.iterdir() if path.suffix not in (".py", ".md", "")}
    assert files == {demo.file for demo in DEMOS.values() if demo.file and not demo.package}
    for name in files:
        rows = len((folder / name).read_text().splitlines()) - 1
        line = next(line for line in text.splitlines() if f"`{name}`" in line)
        assert f"{rows:,} rows" in line
        assert "NOAA" in line
    assert sum((folder / name).stat().st_size for name in files) < 120_000


def test_the_computed_series_solves_the_equations_of_lorenz():
    integrate = pytest.importorskip("scipy.integrate")
    points = np.array(list(islice(lorenz(), 60)))
    times = np.arange(60) * demos.INTERVAL

    def wanted(rho):
        slope = lambda _, p: [10 * (p[1] - p[0]), p[0] * (rho - p[2]) - p[1], p[0] * p[1] - 8 / 3 * p[2]]
        how = {"t_eval": times, "rtol": 1e-11, "atol": 1e-11}
        return integrate.solve_ivp(slope, (0, times[-1]), [1.0, 1.0, 1.0], **how).y.T

    np.testing.assert_allclose(points, wanted(28), atol=2e-3)
    assert not np.allclose(points, wanted(28.1), atol=2e-2)


def test_the_computed_series_is_the_same_everywhere():
    found = hashlib.sha256(demos.computed()).hexdigest()
    assert found == "c5d189987a8c53b54c5beba0587de3f019cb5cbc5e7b98ba8013dfd764f74f5a"


def test_a_demo_of_river_is_read_without_importing_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "river", raising=False)  # other tests may have imported it
    (tmp_path / "river/datasets").mkdir(parents=True)
    (tmp_path / "river/__init__.py").write_text("raise ImportError('this must not be imported')")
    with pytest.raises(InputError, match=r"file datasets/water-flow.csv of river, and the version installed has none"):
        open_demo("water")
    (tmp_path / "river/datasets/water-flow.csv").write_text("Time,Water flow [l/s]\n2022-03-20,100.59\n")
    assert table_of("water") == (["Time", "Water flow [l/s]"], [["2022-03-20", "100.59"]])
    assert "river" not in sys.modules


@pytest.mark.slow
def test_without_river_its_demo_says_what_it_needs_and_the_others_run(learn, monkeypatch):
    monkeypatch.setattr("recurra.cli.environment._is_installed", lambda name: False)
    status, _, err = learn("--demo", "water")
    assert (status, err) == (
        2, "error: This demo needs river, which is not installed: pip install 'recurra[river]'\n",
    )  # fmt: skip
    for name, demo in DEMOS.items():
        assert demo.package or len(table_of(name)[1]) > 500


def test_a_demo_knows_its_target(learn):
    status, out, err = learn("--demo", "sea")
    assert status == 0, err
    assert "732 rows of the demo sea, 731 of them scored." in out


def test_demos_are_listed(learn):
    status, out, _ = learn("--demo", "list")
    assert (status, [line.split()[0] for line in out.splitlines()]) == (0, list(DEMOS))
    needing = [line.split()[0] for line in out.splitlines() if re.search("needs river$", line)]
    assert needing == [name for name, demo in DEMOS.items() if demo.package]


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


def test_values_of_a_parquet_file_keep_their_types(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "wide": pyarrow.array([0.1, None, 1e300], pyarrow.float64()),
        "narrow": pyarrow.array([0.1, 2, None], pyarrow.float32()),
        "large": pyarrow.array([2**62 + 1, -1, 0]),
        "nanoseconds": pyarrow.array([1451606400000000123, None, 0], pyarrow.timestamp("ns")),
        "zone": pyarrow.array([1451606400, None, 0], pyarrow.timestamp("s", "Europe/Berlin")),
        "day": pyarrow.array([16801, None, 0], pyarrow.date32()),
        "level": pyarrow.array(["a", None, "é"]).dictionary_encode(),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=2)
    table = open_rows(str(tmp_path / "a.parquet"), follow=False)
    assert table.begin()
    found = table.take(9)
    table.close()
    assert [row.place for row in found] == ["row 1", "row 2", "row 3"]
    float32 = str(float(np.float32(0.1)))
    assert [row.cells for row in found] == [
        ["0.1", float32, str(2**62 + 1), "2016-01-01T00:00:00", "2016-01-01T01:00:00+01:00", "2016-01-01", "a"],
        ["", "2.0", "-1", "", "", "", ""],
        ["1e+300", "", "0", "1970-01-01T00:00:00", "1970-01-01T01:00:00+01:00", "1970-01-01", "é"],
    ]


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
