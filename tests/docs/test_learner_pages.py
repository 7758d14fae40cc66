"""Each learner has a page, whose tables and drawings are those of the library and of the measurements."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import recurra as rc

PAGES = Path(__file__).parents[2] / "docs" / "learners"
TABLES = PAGES / "make_tables.py"


@pytest.fixture(scope="module")
def tables():
    return runpy.run_path(str(TABLES))


def test_the_tables_and_hyperparameters_are_up_to_date():
    done = subprocess.run([sys.executable, str(TABLES), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_table_that_is_wrong_is_noticed(tables):
    page = (PAGES / "uoro.md").read_text(encoding="utf-8")
    assert tables["rewritten"](page, "uoro") == page
    assert "0.477 ± 0.001" in page
    assert tables["rewritten"](page.replace("0.477 ± 0.001", "0.466 ± 0.001"), "uoro") == page
    assert not tables["wrong_defaults"](page, "uoro")
    assert tables["wrong_defaults"](page.replace("| `nu` |", "| `mu` |"), "uoro")


def test_each_learner_has_a_page_that_is_in_the_overview():
    overview = (PAGES / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([a-z0-9-]+)$", overview, re.M)
    for name in rc.LEARNERS:
        text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert f"`rc.{rc.LEARNERS[name].__name__}`, `{name}`" in text
        assert f"]({name}.md)" in overview
        assert name in listed
    assert {page.stem for page in PAGES.glob("*.md")} == {*rc.LEARNERS, "index"}


def test_each_page_has_a_drawing_that_the_script_writes():
    pytest.importorskip("matplotlib")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import draw; print(*draw.DRAWINGS)"
    command = [sys.executable, "-c", code, str(PAGES / "figures")]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split()
    assert {file.stem for file in (PAGES / "figures").glob("*.svg")} == set(drawn)
    for name in rc.LEARNERS:
        shown = re.findall(r"\{image\} figures/(\S+)\.svg", (PAGES / f"{name}.md").read_text(encoding="utf-8"))
        assert shown
        assert set(shown) <= set(drawn)
