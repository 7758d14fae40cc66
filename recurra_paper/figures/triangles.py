"""Which loss and which use of the weights enter which gradient, as measured."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recurra.pages import plots
from recurra_paper.figures.drawn import Columns, Data, Drawn, listed
from recurra_paper.setup import CURVES

NAME = "triangles"
TITLE = "Figure 3. What enters each gradient"

PREFIX = "lattice/"


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [PREFIX]


def draw(data: Data) -> Drawn | None:
    """One panel a learner: a dot for each pair s <= t, a box for each gradient handed to the optimizer."""
    order = ["rtrl", "f-bptt", "e-bptt"]
    found = [learner for learner in [*order, *(i for i in CURVES if i not in order)] if PREFIX + learner in data]
    if not found:
        return None
    table = Columns()
    with plots.style():
        figure = plots.sheet(10.4, 10.4 / len(found) + 0.5 if len(found) > 2 else 4.2)
        panels = figure.subplots(1, len(found), squeeze=False)[0]
        figure.subplots_adjust(left=0.045, right=0.995, bottom=0.17, top=0.88, wspace=0.2)
        for axes, tag, learner in zip(panels, "abcdefghijklm", found, strict=False):
            enters = np.asarray(data[PREFIX + learner]["enters"], bool)
            plots.letter(axes, tag, plots.name(learner))
            _panel(axes, enters, plots.colour(learner))
            emitted, s, t = np.nonzero(enters)
            table.extend(learner=learner, emitted=emitted, s=s, t=t)
        panels[0].set_ylabel("weights used at step s")
    emitted = [int(np.count_nonzero(data[PREFIX + learner]["emits"])) for learner in found]
    steps = data[PREFIX + found[0]]["enters"].shape[1]
    names = listed(f"{plots.name(x)} ({n})" for x, n in zip(found, emitted, strict=True))
    caption = (
        "Every dot is one derivative, of the loss at step t by the weights as used at step s, over the first "
        f"{steps} steps of a small network with α = 0.7. Which of them a gradient contains was measured, not "
        "assumed. Boxes hold "
        "what the optimizer receives as one gradient, numbered by the step at which it leaves; in brackets, how many "
        f"left: {names}. Hollow dots entered no gradient in this time; a ring marks a derivative that entered more "
        "than one."
    )
    if {"rtrl", "rflo"} <= set(found) and np.array_equal(
        data[PREFIX + "rtrl"]["enters"], data[PREFIX + "rflo"]["enters"]
    ):
        caption += (
            " RFLO's gradients draw on the same derivatives as RTRL's, but follow each within a single unit only."
        )
    alt = "Lattices of dots with boxes around those summed into one gradient: " + "; ".join(
        _described(plots.name(x), np.asarray(data[PREFIX + x]["enters"], bool)) for x in found
    )
    return Drawn(figure, caption, alt + ".", table)


def _panel(axes: Axes, enters: np.ndarray, colour: str) -> None:
    steps = enters.shape[1]
    axes.set(xlim=(-1.7, steps - 0.2), ylim=(-0.8, steps + 0.3), xlabel="loss at step t")
    axes.set_aspect("equal")
    axes.set_xticks(range(0, steps, 2), minor=False)
    axes.set_yticks(range(0, steps, 2), minor=False)
    figure = axes.figure
    assert isinstance(figure, Figure)
    unit = axes.get_position().width * figure.get_figwidth() * 72 / (steps + 1.5)
    for e in range(len(enters)):
        s, t = np.nonzero(enters[e])
        if not len(s):
            continue
        x, y = hull(np.stack([t, s], axis=1).astype(float)).T
        for width, shade, level in ((0.86 * unit, "#9aa1a9", 1.0), (0.86 * unit - 1.4, "#e6e9ec", 1.1)):
            look = plots.options(linewidth=width, joinstyle="round", capstyle="round", snap=False, zorder=level)
            axes.fill(x, y, facecolor=shade, edgecolor=shade, **look)
        # in the empty half s > t: left of a row, above anything else
        where = (t.min() - 0.9, s.min()) if len(set(s)) == 1 else (t.max(), s.max() + 0.9)
        axes.text(*where, str(e), fontsize=6.8, ha="center", va="center_baseline", color=plots.MUTED)
    t, s = np.nonzero(np.tri(steps, dtype=bool))
    times = enters.sum(axis=0)[s, t]
    none, some, many = times == 0, times > 0, times > 1
    axes.scatter(t[none], s[none], s=12, facecolors="white", edgecolors="#a9afb6", linewidths=0.8, zorder=3)
    axes.scatter(t[some], s[some], s=16, color=colour, linewidths=0, zorder=3)
    axes.scatter(t[many], s[many], s=38, facecolors="none", edgecolors=colour, linewidths=0.9, zorder=3)


def hull(points: np.ndarray) -> np.ndarray:
    """The corners of the convex hull, counter-clockwise (Andrew's monotone chain)."""
    ordered = sorted(map(tuple, points))
    turn = lambda o, a, b: (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])
    halves = [] if len(ordered) > 1 else ordered
    for sweep in (ordered, ordered[::-1]):
        chain: list[tuple[float, ...]] = []
        for point in sweep:
            while len(chain) > 1 and turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        halves += chain[:-1]
    corners = np.array(halves)
    if len(corners) > 1:
        return corners
    return corners + np.array([[-0.03, 0.0], [0.03, 0.0]])  # a stroke of no length would not be drawn


def _described(name: str, enters: np.ndarray) -> str:
    sizes = enters.sum(axis=(1, 2))
    shape = lambda axis: any(np.count_nonzero(e.any(axis=axis)) > 1 for e in enters)
    span = {
        (True, False): "several uses of the weights, one loss",
        (False, True): "one use of the weights, several losses",
    }
    told = span.get((shape(1), shape(0)), "several of both" if shape(0) else "one of each")
    return f"{name}, up to {sizes.max()} derivatives a gradient, {told}"
