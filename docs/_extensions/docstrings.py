"""The reference, from docstrings as this library writes them: plain text, `code`, and formulas that are indented.

A block of names on a page of the reference,

    ```{names} recurra
    train
    sweep
    ```

becomes a table of them and an entry for each. A public name in backticks, here or on any page, links to its entry, and
docs/page.md to a page. Examples are doctests. Those of learners are on their pages, to which their entries lead.
In a block of Python, `rc.train` links too.
"""

import dataclasses
import inspect
import pkgutil
import re
import sys
from typing import Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

import recurra

PUBLIC = frozenset(recurra.__all__)
NAME = re.compile(r"(?:(?P<of>rc|recurra)\.)?(?P<name>[A-Za-z]\w*)(?:\(.*\))?", re.S)
PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
#: public classes, by what readers call them
CLASSES = {recurra.cells.Cell: "recurra.cells.Cell"} | {
    kind: f"recurra.{name}" for name in PUBLIC if inspect.isclass(kind := getattr(recurra, name))
}


def public(code: str) -> str | None:
    """The full name of what a piece of code names; None if it is nothing public, or a word such as `race`."""
    found = NAME.fullmatch(code)
    if not found or found["name"] not in PUBLIC or not (found["of"] or found["name"][0].isupper()):
        return None
    return None if inspect.ismodule(getattr(recurra, found["name"])) else f"recurra.{found['name']}"


def plain(line: str) -> str:
    """A line of a docstring as reStructuredText that says the same: nothing but backticks has a meaning in it."""
    pieces = line.split("`")
    if len(pieces) % 2 == 0:
        return re.sub(r"([\\*|_`])", r"\\\1", line)
    for at, piece in enumerate(pieces):
        if at % 2 and (target := public(piece)):
            pieces[at] = f":py:obj:`{piece} <{target}>`\\ "
        elif at % 2:
            pieces[at] = f"``{piece}``\\ "
        else:
            pieces[at] = PAGE.sub(r":doc:`/\1`", re.sub(r"([\\*|_])", r"\\\1", piece))
    return "".join(pieces)


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Indented paragraphs are formulas or code, and stay as they are; a doctest is Python."""
    new: list[str] = []
    literal = doctest = False
    for at, line in enumerate(lines):
        starts = at == 0 or not lines[at - 1].strip()
        if line.startswith(">>> ") and not doctest:
            new += ["", ".. code-block:: python", ""]
        doctest = line.startswith(">>> ") or (doctest and bool(line.strip()))
        if line.startswith("    ") and starts and not literal:
            new += [".. code-block:: text", ""]
            literal = True
        elif line.strip() and not line.startswith("    "):
            literal = False
        if line.isidentifier() and "".join(lines[at + 1 : at + 2]).startswith("    "):  # a parameter, and what it is
            line = f"`{line}`"
        if is_line(line):  # below a heading, which docstrings for River have
            new[-1:] = [] if lines[at - 1] == "Examples" else [f".. rubric:: {lines[at - 1]}", ""]
        else:
            new.append(f"   {line}" if doctest else line if literal else plain(line))
    if page := page_of(obj):
        new += ["", f"Example, equation and cost: :doc:`its page </{page}>`."]
    lines[:] = new


def is_line(line: str) -> bool:
    """Whether it underlines a heading."""
    return len(line) > 3 and not line.strip("-")


def page_of(obj: Any) -> str | None:
    """The page of a learner, None for all else."""
    about = getattr(obj, "about", None) if inspect.isclass(obj) else None
    return None if about is None or isinstance(about, property) else f"learners/{about.id}"


def bases_of(obj: type) -> list[str]:
    """The nearest public class above each base, as a link. Classes that readers cannot name are left out."""
    above = [next((each for each in base.__mro__ if each in CLASSES), None) for base in obj.__bases__]
    found = [f":py:obj:`{CLASSES[each].rpartition('.')[2]} <{CLASSES[each]}>`" for each in above if each]
    return found + [f"``{base.__name__}`` of River" for base in obj.__bases__ if base.__module__.startswith("river.")]


def bases(app: Sphinx, name: str, obj: type, options: Any, found: list) -> None:
    """What is told of them."""
    found[:] = bases_of(obj)


def skip(app: Sphinx, what: str, name: str, obj: Any, is_skipped: bool, options: Any) -> bool | None:
    """Left out: functions that are a field's default, and what named tuples say of their fields, which is nothing."""
    held = callable(obj) and "." not in getattr(obj, "__qualname__", "")
    return True if held or (getattr(obj, "__doc__", "") or "").startswith("Alias for field number") else None


class Names(SphinxDirective):
    """A table of names, and an entry for each."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        home = self.arguments[0]
        names = [name for line in self.content for name in line.split()]
        text = ["```{eval-rst}", f".. currentmodule:: {home}", "", ".. autosummary::", "   :nosignatures:", ""]
        text += [f"   {name}" for name in names]
        for name in names:
            obj = pkgutil.resolve_name(f"{home}.{name}")
            kind = "class" if inspect.isclass(obj) else "function" if callable(obj) else "data"
            kind = "exception" if kind == "class" and issubclass(obj, BaseException) else kind
            # What a learner computes is on its page, and what products need of a matrix is for them alone.
            has_members = kind == "class" and not page_of(obj) and home != "recurra.linalg"
            members = ["   :members:"] if has_members else []
            members += [f"   :exclude-members: {', '.join(hidden)}"] if members and (hidden := not_given(obj)) else []
            members += ["   :show-inheritance:"] if kind == "class" and bases_of(obj) else []
            members += ["   :no-value:"] if kind == "data" else []
            text += ["", f".. auto{kind}:: {home}.{name}", *members]
            self.env.note_dependency(inspect.getsourcefile(sys.modules[obj.__module__]))
        # Names that follow on the page say themselves where they belong.
        return self.parse_text_to_nodes("\n".join([*text, "", ".. currentmodule:: None", "```"]))


def not_given(kind: type) -> list[str]:
    """Fields that are computed when an object is made."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return [field.name for field in fields if field.name not in inspect.signature(kind).parameters]


class Links(SphinxTransform):
    """`rc.train` on a page leads to its entry in the reference."""

    default_priority = 800

    def apply(self, **kwargs: Any) -> None:
        if self.env.docname.startswith("reference/"):
            return
        for code in list(self.document.findall(nodes.literal)):
            inside = code.parent
            while inside is not None and not isinstance(inside, nodes.reference | nodes.title | addnodes.pending_xref):
                inside = inside.parent
            if inside is None and code.astext()[:3] in ("rc.", "rec") and (target := public(code.astext())):
                options = {"refdomain": "py", "reftype": "obj", "refdoc": self.env.docname, "reftarget": target}
                code.replace_self(addnodes.pending_xref("", code.deepcopy(), refexplicit=True, **options))


NAMED = r'<span class="n">(\w+)</span>'
DOT = r'<span class="o">\.</span>'
IN_CODE = re.compile(f'<span class="n">rc</span>((?:{DOT}{NAMED})+)')


def link_code(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """`rc.train` in coloured code leads to its entry in the reference; of `rc.a.b` the longest part that has one."""
    objects = app.env.get_domain("py").data["objects"]

    def linked(found: re.Match) -> str:
        pieces = list(re.finditer(DOT + NAMED, found[1]))
        for count in range(len(pieces), 0, -1):
            entry = objects.get(".".join(["recurra", *(piece[1] for piece in pieces[:count])]))
            if entry is not None:
                to = f"{app.builder.get_relative_uri(page, entry.docname)}#{entry.node_id}"
                end = found.start(1) - found.start() + pieces[count - 1].end()
                return f'<a class="api" href="{to}">{found[0][:end]}</a>{found[0][end:]}'
        return found[0]

    if doctree is not None and context.get("body"):
        context["body"] = IN_CODE.sub(linked, context["body"])


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.add_directive("names", Names)
    app.add_transform(Links)
    app.connect("html-page-context", link_code)
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-bases", bases)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
