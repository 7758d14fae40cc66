"""The reference, from docstrings as this library writes them: plain text, `code`, and formulas that are indented.

A block of names on a page of the reference,

    ```{names} recurra
    train
    sweep
    ```

becomes a table of them and an entry for each. A public name in backticks, here or on any page, links to its entry.
"""

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
            pieces[at] = re.sub(r"([\\*|_])", r"\\\1", piece)
    return "".join(pieces)


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Indented paragraphs are formulas or code, and stay as they are; a doctest is Python."""
    new: list[str] = []
    literal = False
    for at, line in enumerate(lines):
        starts = at == 0 or not lines[at - 1].strip()
        if line.startswith("    ") and starts and not literal:
            new += [".. code-block:: text", ""]
            literal = True
        elif line.strip() and not line.startswith("    "):
            literal = False
        new.append(line if literal else plain(line))
    lines[:] = new


def skip(app: Sphinx, what: str, name: str, obj: Any, is_skipped: bool, options: Any) -> bool | None:
    """Left out: functions that are a field's default, and what named tuples say of their fields, which is nothing."""
    held = callable(obj) and "." not in getattr(obj, "__qualname__", "")
    return True if held or (getattr(obj, "__doc__", "") or "").startswith("Alias for field number") else None


KEYS = re.compile(r"Key\[Array, ''\] \| UInt32\[Array, '2'\](?: \| UInt32\[Array, '4'\])?")


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Types as they are written in the source, and defaults that are constants as their values."""

    def short(text: str | None) -> str | None:
        if text is None:
            return None
        text = re.sub(r"~(?:\w+\.)+|(?:jax\.)?(?:jaxlib\._jax|jax|numpy)\.(?=[A-Z]|ndarray)", "", text)
        text = re.sub(r"<function (?:\w+\.)*(\w+)>", r"\1", text)
        return KEYS.sub("PRNGKeyArray", text)

    module = sys.modules[getattr(obj, "__module__", None) or "recurra"]
    value = lambda found: repr(vars(module).get(found[1], found[1])).strip("'")
    given = re.sub(r"(?<== )([A-Z][A-Z_]+)(?=[,)])", value, given) if given else given
    return short(given), short(returned)


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
            members = ["   :members:", "   :show-inheritance:"] if kind == "class" else []
            members += ["   :no-value:"] if kind == "data" else []
            text += ["", f".. auto{kind}:: {home}.{name}", *members]
        return self.parse_text_to_nodes("\n".join([*text, "```"]))


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


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.add_directive("names", Names)
    app.add_transform(Links)
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
