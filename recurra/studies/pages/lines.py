"""Final loss against one setting: a line for each learner, what seeds make of it, and where they diverged.

`panels` finds what there is to draw: the best points at each value of the setting, and where networks diverged.
`together` and `apart` draw it, and `caption` and `caption_apart` say what is seen.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from recurra.pages.plots import FAINT, style
from recurra.studies.pages import looks, words
from recurra.studies.pages.points import Points

#: parts of a range, where each point has a value of its own: of the lowest losses, and of what diverged
PARTS, FINE_PARTS = 12, 40
#: panels of a figure with all lines, and of one with a panel for each line; lines of a panel
MOST_PANELS, MOST_SINGLE, MOST_LINES = 8, 48, 20
#: with more lines in a panel than this, seeds are shown in panels of their own
FEW_LINES = 3
#: seeds, and values, of which each seed is a dot
FEW_SEEDS, FEW_VALUES = 12, 12
#: points of which each has the range of its seeds drawn (of more, only those on the line), and points beyond which dots
#: are a picture rather than shapes
FEW_POINTS, MANY_POINTS = 80, 600
#: inches of one row of squares
ROW = 0.075


@dataclass(frozen=True)
class Curve:
    """Losses of a case against a setting: the best point at each value, or in each part of the range."""

    label: str
    look: dict[str, Any]
    x: np.ndarray
    #: mean losses of the best points; nan where none has one
    y: np.ndarray
    #: places of the best points; -1 where none has a loss
    best: np.ndarray
    #: all points, where each has a value of its own
    dots: np.ndarray | None
    #: where networks diverged, and which share of them
    lost_x: np.ndarray
    lost: np.ndarray
    #: whether no other number varies along the line
    is_only: bool


@dataclass(frozen=True)
class Panel:
    """Lines that can be compared."""

    title: str
    start: float
    lines: list[Curve]


def panels(points: Points, name: str) -> list[Panel]:
    """What there is to draw against a setting."""
    setting = looks.line_setting(points, (name,))
    scenes = [case for case in points.cases if case not in (name, setting)]
    found = []
    for among in points.split(scenes, np.flatnonzero(points.applies(name))):
        lines = [
            _line(points, name, own, setting)
            for own in points.split([setting] if setting else [], among)
            if points.varies(name, own) and not points.is_missing[own].all()
        ]
        if lines:
            found.append(Panel(words.case(points.at(int(among[0]), scenes)), points.start(among), lines))
    return found


def _line(points: Points, name: str, own: np.ndarray, setting: str | None) -> Curve:
    values = points.values[name]
    tried = np.unique(values[own])
    is_scattered = points.is_scattered(name, own)
    parts = points.parts_of_range(name, own, PARTS) if is_scattered else values[own]
    best = np.array([points.best(own[parts == part]) for part in np.unique(parts)], float)
    known = np.isfinite(best)
    best = np.where(known, best, -1).astype(int)
    fine = points.parts_of_range(name, own, FINE_PARTS) if len(tried) > FINE_PARTS else values[own]
    each = [own[fine == part] for part in np.unique(fine)]
    lost = np.array([points.diverged[part].sum() / max((~points.is_missing[part]).sum(), 1) for part in each])
    label, look = looks.line_look(points, setting, int(own[0]), len(tried))
    return Curve(
        label=label,
        look=look,
        x=np.where(known, values[best], np.nan) if is_scattered else tried,
        y=np.where(known, points.mean[best], np.nan),
        best=best,
        dots=own if is_scattered else None,
        lost_x=np.array([np.median(values[part]) for part in each])[lost > 0],
        lost=lost[lost > 0],
        is_only=not any(other != name and points.varies(other, own) for other in points.searched),
    )


def has_few_lines(shown: list[Panel]) -> bool:
    """Whether seeds find room beside the lines."""
    return max(len(panel.lines) for panel in shown) <= FEW_LINES


def together(points: Points, name: str, shown: list[Panel]) -> Figure:
    """All lines of a panel in one."""
    with style(name):
        rows = [sum(len(line.lost) > 0 for line in panel.lines[:MOST_LINES]) for panel in shown]
        labels = {line.label: line.look for panel in shown for line in panel.lines[:MOST_LINES]}
        right = 1.5 if any(labels) else 0.15
        above = ROW * max(rows) + 0.37
        figure, drawn = looks.frame(len(shown), 2, 2.7, right=right, top=above, gaps=(0.6, 0.5 + above))
        for axes, panel, own in zip(drawn, shown, rows, strict=True):
            _draw(points, name, axes, panel, panel.lines[:MOST_LINES], has_few_lines(shown))
            axes.set_title(looks.plain(panel.title, 60), pad=6 + 72 * ROW * own)
            axes.set(xlabel=looks.plain(words.setting(name)), ylabel="final loss")
        if any(labels):
            looks.legend(figure, labels, right)
    return figure


def apart(points: Points, name: str, shown: list[Panel]) -> Figure:
    """A panel for each line, with its seeds; the others are grey."""
    with style(f"{name}-apart"):
        pairs = [(panel, line) for panel in shown for line in panel.lines][:MOST_SINGLE]
        has_squares = any(len(line.lost) for _, line in pairs)
        figure, drawn = looks.frame(len(pairs), 4, 1.35, top=0.42, gaps=(0.5, 0.62))
        for number, (axes, (panel, line)) in enumerate(zip(drawn, pairs, strict=True)):
            _draw(points, name, axes, panel, [line], True, many=False)
            for other in panel.lines:
                axes.plot(*_cut(other.x, other.y, axes.get_ylim()[1]), color=FAINT, linewidth=0.8, zorder=1)
            text = f"{line.label}, {panel.title}" if panel.title else line.label
            axes.set_title(looks.plain(text, 32), pad=6 + 72 * ROW * has_squares, fontsize=8)
            if number % 4 == 0:
                axes.set_ylabel("final loss")
            if number >= len(pairs) - 4:
                axes.set_xlabel(looks.plain(words.setting(name)))
    return figure


def _draw(
    points: Points, name: str, axes: Axes, panel: Panel, lines: list[Curve], with_seeds: bool, many: bool = True
) -> None:
    """Lines into a panel whose axes are those of all its lines."""
    seen = [line.y for line in panel.lines]
    seen += [points.mean[line.dots] for line in panel.lines if line.dots is not None]
    seen += [points.final[line.best[line.best >= 0]].ravel() for line in panel.lines if with_seeds]
    values = [line.x if line.dots is None else points.values[name][line.dots] for line in panel.lines]
    looks.value_axis(axes, np.concatenate(values), points.varied[name].is_log, many)
    looks.loss_axis(axes, np.concatenate(seen), panel.start)
    for line in lines:
        _one(points, name, axes, line, with_seeds)
    height = axes.get_window_extent().height / axes.figure.dpi
    place = {"transform": axes.get_xaxis_transform(), "clip_on": False, "linewidths": 0, "marker": "s"}
    for row, line in enumerate(line for line in lines if len(line.lost)):
        y = 1 + (0.075 + ROW * row) / height
        shades = [to_rgba(line.look["color"], 0.2 + 0.8 * share) for share in line.lost]
        axes.scatter(line.lost_x, np.full(len(line.lost), y), s=14, c=shades, **place)


def _one(points: Points, name: str, axes: Axes, line: Curve, with_seeds: bool) -> None:
    x, y, colour, top = line.x, line.y, line.look["color"], axes.get_ylim()[1]
    if line.dots is not None:
        _dots(points, name, axes, line)
    elif with_seeds and len(points.seeds) > 1:
        _seeds(points, axes, line)
    known = line.best >= 0
    partly = known & (points.diverged[line.best] > 0)
    thin = {"linestyle": line.look["linestyle"], "linewidth": 1.0, "alpha": 0.6, "color": colour}
    axes.plot(*_cut(x, y, top), **(thin if partly.any() or line.dots is not None else line.look))
    if partly.any() and line.dots is None:
        axes.plot(*_cut(x, np.where(partly, np.nan, y), top), **line.look)
    hollow = {"linestyle": "none", "markerfacecolor": "white", "color": colour, "zorder": 5}
    axes.plot(x[partly], y[partly], marker="o", markersize=3.6, markeredgewidth=0.9, **hollow)
    over = y > top
    over &= ~(np.append(over[1:], False) & np.insert(over[:-1], 0, False))  # not between two others
    edge = {"transform": axes.get_xaxis_transform(), "clip_on": False}
    axes.plot(x[over], np.ones(over.sum()), marker="^", markersize=4, markeredgewidth=0.9, **hollow, **edge)
    if known.any() and name in points.searched:
        place = line.best[known][np.argmin(points.rank[line.best[known]])]
        best = {"marker": "o", "markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.9, "zorder": 6}
        axes.plot(points.values[name][place], points.mean[place], color=colour, **best)


def _cut(x: np.ndarray, y: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    """A line that goes no higher than the panel; it is broken between two points that would."""
    breaks = np.flatnonzero((y[1:] > top) & (y[:-1] > top)) + 1
    return np.insert(x, breaks, np.nan), np.insert(np.minimum(y, top), breaks, np.nan)


def _seeds(points: Points, axes: Axes, line: Curve) -> None:
    """Each seed of the points that a line goes through, or the range of them."""
    known = line.best >= 0
    x, losses, colour = line.x[known], points.final[line.best[known]], line.look["color"]
    if len(points.seeds) <= FEW_SEEDS and len(line.x) <= FEW_VALUES:
        every = np.broadcast_to(x[:, None], losses.shape).ravel()
        axes.plot(every, losses.ravel(), ".", color=colour, markersize=5, alpha=0.5, markeredgewidth=0, zorder=2)
        return
    low, high = np.nanmin(losses, axis=1), np.nanmax(losses, axis=1)
    axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)


def _dots(points: Points, name: str, axes: Axes, line: Curve) -> None:
    """Every point, with the range of its seeds where there are few."""
    assert line.dots is not None
    known = line.dots[np.isfinite(points.mean[line.dots])]
    x, y, colour = points.values[name][known], points.mean[known], line.look["color"]
    is_many = len(known) > MANY_POINTS
    look = {"markersize": 2.5 if is_many else 6, "alpha": 0.35 if is_many else 0.75, "rasterized": is_many}
    axes.plot(x, y, ".", color=colour, markeredgewidth=0, zorder=2, **look)
    if len(points.seeds) > 1:
        barred = known if len(known) <= FEW_POINTS else line.best[line.best >= 0]
        low, high = np.nanmin(points.final[barred], axis=1), np.nanmax(points.final[barred], axis=1)
        axes.vlines(points.values[name][barred], low, high, color=colour, alpha=0.35, linewidth=0.8, zorder=2)


def caption(points: Points, name: str, shown: list[Panel]) -> list[str]:
    """Sentences below final loss against a setting."""
    lines = [line for panel in shown for line in panel.lines]
    most = max(len(panel.lines) for panel in shown)
    said = [_meaning(lines)]
    if has_few_lines(shown):
        said.append(_spread(points, lines))
    if name in points.searched:
        said.append("A larger dot marks the best value.")
    if any(len(line.lost) for line in lines):
        said.append("Squares above a panel: networks with this value diverged, the stronger the colour the more.")
        said += ["Each line that has any has a row."] * (most > 1)
    if any((points.diverged[line.best[line.best >= 0]] > 0).any() for line in lines):
        said.append(f"Hollow dots: {looks.OTHERS_LEFT_OUT}")
    if any(looks.is_above(np.concatenate([line.y for line in panel.lines]), panel.start) for panel in shown):
        said.append("Triangles at the upper edge: the loss is higher than that, far above the loss at the start.")
    if most > MOST_LINES:
        said.append(f"Of {most:,} lines the first {MOST_LINES} are drawn.")
    return said


def caption_apart(points: Points, shown: list[Panel]) -> list[str]:
    """Sentences below the figure that has a panel for each line."""
    lines = [line for panel in shown for line in panel.lines]
    said = ["The same with one line to a panel; the others are grey.", _spread(points, lines)]
    if len(lines) > MOST_SINGLE:
        said.append(f"The first {MOST_SINGLE} of {len(lines):,} lines.")
    return said


def _meaning(lines: list[Curve]) -> str:
    if any(line.dots is not None for line in lines):
        return (
            "A dot is a point, the mean over its seeds. The line joins the best points of each twelfth of the range: "
            "the best that the other settings allow."
        )
    if all(line.is_only for line in lines):
        return "Mean over seeds. No other number varies along a line."
    return "At each value the mean over seeds of the best point that has it: the best that the other settings allow."


def _spread(points: Points, lines: list[Curve]) -> str:
    if len(points.seeds) == 1:
        return "There is one seed."
    if any(line.dots is not None for line in lines):
        return "Bars reach from the lowest to the highest seed."
    if len(points.seeds) <= FEW_SEEDS and all(len(line.x) <= FEW_VALUES for line in lines):
        return "Small dots are seeds."
    return "The band reaches from the lowest to the highest seed."
