"""How every figure looks: one place for colours, line styles, fonts and sizes, and the only one that sets them.

A learner looks the same wherever it appears, and its looks spell out its axes:

    colour   blue for past facing, red to amber for future facing, grey for neither
    dashes   stochastic; a deterministic update is a solid line
    markers  numerical; an update in closed form has none

Learners of one facing differ in lightness, and those alike in it by their dashes or markers, so that no two need be
told apart by hue alone. Looks of the paper's learners are chosen by hand; any other of the library is given its own.

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

from recurra.learners import LEARNERS
from recurra_paper.setup import CURVES, RELEASED, kind_of, shown

COLOURS = {
    "rtrl": "#071d4f",
    "uoro": "#1496cf",
    "kf-rtrl": "#1a56c4",
    "r-kf-rtrl": "#6f93e0",
    "r-ok": "#0b5478",
    "kernl": "#3137a8",
    "kernl-released": "#7a83dd",
    "rflo": "#3a8cf0",
    "e-bptt": "#3d3d3d",
    "f-bptt": "#a81226",
    "dni": "#e2630b",
    "dni-b": "#b98300",
    "fixed": "#8a8a8a",
}
MARKERS = {"r-ok": "s", "kernl": "o", "kernl-released": "o", "dni": "^", "dni-b": "v"}
#: markers for learners that are not the paper's
FURTHER_MARKERS = ("P", "X", "d", "<", ">", "p", "h")
DASHES = (0, (4.2, 1.6))
#: the exact learners stand out, and what does not learn steps back
WIDTHS = {"rtrl": 2.0, "f-bptt": 2.0, "fixed": 1.0}
#: dashes of stochastic learners that would else look alike
OWN_DASHES = {"uoro": (0, (1.9, 1.2)), "r-kf-rtrl": (0, (4.2, 1.3, 1.1, 1.3)), "r-ok": (0, (6.5, 1.8))}

#: For learners that are not the paper's, by facing: a range of hues and their saturation; and a range of lightness.
HUES = {"past": (0.54, 0.68, 0.75), "future": (0.0, 0.13, 0.8), "–": (0.0, 0.0, 0.0)}
LIGHTNESS = (0.25, 0.65)
#: The golden ratio: in steps of this part of a range, no step comes near an earlier one.
GOLDEN = 0.6180339887

FACINGS = {"past": "#1f72cc", "future": "#d6401f", "–": "#5c5c5c"}
FACING_NAMES = {"past": "past facing", "future": "future facing", "–": "neither"}

#: The ways to draw the recurrent weights. Their colours mean nothing about learners: green for complex eigenvalues,
#: purple for real ones.
INITS = {
    "orthogonal": "#0b4a24",
    "gaussian": "#3f9b50",
    "symmetric": "#5a2a9c",
    "diagonal": "#a566bd",
    "diagonal-positive": "#d6409f",
    "diagonal-normal": "#8a1253",
}
INIT_NAMES = {
    "diagonal": "diagonal U[−1, 1]",
    "diagonal-positive": "diagonal U[0, 1]",
    "diagonal-normal": "diagonal N(0, ½)",
}

TASK_NAMES = {"add": "Add", "mimic": "Mimic"}

INK, MUTED, FAINT = "#1c1e21", "#666a70", "#d9dce0"

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
    """Within it figures are drawn and saved in the shared style; afterwards matplotlib is as it was before."""
    with matplotlib.rc_context(cast(Any, _RC | {"svg.hashsalt": salt})):
        yield


def name(learner: str) -> str:
    """The learner's display name."""
    return shown(learner)


def facing(learner: str) -> str:
    """`past`, `future` or `–`."""
    return kind_of(learner).facing


def colour(learner: str) -> str:
    """Its colour, in the family of its facing."""
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
    """The library's learners that are not the paper's."""
    return [learner for learner in LEARNERS if learner not in CURVES]


def line_style(learner: str, points: int = 1) -> dict[str, Any]:
    """Keywords for `Axes.plot`; of `points` points about six carry the marker of a numerical learner."""
    about = kind_of(learner).about
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
    """Keywords for a single point: filled for deterministic learners, hollow for stochastic ones."""
    about = kind_of(learner).about
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
    """Keywords for one of matplotlib's functions, shared or kept off a long line."""
    return keywords


def sheet(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    return Figure(figsize=(width, height))


def letter(axes: Axes, text: str, title: str = "", lines: int = 0) -> None:
    """Name a panel: its letter, and what it shows; `lines` of small text find room below."""
    axes.set_title(f"{text}   {title}" if title else text, pad=8 + 11 * lines)


def code_key(
    figure: Figure, y: float = 0.0, facings: Sequence[str] = ("past", "future", "–"), lines: bool = True
) -> None:
    """One line below the panels that says what colours, dashes and markers stand for."""
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
    """The figure as an `<svg>` element whose ids all start with `prefix`, so that many fit into one page."""
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
    """The figure as a PNG file."""
    stream = io.BytesIO()
    with style():
        figure.savefig(stream, format="png", dpi=dpi)
    return stream.getvalue()
