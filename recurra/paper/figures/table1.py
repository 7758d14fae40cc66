"""The learners along the axes, with the orders of memory and time beside what was measured."""

import numpy as np
from matplotlib.axes import Axes

from recurra.paper import analysis, plots
from recurra.paper.figures.drawn import Columns, Data, Drawn, listed
from recurra.paper.figures.labels import Label, label_ends, label_points
from recurra.paper.setup import LEARNERS, kind_of

NAME = "table1"
TITLE = "The learners, and how memory and time grow"

PREFIX = "scaling/"
QUANTITIES = {"state_bytes": "state, bytes", "flops": "operations a step", "seconds": "seconds a step"}


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [PREFIX]


def draw(data: Data) -> Drawn | None:
    """The table's rows, and state, operations and time over the number of units."""
    found = [learner for learner in LEARNERS if PREFIX + learner in data]
    if not found:
        return None
    table = Columns()
    with plots.style():
        figure = plots.sheet(10.4, 4.4)
        panels = figure.subplots(1, 3)
        figure.subplots_adjust(left=0.06, right=0.895, bottom=0.215, top=0.91, wspace=0.85)
        for axes, tag, (quantity, text) in zip(panels, "abc", QUANTITIES.items(), strict=True):
            plots.letter(axes, tag, text)
            about = {x: kind_of(x).about for x in found}
            orders = {x: each.memory if quantity == "state_bytes" else each.time for x, each in about.items()}
            _panel(axes, {x: points(data, x, quantity) for x in found}, orders)
        plots.code_key(figure)
    for learner in found:
        arrays = data[PREFIX + learner]
        table.extend(learner=learner, n=arrays["n"], **{q: np.asarray(arrays[q], float) for q in QUANTITIES})
    sizes = sorted({int(n) for learner in found for n in data[PREFIX + learner]["n"]})
    caption = (
        "Above, the learners by facing, form of what they store and kind of update, with the order of memory and time "
        "each should have and, beside it, the measured power p of n: slope ± standard error of a straight line through "
        "the logarithms, over the upper half of the sizes measured. Below, those measurements, for "
        f"{sizes[0]} to {sizes[-1]} units: (a) the size of the learner's state, (b) operations of a step, counted in "
        "its program, "
        "(c) time a step, where a fixed cost hides the order at small n. T = 10 and r = 4 are held, and varied by "
        "themselves for the claims about them. Beside each name stands the order it should have."
    )
    alt = f"Three panels on logarithmic axes over the number of units for {listed(map(plots.name, found))}."
    return Drawn(figure, caption, alt, table, [_row(data, learner) for learner in found])


def points(data: Data, learner: str, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and values that a logarithm can take."""
    arrays = data[PREFIX + learner]
    value = np.asarray(arrays[quantity], float)
    shown = np.isfinite(value) & (value > 0)
    return np.asarray(arrays["n"])[shown], value[shown]


def _panel(axes: Axes, lines: dict[str, tuple[np.ndarray, np.ndarray]], orders: dict[str, str]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lines = {learner: line for learner, line in lines.items() if len(line[0])}
    for learner, (n, value) in lines.items():
        axes.plot(n, value, **plots.line_style(learner))
    axes.set_xlabel("units n")
    if not lines:
        axes.text(0.5, 0.5, "not available", transform=axes.transAxes, ha="center", color=plots.MUTED)
        return
    sizes = sorted({int(n) for line in lines.values() for n in line[0]})
    axes.set_xlim(sizes[0], sizes[-1])
    apart = [n for n, above in zip(sizes, [*sizes[1:], np.inf], strict=True) if above >= 1.5 * n]  # not 96 beside 128
    axes.set_xticks(apart, [str(n) for n in apart])
    named = {x: f"{plots.name(x)}  {orders[x]}".removesuffix("  –") for x in lines}
    ends = [Label(float(n[-1]), float(value[-1]), named[x], plots.colour(x)) for x, (n, value) in lines.items()]
    label_ends(axes, [end for end in ends if end.x == sizes[-1]], size=7.0, reach=0.1)
    label_points(axes, [end for end in ends if end.x < sizes[-1]], size=7.0)


def _row(data: Data, learner: str) -> dict[str, str]:
    about = kind_of(learner).about
    update = ("stochastic" if about.stochastic else "deterministic", "numerical" if about.numerical else "closed form")
    return {
        "Algorithm": about.name,
        "Facing": plots.facing(learner),
        "Tensor": about.tensor,
        "Update": ", ".join(update),
        "Memory": about.memory,
        "State ∝ nᵖ, p": _power(*points(data, learner, "state_bytes")),
        "Time": about.time,
        "Operations, p": _power(*points(data, learner, "flops")),
        "Seconds, p": _power(*points(data, learner, "seconds")),
    }


def _power(n: np.ndarray, value: np.ndarray) -> str:
    if len(n) < 2:
        return "–"
    slope = analysis.exponent(n, value)
    if not np.isfinite(slope.error):
        return f"{slope.value:.2f}"
    digits = int(np.clip(np.ceil(-np.log10(max(slope.error, 1e-9))), 2, 4))
    return f"{slope.value:.{digits}f} ± {slope.error:.{digits}f}".replace("-", "−")
