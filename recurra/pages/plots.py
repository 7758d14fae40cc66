"""The style of every figure: colours, line styles, fonts and sizes are set here and nowhere else.

A learner looks the same wherever it appears, and its look tells its axes:

    colour   blue for past facing, red to amber for future facing, grey for neither
    dashes   stochastic; a deterministic update is a solid line
    markers  numerical; an update in closed form has none

Learners of one facing differ in lightness, and those of similar lightness in dashes or markers, so that no two must be
told apart by hue alone. The looks of the learners in `COLOURS` are chosen by hand; any other learner of the library is
assigned one.

Figures are made without pyplot, so that drawing neither opens a window nor leaves anything behind in the process.
"""

import colorsys
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recurra.learners import LEARNERS, Learner

#: The name under which `KeRNL(late_perturbation=True)`, KeRNL as in its authors' released program, has a look.
RELEASED = "kernl-released"

COLOURS = {
    "rtrl": "#071d4f",
    "uoro": "#1496cf",
    "kf-rtrl": "#1a56c4",
    "r-kf-rtrl": "#6f93e0",
    "r-ok": "#0b5478",
    "kernl": "#3137a8",
    RELEASED: "#7a83dd",
    "rflo": "#3a8cf0",
    "e-bptt": "#3d3d3d",
    "f-bptt": "#a81226",
    "dni": "#e2630b",
    "dni-b": "#b98300",
    "fixed": "#8a8a8a",
}
MARKERS = {"r-ok": "s", "kernl": "o", RELEASED: "o", "dni": "^", "dni-b": "v"}
#: markers for the other numerical learners
FURTHER_MARKERS = ("P", "X", "d", "<", ">", "p", "h")
DASHES = (0, (4.2, 1.6))
#: Lines of the exact learners are wider, and that of fixed weights, which do not learn, is thinner.
WIDTHS = {"rtrl": 2.0, "f-bptt": 2.0, "fixed": 1.0}
#: dashes of stochastic learners that would otherwise look alike
OWN_DASHES = {"uoro": (0, (1.9, 1.2)), "r-kf-rtrl": (0, (4.2, 1.3, 1.1, 1.3)), "r-ok": (0, (6.5, 1.8))}

#: For learners without a colour above, by facing: the range of hues and their saturation; and the range of lightness.
HUES = {"past": (0.54, 0.68, 0.75), "future": (0.0, 0.13, 0.8), "–": (0.0, 0.0, 0.0)}
LIGHTNESS = (0.25, 0.65)
#: Multiples of the golden ratio, modulo 1, never come close to one another.
GOLDEN = 0.6180339887

FACINGS = {"past": "#1f72cc", "future": "#d6401f", "–": "#5c5c5c"}
FACING_NAMES = {"past": "past facing", "future": "future facing", "–": "neither"}

#: Colours of text and lines, of secondary text, and of grids. Like all others they change in a page's dark scheme.
INK, MUTED, FAINT = "#1c1e21", "#666a70", "#d9dce0"
#: Colours of text on a light or a dark cell of an image. Images do not change in the dark scheme, so neither do these.
ON_LIGHT, ON_DARK = "#1c1e22", "#fefefe"

_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#8b9097",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "text.color": INK,
    "xtick.color": "#8b9097",
    "ytick.color": "#8b9097",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "mathtext.fontset": "dejavusans",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
}


@contextmanager
def style(salt: str = "recurra") -> Iterator[None]:
    """Within this context figures are drawn and saved in the shared style; Matplotlib's settings are restored after it.

    Equal `salt` gives equal identifiers within SVG files.

    >>> with plots.style():
    ...     figure = plots.sheet(4, 3)
    ...     lines = figure.subplots().plot([0, 1], [0, 1], **plots.line_style("rflo"))
    """
    with matplotlib.rc_context(cast(Any, _RC | {"svg.hashsalt": salt})):
        yield


def name(learner: str) -> str:
    """The learner's name in tables and legends, from its identifier: `RFLO` for `rflo`.

    >>> plots.name("dni-b")
    'DNI(b)'
    """
    return "KeRNL (released)" if learner == RELEASED else _class(learner).about.name


def facing(learner: str) -> str:
    """The learner's facing: `past`, `future`, or `–` for neither.

    >>> plots.facing("dni")
    'future'
    """
    return _class(learner).facing


def _class(learner: str) -> type[Learner]:
    return LEARNERS["kernl" if learner == RELEASED else learner]


def colour(learner: str) -> str:
    """The learner's colour, from the family of its facing.

    >>> plots.colour("rflo")
    '#3a8cf0'
    """
    if learner in COLOURS:
        return COLOURS[learner]
    first, last, saturation = HUES[facing(learner)]
    number = 1 + _further().index(learner)
    hue = first + (last - first) * (number * GOLDEN % 1)
    darkest, lightest = LIGHTNESS
    lightness = darkest + (lightest - darkest) * (number * GOLDEN**2 % 1)
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lightness, saturation))


def _marker(learner: str) -> str:
    """The marker of a numerical learner."""
    return MARKERS[learner] if learner in MARKERS else FURTHER_MARKERS[_further().index(learner) % len(FURTHER_MARKERS)]


def _further() -> list[str]:
    """The learners whose looks are not chosen by hand."""
    return [learner for learner in LEARNERS if learner not in COLOURS]


def line_style(learner: str, points: int = 1) -> dict[str, Any]:
    """Keywords for `Axes.plot`. On a line of `points` points, about six carry the marker of a numerical learner.

    >>> plots.line_style("rflo")["linestyle"], plots.line_style("dni", points=60)["markevery"][1]
    ('-', 10)
    """
    about = _class(learner).about
    look: dict[str, Any] = {
        "color": colour(learner),
        "linestyle": OWN_DASHES.get(learner, DASHES) if about.stochastic else "-",
        "linewidth": WIDTHS.get(learner, 1.4),
        "zorder": 4 if about.stochastic else 3,
    }
    if about.numerical:
        every = max(1, points // 6)
        alike = list(MARKERS) if learner in MARKERS else _further()
        offset = (2 * alike.index(learner) + 1) * every // (2 * len(alike))  # none at either end
        look |= {"marker": _marker(learner), "markersize": 3.8, "markeredgewidth": 1.0, "markevery": (offset, every)}
        look["markerfacecolor"] = "white" if learner == RELEASED else colour(learner)
    return look


def dot_style(learner: str) -> dict[str, Any]:
    """Keywords for `Axes.plot` of single points: filled for deterministic learners, hollow for stochastic ones.

    >>> plots.dot_style("uoro")["markerfacecolor"]
    'white'
    """
    about = _class(learner).about
    hollow = about.stochastic or learner == RELEASED
    return {
        "color": colour(learner),
        "linestyle": "none",
        "marker": _marker(learner) if about.numerical else "D" if facing(learner) == "–" else "o",
        "markersize": 6,
        "markeredgewidth": 1.5,
        "markerfacecolor": "white" if hollow else colour(learner),
    }


def options(**keywords: Any) -> dict[str, Any]:
    """Keywords for one of Matplotlib's functions, to share them between calls or to keep a line short.

    >>> plots.options(loc="upper left", fontsize=7)
    {'loc': 'upper left', 'fontsize': 7}
    """
    return keywords


def sheet(width: float, height: float) -> Figure:
    """An empty figure of this size in inches.

    >>> plots.sheet(4, 3).get_size_inches().tolist()
    [4.0, 3.0]
    """
    return Figure(figsize=(width, height))


def letter(axes: Axes, text: str, title: str = "", lines: int = 0) -> None:
    """Title a panel with its letter and what it shows, leaving room for so many `lines` of small text below.

    >>> axes = plots.sheet(4, 3).subplots()
    >>> plots.letter(axes, "a", "loss")
    >>> axes.get_title()
    'a   loss'
    """
    axes.set_title(f"{text}   {title}" if title else text, pad=8 + 11 * lines)


def code_key(
    figure: Figure, y: float = 0.0, facings: Sequence[str] = ("past", "future", "–"), lines: bool = True
) -> None:
    """Add a legend of one line, at height `y`, that says what colours, dashes and markers stand for.

    >>> figure = plots.sheet(8, 3)
    >>> plots.code_key(figure)
    >>> [text.get_text() for text in figure.legends[0].get_texts()][:2]
    ['past facing', 'future facing']
    """
    handles = [Line2D([], [], color=FACINGS[f], linewidth=4, label=FACING_NAMES[f]) for f in facings]
    if lines:
        handles += [
            Line2D([], [], color=MUTED, linewidth=1.4, label="deterministic"),
            Line2D([], [], color=MUTED, linewidth=1.4, linestyle=DASHES, label="stochastic"),
            Line2D([], [], color=MUTED, linewidth=1.4, marker="o", markersize=4, label="numerical"),
        ]
    place = options(loc="lower center", bbox_to_anchor=(0.5, y), ncols=len(handles), handlelength=2.4)
    figure.legend(handles=handles, columnspacing=2.0, labelcolor=INK, **place)


def svg(figure: Figure, prefix: str) -> str:
    """The figure as an `<svg>` element whose ids all start with `prefix`, so that many fit into one page.

    >>> plots.svg(plots.sheet(4, 3), "first")[:4]
    '<svg'
    """
    stream = io.StringIO()
    with style(prefix):
        figure.savefig(stream, format="svg", dpi=110, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = text.replace("<svg ", '<svg style="stroke-linejoin: round; stroke-linecap: butt" ', 1)
    used = set(re.findall(r"#([\w.-]+)[\")]", text))
    text = re.sub(r' id="([^"]*)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", text)
    text = text.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")
    shorter = lambda number: f"{float(number.group()):.2f}".rstrip("0").rstrip(".")
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"-?\d+\.\d{3,}", shorter, path.group()), text)
    return re.sub(r">\s+<", "><", re.sub(r"\s*\n\s*", " ", text))


def png(figure: Figure, dpi: int = 200) -> bytes:
    """The figure as the bytes of a PNG file.

    >>> plots.png(plots.sheet(4, 3))[1:4]
    b'PNG'
    """
    stream = io.BytesIO()
    with style():
        figure.savefig(stream, format="png", dpi=dpi)
    return stream.getvalue()
