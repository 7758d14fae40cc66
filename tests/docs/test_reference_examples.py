"""Every name of the reference has an example, and examples print what they say, as a user sees it.

`python tests/docs/test_reference_examples.py` runs all of them, and prints what went wrong as JSON.
"""

import ast
import doctest
import inspect
import io
import json
import os
import pkgutil
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec

import pytest

from reference_pages import DOCS, ROOT, reference

#: examples that need a package which may not be there
NEEDS = {"recurra.Digits": "sklearn", "recurra.sweep": "xarray"}
#: where a docstring leads to a page that has the example
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def preamble():
    """The lines after which examples begin, as the first page of the reference says."""
    return re.search(r"^```python\n(.*?)^```", (DOCS / "reference" / "index.md").read_text("utf-8"), re.M | re.S)[1]


def docstrings():
    """Those of the reference, by name. River takes a second to import, so its estimators are read."""
    texts = [file.read_text("utf-8") for file in (ROOT / "recurra" / "river").glob("*.py")]
    nodes = [node for text in texts for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    found = {f"recurra.river.{node.name}": ast.get_docstring(node) for node in nodes}
    for name in (name for name in reference() if not name.startswith("recurra.river")):
        part = pkgutil.resolve_name(name)
        found[name] = part.__doc__ if callable(part) else of_constant(name)
    return {name: found[name] for name in reference()}


def of_constant(name):
    """What is written of it: that `rc.X` is `something`, as an example."""
    pages = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    entry = re.search(rf"^```{{py:data}} {re.escape(name)}\n(.*?)^```", pages, re.M | re.S)[1]
    claims = re.findall(r"`(rc\.[^`]+)` is `([^`]+)`", entry)
    return "\n".join(f">>> {one} == {other}\nTrue" for one, other in claims)


def about_of(name):
    """What a learner says of itself; None for all else, also for the baseline of agents, which has no page."""
    is_there = name in reference() and not name.startswith(("recurra.river.", "recurra.rl."))
    about = getattr(pkgutil.resolve_name(name), "about", None) if is_there else None
    # That of a wrapper, which follows from what it wraps, is a property.
    return about if isinstance(about, pkgutil.resolve_name("recurra.About")) else None


def page_of(name, doc):
    """The page that has the example: that of a learner, or the one that a docstring names; None if there is none."""
    about, found = about_of(name), PAGE.search(doc)
    return ROOT / f"docs/learners/{about.id}.md" if about else ROOT / found[0] if found else None


def lacking(docs):
    """Names without an example, and without a page whose code runs."""
    runs = lambda page: page is not None and page.exists() and "\n```python\n" in page.read_text("utf-8")
    return [name for name, doc in docs.items() if ">>> " not in doc and not runs(page_of(name, doc))]


def run(docs):
    """What is wrong with the examples of some docstrings, by name."""
    scope, wrong = {}, {}
    exec(preamble(), scope)
    for name, doc in docs.items():
        told = io.StringIO()
        test = doctest.DocTestParser().get_doctest(inspect.cleandoc(doc), dict(scope), name, None, 0)
        doctest.DocTestRunner(verbose=False).run(test, out=told.write)
        if told.getvalue():
            wrong[name] = told.getvalue()
    return wrong


def test_every_name_of_the_reference_has_an_example():
    assert not lacking(docstrings())
    assert lacking({"recurra.Nobody": "Says nothing."}) == ["recurra.Nobody"]
    assert lacking({"recurra.Nobody": "An example is in docs/nowhere.md."}) == ["recurra.Nobody"]
    assert not lacking({"recurra.Nobody": "An example is in docs/add-a-learner.md."})


def test_learners_show_their_equations_alone():
    learners = {name: doc for name, doc in docstrings().items() if about_of(name)}
    assert len(learners) == len(pkgutil.resolve_name("recurra.LEARNERS"))
    assert not [name for name, doc in learners.items() if ">>> " in doc]


@pytest.mark.parametrize("leave_out", [(), pytest.param(("XLA_FLAGS",), marks=pytest.mark.slow)])
def test_examples_print_what_they_say(leave_out):
    """In a process of its own, as a user runs them: in single precision, and with types as JAX promotes them.

    They are compiled quickly as the other tests are, or as a user's programs.
    """
    plain = {name: value for name, value in os.environ.items() if name not in leave_out}
    plain["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])  # the library under test
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600, env=plain)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert not told["wrong"], "\n".join(told["wrong"].values())
    assert told["count"] > 90
    assert list(told["control"]) == ["recurra.Nobody"]


def extension(name):
    pytest.importorskip("sphinx", reason="pip install '.[docs]'")
    return runpy.run_path(str(DOCS / "_extensions" / f"{name}.py"))


def test_an_entry_shows_examples_as_python_and_leads_to_pages():
    rewrite, rflo = extension("docstrings")["rewrite"], pkgutil.resolve_name("recurra.RFLO")
    lines = ["A sum. See docs/cells.md.", "", ">>> a_b = 1", ">>> a_b", "1", "", "After."]
    rewrite(None, "function", "f", lines.index, None, lines)
    told = "\n".join(lines)
    assert "See :doc:`/cells`." in told
    assert ".. code-block:: python\n\n   >>> a_b = 1\n   >>> a_b\n   1\n\nAfter." in told
    lines = ["B = H B + D ahat."]
    rewrite(None, "class", "recurra.RFLO", rflo, None, lines)
    assert "Example, equation and cost: :doc:`its page </learners/rflo>`." in lines


def test_pages_run_again_after_a_change_of_code_and_of_nothing_else():
    code_of = extension("runs")["code_of"]
    module = (
        '"""Text."""\n\nclass A:\n    """Text."""\n\n    def f(self):\n        """Text."""\n        return 1  # one\n'
    )
    other = module.replace("Text", "Other words").replace("  # one", "")
    assert code_of(module) == code_of(other)
    assert code_of(module) != code_of(module.replace("return 1", "return 2"))


if __name__ == "__main__":
    # The examples for River run in tests/river/test_rivers_own_checks.py.
    there = lambda name: find_spec(NEEDS.get(name, "json")) is not None and not name.startswith("recurra.river")
    chosen = {name: doc for name, doc in docstrings().items() if ">>> " in doc and there(name)}
    control = run({"recurra.Nobody": ">>> rc.BLOCK\n129"})
    print(json.dumps({"wrong": run(chosen), "count": len(chosen), "control": control}))
