"""Names beside curves and points instead of in a legend, placed so that they do not cover each other."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from recurra.pages import plots


class Label(NamedTuple):
    """What to write, in which colour, and the point it belongs to."""

    x: float
    y: float
    text: str
    colour: str


Box = tuple[float, float, float, float]
#: points between a point and its name; beyond it a line joins the two
NEAR = 7.0


def spread(heights: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """The positions nearest to `heights` (in squares) that are `gap` apart and, if they fit, within [low, high]."""
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(heights))
    blocks: list[tuple[float, int]] = []  # pool neighbours until their means increase
    for value in heights[order] - steps:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            other, n = blocks.pop()
            mean, count = (other * n + mean * count) / (n + count), n + count
        blocks.append((mean, count))
    pooled = np.array([mean for mean, count in blocks for _ in range(count)])
    placed = np.empty(len(heights))
    placed[order] = np.clip(pooled, low, max(low, high - gap * (len(heights) - 1))) + steps
    return placed


def label_ends(axes: Axes, ends: Sequence[Label], size: float = 7.5, reach: float = 0.065) -> None:
    """Name curves at the right edge, each beside its end; limits and position of the axes must be final."""
    if not ends:
        return
    figure = axes.figure
    assert isinstance(figure, Figure)
    points = axes.get_position().height * figure.get_figheight() * 72
    drawn = axes.transData.transform([(end.x, end.y) for end in ends])
    heights = np.clip(axes.transAxes.inverted().transform(drawn)[:, 1], 0, 1)
    placed = spread(heights, 1.32 * size / points, -0.1, 1.0)
    for end, start, stop in zip(ends, heights, placed, strict=True):
        x = [1.004, 1.004 + 0.7 * reach, 1.004 + 0.85 * reach]
        look = plots.options(color=end.colour, linewidth=0.7, clip_on=False, label="_leader")
        axes.plot(x, [start, stop, stop], transform=axes.transAxes, **look)
        place = plots.options(transform=axes.transAxes, color=end.colour, fontsize=size, va="center_baseline")
        axes.text(1.004 + reach, stop, end.text, **place)


def label_points(axes: Axes, points: Sequence[Label], size: float = 7.5, around: Sequence[np.ndarray] = ()) -> None:
    """Name points, each on the side where its name covers the least of the others, their names and what is `around`.

    Each of `around` is a line of other ink, (x, y) in rows, in the data's coordinates.
    """
    if not points:
        return
    scale = 72 / axes.figure.dpi
    at = axes.transData.transform([(point.x, point.y) for point in points]) * scale
    left, bottom, right, top = np.asarray(axes.bbox.extents) * scale
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in at]
    for line in around:
        taken += _beads(axes.transData.transform(line) * scale)
    sides = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    for (x, y), point in zip(at, points, strict=True):
        wide, high = 0.62 * size * len(point.text), 1.2 * size
        reaches = [(reach, dx, dy) for reach in (NEAR, 12.0, 20.0, 30.0) for dx, dy in sides]
        centres = [(dx * (reach + wide / 2), dy * (reach + high / 4)) for reach, dx, dy in reaches]
        boxes = [(x + u - wide / 2, y + v - high / 2, x + u + wide / 2, y + v + high / 2) for u, v in centres]
        outside = [max(left - l, 0) + max(r - right, 0) + max(bottom - b, 0) + max(t - top, 0) for l, b, r, t in boxes]
        cost = [
            4 * sum(_overlap(box, other) for other in taken) + 30 * out + reach
            for box, out, (reach, _, _) in zip(boxes, outside, reaches, strict=True)
        ]
        best = int(np.argmin(cost))
        taken.append(boxes[best])
        place = plots.options(xytext=centres[best], textcoords="offset points", ha="center", va="center")
        if reaches[best][0] > NEAR:
            line = plots.options(arrowstyle="-", color=point.colour, linewidth=0.6, shrinkA=1, shrinkB=3)
            place["arrowprops"] = line
        text = axes.annotate(point.text, (point.x, point.y), color=point.colour, fontsize=size, zorder=6, **place)
        text.set_path_effects([withStroke(linewidth=2, foreground="white", alpha=0.8)])


def _beads(line: np.ndarray) -> list[Box]:
    """Small boxes along a line, in points."""
    beads: list[Box] = []
    for start, end in pairwise(line):
        count = 1 + min(int(np.hypot(*(end - start)) / 3), 400)
        beads += [(x - 1.5, y - 1.5, x + 1.5, y + 1.5) for x, y in np.linspace(start, end, count + 1)]
    return beads


def _overlap(one: Box, two: Box) -> float:
    """The common area."""
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    return max(width, 0.0) * max(height, 0.0)
