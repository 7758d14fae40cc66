"""The two ways to look at credit: what reached the present loss, and what the present weights will reach."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from recurra.pages import plots
from recurra_paper.figures.drawn import Columns, Data, Drawn

NAME = "past_future"
TITLE = "Figure 1. Two ways to assign credit over time"

STEPS = (-2, -1, 0, 1, 2)
WEIGHT, STATE, LOSS = 0.0, 1.15, 2.3


def needs(profile: object) -> list[str]:
    """A drawing: it shows no experiment. A claim beside it rests on one."""
    return ["small-rate"]


def draw(data: Data) -> Drawn | None:
    """The unrolled network twice, with the paths that each perspective follows."""
    table = Columns()
    with plots.style():
        figure = plots.sheet(10.4, 4.1)
        for axes, tag, facing in zip(figure.subplots(1, 2), "ab", ("past", "future"), strict=True):
            followed = _followed(facing)
            _network(axes, followed, plots.FACINGS[facing])
            plots.letter(axes, tag, plots.FACING_NAMES[facing])
            for path in followed:
                table.add(perspective=facing, start=_label(*path[0]), end=_label(*path[1]))
            lines = {
                "past": (
                    "M(t) = J(t) M(t–1) + M̄(t)",
                    "gradient = c̄(t) M(t)",
                    "all earlier uses of w, one loss: compress M",
                ),
                "future": (
                    "c(t) = c̄(t) + c(t+1) J(t+1)",
                    "gradient = c(t) M̄(t)",
                    "one use of w, all later losses: predict c",
                ),
            }[facing]
            axes.text(0, -0.78, f"{lines[0]}        {lines[1]}", ha="center", fontsize=9.5, color=plots.FACINGS[facing])
            axes.text(0, -1.12, lines[2], ha="center", fontsize=8.5, color=plots.MUTED)
        figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.92, wspace=0.04)
    caption = (
        "A network unrolled in time: the state a is updated with the weights w at every step, and each state feeds "
        "a loss L. (a) Looking back from step t, credit gathers every earlier use of the weights that reaches the "
        "present loss. (b) Looking ahead from step t, it gathers every later loss that the present use of the "
        "weights will reach. Coloured arrows are the paths counted; the relation that moves each sum one step on "
        "stands below. Drawn, not measured."
    )
    alt = (
        "Two copies of an unrolled network. Left: arrows run from the weights of steps t-2, t-1 and t through the "
        "states into the loss at t. Right: arrows run from the weights of step t through the states into the losses "
        "at t, t+1 and t+2."
    )
    return Drawn(figure, caption, alt, table)


Node = tuple[str, int]


def _followed(facing: str) -> list[tuple[Node, Node]]:
    """The arrows on a counted path."""
    if facing == "past":
        earlier = [s for s in STEPS if s <= 0]
        arrows = [(("w", s), ("a", s)) for s in earlier] + [(("a", s), ("a", s + 1)) for s in earlier if s < 0]
        return [*arrows, (("a", 0), ("L", 0))]
    later = [t for t in STEPS if t >= 0]
    arrows = [(("a", t - 1), ("a", t)) for t in later if t > 0] + [(("a", t), ("L", t)) for t in later]
    return [(("w", 0), ("a", 0)), *arrows]


def _network(axes: Axes, followed: list[tuple[Node, Node]], colour: str) -> None:
    axes.set(xlim=(-2.9, 2.9), ylim=(-1.25, 2.72))
    axes.set_aspect("equal")
    axes.axis("off")
    arrows = [(("w", s), ("a", s)) for s in STEPS] + [(("a", s), ("L", s)) for s in STEPS]
    arrows += [(("a", s), ("a", s + 1)) for s in STEPS[:-1]]
    for start, end in sorted(arrows, key=lambda arrow: arrow in followed):
        counted = (start, end) in followed
        look = (
            plots.options(mutation_scale=14, linewidth=2.4)
            if counted
            else plots.options(mutation_scale=10, linewidth=1.2)
        )
        _arrow(axes, _edge(start, end), _edge(end, start), color=colour if counted else "#c3c8cf", **look)
    for start, end in (((-2.85, STATE), (-2.33, STATE)), ((2.33, STATE), (2.85, STATE))):  # the network goes on
        _arrow(axes, start, end, color="#c3c8cf", mutation_scale=10, linewidth=1.2, linestyle=(0, (2, 1.5)))
    touched = {node for arrow in followed for node in arrow}
    for step in STEPS:
        for kind in "waL":
            _node(axes, (kind, step), colour if (kind, step) in touched else None)


def _node(axes: Axes, node: Node, colour: str | None) -> None:
    x, y = _place(node)
    look = plots.options(facecolor="white", edgecolor=colour or "#b9bec5", linewidth=1.8 if colour else 1.0, zorder=3)
    if node[0] == "a":
        axes.add_patch(Circle((x, y), 0.3, **look))
    else:
        corner = "round,pad=0,rounding_size=0.08" if node[0] == "w" else "round,pad=0,rounding_size=0.22"
        axes.add_patch(FancyBboxPatch((x - 0.34, y - 0.24), 0.68, 0.48, boxstyle=corner, **look))
    place = plots.options(ha="center", va="center", fontsize=7.6, zorder=4)
    axes.text(x, y, _label(*node), color=plots.INK if colour else "#8b9097", **place)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **look: Any) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", shrinkA=0, shrinkB=0, joinstyle="miter", **look))


def _edge(node: Node, other: Node) -> tuple[float, float]:
    """Where an arrow between the two touches the first."""
    (x, y), (x2, y2) = _place(node), _place(other)
    reach = 0.33 if node[0] == "a" else 0.27
    return x + reach * float(np.sign(x2 - x)), y + reach * float(np.sign(y2 - y))


def _place(node: Node) -> tuple[float, float]:
    return float(node[1]), {"w": WEIGHT, "a": STATE, "L": LOSS}[node[0]]


def _label(kind: str, step: int) -> str:
    return f"{kind}(t)" if step == 0 else f"{kind}(t{'+' if step > 0 else '–'}{abs(step)})"
