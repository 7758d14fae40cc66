"""What there is to draw against one setting: the best points at each of its values, and where networks diverged."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recurra.studies.pages import looks, words
from recurra.studies.pages.points import Points

#: parts of a range, where each point has a value of its own: of the lowest losses, and of what diverged
PARTS, FINE_PARTS = 12, 40


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
