"""The page beside other libraries tells what was measured, and shows the code that was measured."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks" / "side_by_side"
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
RUN_BY_THE_BUILD = "with_recurra.py", "with_recurra_live.py", "with_river.py"
RESULTS = json.loads((ROOT / "docs" / "comparison" / "results.json").read_text())


@pytest.fixture
def run(monkeypatch):
    """The module that measures."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    for name in ("run", "data"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("run")
    for name in ("run", "data"):
        sys.modules.pop(name, None)


def test_the_table_has_the_numbers_of_the_file(run):
    assert run.table(RESULTS) in PAGE
    assert list(RESULTS["rows"]) == list(run.ROWS)
    shown = [line.strip("| ").split(" | ") for line in PAGE.partition(run.BEGIN)[2].partition(run.END)[0].split("\n")]
    shown = {cells[0]: cells for cells in shown if len(cells) == 9}
    for name, row in RESULTS["rows"].items():
        loss, above, error, seconds = (
            *(float(shown[name][3]), *map(float, shown[name][4].split(" ± "))),
            float(shown[name][6]),
        )
        assert loss == pytest.approx(row["loss"], abs=5e-4)
        assert above == pytest.approx(row["above"], abs=5e-4)
        assert error == pytest.approx(row["above_error"], abs=5e-4)
        assert seconds == pytest.approx(row["steps_seconds"], rel=0.06)
        assert row["loss"] == pytest.approx(sum(row["losses"]) / len(RESULTS["seeds"]))
        assert row["loss"] - row["above"] == pytest.approx(RESULTS["loss_of_rule"])
        assert row["lines"] == run.lines(row["script"].removesuffix(".py")) == int(shown[name][8])
        best = min(row["tuning"], key=lambda rate: row["tuning"][rate])
        assert row["rate"] == float(best)


def test_the_other_numbers_of_the_page_are_those_of_the_file():
    for name in ("loss_of_rule", "loss_of_constant"):
        assert f" {RESULTS[name]:.3f}" in PAGE
    same = RESULTS["same_start"]
    assert f"at most {same['vanilla-rtrl']['difference']:.0e}" in PAGE
    assert f"braintrace by {same['braintrace']['difference']:.0e}" in PAGE
    assert f"differ by {same['braintrace']['with_another_rate']:.2f}" in PAGE
    versions = {
        package: version
        for row in RESULTS["rows"].values()
        if "deep_river" not in row["versions"]  # it has older ones of the others
        for package, version in row["versions"].items()
    }
    for package, version in versions.items():
        assert re.search(rf"{package} {re.escape(version)}", PAGE, re.I), package


def test_the_code_of_the_page_is_that_of_the_scripts():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert blocks[:4] == [(SCRIPTS / name).read_text() for name in ("data.py", *RUN_BY_THE_BUILD)]


def test_every_script_has_the_rate_that_was_chosen_and_the_page_what_it_printed():
    rows = {row["script"]: row for row in reversed(RESULTS["rows"].values())}  # the first of a script's rows
    told = re.findall(r"side_by_side/(with_\w+\.py)\n.*?last tenth: ([\d.]+)$", PAGE, re.M | re.S)
    assert {script for script, _ in told} | set(RUN_BY_THE_BUILD) == set(rows)
    for script, row in rows.items():
        assert f"rate={row['rate']}, seed={RESULTS['seeds'][0]}" in (SCRIPTS / script).read_text()
    for script, loss in told:
        assert loss == f"{rows[script]['losses'][0]:.3f}"


def test_a_library_that_is_not_installed_is_skipped_with_its_name(run, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(run, "PAGE", tmp_path / "page.md")
    monkeypatch.setitem(sys.modules, "river", None)
    monkeypatch.delitem(sys.modules, "with_river", raising=False)
    run.main(["River, ten lags"])
    assert re.search("River, ten lags +skipped", capsys.readouterr().out)
    assert not run.RESULTS.exists()
    with pytest.raises(SystemExit, match="no place for the table"):
        run.rewritten("a page without a table", "new")
