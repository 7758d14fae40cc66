"""The gallery leaves no example out, and each needs only what the library offers; slowly, that each runs."""

import ast
import itertools
import os
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "gallery"
INDEX = (PAGES / "index.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^(\w+): .+\.$", "\n".join(re.findall(r"^```\{gallery\}\n(.*?)^```", INDEX, re.M | re.S)), re.M)
#: scripts that are no page of the gallery: the README's example, and one that takes minutes
ELSEWHERE = {"three_learners", "memory_pays"}


def script(name):
    return (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")


def offered():
    """What may be imported: Python's own modules, the library, and what it or one of its extras needs."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*about["dependencies"], *itertools.chain(*about["optional-dependencies"].values())]
    return {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in needed} | set(sys.stdlib_module_names)


def imported(code):
    """The packages that a script imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_every_example_is_in_the_gallery_once_and_has_a_page():
    assert len(LISTED) == len(set(LISTED))
    assert set(LISTED) | ELSEWHERE == {file.stem for file in (ROOT / "examples").glob("*.py")}
    assert {page.stem for page in PAGES.glob("*.md")} == {"index", *LISTED}
    for name in LISTED:
        assert (PAGES / f"{name}.md").read_text(encoding="utf-8") == f"```{{example}} {name}\n```\n"
    assert "examples/memory_pays.py" in INDEX


@pytest.mark.parametrize("name", LISTED)
def test_an_example_says_what_it_is_and_draws_one_figure_with_what_is_offered(name):
    code = script(name)
    title, blank, *words = ast.get_docstring(ast.parse(code)).split("\n")
    assert 10 < len(title) < 60
    assert not title.endswith(".")
    assert not blank
    assert len(" ".join(words)) > 200
    assert set(imported(code)) <= offered()
    assert code.count("plt.subplots(") == 1
    assert code.endswith("plt.show()\n")
    assert len(code.splitlines()) < 90


def test_what_nobody_offers_is_found():
    assert not set(imported("import torch\nfrom keras.models import Model")) & offered()


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTED)
def test_an_example_runs_in_less_than_a_minute_of_one_core(name, tmp_path):
    plain = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    drawn = "from matplotlib import pyplot as plt; assert plt.get_fignums() == [1]; plt.savefig('figure.svg')"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", f"{script(name)}\n{drawn}"],
        cwd=tmp_path,
        env={**plain, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-3000:]
    assert after.ru_utime - before.ru_utime < 60
    assert (tmp_path / "figure.svg").stat().st_size < 400_000
