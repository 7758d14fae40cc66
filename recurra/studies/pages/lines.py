"""Final loss against one setting: a line for each learner, what seeds make of it, and where they diverged.

`panels` finds what there is to draw: the best points at each value of the setting, and where networks diverged.
`together` and `apart` draw it, and `caption` and `caption_apart` say what is seen.
"""

from dataclasses import dataclass, field
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
class Line:
    """Losses of a case against a setting: the best point at each value, or in each part of the range."""

    label: str
    look: dict[str, Any]
    x: np.ndarray
    #: places of the best points; -1 where none has a loss
    best: np.ndarray
    #: all points, where each has a value of its own
    dots: np.ndarray | None
    #: where networks diverged, and which share of them
    lost_x: np.ndarray
    lost: np.ndarray
    is_only: bool = field(default=False)


@dataclass(frozen=True)
class Panel:
    """Lines that can be compared."""

    title: str
    start: float
    lines: list[Line]


def panels(points: Points, name: str) -> list[Panel]:
    """What there is to draw against a setting."""
    setting = looks.line_setting(points, (name,))
    scenes = [case for case in points.cases if case not in (name, setting)]
    look = looks.looks(points, setting)
    found = []
    for _, among in points.split(scenes, np.flatnonzero(points.applies(name))):
        lines = []
        for value, own in points.split([setting] if setting else [], among):
            if points.varies(name, own) and (points.missing[own] < len(points.seeds)).any():
                first = value[0] if value else ""
                lines.append(
                    _line(
                        points,
                        name,
                        own,
                        looks.named(points, setting, first),
                        look(first, len(np.unique(points.values[name][own]))),
                    )
                )
        if lines:
            found.append(Panel(words.case(points.at(int(among[0]), scenes)), points.start(among), lines))
    return found


def _line(points: Points, name: str, own: np.ndarray, label: str, look: dict[str, Any]) -> Line:
    others = [other for other in points.searched if other != name and points.varies(other, own)]
    values = points.values[name]
    is_scattered = points.is_scattered(name, own)
    parts = _parts(values[own], points.varied[name].is_log, PARTS) if is_scattered else values[own]
    best = [points.best(own[parts == part]) for part in np.unique(parts)]
    fine = len(np.unique(values[own])) > FINE_PARTS
    lost_parts = _parts(values[own], points.varied[name].is_log, FINE_PARTS) if fine else values[own]
    each = [own[lost_parts == part] for part in np.unique(lost_parts)]
    run = [len(points.seeds) * len(part) - int(points.missing[part].sum()) for part in each]
    share = np.array([points.diverged[part].sum() / max(count, 1) for part, count in zip(each, run, strict=True)])
    x = [values[place] if place is not None else np.nan for place in best] if is_scattered else np.unique(parts)
    return Line(
        label=label,
        look=look,
        x=np.array(x, float),
        best=np.array([-1 if place is None else place for place in best], np.int64),
        dots=own if is_scattered else None,
        lost_x=np.array([np.median(values[part]) for part in each])[share > 0],
        lost=share[share > 0],
        is_only=not others,
    )


def _parts(values: np.ndarray, is_log: bool, count: int) -> np.ndarray:
    """The number of the part of the range in which each value lies."""
    scaled = np.log(values) if is_log and values.min() > 0 else values
    return np.minimum((scaled - scaled.min()) / (scaled.max() - scaled.min()) * count, count - 1).astype(int)


def has_few_lines(shown: list[Panel]) -> bool:
    """Whether seeds find room beside the lines."""
    return max(len(panel.lines) for panel in shown) <= FEW_LINES


def together(points: Points, name: str, shown: list[Panel]) -> Figure:
    """All lines of a panel in one."""
    with style(name):
        rows = max(sum(len(line.lost) > 0 for line in panel.lines[:MOST_LINES]) for panel in shown)
        labels = {line.label: line.look for panel in shown for line in panel.lines[:MOST_LINES]}
        right = 1.5 if any(labels) else 0.15
        above = ROW * rows + 0.37
        gaps = (0.6, 0.5 + above)
        figure, drawn = looks.frame(len(shown), 2, 2.7, right=right, top=above, gaps=gaps)
        for axes, panel in zip(drawn, shown, strict=True):
            _draw(points, name, axes, panel, panel.lines[:MOST_LINES], has_few_lines(shown))
            own = sum(len(line.lost) > 0 for line in panel.lines[:MOST_LINES])
            looks.title(axes, panel.title, 6 + 72 * ROW * own)
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
                cut = _cut(other.x, means(points, other), axes.get_ylim()[1])
                axes.plot(*cut, color=FAINT, linewidth=0.8, zorder=1)
            text = f"{line.label}, {panel.title}" if panel.title else line.label
            looks.title(axes, text, 6 + 72 * ROW * has_squares, most=32)
            axes.title.set_fontsize(8)
            if number % 4 == 0:
                axes.set_ylabel("final loss")
            if number >= len(pairs) - 4:
                axes.set_xlabel(looks.plain(words.setting(name)))
    return figure


def means(points: Points, line: Line) -> np.ndarray:
    """Mean losses along a line; nan where no network has one."""
    return np.where(line.best < 0, np.nan, points.mean[line.best])


def _draw(
    points: Points, name: str, axes: Axes, panel: Panel, lines: list[Line], with_seeds: bool, many: bool = True
) -> None:
    """Lines into a panel whose axes are those of all its lines."""
    seen = [means(points, line) for line in panel.lines]
    seen += [points.mean[line.dots] for line in panel.lines if line.dots is not None]
    seen += [points.final[line.best[line.best >= 0]].ravel() for line in panel.lines if with_seeds]
    values = np.concatenate([_values(points, name, line) for line in panel.lines])
    looks.value_axis(axes, values, points.varied[name].is_log, many)
    looks.loss_axis(axes, np.concatenate(seen), panel.start)
    row = 0
    for line in lines:
        _one(points, name, axes, line, with_seeds)
        if len(line.lost):
            height = axes.get_window_extent().height / axes.figure.dpi
            y = 1 + (0.075 + ROW * row) / height
            shades = [to_rgba(line.look["color"], 0.2 + 0.8 * share) for share in line.lost]
            place = {"transform": axes.get_xaxis_transform(), "clip_on": False, "linewidths": 0, "marker": "s"}
            axes.scatter(line.lost_x, np.full(len(line.lost), y), s=14, c=shades, **place)
            row += 1


def _values(points: Points, name: str, line: Line) -> np.ndarray:
    every = line.x if line.dots is None else points.values[name][line.dots]
    return every[np.isfinite(every)]


def _one(points: Points, name: str, axes: Axes, line: Line, with_seeds: bool) -> None:
    x, y, colour = line.x, means(points, line), line.look["color"]
    top = axes.get_ylim()[1]
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
    over = known & (np.nan_to_num(y) > top)
    over &= ~_inner(over)
    edge = {"transform": axes.get_xaxis_transform(), "clip_on": False}
    axes.plot(x[over], np.ones(over.sum()), marker="^", markersize=4, markeredgewidth=0.9, **hollow, **edge)
    if known.any() and name in points.searched:
        place = line.best[known][np.argmin(points.rank[line.best[known]])]
        best = {"marker": "o", "markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.9, "zorder": 6}
        axes.plot(points.values[name][place], points.mean[place], color=colour, **best)


def _cut(x: np.ndarray, y: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    """A line that goes no higher than the panel; it is broken between two points that would."""
    over = np.nan_to_num(y) > top
    breaks = np.flatnonzero(over[1:] & over[:-1]) + 1
    cut = np.where(_inner(over), np.nan, np.where(over, top, y))
    return np.insert(x, breaks, np.nan), np.insert(cut, breaks, np.nan)


def _inner(over: np.ndarray) -> np.ndarray:
    """Points whose neighbours on both sides are beyond the panel too."""
    return np.append(over[1:], False) & np.insert(over[:-1], 0, False) & over


def _seeds(points: Points, axes: Axes, line: Line) -> None:
    """Each seed of the points that a line goes through, or the range of them."""
    known = line.best >= 0
    x, losses, colour = line.x[known], points.final[line.best[known]], line.look["color"]
    if len(points.seeds) <= FEW_SEEDS and len(line.x) <= FEW_VALUES:
        every = np.broadcast_to(x[:, None], losses.shape).ravel()
        axes.plot(every, losses.ravel(), ".", color=colour, markersize=5, alpha=0.5, markeredgewidth=0, zorder=2)
        return
    low, high = np.nanmin(losses, axis=1), np.nanmax(losses, axis=1)
    axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)


def _dots(points: Points, name: str, axes: Axes, line: Line) -> None:
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
    if any(_is_cut(points, panel) for panel in shown):
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


def _meaning(lines: list[Line]) -> str:
    if any(line.dots is not None for line in lines):
        return (
            "A dot is a point, the mean over its seeds. The line joins the best points of each twelfth of the range: "
            "the best that the other settings allow."
        )
    if all(line.is_only for line in lines):
        return "Mean over seeds. No other number varies along a line."
    return "At each value the mean over seeds of the best point that has it: the best that the other settings allow."


def _spread(points: Points, lines: list[Line]) -> str:
    if len(points.seeds) == 1:
        return "There is one seed."
    if any(line.dots is not None for line in lines):
        return "Bars reach from the lowest to the highest seed."
    if len(points.seeds) <= FEW_SEEDS and all(len(line.x) <= FEW_VALUES for line in lines):
        return "Small dots are seeds."
    return "The band reaches from the lowest to the highest seed."


def _is_cut(points: Points, panel: Panel) -> bool:
    return looks.is_above(np.concatenate([means(points, line) for line in panel.lines]), panel.start)
