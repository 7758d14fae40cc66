"""How figures of a study look: panels, axes of losses, numbers at them, and a look for each line."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from recurra.learners import LEARNERS
from recurra.pages import plots
from recurra.pages.plots import FAINT
from recurra.studies.pages import words
from recurra.studies.pages.points import Points

WIDTH = 9.2
MARGINS = {"left": 0.68, "right": 0.15, "top": 0.35, "bottom": 0.48}
#: colours of lines that are not learners
COLOURS = ("#0b4a24", "#a566bd", "#3f9b50", "#5a2a9c", "#d6409f", "#8a1253", "#b98300", "#5c5c5c")
DASHES = ("-", (0, (4.2, 1.6)), (0, (1.9, 1.2)))
#: beyond this ratio of the highest to the lowest loss an axis is logarithmic
WIDE = 8.0
#: a loss this much above the first one is drawn at the axis' end
ABOVE = 0.25
#: an axis is rather made longer by this part than some losses left beyond it
SPARE = 0.3
#: what numbers at an axis are multiples of
STEPS = (1, 2, 2.5, 5, 10)
OTHERS_LEFT_OUT = "some seeds diverged, and the mean is over the others."


def frame(
    count: int, columns: int, height: float, gaps: tuple[float, float], **margins: float
) -> tuple[Figure, list[Axes]]:
    """A figure of panels, row by row; lengths in inches.

    `gaps` are those between columns and between rows; `margins` are `left`, `right`, `top` and `bottom`, all optional.
    """
    left, right, top, bottom = (MARGINS | margins).values()
    columns = max(min(columns, count), 1)
    rows = math.ceil(count / columns)
    across, down = gaps
    width = (WIDTH - left - right - across * (columns - 1)) / columns
    total = top + rows * height + (rows - 1) * down + bottom
    figure = plots.sheet(WIDTH, total)
    ends = {"left": left / WIDTH, "right": 1 - right / WIDTH, "bottom": bottom / total, "top": 1 - top / total}
    grid = figure.add_gridspec(max(rows, 1), columns, wspace=across / width, hspace=down / height, **ends)
    return figure, [figure.add_subplot(grid[number]) for number in range(count)]


def line_setting(points: Points, without: Sequence[str] = ()) -> str | None:
    """The setting that lines of a figure differ in: the learner; or else another case, but not the task."""
    others = [name for name in points.cases if name not in without]
    return "learner" if "learner" in others else next((name for name in others if name != "task"), None)


def line_look(points: Points, name: str | None, position: int, count: int) -> tuple[str, dict[str, Any]]:
    """The label of a line of so many points, and keywords for `Axes.plot`.

    Lines differ in the named setting, if in any, and the point in this position is on the line.
    """
    every = [points.only_learner or ""] if name is None else points.values[name].tolist()
    value = every[0] if name is None else every[position]
    label = words.named(name or "learner", value)
    if name in (None, "learner") and value in LEARNERS:
        return label, plots.line_style(value, count)
    number = list(dict.fromkeys(every)).index(value)
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return label, {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes, "linewidth": 1.4, "zorder": 3}


def legend(figure: Figure, looks: dict[str, dict[str, Any]], right: float, most: int = 18) -> None:
    """Lines and their names, to the right of the panels."""
    handles = [Line2D([], [], **look | {"label": plain(label, most), "markevery": 1}) for label, look in looks.items()]
    place = {"loc": "upper left", "bbox_to_anchor": (1 - (right - 0.12) / WIDTH, 1 - 0.25 / figure.get_figheight())}
    figure.legend(handles=handles, handlelength=2.2, borderaxespad=0, labelspacing=0.35, **place)


def loss_axis(axes: Axes, values: np.ndarray, start: float, usual: int = 35) -> float:
    """Scale an axis for these losses: logarithmic if they are far apart. Where it ends; losses above are drawn there.

    The end is the highest loss, or a quarter above the loss that networks begin with if some rise far beyond it.
    """
    low, top = loss_range(values, start, usual)
    if low > 0 and top / low > WIDE:
        room = (top / low) ** 0.05
        axes.set_yscale("log")
        axes.set_ylim(low / room, top * room)
        axes.yaxis.set_major_locator(log_ticks(low, top, 200))
    else:
        room = 0.06 * (top - low) or 0.05 * abs(low) or 1.0
        axes.set_ylim(low - room, top + room)
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=STEPS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(tick)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    return axes.get_ylim()[1]


def log_ticks(low: float, high: float, far: int, most: int | None = None) -> LogLocator:
    """Where numbers are on a logarithmic axis: at powers of ten alone where `high` is `far` times `low`, or more."""
    return LogLocator(subs=(1.0,) if high / low > far else (1.0, 2.0, 5.0), numticks=most)


def loss_range(values: np.ndarray, start: float, usual: int = 35) -> tuple[float, float]:
    """The lowest loss and the highest that is worth room: at least so many percent of all lie between."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    wanted = float(np.percentile(known, usual))
    if np.isfinite(start):
        wanted = max(wanted, start + ABOVE * abs(start))
    return low, high if high <= wanted + SPARE * abs(wanted) else wanted


def value_axis(axes: Axes, values: np.ndarray, is_log: bool, many: bool = True) -> None:
    """Scale the lower axis for a setting's values, with numbers at few of them."""
    low, high = float(values.min()), float(values.max())
    if is_log:
        room = (high / low) ** 0.04
        axes.set_xscale("log")
        axes.set_xlim(low / room, high * room)
        axes.xaxis.set_major_locator(log_ticks(low, high, 60, 9 if many else 4))
    else:
        room = 0.04 * (high - low)
        axes.set_xlim(low - room, high + room)
        whole = bool((values == np.round(values)).all())
        axes.xaxis.set_major_locator(MaxNLocator(8 if many else 4, steps=STEPS, integer=whole))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(tick)


def tick(value: float, _: object = None) -> str:
    """A number at an axis."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    factor = value / 10**power
    exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{exponent}" if abs(factor - 1) < 1e-6 else f"{factor:.3g}·10{exponent}"


def plain(text: str, most: int = 40) -> str:
    """A text that fits and is no formula, which a dollar sign would begin."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def is_above(losses: np.ndarray, start: float) -> bool:
    """Whether some loss lies beyond the end of the axis."""
    known = losses[np.isfinite(losses)]
    return bool(len(known)) and bool(known.max() > loss_range(losses, start)[1])
