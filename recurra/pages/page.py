"""Pages that are one file and need no other and no network: their templates, and the figures inside them."""

import base64
import colorsys
import re
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from recurra.pages import plots
from recurra.saved.whole_files import write_whole

#: The name of a page's own template, in the folder of the package that the page belongs to.
TEMPLATE = "page.html.jinja"
#: Colours that stay as they are in the dark scheme, because they lie on a colour that stays too.
FIXED = (plots.ON_LIGHT, plots.ON_DARK)


class PageFigure(NamedTuple):
    """A figure with what stands around it on a page. `name` is unique on the page.

    >>> page.PageFigure("loss", "Loss", "The loss of every learner.", plots.sheet(4, 3)).title
    'Loss'
    """

    name: str
    title: str
    caption: str
    figure: Figure


def write_page(path: Path, package: str, content: Mapping[str, Any], **filters: Any) -> Path:
    """Fill the template `page.html.jinja` of a package and write the page; returns its path.

    The template extends `base.html.jinja`. Values are escaped, and a missing one is an error. `filters` are further
    filters for the template. The file is replaced as a whole, never left half written.

    docs/how-to/write-a-page.md has an example.
    """
    folders = [Path(str(files(each))) for each in (package, __package__ or "")]
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder) for folder in folders]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"picture": _picture_of, "paragraphs": paragraphs, **filters}
    text = environment.get_template(TEMPLATE).render(content)
    write_whole(path, lambda file: file.write(text.encode("utf-8", "replace")))
    return path


def paragraphs(caption: str) -> list[str]:
    """A caption cut before the letters of panels, `(a)` or `(b, c)`, so that each panel begins a line of its own."""
    return re.split(r"(?<=[.!?]) (?=\([a-z](?:, [a-z])*\) )", caption)


def _picture_of(shown: PageFigure) -> Markup:
    return picture(shown.figure, shown.name, shown.title)


def picture(figure: Figure, name: str, words: str, largest: int = 200_000, dots: int = 140) -> Markup:
    """A figure as an element of a page, with `words` for readers who do not see it.

    It is an SVG whose colours follow the page's light or dark scheme; or, where that would take more than `largest`
    bytes, a PNG of `dots` dots per inch. `name` keeps the identifiers of a page's figures apart.

    >>> page.picture(plots.sheet(4, 3), "empty", "An empty figure")[:34]
    Markup('<svg role="img" aria-label="An emp')
    """
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        svg = _in_both_schemes(plots.svg(figure, name))
        if len(svg.encode()) <= largest:
            return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1))
        png = base64.b64encode(plots.png(figure, dots)).decode()
    return Markup(f'<img alt="{escape(words)}" src="data:image/png;base64,{png}">')


def _in_both_schemes(svg: str) -> str:
    """An SVG whose colours are CSS variables, with a style sheet that defines them for both schemes."""
    used = sorted(set(re.findall(r"(?:fill|stroke): #([0-9a-f]{6})", svg)) - {each.lstrip("#") for each in FIXED})
    svg = re.sub(
        r"(fill|stroke): #([0-9a-f]{6})",
        lambda found: f"{found[1]}: var(--{found[2]})" if found[2] in used else found[0],
        svg,
    )
    define = lambda colours: f":root {{ {' '.join(f'--{name}: {colour};' for name, colour in colours.items())} }}"
    light = define({name: f"#{name}" for name in used})
    dark = define({name: in_the_dark(f"#{name}") for name in used})
    sheet = f"<style>{light} @media screen and (prefers-color-scheme: dark) {{ {dark} }}</style>"
    return re.sub(r"(<svg [^>]*>)", lambda found: found[1] + sheet, svg, count=1)


def in_the_dark(colour: str) -> str:
    """The colour of the dark scheme: of the same hue, dark for light and light for dark. White is the page itself.

    Colours of lines, unlike pale tints of areas, stay light enough to be told from the page.
    """
    if colour == "#ffffff":
        return "var(--paper, #171819)"
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    is_line = saturation > 0.25 and lightness < 0.8
    parts = colorsys.hls_to_rgb(hue, max(0.97 - 0.82 * lightness, 0.62 if is_line else 0.0), saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
