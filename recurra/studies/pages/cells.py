"""Final losses over pairs of settings: which pairs to look at, and the best point in each cell."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from recurra.studies.pages import looks, words
from recurra.studies.pages.points import PROBLEM, Points

#: values of a setting that have a row or column each; beyond, its range is cut into parts, at least and at most so many
MOST_VALUES, LEAST_PARTS, MOST_PARTS = 24, 4, 16
#: fewer learners are lines that are easily told apart, and need no map of their own
MANY_LEARNERS = 4


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
    texts = [name for name in points.cases if name not in PROBLEM and points.varied[name].is_text]
    has_many = "learner" in texts and len(np.unique(points.values["learner"])) >= MANY_LEARNERS
    every = [*["learner"] * has_many, *points.searched, *(n for n in texts if n != "learner")]
    # Rows are texts where one of the two is: their names need the room.
    is_row = lambda name: points.varied[name].is_text
    turned = ((b, a) if is_row(b) and not is_row(a) else (a, b) for a, b in combinations(every, 2))
    return [pair for pair in turned if _is_plane(points, *pair)]


def _is_plane(points: Points, row: str, column: str) -> bool:
    """Whether both settings vary together somewhere: neither follows from the other."""
    both = np.flatnonzero(points.applies(row) & points.applies(column))
    apart = [name for name in points.cases if name not in (row, column)]
    return any(
        points.varies(row, among)
        and points.varies(column, among)
        and any(points.varies(column, part) for _, part in points.split([row], among))
        | (len(among) > 2 and not points.varied[row].is_text)
        for _, among in points.split(apart, both)
    )


def sheets(points: Points, row: str, column: str) -> Iterator[Sheet]:
    """The maps of a pair: a panel for each learner and a sheet for each scene; or else a panel for each scene."""
    both = np.flatnonzero(points.applies(row) & points.applies(column))
    apart = [name for name in points.cases if name not in (row, column)]
    outer = [name for name in apart if name != "learner"] if "learner" in apart else []
    for _, scene in points.split(outer, both):
        inner = [name for name in apart if name not in outer]
        sides = _side(points, row, scene), _side(points, column, scene)
        maps = []
        for _, among in points.split(inner, scene):
            if points.varies(row, among) and points.varies(column, among):
                title = words.case(points.at(int(among[0]), inner))
                maps.append(Map(title, *_cells(points, among, *sides), points.start(scene)))
        if maps:
            yield Sheet(words.case(points.at(int(scene[0]), outer)), maps, *sides, is_shared="learner" in apart)


def _side(points: Points, name: str, among: np.ndarray) -> Side:
    values, about = points.values[name], points.varied[name]
    place = np.full(len(values), -1)
    if about.is_text:
        known = list(dict.fromkeys(values[among].tolist()))
        place[among] = [known.index(value) for value in values[among].tolist()]
        return Side(name, place, [words.shown(name, value) for value in known], True)
    known, own = np.unique(values[among], return_inverse=True)
    cases = [own for _, own in points.split(points.cases, among)]
    if len(known) <= MOST_VALUES and not any(points.is_scattered(name, case) for case in cases):
        place[among] = own
        return Side(name, place, [looks.tick(float(f"{value:.3g}")) for value in known.tolist()], False)
    count = min(max(int(math.sqrt(len(among) / len(cases))), LEAST_PARTS), MOST_PARTS)
    is_log = about.is_log and known[0] > 0
    ends = np.geomspace(known[0], known[-1], count + 1) if is_log else np.linspace(known[0], known[-1], count + 1)
    place[among] = np.clip(np.searchsorted(ends, values[among], side="right") - 1, 0, count - 1)
    middles = np.sqrt(ends[1:] * ends[:-1]) if is_log else (ends[1:] + ends[:-1]) / 2
    return Side(name, place, [looks.tick(float(f"{value:.2g}")) for value in middles.tolist()], False)


def _cells(points: Points, among: np.ndarray, row: Side, column: Side) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = len(row.labels), len(column.labels)
    loss, is_lost, is_partly_lost = np.full(shape, np.nan), np.zeros(shape, bool), np.zeros(shape, bool)
    ordered = among[np.argsort(points.rank[among])]
    cell = row.place[ordered] * shape[1] + column.place[ordered]
    which, first = np.unique(cell, return_index=True)
    best = ordered[first]
    loss.flat[which], has_none, has_lost = points.mean[best], np.isnan(points.mean[best]), points.diverged[best] > 0
    is_lost.flat[which], is_partly_lost.flat[which] = has_none & has_lost, ~has_none & has_lost
    return loss, is_lost, is_partly_lost
