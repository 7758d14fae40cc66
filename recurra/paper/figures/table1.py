"""The learners along the axes, with the orders of memory and time beside what was measured."""

import numpy as np
from matplotlib.axes import Axes

from recurra import analysis, plots
from recurra.learners import LEARNERS
from recurra.paper.figures.drawn import Columns, Data, Drawn, listed

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
        figure.subplots_adjust(left=0.06, right=0.915, bottom=0.215, top=0.91, wspace=0.72)
        for axes, tag, (quantity, text) in zip(panels, "abc", QUANTITIES.items(), strict=True):
            plots.letter(axes, tag, text)
            _panel(axes, {x: points(data, x, quantity) for x in found})
        plots.code_key(figure)
    for learner in found:
        arrays = data[PREFIX + learner]
        table.extend(learner=learner, n=arrays["n"], **{q: np.asarray(arrays[q], float) for q in QUANTITIES})
    sizes = [int(n) for n in data[PREFIX + found[0]]["n"]]
    grown = fitted(sizes)
    caption = (
        f"Above, the learners by facing, form of what they store and kind of update, with the order of memory and time each should have and, "
        f"beside it, the measured power of n: slope ± standard error of a straight line through the logarithms, over n = {grown[0]} to "
        f"{grown[-1]}. Below, what was measured over n = {sizes[0]} to {sizes[-1]} units: (a) the size of the learner's state, (b) operations in the "
        "compiled step, (c) time a step, where a fixed cost hides the order at small n. Network and task alone cost n² operations, which is the least any "
        "learner can show; T = 10 and r = 4 are held. Thin grey lines have slopes 1 to 4."
    )
    alt = f"Three panels on logarithmic axes over the number of units for {listed(map(plots.name, found))}."
    return Drawn(figure, caption, alt, table, [_row(data, learner) for learner in found])


def points(data: Data, learner: str, quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and values that a logarithm can take."""
    arrays = data[PREFIX + learner]
    value = np.asarray(arrays[quantity], float)
    shown = np.isfinite(value) & (value > 0)
    return np.asarray(arrays["n"])[shown], value[shown]


def fitted(sizes: list[int]) -> list[int]:
    """The sizes that `analysis.exponent` fits."""
    ordered = sorted(sizes)
    middle = np.sqrt(ordered[0] * ordered[-1]) * (1 - 1e-9)
    return ordered[-max(sum(n >= middle for n in ordered), min(3, len(ordered))) :]


def _panel(axes: Axes, lines: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lines = {learner: line for learner, line in lines.items() if len(line[0])}
    for learner, (n, value) in lines.items():
        axes.plot(n, value, **plots.line_style(learner) | {"linewidth": 1.3})
    axes.set_xlabel("units n")
    if not lines:
        axes.text(0.5, 0.5, "not available", transform=axes.transAxes, ha="center", color=plots.MUTED)
        return
    sizes = sorted({int(n) for line in lines.values() for n in line[0]})
    low, high = axes.get_ylim()
    for slope in (1, 2, 3, 4):
        guide = low * 1.3 * (np.array([sizes[0], sizes[-1]]) / sizes[0]) ** float(slope)
        axes.plot([sizes[0], sizes[-1]], guide, color=plots.FAINT, linewidth=0.8, zorder=1)
    axes.set_ylim(low, high)
    axes.set_xlim(sizes[0], sizes[-1])
    axes.set_xticks(sizes, [str(n) for n in sizes])
    ends = [plots.End(value[-1], plots.name(x), plots.COLOURS[x]) for x, (_, value) in lines.items()]
    plots.label_ends(axes, ends, size=7, reach=0.1)


def _row(data: Data, learner: str) -> dict[str, str]:
    kind = LEARNERS[learner]
    return {
        "Algorithm": kind.name,
        "Facing": kind.facing,
        "Tensor": kind.tensor,
        "Update": f"{'stochastic' if kind.stochastic else 'deterministic'}, {'numerical' if kind.numerical else 'closed form'}",
        "Memory": kind.memory,
        "State ∝ nᵖ, p": _power(*points(data, learner, "state_bytes")),
        "Time": kind.time,
        "Operations, p": _power(*points(data, learner, "flops")),
        "Seconds, p": _power(*points(data, learner, "seconds")),
    }


def _power(n: np.ndarray, value: np.ndarray) -> str:
    if len(n) < 2:
        return "–"
    slope = analysis.exponent(n, value)
    return f"{slope.value:.2f}" + (f" ± {slope.error:.2f}" if np.isfinite(slope.error) else "")
