"""Final loss over two settings at once: the best of the others, as colours."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recurra.pages.plots import MUTED, ON_DARK, ON_LIGHT, style
from recurra.studies.pages import looks, words
from recurra.studies.pages.cells import Map, Sheet, Side

MOST_PANELS = 24
#: inches of the widest cell
WIDEST = 0.9
SHADES = "YlGnBu_r"
BEST = "#d1491b"


def draw(sheet: Sheet, salt: str) -> Figure:
    """The maps of one sheet."""
    maps, row, column, is_shared = sheet.maps[:MOST_PANELS], sheet.row, sheet.column, sheet.is_shared
    with style(salt):
        columns = 1 if len(maps) == 1 else 2 if len(maps) <= 4 and not is_shared else 3 if len(maps) <= 6 else 4
        rows = len(row.labels)
        longest = max(len(label) for label in row.labels)
        margin = min(0.5 + 0.055 * longest, 1.4)
        height = min(max(0.17 * rows, 1.2), 3.4) if len(maps) > 1 else min(max(0.24 * rows, 1.2), 4.2)
        across = 0.25 if is_shared else 1.0
        # Few columns need not be as wide as the page.
        width = WIDEST * len(column.labels) * columns + across * (columns - 1)
        right = max(0.75, looks.WIDTH - margin - width)
        figure, drawn = looks.frame(len(maps), columns, height, left=margin, right=right, gaps=(across, 0.5))
        together = np.concatenate([shown.loss.ravel() for shown in maps])
        for number, (axes, shown) in enumerate(zip(drawn, maps, strict=True)):
            scale = _scale(together if is_shared else shown.loss, shown.start)
            _panel(axes, shown, row, column, scale)
            looks.title(axes, shown.title, most=30)
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
    for y, x in np.argwhere(shown.is_partly_lost).tolist():
        axes.plot(x + 0.4, y + (-0.3 if row.is_text else 0.3), "x", color=MUTED, markersize=2.4, markeredgewidth=0.7)
    for y, x in np.argwhere(shown.is_lost).tolist():
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color="#eceef1", linewidth=0))
        axes.text(x, y, "×", ha="center", va="center", fontsize=6, color=MUTED)
    for y, x in _best(shown.loss, by_row=row.name == "learner"):
        axes.add_patch(
            Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=BEST, linewidth=1.3, zorder=5, clip_on=False)
        )
    box = axes.get_window_extent()
    wide, high = (
        size / axes.figure.dpi for size in (box.width / shown.loss.shape[1], box.height / shown.loss.shape[0])
    )
    if wide >= 0.34 and high >= 0.15:
        shades = ScalarMappable(scale, SHADES)
        for (y, x), loss in np.ndenumerate(shown.loss):
            if np.isfinite(loss):
                red, green, blue, _ = shades.to_rgba(loss)
                colour = ON_DARK if 0.3 * red + 0.59 * green + 0.11 * blue < 0.55 else ON_LIGHT
                axes.text(x, y, words.number(float(loss), 3), ha="center", va="center", fontsize=6, color=colour)


def _best(loss: np.ndarray, by_row: bool) -> list[tuple[int, int]]:
    """The best cell, or that of each row where rows are learners."""
    if not np.isfinite(loss).any():
        return []
    if by_row:
        return [(y, int(np.nanargmin(line))) for y, line in enumerate(loss) if np.isfinite(line).any()]
    y, x = divmod(int(np.nanargmin(loss)), loss.shape[1])
    return [(y, x)]


def _label(axes: Axes, row: Side, column: Side, is_first: bool, is_last: bool) -> None:
    width = axes.get_window_extent().width / axes.figure.dpi
    room = 0.1 + 0.065 * max(len(label) for label in column.labels)
    every = max(1, math.ceil(len(column.labels) * room / width))
    axes.set_xticks(range(0, len(column.labels), every), [looks.plain(x, 12) for x in column.labels[::every]])
    height = axes.get_window_extent().height / axes.figure.dpi
    every = max(1, math.ceil(len(row.labels) * 0.13 / height))
    texts = [looks.plain(y, 18) for y in row.labels[::every]]
    axes.set_yticks(range(0, len(row.labels), every), texts if is_first else [""] * len(texts))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if is_last:
        axes.set_xlabel(looks.plain(words.setting(column.name)))
    if is_first and row.name != "learner":
        axes.set_ylabel(looks.plain(words.sign(row.name), 24))


def _bar(figure: Figure, axes: Axes, scale: Normalize) -> None:
    """The scale of colours, to the right of a panel."""
    box = axes.get_position()
    place = figure.add_axes((box.x1 + 0.09 / looks.WIDTH, box.y0, 0.11 / looks.WIDTH, box.height))
    shades: Any = ScalarMappable(scale, SHADES)
    bar = figure.colorbar(shades, cax=place, format=lambda value, _: looks.tick(float(value)))
    if isinstance(scale, LogNorm):
        bar.locator = looks.loss_ticks(float(scale.vmin or 1), float(scale.vmax or 1))
        bar.update_ticks()
    bar.outline.set_visible(False)
    place.tick_params(length=2, labelsize=6.5)
    place.minorticks_off()
    if box.height * figure.get_figheight() >= 1:
        place.set_title("loss", fontsize=6.5, fontweight="normal", pad=4, color=MUTED)
