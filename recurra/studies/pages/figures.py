"""The figures of a study's page, each with its title and caption."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from recurra.pages.page import PageFigure
from recurra.studies.pages import against, captions, cells, curves, looks, maps, words
from recurra.studies.pages.choosing import Chosen
from recurra.studies.pages.lines import Panel, panels
from recurra.studies.pages.points import Points

if TYPE_CHECKING:
    import xarray

#: settings that have a figure, and figures of pairs
MOST_SETTINGS, MOST_MAPS = 8, 8


def all_figures(data: "xarray.Dataset", points: Points, found: list[Chosen]) -> Iterator[PageFigure]:
    """Loss against each setting, over pairs of them, and while networks learn."""
    if not np.isfinite(points.mean).any():
        return
    numbers = {name: panels(points, name) for name, how in points.varied.items() if not how.is_text}
    numbers = {name: found for name, found in numbers.items() if _has_losses(found)}
    for number, (name, found_panels) in enumerate(list(numbers.items())[:MOST_SETTINGS]):
        left = list(numbers)[MOST_SETTINGS:] if number == MOST_SETTINGS - 1 else []
        yield from _against(points, name, found_panels, f"against-{number}", left)
    yield from _maps(points)
    yield from _curves(data, points, found)


def _has_losses(found: list[Panel]) -> bool:
    return any((line.best >= 0).any() for panel in found for line in panel.lines)


def _against(points: Points, name: str, every: list[Panel], salt: str, left: list[str]) -> Iterator[PageFigure]:
    shown, title = every[: against.MOST_PANELS], f"Final loss against {words.setting(name)}"
    caption = captions.of_lines(points, name, shown)
    if len(every) > len(shown):
        caption.append(f"The first {len(shown)} of {len(every):,} panels.")
    if left:
        caption.append(f"Settings without a figure, to keep the page small: {', '.join(map(words.short, left))}.")
    yield PageFigure(salt, title, " ".join(caption), against.together(points, name, shown))
    if not against.has_few_lines(shown):
        caption = captions.of_single_lines(points, shown)
        yield PageFigure(f"{salt}-apart", f"{title}: seeds", " ".join(caption), against.apart(points, name, shown))


def _maps(points: Points) -> Iterator[PageFigure]:
    """A figure for each pair and, where a pair needs a panel for each learner, for each scene."""
    every = [sheet for pair in cells.pairs(points) for sheet in cells.sheets(points, *pair)]
    every = [sheet for sheet in every if any(np.isfinite(shown.loss).any() for shown in sheet.maps)]
    for number, sheet in enumerate(every[:MOST_MAPS]):
        title = f"{words.heading(sheet.row.name)} and {words.setting(sheet.column.name)}"
        caption = captions.of_maps(points, sheet)
        if number == MOST_MAPS - 1 and len(every) > MOST_MAPS:
            caption.append(f"{len(every) - MOST_MAPS:,} further maps are left out, to keep the page small.")
        yield PageFigure(
            f"map-{number}",
            f"{title}: {sheet.title}" if sheet.title else title,
            " ".join(caption),
            maps.draw(sheet, f"map-{number}"),
        )


def _curves(data: "xarray.Dataset", points: Points, found: list[Chosen]) -> Iterator[PageFigure]:
    setting = looks.line_setting(points)
    scenes: dict[str, list[Chosen]] = {}
    for each in found:
        if each.position is not None:
            rest = {name: value for name, value in each.case.items() if name != setting}
            scenes.setdefault(words.case(rest), []).append(each)
    if data.sizes["window"] < 2:
        return
    caption = "Mean loss over seeds in each window of steps, at the settings of the table"
    caption += ", with its standard error. Seeds that diverged are left out." if len(points.seeds) > 1 else "."
    if len(scenes) > curves.MOST_PANELS:
        caption += f" The first {curves.MOST_PANELS} of {len(scenes):,} panels."
    title = "Learning curves" + " of the best settings" * any(each.of > 1 for each in found)
    yield PageFigure("curves", title, caption, curves.draw(data, points, setting, scenes))
