"""Formulas as MathML, which browsers draw themselves: no script, no fonts and no network."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)


def written(node: nodes.Element, block: bool) -> str:
    """LaTeX as MathML."""
    text = node.astext().strip()
    if "\\\\" in text and "\\begin" not in text:
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    try:
        return str(latex2mathml.tex2mathml(text, as_block=block))
    except MathError as error:
        LOG.error("this formula cannot be drawn: %s", error, location=node)
        return ""


def inline(self, node: nodes.math) -> None:
    """A formula within a line."""
    self.body.append(f'<span class="math">{written(node, False)}</span>')
    raise nodes.SkipNode


def block(self, node: nodes.math_block) -> None:
    """A formula on lines of its own; a wide one scrolls."""
    self.body.append(f'<div class="math">{written(node, True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
