"""What RFLO keeps of the influence tensor."""

from itertools import combinations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from recurra.pages import plots
from recurra_paper.figures.drawn import Columns, Data, Drawn

NAME = "rflo_M"
TITLE = "Figure 2. The influence tensor, and what RFLO keeps of it"

SIZE = 5
#: how bright the top, the left and the right side of a block are
LIGHT = (1.0, 0.86, 0.7)

Number = float | int
Point = tuple[Number, Number]


def needs(profile: object) -> list[str]:
    """A drawing: it needs no experiment."""
    return []


def draw(data: Data) -> Drawn | None:
    """The tensor as a cube of blocks: RTRL's full, RFLO's a staircase, and the matrix that the stairs make up."""
    shades = colormaps["viridis"](np.linspace(0.18, 0.92, SIZE))[:, :3]
    with plots.style():
        figure = plots.sheet(10.4, 4.0)
        full, sparse, stored = figure.subplots(1, 3, width_ratios=[1, 1, 0.8])
        figure.subplots_adjust(left=0.02, right=0.98, bottom=0.02, top=0.9, wspace=0.12)
        plots.letter(full, "a", "RTRL: every M$_{kij}$")
        plots.letter(sparse, "b", "RFLO: δ$_{ki}$ B$_{ij}$ alone")
        plots.letter(stored, "c", "what RFLO stores: B$_{ij}$")
        for axes in (full, sparse, stored):
            axes.set_aspect("equal", anchor="N")
            axes.axis("off")
        _frame(sparse)
        for k, i, j in np.ndindex(SIZE, SIZE, SIZE):  # back to front
            _block(full, k, SIZE - 1 - i, j, shades[SIZE - 1 - i])
        for k, j in np.ndindex(SIZE, SIZE):
            _block(sparse, k, k, j, shades[k])
        for i, j in np.ndindex(SIZE, SIZE):
            corners = np.array([(j, -i), (j + 1, -i), (j + 1, -i - 1), (j, -i - 1)], float)
            stored.fill(*corners.T, facecolor=shades[i], edgecolor="white", linewidth=0.8)
        _name_axes(full)
        _name_axes(sparse)
        _arrow(stored, (-0.35, 0), (-0.35, -SIZE), (-0.4, 0), "i")
        _arrow(stored, (0, -SIZE - 0.35), (SIZE, -SIZE - 0.35), (0, -0.45), "j")
        stored.set(xlim=(-1.2, SIZE + 0.4), ylim=(-SIZE - 2.2, 1.2))
    table = Columns()
    for k, i, j in np.ndindex(SIZE, SIZE, SIZE):
        table.add(k=k, i=i, j=j, kept_by_rtrl=1, kept_by_rflo=int(k == i))
    caption = (
        f"How the weight from unit j to unit i has influenced unit k, for {SIZE} units. (a) RTRL keeps all n³ "
        "entries. (b) RFLO lets a weight act on the unit it leads to and on no other: entries with i = k remain, a "
        "staircase through the cube. (c) Its steps laid side by side are one matrix of n² entries, which is all "
        "that is stored. Shades tell rows i apart. Drawn, not measured."
    )
    alt = (
        "Left, a cube of blocks, all filled. Middle, the same cube as a frame in which only a diagonal staircase of "
        "blocks, i = k, is filled. Right, a square matrix whose rows have the shades of the steps."
    )
    return Drawn(figure, caption, alt, table)


def _project(k: Number, i: Number, j: Number) -> Point:
    """Isometric: j runs to the lower right, k to the lower left and towards the eye, i straight down."""
    return 0.866 * (j - k), -0.5 * (j + k) - i


def _block(axes: Axes, k: int, i: int, j: int, shade: np.ndarray) -> None:
    n = 1
    top = [(k, i, j), (k, i, j + n), (k + n, i, j + n), (k + n, i, j)]
    left = [(k + n, i, j), (k + n, i, j + n), (k + n, i + n, j + n), (k + n, i + n, j)]
    right = [(k, i, j + n), (k + n, i, j + n), (k + n, i + n, j + n), (k, i + n, j + n)]
    for face, light in zip((top, left, right), LIGHT, strict=True):
        x, y = np.array([_project(*corner) for corner in face]).T
        axes.fill(x, y, facecolor=shade * light, edgecolor="white", linewidth=0.5, joinstyle="round")


def _frame(axes: Axes) -> None:
    """The cube's outline, and dashed the edges that meet behind; those that meet before it would hide what it holds."""
    n = SIZE
    corners = [tuple(int(c) * n for c in corner) for corner in np.ndindex(2, 2, 2)]
    for a, b in combinations(corners, 2):
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1 and (n, 0, n) not in (a, b):
            x, y = np.array([_project(*a), _project(*b)]).T
            hidden = plots.options(linestyle=(0, (2, 2)), zorder=0.5) if (0, n, 0) in (a, b) else {}
            axes.plot(x, y, color="#8b9097", linewidth=0.8, **hidden)


def _name_axes(axes: Axes) -> None:
    n, gap = SIZE, 0.45
    _arrow(axes, _project(n + gap, 0, -gap), _project(n + gap, n, -gap), (-0.4, 0), "i")
    _arrow(axes, _project(n + gap, n + gap, 0), _project(n + gap, n + gap, n), (-0.3, -0.45), "j")
    _arrow(axes, _project(0, n + gap, n + gap), _project(n, n + gap, n + gap), (0.3, -0.45), "k")
    axes.set(xlim=(-0.866 * n - 1.5, 0.866 * n + 1), ylim=(-2 * n - 1.6, 0.4))


def _arrow(axes: Axes, start: Point, end: Point, shift: Point, name: str) -> None:
    look = plots.options(arrowstyle="-|>", color=plots.MUTED, linewidth=1, shrinkA=0, shrinkB=0)
    axes.annotate("", end, start, arrowprops=look)
    middle = ((start[0] + end[0]) / 2 + shift[0], (start[1] + end[1]) / 2 + shift[1])
    axes.text(*middle, name, ha="center", va="center", fontsize=10, style="italic", color=plots.INK)
