"""The page of a study, one file that needs no other and no network; and its figures, each with title and caption."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from recurra import __version__
from recurra.pages.page import PageFigure, write_page
from recurra.pages.plots import style
from recurra.studies.pages import lines, looks, maps, tables, words
from recurra.studies.pages.choosing import Chosen, chosen_of
from recurra.studies.pages.lines import Panel, panels
from recurra.studies.pages.points import Points, error_of, mean_of

if TYPE_CHECKING:
    import xarray

PAGE = "index.html"
#: failures, and rows of a table that are shown without being asked for
MOST_FAILURES, FEW_ROWS = 50, 12
#: settings that have a figure, and figures of pairs
MOST_SETTINGS, MOST_MAPS = 8, 8
#: panels of learning curves, curves in a panel, and points of a curve
MOST_CURVE_PANELS, MOST_CURVES, MOST_WINDOWS = 8, 20, 120


def write_study(folder: Path, data: "xarray.Dataset", name: str) -> Path:
    """Write the page of a study of this name, finished or not; returns its path."""
    return write_page(folder / PAGE, "recurra.studies.pages", _content(data, name))


def _content(data: "xarray.Dataset", name: str) -> dict[str, Any]:
    points = Points.read(data)
    found = chosen_of(points)
    made = json.loads(data.attrs.get("made", "{}"))
    failures = made.pop("failures", [])
    best = tables.best_settings(points, found)
    cautions = tables.warnings(points, found)
    return {
        "name": name,
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
        "failures": [_failure(each) for each in failures[:MOST_FAILURES]],
        "more_failures": max(len(failures) - MOST_FAILURES, 0),
        "settings": _flat(points.fixed),
        "made": {**_flat(made), "page made with": f"recurra {__version__}"},
        "study": data.attrs.get("study", ""),
    }


def _failure(failure: dict[str, Any]) -> tuple[str, str]:
    return f"points {words.numbers(failure.get('points', []))}", str(failure.get("reason", ""))


def _flat(values: dict[str, Any]) -> dict[str, str]:
    """Settings as texts; tables within tables by dotted names."""
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": text for inner, text in _flat(value).items()}
        elif isinstance(value, list):
            flat[key] = ", ".join(map(str, value))
        else:
            flat[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


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
        caption = maps.caption(points, sheet)
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
    if len(scenes) > MOST_CURVE_PANELS:
        caption += f" The first {MOST_CURVE_PANELS} of {len(scenes):,} panels."
    title = "Learning curves" + " of the best settings" * any(each.of > 1 for each in found)
    yield PageFigure("curves", title, caption, draw_curves(data, points, setting, scenes))


def draw_curves(data: "xarray.Dataset", points: Points, setting: str | None, scenes: dict[str, list[Chosen]]) -> Figure:
    """Panels by their titles, a line for each case: the mean over seeds, and a band of its standard error."""
    look = looks.looks(points, setting)
    used: dict[str, dict[str, Any]] = {}
    with style("curves"):
        shown = list(scenes.items())[:MOST_CURVE_PANELS]
        has_names = setting is not None or points.only_learner is not None
        right = 1.5 if has_names else 0.15
        figure, drawn = looks.frame(len(shown), 2, 2.9, right=right, gaps=(0.6, 0.9))
        for axes, (title, cases) in zip(drawn, shown, strict=True):
            seen, starts = [], []
            for each in cases[:MOST_CURVES]:
                assert each.position is not None
                step, mean, error = curve(data, points, each.position)
                value = each.case.get(setting, "") if setting else ""
                own = look(value, len(step))
                used[looks.named(points, setting, value)] = own
                axes.plot(step, mean, **own)
                band = {"color": own["color"], "alpha": 0.16, "linewidth": 0, "zorder": 2}
                axes.fill_between(step, mean - error, mean + error, **band)
                seen += [mean, mean - error, mean + error]
                starts.append(mean[:1])
            looks.loss_axis(axes, np.concatenate(seen), float(np.nanmedian(np.concatenate(starts))), usual=98)
            looks.value_axis(axes, np.array([0.0, max(float(line.get_xdata()[-1]) for line in axes.lines)]), False)  # type: ignore[index]
            looks.title(axes, title)
            axes.set(xlabel="steps", ylabel="loss")
        if has_names:
            looks.legend(figure, used, right)
    return figure


def curve(data: "xarray.Dataset", points: Points, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, mean loss over the seeds that did not diverge, and its standard error; neighbouring windows are joined."""
    step = data["step"].values
    step = (step[position] if step.ndim > 1 else step).astype(float)
    loss = data["loss"].values[position][np.isfinite(points.final[position])]
    used = (step > 0) & np.isfinite(loss).any(axis=0)
    step, loss = step[used], loss[:, used]
    join = math.ceil(len(step) / MOST_WINDOWS) or 1
    starts = range(0, len(step), join)
    joined = np.array([mean_of(loss[:, start : start + join]) for start in starts]).reshape(len(starts), len(loss))
    ends = np.array([step[min(start + join, len(step)) - 1] for start in starts])
    return ends, mean_of(joined), error_of(joined)
