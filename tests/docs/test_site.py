"""The site of the documentation leaves nothing out: every public name and every page; slowly, that it builds."""

import ast
import inspect
import json
import pkgutil
import re
import subprocess
import sys

import pytest

import recurra as rc
from reference_pages import DOCS, ROOT, reference


def missing(public, listed):
    """Names, and modules none of whose names is there and that are not spoken of."""
    spoken = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    told = lambda name: (
        f"recurra.{name}" in listed or (inspect.ismodule(getattr(rc, name, None)) and f"`recurra.{name}`" in spoken)
    )
    return [name for name in public if not told(name)]


def test_every_public_name_is_in_the_reference_once():
    listed = reference()
    assert not missing(rc.__all__, listed)
    assert missing(["Nobody"], listed) == ["Nobody"]
    assert len(listed) == len(set(listed)), sorted(name for name in set(listed) if listed.count(name) > 1)


def test_everything_in_the_reference_is_there_and_has_a_docstring():
    listed = reference()
    for name in listed:
        if not name.startswith("recurra.river"):
            part = pkgutil.resolve_name(name)
            assert not callable(part) or vars(part).get("__doc__", part.__doc__), name
    # River takes a second to import, so its estimators are read
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "recurra" / "river").glob("*.py")]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    documented = {node.name for node in classes if ast.get_docstring(node)}
    assert {name.rpartition(".")[2] for name in listed if name.startswith("recurra.river")} <= documented


def undocumented(part):
    """Public methods and properties of a class that have a docstring neither themselves nor in a base."""
    names = [name for name, value in inspect.getmembers(part) if not name.startswith("_")]
    own = lambda name: next((base for base in part.__mro__ if name in vars(base)), object).__module__
    ours = [name for name in names if own(name).startswith(("recurra", __name__))]
    are = lambda value: inspect.isfunction(value) or isinstance(value, property)
    return [name for name in ours if are(getattr(part, name)) and not inspect.getdoc(getattr(part, name))]


def test_every_method_of_the_reference_has_a_docstring():
    parts = [pkgutil.resolve_name(name) for name in reference() if not name.startswith("recurra.river")]
    # what a learner's own functions compute is its equation, on its page
    classes = [part for part in parts if inspect.isclass(part) and not hasattr(part, "about")]
    assert not {part.__name__: found for part in classes if (found := undocumented(part))}

    class Silent(rc.Task):
        def helper(self): ...

    assert undocumented(Silent) == ["helper"]


def test_all_functions_of_the_small_modules_are_in_the_reference():
    listed = reference()
    for module in (rc.record, rc.noise):
        home = module.__name__
        own = [name for name, part in vars(module).items() if inspect.isfunction(part) and part.__module__ == home]
        for name in own:
            assert name.startswith("_") or f"recurra.{home.rpartition('.')[2]}.{name}" in listed


def leading_to(page):
    """The pages that a page's tables of contents name."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    named = [re.sub(r".*<(.*)>", r"\1", line) for line in lines if line and not line.startswith(":")]
    found = set()
    for name in named:
        found |= set(page.parent.glob(f"{name}.md")) if "*" in name else {(page.parent / f"{name}.md").resolve()}
    return found


def test_every_page_is_reached_from_the_first():
    seen, todo = set(), [(DOCS / "index.md").resolve()]
    while todo:
        page = todo.pop()
        seen.add(page)
        todo += [other.resolve() for other in leading_to(page) if other.resolve() not in seen]
    assert {page.resolve() for page in DOCS.rglob("*.md")} == seen


@pytest.mark.parametrize(
    ("page", "prints"),
    [
        pytest.param("index.md", r"RTRL +0\.\d+ ± 0\.\d+", marks=pytest.mark.slow),
        ("learners/rflo.md", r"0\.\d+"),
    ],
)
def test_pages_run_as_the_build_runs_them(page, prints, tmp_path):
    """A few of them; the build runs all. The first block that fails would be told with its line."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [
        (text[: found.start()].count("\n") + 2, found[1]) for found in re.finditer(r"```python\n(.*?)```", text, re.S)
    ]
    for code, fails in ((blocks, False), ([(7, "x = 1\nx / 0")], True)):
        command = [sys.executable, str(DOCS / "_extensions" / "run_blocks.py"), page, str(tmp_path / "told.json")]
        subprocess.run(command, input=json.dumps(code), text=True, cwd=tmp_path, timeout=600, check=True)
        told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
        assert ("error" in told) == fails, told
        assert told.get("line") == (8 if fails else None)
        assert fails or re.search(prints, told["shown"][-1]["printed"])


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("furo", reason="pip install '.[docs]'")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", str(tmp_path / "kept" / "doctrees"), str(DOCS), str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-5000:]
    page = (tmp_path / "site" / "reference" / "training.html").read_text(encoding="utf-8")
    assert 'id="recurra.train"' in page
    assert "±" in (tmp_path / "site" / "start.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_block_that_fails_is_an_error_with_its_page_and_line(tmp_path):
    pytest.importorskip("furo", reason="pip install '.[docs]'")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS / '_extensions')!r})\nextensions = ['myst_parser', 'runs']\n"
    )
    wrong = "# A page\n\n```python\nx = 1\n```\n\n```python\nprint(x)\nx / 0\n```\n\n```sh\nls\n```\n"
    (docs / "index.md").write_text(wrong)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(tmp_path / "kept" / "doctrees")]
    done = subprocess.run([*command, str(docs), str(tmp_path / "site")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert re.search(r"index\.md:9: ERROR: the code of this page fails", done.stderr), done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "say why these commands are not run" in done.stderr
