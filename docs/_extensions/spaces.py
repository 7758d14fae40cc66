"""A number and its standard error stay on one line: the spaces around ± do not break."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

CODE = (nodes.literal, nodes.literal_block, nodes.doctest_block, nodes.math, nodes.math_block, nodes.raw)


class OneLine(SphinxTransform):
    """Replaces the spaces in plain text; code stays as it is."""

    default_priority = 900

    def apply(self, **kwargs: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if " ± " in text and not isinstance(text.parent, CODE):
                text.parent.replace(text, nodes.Text(text.replace(" ± ", "\u00a0±\u00a0")))


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.add_transform(OneLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
