"""The page of a study, one file that needs no other and no network; and its figures, each with title and caption."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from recurra import __version__
from recurra.pages.page import PageFigure, write_page
from recurra.pages.plots import style
from recurra.studies.pages import lines, looks, maps, tables, words
from recurra.studies.pages.choosing import Chosen, chosen_of
from recurra.studies.pages.lines import Panel
from recurra.studies.pages.points import Points, error_of, mean_of

PAGE = "index.html"
#: failures, and rows of a table that are shown without being asked for
MOST_FAILURES, FEW_ROWS = 50, 12
#: settings that have a figure, and figures of pairs
MOST_SETTINGS, MOST_MAPS = 8, 8
#: panels of learning curves, curves in a panel, and points of a curve
MOST_CURVE_PANELS, MOST_CURVES, MOST_WINDOWS = 8, 20, 120


def write_study(folder: Path, data: xarray.Dataset, name: str) -> Path:
    """Write the page of a study of this name, finished or not; returns its path."""
    points = Points.read(data)
    found = chosen_of(points)
    made = json.loads(data.attrs.get("made", "{}"))
    failures = made.pop("failures", [])
    best = tables.best_settings(points, found)
    cautions = tables.warnings(points, found)
    content = {
        "name": name,
        "words": words,
        "networks": tables.networks(points, failures),
        "unfinished": tables.unfinished(points),
        "verdicts": tables.best_in_words(points, found),
        "best": best,
        "cautions": cautions,
        "notes": [note for note in best.notes if note not in cautions],
        "figures": list(all_figures(data, points, found)),
        "alike": tables.alike_in_words(points, found),
        "diverged": tables.diverged(points),
        "few": FEW_ROWS,
        "failures": failures[:MOST_FAILURES],
        "more_failures": max(len(failures) - MOST_FAILURES, 0),
        "settings": _flat(points.fixed),
        "made": {**_flat(made), "page made with": f"recurra {__version__}"},
        "study": data.attrs.get("study", ""),
    }
    return write_page(folder / PAGE, "recurra.studies.pages", content)


def _flat(values: dict[str, Any]) -> dict[str, str]:
    """Settings as texts; tables within tables by dotted names."""
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": text for inner, text in _flat(value).items()}
        elif isinstance(value, bool):
            flat[key] = str(value).lower()
        else:
            flat[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat


def all_figures(data: xarray.Dataset, points: Points, found: list[Chosen]) -> Iterator[PageFigure]:
    """Loss against each setting, over pairs of them, and while networks learn."""
    if not np.isfinite(points.mean).any():
        return
    numbers = {name: lines.panels(points, name) for name, how in points.varied.items() if not how.is_text}
    has_losses = lambda panels: any(np.isfinite(line.y).any() for panel in panels for line in panel.lines)
    drawn = [(name, panels) for name, panels in numbers.items() if has_losses(panels)]
    for number, (name, panels) in enumerate(drawn[:MOST_SETTINGS]):
        left = [name for name, _ in drawn[MOST_SETTINGS:]] if number == MOST_SETTINGS - 1 else []
        yield from _against(points, name, panels, f"against-{number}", left)
    yield from _maps(points)
    if data.sizes["window"] > 1:
        yield _curves(data, points, found)


def _against(points: Points, name: str, every: list[Panel], salt: str, left: list[str]) -> Iterator[PageFigure]:
    shown, title = every[: lines.MOST_PANELS], f"Final loss against {words.setting(name)}"
    caption = lines.caption(points, name, shown)
    if len(every) > len(shown):
        caption.append(f"The first {len(shown)} of {len(every):,} panels.")
    if left:
        caption.append(f"Settings without a figure, to keep the page small: {', '.join(map(words.short, left))}.")
    yield PageFigure(salt, title, " ".join(caption), lines.together(points, name, shown))
    if not lines.has_few_lines(shown):
        caption = lines.caption_apart(points, shown)
        yield PageFigure(f"{salt}-apart", f"{title}: seeds", " ".join(caption), lines.apart(points, name, shown))


def _maps(points: Points) -> Iterator[PageFigure]:
    """A figure for each pair and, where a pair needs a panel for each learner, for each scene."""
    every = [sheet for pair in maps.pairs(points) for sheet in maps.sheets(points, *pair)]
    every = [sheet for sheet in every if any(np.isfinite(shown.loss).any() for shown in sheet.maps)]
    for number, sheet in enumerate(every[:MOST_MAPS]):
        title = f"{words.heading(sheet.row.name)} and {words.setting(sheet.column.name)}"
        title += f": {sheet.title}" * bool(sheet.title)
        caption = maps.caption(points, sheet)
        if number == MOST_MAPS - 1 and len(every) > MOST_MAPS:
            caption.append(f"{len(every) - MOST_MAPS:,} further maps are left out, to keep the page small.")
        yield PageFigure(f"map-{number}", title, " ".join(caption), maps.draw(sheet, f"map-{number}"))


def _curves(data: xarray.Dataset, points: Points, found: list[Chosen]) -> PageFigure:
    setting = looks.line_setting(points)
    scenes: dict[str, list[int]] = {}
    for each in found:
        if each.position is not None:
            rest = {name: value for name, value in each.case.items() if name != setting}
            scenes.setdefault(words.case(rest), []).append(each.position)
    caption = "Mean loss over seeds in each window of steps, at the settings of the table"
    caption += ", with its standard error. Seeds that diverged are left out." if len(points.seeds) > 1 else "."
    if len(scenes) > MOST_CURVE_PANELS:
        caption += f" The first {MOST_CURVE_PANELS} of {len(scenes):,} panels."
    title = "Learning curves" + " of the best settings" * any(each.of > 1 for each in found)
    return PageFigure("curves", title, caption, draw_curves(data, points, setting, scenes))


def draw_curves(data: xarray.Dataset, points: Points, setting: str | None, scenes: dict[str, list[int]]) -> Figure:
    """Panels by their titles, a line for each position: the mean over seeds, and a band of its standard error."""
    used: dict[str, dict[str, Any]] = {}
    with style("curves"):
        shown = list(scenes.items())[:MOST_CURVE_PANELS]
        has_names = setting is not None or points.only_learner is not None
        right = 1.5 if has_names else 0.15
        figure, drawn = looks.frame(len(shown), 2, 2.9, right=right, gaps=(0.6, 0.9))
        for axes, (title, positions) in zip(drawn, shown, strict=True):
            curves = [curve(data, points, position) for position in positions[:MOST_CURVES]]
            for (step, mean, error), position in zip(curves, positions, strict=False):
                label, used[label] = looks.line_look(points, setting, position, len(step))
                axes.plot(step, mean, **used[label])
                band = {"color": used[label]["color"], "alpha": 0.16, "linewidth": 0, "zorder": 2}
                axes.fill_between(step, mean - error, mean + error, **band)
            seen = [seen for _, mean, error in curves for seen in (mean, mean - error, mean + error)]
            start = float(np.nanmedian([mean[0] for _, mean, _ in curves]))
            looks.loss_axis(axes, np.concatenate(seen), start, usual=98)
            looks.value_axis(axes, np.array([0.0, *(step[-1] for step, _, _ in curves)]), False)
            axes.set_title(looks.plain(title, 60), pad=6)
            axes.set(xlabel="steps", ylabel="loss")
        if has_names:
            looks.legend(figure, used, right)
    return figure


def curve(data: xarray.Dataset, points: Points, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, mean loss over the seeds that did not diverge, and its standard error; neighbouring windows are joined."""
    step = data["step"].values
    step = (step[position] if step.ndim > 1 else step).astype(float)
    loss = data["loss"].values[position][np.isfinite(points.final[position])]
    used = (step > 0) & np.isfinite(loss).any(axis=0)
    step, loss = step[used], loss[:, used]
    join = math.ceil(len(step) / MOST_WINDOWS) or 1
    starts = range(0, len(step), join)
    joined = np.array([mean_of(loss[:, start : start + join]) for start in starts])
    ends = np.array([step[start : start + join][-1] for start in starts])
    return ends, mean_of(joined), error_of(joined)
