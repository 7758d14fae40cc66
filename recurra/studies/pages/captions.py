"""What is said below figures: what lines, dots and colours mean, as far as they occur, and what was left out."""

import numpy as np

from recurra.studies.pages import against, looks, maps
from recurra.studies.pages.cells import Sheet
from recurra.studies.pages.lines import Line, Panel
from recurra.studies.pages.points import Points

OTHERS_LEFT_OUT = "some seeds diverged, and the mean is over the others."


def of_lines(points: Points, name: str, shown: list[Panel]) -> list[str]:
    """Sentences below final loss against a setting."""
    lines = [line for panel in shown for line in panel.lines]
    most = max(len(panel.lines) for panel in shown)
    said = [_meaning(lines)]
    if against.has_few_lines(shown):
        said.append(_spread(points, lines))
    if name in points.searched:
        said.append("A larger dot marks the best value.")
    if any(len(line.lost) for line in lines):
        said.append("Squares above a panel: networks with this value diverged, the darker the more of them.")
        said += ["Each line that has any has a row."] * (most > 1)
    if any((points.diverged[line.best[line.best >= 0]] > 0).any() for line in lines):
        said.append(f"Hollow dots: {OTHERS_LEFT_OUT}")
    if any(_is_cut(points, panel) for panel in shown):
        said.append("Triangles at the upper edge: the loss is higher than that, far above the loss at the start.")
    if most > against.MOST_LINES:
        said.append(f"Of {most:,} lines the first {against.MOST_LINES} are drawn.")
    return said


def of_single_lines(points: Points, shown: list[Panel]) -> list[str]:
    """Sentences below the figure that has a panel for each line."""
    lines = [line for panel in shown for line in panel.lines]
    said = ["The same with one line to a panel; the others are grey.", _spread(points, lines)]
    if len(lines) > against.MOST_SINGLE:
        said.append(f"The first {against.MOST_SINGLE} of {len(lines):,} lines.")
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
    if len(points.seeds) <= against.FEW_SEEDS and all(len(line.x) <= against.FEW_VALUES for line in lines):
        return "Small dots are seeds."
    return "The band reaches from the lowest to the highest seed."


def _is_cut(points: Points, panel: Panel) -> bool:
    means = np.concatenate([against.means(points, line) for line in panel.lines])
    return is_above(means, panel.start)


def is_above(losses: np.ndarray, start: float) -> bool:
    """Whether some loss lies beyond the end of the axis."""
    known = losses[np.isfinite(losses)]
    return bool(len(known)) and bool(known.max() > looks.loss_range(losses, start)[1])


def of_maps(points: Points, sheet: Sheet) -> list[str]:
    """Sentences below the maps of a pair of settings."""
    sides = sheet.row, sheet.column
    has_others = any(name not in (side.name for side in sides) for name in points.searched)
    said = [f"Colour: the {'lowest ' * has_others}mean over seeds{' that the other settings allow' * has_others}."]
    if any(len(side.labels) < len(np.unique(points.values[side.name][side.place >= 0])) for side in sides):
        said.append("Ranges are cut into parts, named by their middles: a cell has the best of its points.")
    said.append("Framed: the best of each row." if sheet.row.name == "learner" else "Framed: the best of a panel.")
    if any(is_above(one.loss, one.start) for one in sheet.maps):
        said.append("The palest colour also stands for all higher losses.")
    if any(one.is_lost.any() for one in sheet.maps):
        said.append("×: all seeds diverged.")
    if any(one.is_partly_lost.any() for one in sheet.maps):
        said.append(f"A small × in the corner: {OTHERS_LEFT_OUT}")
    if any((np.isnan(one.loss) & ~one.is_lost).any() for one in sheet.maps):
        said.append("White: no point there" + (", or none finished." if points.missing.any() else "."))
    if len(sheet.maps) > maps.MOST_PANELS:
        said.append(f"The first {maps.MOST_PANELS} of {len(sheet.maps):,} panels.")
    return said
