"""How figures of a study look: panels, axes of losses, numbers at them, and a look for each line."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from recurra.learners import LEARNERS
from recurra.pages import plots
from recurra.pages.plots import FAINT
from recurra.studies.pages import words
from recurra.studies.pages.points import Points, Value

WIDTH = 9.2
#: colours of lines that are not learners
COLOURS = ("#0b4a24", "#a566bd", "#3f9b50", "#5a2a9c", "#d6409f", "#8a1253", "#b98300", "#5c5c5c")
DASHES = ("-", (0, (4.2, 1.6)), (0, (1.9, 1.2)))
#: beyond this ratio of the highest to the lowest loss an axis is logarithmic
WIDE = 8.0
#: a loss this much above the first one is drawn at the axis' end
ABOVE = 0.25
#: an axis is rather made longer by this part than some losses left beyond it
SPARE = 0.3
OTHERS_LEFT_OUT = "some seeds diverged, and the mean is over the others."


def frame(
    count: int,
    columns: int,
    height: float,
    *,
    gaps: tuple[float, float],
    left: float = 0.68,
    right: float = 0.15,
    top: float = 0.35,
    bottom: float = 0.48,
) -> tuple[Figure, list[Axes]]:
    """A figure of panels, row by row; lengths in inches. `gaps` are those between columns and between rows."""
    columns = max(min(columns, count), 1)
    rows = math.ceil(count / columns)
    across, down = gaps
    width = (WIDTH - left - right - across * (columns - 1)) / columns
    total = top + rows * height + (rows - 1) * down + bottom
    figure = plots.sheet(WIDTH, total)
    panels = []
    for number in range(count):
        row, column = divmod(number, columns)
        x, y = left + column * (width + across), total - top - row * (height + down) - height
        panels.append(figure.add_axes((x / WIDTH, y / total, width / WIDTH, height / total)))
    return figure, panels


def line_setting(points: Points, without: Sequence[str] = ()) -> str | None:
    """The setting that lines of a figure differ in: the learner; or else another case, but not the task."""
    others = [name for name in points.cases if name not in without]
    return "learner" if "learner" in others else next((name for name in others if name != "task"), None)


def looks(points: Points, name: str | None) -> Callable[[Value, int], dict[str, Any]]:
    """Keywords for `Axes.plot` by the value of the setting that lines differ in, for a line of so many points."""
    if name is None or name == "learner":
        only = points.only_learner or ""

        def of_learner(value: Value, count: int = 1) -> dict[str, Any]:
            learner = str(value or only)
            return plots.line_style(learner, count) if learner in LEARNERS else _other(0)

        return of_learner
    order = list(dict.fromkeys(points.values[name].tolist()))
    return lambda value, count=1: _other(order.index(value))


def _other(number: int) -> dict[str, Any]:
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes, "linewidth": 1.4, "zorder": 3}


def legend(figure: Figure, looks: dict[str, dict[str, Any]], right: float) -> None:
    """Lines and their names, to the right of the panels."""
    handles = [Line2D([], [], label=plain(label, 18), **_unspaced(look)) for label, look in looks.items()]
    place = {"loc": "upper left", "bbox_to_anchor": (1 - (right - 0.12) / WIDTH, 1 - 0.25 / figure.get_figheight())}
    figure.legend(handles=handles, handlelength=2.2, borderaxespad=0, labelspacing=0.35, **place)


def _unspaced(look: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in look.items() if key not in ("markevery", "zorder")}


def loss_axis(axes: Axes, values: np.ndarray, start: float, usual: int = 35) -> float:
    """Scale an axis for these losses: logarithmic if they are far apart. Where it ends; losses above are drawn there.

    The end is the highest loss, or a quarter above the loss that networks begin with if some rise far beyond it.
    """
    low, top = loss_range(values, start, usual)
    is_log = low > 0 and top / low > WIDE
    if is_log:
        axes.set_yscale("log")
        room = (top / low) ** 0.05
        axes.set_ylim(low / room, top * room)
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(loss_ticks(low, top))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    else:
        room = 0.06 * (top - low) or 0.05 * abs(low) or 1.0
        axes.set_ylim(low - room, top + room)
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=(1, 2, 2.5, 5, 10)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    return axes.get_ylim()[1]


def loss_ticks(low: float, top: float) -> LogLocator:
    """Where numbers are on a logarithmic axis of losses."""
    return LogLocator(subs=(1.0,) if top / low > 200 else (1.0, 2.0, 5.0))


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
    axes.xaxis.set_minor_locator(NullLocator())
    if is_log and low > 0:
        axes.set_xscale("log")
        room = (high / low) ** 0.04
        axes.set_xlim(low / room, high * room)
        subs = (1.0,) if high / low > 60 else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=9 if many else 4))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        room = 0.04 * (high - low)
        axes.set_xlim(low - room, high + room)
        whole = bool((values == np.round(values)).all())
        axes.xaxis.set_major_locator(MaxNLocator(8 if many else 4, steps=(1, 2, 2.5, 5, 10), integer=whole))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))


def tick(value: float) -> str:
    """A number at an axis."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    factor = value / 10**power
    exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{exponent}" if abs(factor - 1) < 1e-6 else f"{factor:.3g}·10{exponent}"


def title(axes: Axes, text: str, pad: float = 6.0, most: int = 60) -> None:
    """Say what a panel is of."""
    axes.set_title(plain(text, most), pad=pad)


def plain(text: str, most: int = 40) -> str:
    """A text that fits and is no formula, which a dollar sign would begin."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def named(points: Points, name: str | None, value: Value) -> str:
    """The label of a line."""
    if name is None:
        return "" if points.only_learner is None else words.shown("learner", points.only_learner)
    return words.named(name, value)


def is_above(losses: np.ndarray, start: float) -> bool:
    """Whether some loss lies beyond the end of the axis."""
    known = losses[np.isfinite(losses)]
    return bool(len(known)) and bool(known.max() > loss_range(losses, start)[1])
