"""What RFLO trains, drawn: one step of the network and its readout are a network with a single hidden layer."""

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from recurra.pages import plots

#: in each layer: x, heights of its units, what it is called and what it is
INPUTS = (2.3, 1.55, 0.8, 0.05, -0.95, -1.7, -2.45)
HIDDEN = (1.8, 0.9, 0.0, -0.9, -1.8)
OUTPUTS = (0.55, -0.55)
LAYERS = ((0.0, INPUTS), (2.6, HIDDEN), (4.9, OUTPUTS))
RADIUS = 0.24


def cartoon(axes: Axes) -> None:
    """ahat(t-1) on the left, the units at t in the middle, the output on the right, every arrow a weight."""
    axes.set(xlim=(-1.75, 6.6), ylim=(-4.3, 3.75))
    axes.set_aspect("equal", anchor="C")
    axes.axis("off")
    blue = plots.FACINGS["past"]
    for ((x, start), (x2, end)), colour in zip(pairwise(LAYERS), (blue, plots.MUTED), strict=True):
        for y in start:
            for y2 in end:
                _wire(axes, (x, y), (x2, y2), colour)
    for (x, heights), colour in zip(LAYERS, (plots.MUTED, blue, plots.INK), strict=True):
        for y in heights:
            axes.add_patch(Circle((x, y), RADIUS, facecolor="white", edgecolor=colour, linewidth=1.5, zorder=3))
    _brace(axes, INPUTS[:4], "a(t–1)")
    _brace(axes, INPUTS[4:6], "x(t)")
    axes.text(-0.55, INPUTS[6], "1", ha="right", va="center", fontsize=8.5)
    above, below = plots.options(ha="center", va="bottom", fontsize=9), plots.options(ha="center", fontsize=8)
    for x, heights, text in ((0.0, INPUTS, "âhat(t–1)"), (2.6, HIDDEN, "a(t)"), (4.9, OUTPUTS, "y(t)")):
        axes.text(x, max(heights) + 0.5, text.replace("âhat", "â"), **above)
    axes.text(1.3, -3.25, "W, trained by RFLO", color=blue, **below)
    axes.text(1.3, -3.75, "hidden layer: φ = tanh", color=plots.MUTED, **below)
    axes.text(4.6, -3.25, "W$^{out}$", **below)
    axes.text(4.6, -3.75, "output: softmax", color=plots.MUTED, **below)
    axes.annotate("", (6.0, 0.0), (5.35, 0.0), arrowprops=dict(arrowstyle="<->", color=plots.MUTED, linewidth=1))
    axes.text(6.1, 0.0, "y*(t)", ha="left", va="center", fontsize=9)


def _wire(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """From the edge of one unit to that of the next."""
    a, b = np.array(start), np.array(end)
    along = (b - a) / np.linalg.norm(b - a) * RADIUS
    x, y = np.stack([a + along, b - along]).T
    axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.55, zorder=1)


def _brace(axes: Axes, heights: tuple[float, ...], text: str) -> None:
    """A bracket left of some of the inputs, and what they are."""
    top, bottom = max(heights) + 0.2, min(heights) - 0.2
    axes.plot([-0.4, -0.5, -0.5, -0.4], [top, top, bottom, bottom], color=plots.MUTED, linewidth=0.9)
    axes.text(-0.62, (top + bottom) / 2, text, ha="right", va="center", fontsize=8.5)
