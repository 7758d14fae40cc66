"""Final loss over pairs of settings, as colours.

`pairs` says which pairs to look at, `sheets` finds the best point in each cell, `draw` draws a sheet of maps and
`caption` says what is seen.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recurra.pages.plots import MUTED, ON_DARK, ON_LIGHT, style
from recurra.studies.pages import looks, words
from recurra.studies.pages.points import Points, is_problem

#: values of a setting that have a row or column each; beyond, its range is cut into parts, at least and at most so many
MOST_VALUES, LEAST_PARTS, MOST_PARTS = 24, 4, 16
#: fewer learners are lines that are easily told apart, and need no map of their own
MANY_LEARNERS = 4
MOST_PANELS = 24
#: inches of the widest cell
WIDEST = 0.9
SHADES = "YlGnBu_r"
BEST = "#d1491b"


@dataclass(frozen=True)
class Side:
    """Rows or columns: which of them a point is in (-1: in none), and what is written at them."""

    name: str
    place: np.ndarray
    labels: list[str]
    is_text: bool


@dataclass(frozen=True)
class Map:
    """A panel: the loss in each cell, nan without one, and whether all seeds diverged there, or some."""

    title: str
    loss: np.ndarray
    is_lost: np.ndarray
    is_partly_lost: np.ndarray
    start: float


@dataclass(frozen=True)
class Sheet:
    """The maps of one figure. With `is_shared` they are of learners in one scene, and have one scale of colours."""

    title: str
    maps: list[Map]
    row: Side
    column: Side
    is_shared: bool


def pairs(points: Points) -> list[tuple[str, str]]:
    """Pairs of settings to look at, the one for rows first: learners, what was searched, other texts."""
    texts = [name for name in points.cases if not is_problem(name) and points.varied[name].is_text]
    has_many = "learner" in texts and len(np.unique(points.values["learner"])) >= MANY_LEARNERS
    every = [*["learner"] * has_many, *points.searched, *(n for n in texts if n != "learner")]
    # Rows are texts where one of the two is: their names need the room.
    is_row = lambda name: points.varied[name].is_text
    return [(b, a) if is_row(b) and not is_row(a) else (a, b) for a, b in combinations(every, 2)]


def sheets(points: Points, row: str, column: str) -> Iterator[Sheet]:
    """The maps of a pair: a panel for each learner and a sheet for each scene; or else a panel for each scene."""
    both = np.flatnonzero(points.applies(row) & points.applies(column))
    apart = [name for name in points.cases if name not in (row, column)]
    is_shared = "learner" in apart
    outer = [name for name in apart if name != "learner"] if is_shared else []
    inner = ["learner"] if is_shared else apart
    if not any(_is_plane(points, row, column, among) for among in points.split(apart, both)):
        return
    for scene in points.split(outer, both):
        sides = _side(points, row, scene), _side(points, column, scene)
        maps = [
            Map(words.case(points.at(int(among[0]), inner)), *_cells(points, among, *sides), points.start(scene))
            for among in points.split(inner, scene)
            if points.varies(row, among) and points.varies(column, among)
        ]
        if maps:
            yield Sheet(words.case(points.at(int(scene[0]), outer)), maps, *sides, is_shared)


def _is_plane(points: Points, row: str, column: str, among: np.ndarray) -> bool:
    """Whether both settings vary among these points, and neither follows from the other."""
    if not (points.varies(row, among) and points.varies(column, among)):
        return False
    is_cloud = len(among) > 2 and not points.varied[row].is_text
    return is_cloud or any(points.varies(column, part) for part in points.split([row], among))


def _side(points: Points, name: str, among: np.ndarray) -> Side:
    values, about = points.values[name], points.varied[name]
    place = np.full(len(values), -1)
    if about.is_text:
        known = list(dict.fromkeys(values[among].tolist()))
        place[among] = [known.index(value) for value in values[among].tolist()]
        return Side(name, place, [words.shown(name, value) for value in known], True)
    known, own = np.unique(values[among], return_inverse=True)
    cases = points.split(points.cases, among)
    if len(known) <= MOST_VALUES and not any(points.is_scattered(name, case) for case in cases):
        place[among] = own
        return Side(name, place, [looks.tick(float(f"{value:.3g}")) for value in known.tolist()], False)
    count = min(max(int(math.sqrt(len(among) / len(cases))), LEAST_PARTS), MOST_PARTS)
    place[among] = points.parts_of_range(name, among, count)
    spaced = np.geomspace if about.is_log else np.linspace
    middles = spaced(known[0], known[-1], 2 * count + 1)[1::2]
    return Side(name, place, [looks.tick(float(f"{value:.2g}")) for value in middles.tolist()], False)


def _cells(points: Points, among: np.ndarray, row: Side, column: Side) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = len(row.labels), len(column.labels)
    loss, has_lost = np.full(shape, np.nan), np.zeros(shape, bool)
    for place in among[np.argsort(-points.rank[among])]:  # the best of a cell comes last, and stays
        cell = row.place[place], column.place[place]
        loss[cell], has_lost[cell] = points.mean[place], points.diverged[place] > 0
    return loss, has_lost & np.isnan(loss), has_lost & np.isfinite(loss)


def draw(sheet: Sheet, salt: str) -> Figure:
    """The maps of one sheet."""
    maps, row, column, is_shared = sheet.maps[:MOST_PANELS], sheet.row, sheet.column, sheet.is_shared
    with style(salt):
        columns = 1 if len(maps) == 1 else 2 if len(maps) <= 4 and not is_shared else 3 if len(maps) <= 6 else 4
        margin = min(0.5 + 0.055 * max(map(len, row.labels)), 1.4)
        each, most = (0.17, 3.4) if len(maps) > 1 else (0.24, 4.2)
        height = min(max(each * len(row.labels), 1.2), most)
        across = 0.25 if is_shared else 1.0
        # Few columns need not be as wide as the page.
        width = WIDEST * len(column.labels) * columns + across * (columns - 1)
        right = max(0.75, looks.WIDTH - margin - width)
        figure, drawn = looks.frame(len(maps), columns, height, left=margin, right=right, gaps=(across, 0.5))
        together = np.concatenate([shown.loss.ravel() for shown in maps])
        for number, (axes, shown) in enumerate(zip(drawn, maps, strict=True)):
            scale = _scale(together if is_shared else shown.loss, shown.start)
            _panel(axes, shown, row, column, scale)
            axes.set_title(looks.plain(shown.title, 30), pad=6)
            is_first, is_last = number % columns == 0, number >= len(maps) - columns
            _label(axes, row, column, is_first, is_last)
            if not is_shared or number == min(columns, len(maps)) - 1:
                _bar(figure, axes, scale)
    return figure


def _scale(losses: np.ndarray, start: float) -> Normalize:
    low, top = looks.loss_range(losses, start)
    top = top if top > low else low + (abs(low) or 1.0) * 0.01
    return LogNorm(low, top) if low > 0 and top / low > looks.WIDE else Normalize(low, top)


def _panel(axes: Axes, shown: Map, row: Side, column: Side, scale: Normalize) -> None:
    axes.imshow(np.ma.masked_invalid(shown.loss), cmap=SHADES, norm=scale, aspect="auto", interpolation="nearest")
    if not row.is_text:
        axes.invert_yaxis()
    y, x = np.nonzero(shown.is_partly_lost)
    axes.plot(x + 0.4, y + (-0.3 if row.is_text else 0.3), "x", color=MUTED, markersize=2.4, markeredgewidth=0.7)
    for y, x in np.argwhere(shown.is_lost).tolist():
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color="#eceef1", linewidth=0))
        axes.text(x, y, "×", ha="center", va="center", fontsize=6, color=MUTED)
    frame = {"fill": False, "edgecolor": BEST, "linewidth": 1.3, "zorder": 5, "clip_on": False}
    for y, x in _best(shown.loss, by_row=row.name == "learner"):
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **frame))
    width, height = _inches(axes)
    if width >= 0.34 * len(column.labels) and height >= 0.15 * len(row.labels):
        shades = ScalarMappable(scale, SHADES)
        for (y, x), loss in np.ndenumerate(shown.loss):
            if np.isfinite(loss):
                red, green, blue, _ = shades.to_rgba(loss)
                colour = ON_DARK if 0.3 * red + 0.59 * green + 0.11 * blue < 0.55 else ON_LIGHT
                axes.text(x, y, words.number(float(loss), 3), ha="center", va="center", fontsize=6, color=colour)


def _best(loss: np.ndarray, by_row: bool) -> list[tuple[int, int]]:
    """The best cell, or that of each row where rows are learners."""
    lowest = np.fmin.reduce(loss, axis=1 if by_row else None, keepdims=True)
    cells = [(y, x) for y, x in np.argwhere(loss == lowest).tolist()]
    return list({y: (y, x) for y, x in reversed(cells)}.values()) if by_row else cells[:1]


def _label(axes: Axes, row: Side, column: Side, is_first: bool, is_last: bool) -> None:
    width, height = _inches(axes)
    room = 0.1 + 0.065 * max(map(len, column.labels))
    every = max(1, math.ceil(len(column.labels) * room / width))
    axes.set_xticks(range(0, len(column.labels), every), [looks.plain(x, 12) for x in column.labels[::every]])
    every = max(1, math.ceil(len(row.labels) * 0.13 / height))
    axes.set_yticks(range(0, len(row.labels), every), [looks.plain(y, 18) for y in row.labels[::every]])
    axes.tick_params(length=0, labelleft=is_first)
    axes.spines[:].set_visible(False)
    if is_last:
        axes.set_xlabel(looks.plain(words.setting(column.name)))
    if is_first and row.name != "learner":
        axes.set_ylabel(looks.plain(words.sign(row.name), 24))


def _inches(axes: Axes) -> tuple[float, float]:
    """The width and the height of a panel."""
    box = axes.get_window_extent()
    return box.width / axes.figure.dpi, box.height / axes.figure.dpi


def _bar(figure: Figure, axes: Axes, scale: Normalize) -> None:
    """The scale of colours, to the right of a panel."""
    box = axes.get_position()
    place = figure.add_axes((box.x1 + 0.09 / looks.WIDTH, box.y0, 0.11 / looks.WIDTH, box.height))
    shades: Any = ScalarMappable(scale, SHADES)
    ticks = looks.log_ticks(scale.vmin or 1, scale.vmax or 1, 200) if isinstance(scale, LogNorm) else None
    bar = figure.colorbar(shades, cax=place, format=looks.tick, ticks=ticks)
    bar.outline.set_visible(False)
    place.tick_params(length=2, labelsize=6.5)
    place.minorticks_off()
    if box.height * figure.get_figheight() >= 1:
        place.set_title("loss", fontsize=6.5, fontweight="normal", pad=4, color=MUTED)


def caption(points: Points, sheet: Sheet) -> list[str]:
    """Sentences below the maps of a pair of settings."""
    sides = sheet.row, sheet.column
    has_others = any(name not in (side.name for side in sides) for name in points.searched)
    said = [f"Colour: the {'lowest ' * has_others}mean over seeds{' that the other settings allow' * has_others}."]
    if any(len(side.labels) < len(np.unique(points.values[side.name][side.place >= 0])) for side in sides):
        said.append("Ranges are cut into parts, named by their middles: a cell has the best of its points.")
    said.append("Framed: the best of each row." if sheet.row.name == "learner" else "Framed: the best of a panel.")
    if any(looks.is_above(one.loss, one.start) for one in sheet.maps):
        said.append("The palest colour also stands for all higher losses.")
    if any(one.is_lost.any() for one in sheet.maps):
        said.append("×: all seeds diverged.")
    if any(one.is_partly_lost.any() for one in sheet.maps):
        said.append(f"A small × in the corner: {looks.OTHERS_LEFT_OUT}")
    if any((np.isnan(one.loss) & ~one.is_lost).any() for one in sheet.maps):
        said.append("Empty: no point there" + (", or none finished." if points.missing.any() else "."))
    if len(sheet.maps) > MOST_PANELS:
        said.append(f"The first {MOST_PANELS} of {len(sheet.maps):,} panels.")
    return said
