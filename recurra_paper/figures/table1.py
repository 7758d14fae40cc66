"""The learners along the axes, with the orders of memory and time beside what was counted and timed."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from recurra.pages import plots
from recurra_paper import analysis
from recurra_paper.experiments.scaling import HORIZONS
from recurra_paper.figures.drawn import Columns, Data, Drawn, listed
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import LEARNERS, kind_of

NAME = "table1"
TITLE = "Table 1. The learners, and how memory and time grow"

PREFIX = "scaling/"


class Quantity(NamedTuple):
    """A cost: how it is called, the arrays that hold it and its sizes, and which order of a learner it should have."""

    title: str
    sizes: str
    values: str
    order: str


QUANTITIES = (
    Quantity("state, bytes", "count_n", "count_bytes", "memory"),
    Quantity("operations a step", "count_n", "count_flops", "time"),
    Quantity("seconds a step", "n", "seconds", "time"),
)
BYTES, OPERATIONS, SECONDS = QUANTITIES


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [PREFIX]


def draw(data: Data) -> Drawn | None:
    """The table's rows, and state, operations and time over the number of units."""
    found = [learner for learner in LEARNERS if PREFIX + learner in data]
    if not found:
        return None
    with plots.style():
        figure = plots.sheet(10.4, 4.7)
        panels = figure.subplots(1, 3)
        figure.subplots_adjust(left=0.055, right=0.885, bottom=0.2, top=0.915, wspace=0.92)
        for axes, tag, quantity in zip(panels, "abc", QUANTITIES, strict=True):
            plots.letter(axes, tag, quantity.title)
            orders = {x: str(getattr(kind_of(x).about, quantity.order)) for x in found}
            _panel(axes, {x: points(data, x, quantity) for x in found}, orders)
        plots.code_key(figure)
    counted, timed = (_range(data, found, quantity) for quantity in (BYTES, SECONDS))
    caption = (
        "Above, the learners by facing, form of what they store and kind of update, with the order of memory and time "
        "each should have and, beside it, the power p of n that was found: the slope of a straight line through the "
        "logarithms over the upper half of the sizes. Bytes and operations are counted, and do not vary; powers of T "
        "and r, where an order has them, are counted at a fixed n. Seconds are timed, ± the standard error of the "
        "line. Below, the same over n: (a) the size of the learner's state and (b) the operations of a step, "
        f"counted in its program for {counted} units; (c) time a step for {timed} units, where a fixed cost hides the "
        "order at small n. T = 10 and r = 4. Beside each name stands the order it should have."
    )
    alt = f"Three panels on logarithmic axes over the number of units for {listed(map(plots.name, found))}."
    judged = [{what: f"table-{what}-{x}" for what in ("memory", "time")} for x in found]
    return Drawn(figure, caption, alt, _table(data, found), [_row(data, x) for x in found], judged)


def points(data: Data, learner: str, quantity: Quantity) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and values that a logarithm can take."""
    arrays = data[PREFIX + learner]
    value = np.asarray(arrays[quantity.values], float)
    shown = np.isfinite(value) & (value > 0)
    return np.asarray(arrays[quantity.sizes])[shown], value[shown]


def _panel(axes: Axes, lines: dict[str, tuple[np.ndarray, np.ndarray]], orders: dict[str, str]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lines = {learner: line for learner, line in lines.items() if len(line[0])}
    named = {x: f"{plots.name(x)}  {orders[x]}".removesuffix("  –") for x in lines}
    drawn = {}
    for learner, (n, value) in lines.items():
        (drawn[learner],) = axes.plot(n, value, **plots.line_style(learner), clip_on=False, label=named[learner])
    axes.set_xlabel("units n")
    if not lines:
        axes.text(0.5, 0.5, "not available", transform=axes.transAxes, ha="center", color=plots.MUTED)
        return
    sizes = sorted({int(n) for line in lines.values() for n in line[0]})
    axes.set_xlim(sizes[0], sizes[-1])
    apart = 1.5 if sizes[-1] < 40 * sizes[0] else 3.0 if sizes[-1] < 300 * sizes[0] else 4.0
    axes.set_xticks(ticks := _apart(sizes, apart), [f"{n:,}" for n in ticks])
    short = [x for x, (n, _) in lines.items() if n[-1] < sizes[-1]]
    if short:  # named in the corner that growing curves leave free
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 0.12)
        place = plots.options(loc="upper left", bbox_to_anchor=(0.0, 1.01), borderaxespad=0.2, handlelength=1.8)
        axes.legend(handles=[drawn[x] for x in short], fontsize=7, labelcolor="linecolor", **place)
    ends = [
        Label(float(n[-1]), float(y[-1]), named[x], plots.colour(x)) for x, (n, y) in lines.items() if x not in short
    ]
    label_ends(axes, ends, size=7.0, reach=0.12)


def _apart(sizes: list[int], factor: float) -> list[int]:
    """The largest size and those below it that have room for a number each."""
    kept = [sizes[-1]]
    for size in reversed(sizes):
        if kept[-1] >= factor * size:
            kept.append(size)
    return kept[::-1]


def _range(data: Data, found: list[str], quantity: Quantity) -> str:
    sizes = sorted(int(n) for x in found for n in data[PREFIX + x][quantity.sizes])
    return f"{sizes[0]:,} to {sizes[-1]:,}"


def _row(data: Data, learner: str) -> dict[str, str]:
    what = kind_of(learner).about
    update = ("stochastic" if what.stochastic else "deterministic", "numerical" if what.numerical else "closed form")
    return {
        "Algorithm": plots.name(learner),
        "Facing": plots.facing(learner),
        "Tensor": what.tensor,
        "Update": ", ".join(update),
        "Memory": what.memory,
        "bytes, p": _counted(data, learner, BYTES, "horizon_bytes"),
        "Time": what.time,
        "operations, p": _counted(data, learner, OPERATIONS, "horizon_flops"),
        "seconds, p": _timed(*points(data, learner, SECONDS)),
    }


def _counted(data: Data, learner: str, quantity: Quantity, along: str) -> str:
    """The power of n, and that of T or r where there is one."""
    n, value = points(data, learner, quantity)
    if len(n) < 2:
        return "–"
    text, arrays = f"{analysis.exponent(n, value).value:.2f}", data[PREFIX + learner]
    if along in arrays:
        other = analysis.exponent(arrays["horizon"], arrays[along]).value
        text += f", in {HORIZONS[learner]} {abs(round(other, 2)):.2f}"
    return text


def _timed(n: np.ndarray, value: np.ndarray) -> str:
    if len(n) < 2:
        return "–"
    slope = analysis.exponent(n, value)
    return f"{slope.value:.2f} ± {slope.error:.2f}" if np.isfinite(slope.error) else f"{slope.value:.2f}"


def _table(data: Data, found: list[str]) -> Columns:
    table = Columns()
    for learner in found:
        for quantity in QUANTITIES:
            n, value = points(data, learner, quantity)
            if len(n):
                table.extend(learner=learner, quantity=quantity.title, n=n, value=value)
    return table
