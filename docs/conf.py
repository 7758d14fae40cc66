"""How `make docs` builds the site, without network access: Sphinx, the theme furo, and Markdown through MyST.

Sphinx, since the reference comes from docstrings, and since a link that leads nowhere is an error of the build. Furo,
since it reads well on a phone, in the dark and on paper, and needs no script of others.

**How code runs.** Pages are plain Markdown with ```python blocks, which GitHub shows too, and which tests and readers
copy as they are. MyST-NB would run them only as {code-cell} blocks with a header on every page, which GitHub shows
without colours, and it needs a Jupyter kernel with its sockets. So a small extension of our own runs them:
`_extensions/runs.py`. The gallery, `_extensions/gallery.py`, runs scripts with it. Sphinx-Gallery would run all of them
in one process, where settings of JAX leak from one to the next, and not again when the library has changed.

Pages that are static, such as the paper reproduced, are copied as they are. `changelog`, `contributing` and
`benchmark-notes` are files outside of this folder.
"""

import os
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_extensions"), str(ROOT)]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import recurra  # noqa: E402

project = "recurra"
copyright = "the authors of recurra"
version = release = recurra.__version__
html_title = "recurra"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_copybutton",
    "docstrings",
    "signatures",
    "gallery",
    "mathml",
    "spaces",
    "runs",
]
exclude_patterns = ["_extensions", "**/data/*", "**/figures/*"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
html_math_renderer = "mathml"

autosummary_generate = False
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 78
add_module_names = False
toc_object_entries_show_parents = "hide"
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre, div.highlight-toml pre"

#: folders whose pages are static
STATIC = (
    *("best-rates", "beyond", "learning-rates", "memory-pays", "performance", "published", "reproduction"),
    "unexplored",
)
#: pages that are files outside of this folder
ELSEWHERE = {
    "benchmark-notes": "benchmarks/NOTES.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
}


def _link(found: re.Match, folder: Path) -> str:
    """A link of a Markdown file in `folder` as one of a page at the top of this folder."""
    path, mark, anchor = found[1].partition("#")
    file = os.path.relpath((folder / path).resolve(), ROOT)
    pages = {name: f"{page}.md" for page, name in ELSEWHERE.items()} | {"README.md": "index.md"}
    if file in pages:
        return f"]({pages[file]}{mark if file != 'README.md' else ''}{anchor if file != 'README.md' else ''})"
    return f"]({os.path.relpath(ROOT / file, HERE)}{mark}{anchor})"


def _source(app, docname, source):
    """Files from outside take the place of their pages; links to what is outside lead to the site's pages."""
    folder = (HERE / docname).parent
    if docname in ELSEWHERE:
        folder = (ROOT / ELSEWHERE[docname]).parent
        source[0] = (ROOT / ELSEWHERE[docname]).read_text(encoding="utf-8")
        app.env.note_dependency(str(ROOT / ELSEWHERE[docname]))
    if folder == HERE or docname in ELSEWHERE:
        source[0] = re.sub(r"\]\(((?![a-z]+:|#)[^)\s]+)\)", lambda found: _link(found, folder), source[0])


def _keep_links(app, doctree):
    """A link to a file of a static folder stays what it is, in place of a copy under another name."""
    from docutils import nodes
    from sphinx import addnodes

    for link in list(doctree.findall(addnodes.download_reference)):
        target = link["reftarget"]
        place = ((HERE / app.env.docname).parent / target.partition("#")[0]).resolve()
        if place.is_relative_to(HERE) and place.relative_to(HERE).parts[0] in STATIC:
            link.replace_self(nodes.reference("", "", *link.children, refuri=target, internal=False))


def _copy(app, error):
    """Static folders, as they are."""
    for name in STATIC if error is None and app.builder.format == "html" else ():
        shutil.copytree(HERE / name, Path(app.outdir) / name, dirs_exist_ok=True)


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", _source)
    app.connect("doctree-read", _keep_links, priority=300)
    app.connect("build-finished", _copy)
