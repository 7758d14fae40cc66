"""A study in tables and sentences: the best settings and what must be said with them, and what diverged."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray

from recurra.studies.pages import words
from recurra.studies.pages.choosing import LEAST_SEEDS, Chosen, alike, chosen_of
from recurra.studies.pages.points import Points, Value, is_problem

#: rows of the table of what diverged
MOST_ROWS = 200
#: scenes that are named in a sentence
MOST_SCENES = 8


@dataclass(frozen=True)
class Table:
    """Texts of a table: over the columns, in the rows, and below. The first `names` columns say what a row is of.

    Rows that differ in the first `scene` columns are set apart.
    """

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str]
    names: int = 1
    scene: int = 0

    @staticmethod
    def of(rows: list[dict[str, str]], notes: list[str], names: int, scene: int = 0) -> "Table":
        """A table of rows that say what is over each column."""
        return Table(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows], notes, names, scene)


def rows(data: xarray.Dataset) -> Table:
    """The best settings of each case."""
    points = Points.read(data)
    return best_settings(points, chosen_of(points))


def best_settings(points: Points, found: list[Chosen]) -> Table:
    """The same, from what was chosen before."""
    has_search = any(each.of > 1 for each in found)
    names = points.cases if points.only_learner is None else ["learner", *points.cases]
    names = sorted(names, key=lambda name: (not is_problem(name), name != "learner"))
    body = []
    for each in in_order(found):
        case = in_words(points, each)
        row = {words.heading(name): words.shown(name, case.get(name, words.NONE)) for name in names}
        row["Final loss"] = words.with_error(each.mean, each.error)
        if has_search and len(points.seeds) >= LEAST_SEEDS:
            row["On other seeds"] = words.alike_digits(each.held_out, each.error)
        row["Diverged"] = _diverged(points, each)
        if points.missing.any():
            row["Points"] = f"{each.points:,} of {each.of:,}"
        if has_search:
            is_tested = len(points.seeds) > 1 and each.point is not None
            row["Best settings"] = _settings(each)
            row["As good"] = f"{len(each.alike):,}" if is_tested else words.NONE
        body.append(row)
    return Table.of(body, notes(points, found), len(names), sum(map(is_problem, names)))


def in_order(found: list[Chosen]) -> list[Chosen]:
    """What can be compared together, best first."""
    scenes = list(dict.fromkeys(map(scene, found)))
    return sorted(found, key=lambda each: (scenes.index(scene(each)), np.isnan(each.mean), each.mean))


def scene(each: Chosen) -> tuple[tuple[str, Value], ...]:
    """What a case is to learn, and for how long: only losses of one scene are compared."""
    return tuple((name, value) for name, value in each.case.items() if is_problem(name))


def rest(each: Chosen) -> dict[str, Value]:
    """What a case is apart from that."""
    return {name: value for name, value in each.case.items() if not is_problem(name)}


def _diverged(points: Points, each: Chosen) -> str:
    run = len(points.seeds) * (1 if each.point is not None else each.of) - each.missing
    return f"{each.diverged:,} of {run:,}" if run else words.NONE


def _settings(each: Chosen) -> str:
    one = lambda name, value: words.settings({name: value}) + " (edge)" * (name in each.edges)
    return ", ".join(one(*setting) for setting in each.settings.items()) or words.NONE


def notes(points: Points, found: list[Chosen]) -> list[str]:
    """What a reader of the table must know."""
    has_search, has_one_seed = any(each.of > 1 for each in found), len(points.seeds) == 1
    of = ", of the point with the lowest mean" * has_search
    said = [f"Final loss: the mean over seeds, with its standard error{of}."]
    if has_one_seed:
        said = ["Final loss is that of one seed: how much it varies from seed to seed is not known."]
    if has_search and not has_one_seed:
        if points.diverged.any():
            said.append("A point at which a seed diverged is only chosen where every point has one.")
        said.append(
            "As good: other points that cannot be told from the best, p > 0.05 in a t-test of the differences "
            "between their losses on the same seeds."
        )
    if has_search:
        said.append(_curse(points, found))
    return [*said, *warnings(points, found)]


def _curse(points: Points, found: list[Chosen]) -> str:
    said = "The lowest of many noisy means is too low on average: settings chosen for luck lose it on other seeds."
    if len(points.seeds) < LEAST_SEEDS:
        return f"{said} With {LEAST_SEEDS} seeds or more, one half can choose and the other judge."
    said += " On other seeds: the mean over seeds if half of them choose and the other half judges, both ways."
    gaps = [(each.held_out - each.mean) / each.error for each in found if each.error > 0 and np.isfinite(each.held_out)]
    if gaps:
        middle = float(np.median(gaps))
        side = "above" if middle >= 0 else "below"
        said += f" Here it lies {abs(middle):.1f} standard errors {side} the final loss, in the median of the rows."
    return said


def warnings(points: Points, found: list[Chosen]) -> list[str]:
    """What should be looked at before the table is believed: ranges too narrow, and cases that went wrong."""
    said = []
    edges: dict[tuple[str, str, bool], list[Chosen]] = {}
    for each in found:
        for name, end in each.edges.items():
            edges.setdefault((name, end, name in each.inside), []).append(each)
    for (name, end, is_inside), cases in edges.items():
        advice = "but values inside the range are as good" if is_inside else "widen the range"
        where = f"The best {words.short(name)} lies at the edge, the {end} values"
        said.append(f"{where}{_of(cases)}: {advice}.")
    if some := [each for each in found if each.point is not None and each.diverged]:
        said.append(f"Seeds diverged at every point{_of(some)}: the mean is over those that did not.")
    without = [each for each in found if each.point is None]
    if lost := [each for each in without if not each.missing]:
        said.append(f"All networks diverged{_of(lost)}.")
    if waiting := [each for each in without if each.missing]:
        said.append(f"No network has a final loss yet{_of(waiting)}.")
    return said


def _of(cases: list[Chosen]) -> str:
    """The cases in brackets, by scene."""
    scenes: dict[str, list[str]] = {}
    for each in cases:
        names = scenes.setdefault(words.case(dict(scene(each))), [])
        names += filter(None, [words.case(rest(each)).replace(", ", " ")])
    parts = [": ".join(filter(None, (where, words.listed(names, 12)))) for where, names in scenes.items()]
    more = f"; and {len(parts) - MOST_SCENES:,} more" if len(parts) > MOST_SCENES else ""
    return f" ({'; '.join(parts[:MOST_SCENES])}{more})" if any(parts) else ""


def in_words(points: Points, each: Chosen) -> dict[str, Value]:
    """A case with its learner first, also where there is only one."""
    return {name: value for name, value in {"learner": points.only_learner, **each.case}.items() if value is not None}


def diverged(points: Points) -> Table:
    """The points at which seeds diverged, which seeds, and when."""
    lost = np.flatnonzero(points.diverged)
    body = []
    for position in lost[:MOST_ROWS].tolist():
        own = points.diverged_at[position] >= 0
        steps = points.diverged_at[position][own]
        body.append(
            {
                "Point": f"{points.number[position]}",
                "Settings": words.case(points.at(position, points.varied)) or words.NONE,
                "Diverged": f"{own.sum()} of {len(own) - points.missing[position]}",
                "Seeds": words.numbers(points.seeds[own].tolist()),
                "At step": "–".join(f"{step:,}" for step in sorted({steps.min(), steps.max()})),
            }
        )
    said = [f"The first {len(body):,} of {len(lost):,} points; the data set has them all."]
    return Table.of(body, said if len(lost) > len(body) else [], 2)


def best_in_words(points: Points, found: list[Chosen]) -> list[str]:
    """A sentence for each scene: who is best, and who cannot be told from it."""
    said = []
    for key, group in itertools.groupby(in_order(found), scene):
        best, *others = group
        if best.position is None:
            continue
        where = f"{words.case(dict(key))}: " if key else ""
        who = _who({"learner": points.only_learner or "", **rest(best)})
        loss = words.with_error(best.mean, best.error)
        at = f" at {words.settings(best.settings)}" if best.settings else ""
        if not others:
            said.append(f"{where}{who or 'Loss'} reaches {loss}{at}.")
            continue
        known = np.array([each.position for each in others if each.position is not None], int)
        near = alike(points, best.position, known)
        names = [_who(rest(each)) for each in others if each.position in near]
        told = f"; {words.listed(names, 6)} cannot be told from it" if names else ""
        said.append(f"{where}{who} is lowest, {loss}{at}{told}.")
    return said


def _who(case: dict[str, Value]) -> str:
    """A case apart from its scene: `RFLO with adam`."""
    others = " + ".join(words.named(name, value) for name, value in case.items() if name != "learner")
    return " with ".join(filter(None, (words.shown("learner", case.get("learner", "")), others)))


def networks(points: Points, failures: list[dict[str, Any]]) -> str:
    """How many networks there are, and what became of them."""
    total, missing, lost = points.final.size, int(points.missing.sum()), int(points.diverged.sum())
    seeds = words.count(len(points.seeds), "seed")
    of = f"{len(points.number):,} points (combinations of settings) with {seeds} each"
    if len(points.number) == 1:
        of = f"one point with {seeds}"
    said = f"{words.count(total, 'network')}: {of}."
    if missing:
        said += f" {total - missing:,} are finished, {missing:,} are not."
    else:
        said += " All are finished." if total > 1 else " It is finished."
    if lost:
        share = words.number(100 * lost / (total - missing), 2)
        where = words.count(int(np.count_nonzero(points.diverged)), "point")
        said += f" {lost:,} of the finished ({share} %) diverged, at {where}."
    elif missing < total:
        said += " None diverged."
    if failures:
        size = sum(len(each.get("points", ())) for each in failures)
        said += f" {words.count(len(failures), 'group')} of networks failed, at {words.count(size, 'point')}."
    return said


def unfinished(points: Points) -> str:
    """What to know of a study that is not finished; nothing where it is."""
    missing, total = int(points.missing.sum()), points.final.size
    if not missing:
        return ""
    if missing == total:
        return "Unfinished: no network is finished yet."
    return (
        f"Unfinished: this page is of the {total - missing:,} networks so far, out of {total:,}. Any of it may change."
    )


def alike_in_words(points: Points, found: list[Chosen], most: int = 6) -> list[tuple[str, str]]:
    """For each case that has them, the points as good as the best, by their settings."""
    place = {number: position for position, number in enumerate(points.number.tolist())}
    said = []
    for each in in_order(found):
        texts = [words.settings(points.at(place[number], points.searched)) for number in each.alike]
        if texts:
            rest = f"; and {len(texts) - most:,} more" if len(texts) > most else ""
            said.append((words.case(in_words(points, each)) or "best", "; ".join(texts[:most]) + rest))
    return said
