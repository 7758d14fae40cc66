"""Pages that are one file, and need no other and no network: their templates, and figures inside them."""

import base64
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from recurra_paper import plots

#: what the template of a page is called, in the folder of the package that it belongs to
TEMPLATE = "page.html.jinja"


def template(package: str | None, **filters: Any) -> Any:
    """The template of a package's page. What is put into it is escaped, and what is missing is an error."""
    environment = Environment(
        loader=FileSystemLoader(Path(str(files(package or "")))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(TEMPLATE)


def picture(figure: Figure, name: str, words: str, largest: int, dots: int | None = None) -> Markup:
    """A figure for a page: a vector graphic, or a picture if that would take more than `largest` bytes."""
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        svg = plots.svg(figure, name)
        if len(svg.encode()) <= largest:
            return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1))
        png = plots.png(figure) if dots is None else plots.png(figure, dots)
    return embedded(png, words)


def embedded(png: bytes, words: str) -> Markup:
    """A picture inside the page itself."""
    return Markup(f'<img alt="{escape(words)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">')
