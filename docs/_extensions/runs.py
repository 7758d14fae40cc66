"""Runs the Python blocks of a page while the site is built, and shows below each what it printed and drew.

All blocks of a page run in their order, in one namespace and one fresh process, as a reader would paste them. An
exception is an error of the build, with the page and its line. What a page printed is kept under a hash of its code and
of the library's, without docstrings and comments, so only pages whose result could differ run again.

A comment directly before a block, `<!-- not run: it needs a cluster -->`, says that it is not run, and why. Below a
Python block the reason is shown. Shell blocks are never run, so they must have such a comment. TOML blocks must parse.
Every other block must be marked as text. Examples of docstrings, with `>>>`, must print what they say.
"""

import ast
import base64
import functools
import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
RUNNER = Path(__file__).with_name("run_blocks.py")
PACKAGE = Path(__file__).parents[2] / "recurra"
NOT_RUN = re.compile(r"<!--\s*not run:\s*(.*?)\s*-->", re.S)
LIMIT = 600  # seconds a page may take
#: the page whose lines come before every example of a docstring
REFERENCE = "reference/index"
#: runs an example, and fails with what it printed if that is something else than what it says
CHECKED = """
def check(text, scope):
    import doctest, io

    told = io.StringIO()
    test = doctest.DocTestParser().get_doctest(text, scope, "example", None, 0)
    doctest.DocTestRunner(verbose=False).run(test, out=told.write)
    assert not told.getvalue(), told.getvalue()


check({text!r}, dict(globals()))
"""


@functools.cache
def library() -> str:
    """A hash of the library's code and data, of the versions beneath it, and of what runs the blocks."""
    files, data = [RUNNER, *sorted(PACKAGE.rglob("*.py"))], sorted(PACKAGE.rglob("*.json"))
    texts = [code_of(file.read_text(encoding="utf-8")) for file in files] + [file.read_text("utf-8") for file in data]
    texts += [
        f"{name} {metadata.version(name)}"
        for name in ("jax", "jaxlib", "numpy", "optax", "equinox", "matplotlib", "river")
    ]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def code_of(source: str) -> str:
    """A module without its docstrings, comments and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, False) is not None:
            del node.body[0]
    return ast.dump(tree)


def reason(block: nodes.literal_block) -> str | None:
    """Why a block is not run, as the comment before it says; None if there is no such comment."""
    place = block.parent.index(block)
    before = block.parent[place - 1] if place else None
    found = NOT_RUN.search(before.astext()) if isinstance(before, nodes.raw | nodes.comment) else None
    return " ".join(found.group(1).split()) if found else None


def run(blocks: list[tuple[int, str]], page: str, folder: Path) -> dict:
    """What every block printed and drew, and the error, if one of them failed."""
    key = hashlib.sha256(json.dumps([library(), blocks]).encode()).hexdigest()
    file = folder / f"{key}.json"
    if file.exists():
        return json.loads(file.read_text())
    LOG.info("running the %d blocks of %s", len(blocks), page)
    plain = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    with tempfile.TemporaryDirectory() as scratch:
        told = Path(scratch) / "told.json"
        try:
            done = subprocess.run(
                [sys.executable, str(RUNNER), page, str(told)],
                **{"input": json.dumps(blocks), "text": True, "cwd": scratch, "timeout": LIMIT, "capture_output": True},
                env={**plain, "MPLBACKEND": "Agg", "JAX_PLATFORMS": plain.get("JAX_PLATFORMS", "cpu")},
            )
            ended = f"the process ended with status {done.returncode}:\n{done.stderr[-3000:]}"
        except subprocess.TimeoutExpired:
            ended = f"it takes more than {LIMIT} seconds: make it shorter, or say why it is not run"
        if not told.exists():
            return {"shown": [], "line": blocks[0][0], "error": ended}
        result = json.loads(told.read_text())
    if "error" not in result:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(result))
        unfinished.replace(file)
    return result


def kept(app: Sphinx) -> Path:
    """The folder where results are kept."""
    return Path(app.doctreedir).parent / "runs"


def printed(shown: dict) -> list[nodes.Node]:
    """What a block printed."""
    text = shown["printed"].rstrip()
    return [nodes.literal_block(text, text, language="text", classes=["printed"])] if text else []


def image(svg: str, alt: str) -> str:
    """A figure as HTML."""
    source = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return f'<img class="drawn" alt="{html.escape(alt)}" src="{source}">'


def drawn(shown: dict, alt: str = "The figure that the code above draws") -> list[nodes.Node]:
    """What a block drew."""
    return [nodes.raw("", f"<p>{image(svg, alt)}</p>", format="html") for svg in shown["drawn"]]


def remember(app: Sphinx) -> None:
    """The page that is being read shows results of code, so it is read again when the library has changed."""
    app.env.__dict__.setdefault("pages_that_run", {})[app.env.docname] = library()


def read(app: Sphinx, doctree: nodes.document) -> None:
    """Run a page's blocks as soon as it has been read."""
    page, todo = app.env.docname, []
    for block in list(doctree.findall(nodes.literal_block)):
        if "source" in block.attributes or "printed" in block["classes"]:  # shown from a file, or recorded
            continue
        language, why = language_of(block), reason(block)
        if why and language == "python":
            note = nodes.paragraph("", "", nodes.emphasis("", f"Not run when this page was built: {why}."))
            note["classes"].append("not-run")
            block.parent.insert(block.parent.index(block) + 1, note)
        elif why or language == "text":
            continue
        elif language == "python":
            todo.append(block)
        elif language == "sh":
            LOG.error("say why these commands are not run: <!-- not run: ... --> before the block", location=block)
        elif language == "toml":
            check_toml(block)
        else:
            LOG.error("say what this block is: ```python, ```sh, ```toml or ```text, not %r", language, location=block)
    if not todo:
        return
    remember(app)
    blocks = [((block.line or 0) + 1, as_code(block.astext())) for block in todo]  # the code begins below its fence
    if page.startswith("reference/") and page != REFERENCE:
        app.env.note_dependency(str(Path(app.srcdir) / f"{REFERENCE}.md"))
        preamble = (Path(app.srcdir) / f"{REFERENCE}.md").read_text(encoding="utf-8")
        blocks.insert(0, (0, re.search(r"^```python\n(.*?)^```", preamble, re.M | re.S)[1]))
        todo.insert(0, todo[0])
    result = run(blocks, app.env.doc2path(page, base=False), kept(app))
    if "error" in result:
        LOG.error("the code of this page fails:\n%s", result["error"], location=(page, result["line"]))
    for block, shown in zip(todo, result["shown"], strict=False):
        for node in reversed([*printed(shown), *drawn(shown)]):
            block.parent.insert(block.parent.index(block) + 1, node)


def language_of(block: nodes.literal_block) -> str:
    """What a block is written in: other names of a language count as that language."""
    named = block.get("language", "nothing").lower()
    return {
        **dict.fromkeys(("py", "python3", "pycon"), "python"),
        **dict.fromkeys(("bash", "shell", "console"), "sh"),
    }.get(named, named)


def as_code(text: str) -> str:
    """A block as code. An example with its output, as docstrings have them, is code that compares the output."""
    return CHECKED.format(text=text) if text.lstrip().startswith(">>> ") else text


def check_toml(block: nodes.literal_block) -> None:
    """Say so if it is not TOML."""
    try:
        tomllib.loads(block.astext())
    except tomllib.TOMLDecodeError as error:
        LOG.error("this is not TOML: %s", error, location=block)


def forget(app: Sphinx, env: object, page: str) -> None:
    """A page is read anew, or is gone."""
    getattr(env, "pages_that_run", {}).pop(page, None)


def outdated(app: Sphinx, env: object, added: set, changed: set, removed: set) -> list[str]:
    """Pages whose code must run again since the library has changed."""
    now = library()
    return [page for page, then in getattr(env, "pages_that_run", {}).items() if then != now and page not in removed]


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.connect("doctree-read", read, priority=400)
    app.connect("env-get-outdated", outdated)
    app.connect("env-purge-doc", forget)
    return {"parallel_read_safe": False, "parallel_write_safe": True, "version": "1"}
