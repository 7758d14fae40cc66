"""Signatures in the reference: types as they are written in the source, and defaults as their names or values."""

import dataclasses
import re
import sys
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

#: types as they come from Python, in the order in which they are replaced, and as they are written in the source
TYPES = [
    (r"~?(?:\w+\.)+(?=[A-Z]|ndarray|dtype\b)", ""),
    (r"Key\[Array, ''\] \| UInt32\[Array, '2'\](?: \| UInt32\[Array, '4'\])?", "PRNGKeyArray"),
    (r"GradientTransformation \| Described \| Float\[Array, ''\] \| float", "Optimizer"),
    (r"(float|int) \| (?:Float|Int)\[Array, ''\]", r"\1"),
    (r"(?:Float|Int)\[Array, ''\] \| (float|int)", r"\1"),
    (r"str \| type\[Any\] \| dtype \| SupportsDType", "DTypeLike"),
    (r"Callable\[\[PRNGKeyArray, int, Any\], Float\[Array, 'n n'\](?: \| Patterned)?\]", "MatrixInit"),
    (r"Callable\[\[PRNGKeyArray, tuple\[int, \.\.\.\], Any\], Float\[Array, '\.\.\.'\]\]", "Noise"),
    (r"Callable\[\[Float\[Array, 'n'\], Any\], Float\[Array, 'n'\]\]", "Surrogate"),
    (r"Callable\[\[Outcome\], PyTree\[Array\]\]", "RecordFunction"),
    (r"tuple\[Float\[Array, '_'\] \| None, \.\.\.\]", "Credit"),
    (r"tuple\[Float\[Array, '_'\], \.\.\.\]", "State"),
    (r"tuple\[Float\[Array, '_ \.\.\.'\], \.\.\.\]", "Tangent"),
    (r"tuple\[Tangent, \.\.\.\]", "Influence"),
    (r"tuple\[Sources, \.\.\.\]", "Gates"),
    (r"AbstractVar\[(.*)\]", r"\1"),
]


def short(text: str) -> str:
    """Types as they are written in the source."""
    for long, brief in TYPES:
        text = re.sub(long, brief, text)
    return text


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Types as they are written in the source, and defaults as their names or values."""
    if given:
        module = sys.modules[getattr(obj, "__module__", None) or "recurra"]
        value = lambda found: repr(vars(module).get(found[1], found[1])).strip("'")
        given = re.sub(r"(?<== )([A-Z][A-Z_]+)(?=[,)])", value, given)
        for field in dataclasses.fields(obj) if dataclasses.is_dataclass(obj) else ():
            if "converter" in field.metadata:  # Equinox then says Any
                kind = f"{field.name}: {stringify_annotation(field.type)}"
                given = re.sub(rf"\b{field.name}: ~?(?:typing\.)?Any\b", kind, given)
            if (shown := default_of(field)) is not None:
                given = re.sub(rf"(\b{field.name}: .*?= )<[^>]*>+", rf"\g<1>{shown}", given)
    return given and short(given), returned and short(returned)


def default_of(field: dataclasses.Field) -> str | None:
    """A default that is a function, by its name, and one that is made anew for each object, as it comes out."""
    if field.default_factory is not dataclasses.MISSING:
        return re.sub(r", dtype=\S+?(?=[,)]$)", "", repr(field.default_factory()))
    return getattr(field.default, "__name__", None) if callable(field.default) else None


def shorten(app: Sphinx, domain: str, kind: str, content: addnodes.desc_content) -> None:
    """The same for types of attributes and properties."""
    for header in content.parent.children if kind in ("attribute", "property") else ():
        for told in header.findall(addnodes.desc_annotation) if isinstance(header, addnodes.desc_signature) else ():
            # A type that could be linked is there twice: as it is shown if the link leads somewhere, and if not.
            words = [each for each in told.findall(nodes.Text) if each.parent.get("condition") != "resolved"]
            if short(text := "".join(words)) != text:
                told.children = []
                told += nodes.Text(short(text))


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", signature)
    app.connect("object-description-transform", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
