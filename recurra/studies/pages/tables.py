"""A study in tables and sentences: the best settings and what must be said with them, and what diverged."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recurra.studies.pages import words
from recurra.studies.pages.choosing import LEAST_SEEDS, Chosen, alike, chosen_of
from recurra.studies.pages.points import Points, Value, is_problem

if TYPE_CHECKING:
    import xarray

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


def rows(data: "xarray.Dataset") -> Table:
    """The best settings of each case."""
    points = Points.read(data)
    return best_settings(points, chosen_of(points))


def best_settings(points: Points, found: list[Chosen]) -> Table:
    """The same, from what was chosen before."""
    has_halves, is_unfinished = len(points.seeds) >= LEAST_SEEDS, bool(points.missing.any())
    has_search = any(each.of > 1 for each in found)
    names = [name for name in points.cases if is_problem(name)]
    names += [*["learner"] * _has_learner(points), *(n for n in points.cases if n != "learner" and not is_problem(n))]
    header = [words.heading(name) for name in names]
    header += ["Final loss", *["On other seeds"] * (has_halves and has_search), "Diverged"]
    header += [*["Points"] * is_unfinished, *["Best settings", "As good"] * has_search]
    body = []
    for each in in_order(points, found):
        case = {"learner": points.only_learner or words.NONE, **each.case}
        row = [words.shown(name, case[name]) if name in case else words.NONE for name in names]
        row.append(words.with_error(each.mean, each.error))
        if has_halves and has_search:
            row.append(words.alike_digits(each.held_out, each.error))
        row.append(_diverged(points, each))
        if is_unfinished:
            row.append(f"{each.points:,} of {each.of:,}")
        if has_search:
            is_tested = len(points.seeds) > 1 and each.point is not None
            row += [_settings(each), f"{len(each.alike):,}" if is_tested else words.NONE]
        body.append(tuple(row))
    return Table(tuple(header), body, notes(points, found), len(names), sum(map(is_problem, names)))


def in_order(points: Points, found: list[Chosen]) -> list[Chosen]:
    """What can be compared together, best first."""
    scenes = {each: number for number, each in enumerate(dict.fromkeys(scene(one) for one in found))}
    return sorted(found, key=lambda each: (scenes[scene(each)], np.isnan(each.mean), each.mean))


def scene(each: Chosen) -> tuple[tuple[str, float | str], ...]:
    """What a case is to learn, and for how long: only losses of one scene are compared."""
    return tuple((name, value) for name, value in each.case.items() if is_problem(name))


def rest(each: Chosen) -> dict[str, float | str]:
    """What a case is apart from that."""
    return {name: value for name, value in each.case.items() if not is_problem(name)}


def _has_learner(points: Points) -> bool:
    return "learner" in points.cases or points.only_learner is not None


def _diverged(points: Points, each: Chosen) -> str:
    run = len(points.seeds) - each.missing
    if each.point is None:
        run = each.of * len(points.seeds) - each.missing
    return f"{each.diverged:,} of {run:,}" if run else words.NONE


def _settings(each: Chosen) -> str:
    at_edge = {name: " (edge)" if name in each.edges else "" for name in each.settings}
    parts = [words.settings({name: value}) + at_edge[name] for name, value in each.settings.items()]
    return ", ".join(parts) or words.NONE


def notes(points: Points, found: list[Chosen]) -> list[str]:
    """What a reader of the table must know."""
    said = ["Final loss: the mean over seeds, with its standard error, of the point with the lowest mean."]
    if not any(each.of > 1 for each in found):
        said = ["Final loss: the mean over seeds, with its standard error."]
    if len(points.seeds) == 1:
        said = ["Final loss is that of one seed: how much it varies from seed to seed is not known."]
    elif points.diverged.any() and any(each.of > 1 for each in found):
        said.append("A point at which a seed diverged is only chosen where every point has one.")
    if any(each.of > 1 for each in found):
        if len(points.seeds) > 1:
            said.append(
                "As good: other points that cannot be told from the best, p > 0.05 in a t-test of the differences "
                "between their losses on the same seeds."
            )
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
    some = [each for each in found if each.point is not None and each.diverged]
    if some:
        said.append(f"Seeds diverged at every point{_of(some)}: the mean is over those that did not.")
    lost = [each for each in found if each.point is None and each.diverged]
    all_lost = [each for each in lost if not each.missing]
    if all_lost:
        said.append(f"All networks diverged{_of(all_lost)}.")
    rest = [each for each in found if each.point is None and each.missing]
    if rest:
        said.append(f"No network has a final loss yet{_of(rest)}.")
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


def in_words(points: Points, each: Chosen) -> dict[str, float | str]:
    """A case with its learner first, also where there is only one."""
    learner = each.case.get("learner", points.only_learner)
    return ({} if learner is None else {"learner": learner}) | each.case


def diverged(points: Points) -> Table:
    """The points at which seeds diverged, which seeds, and when."""
    header = ("Point", "Settings", "Diverged", "Seeds", "At step")
    lost = np.flatnonzero(points.diverged)
    body = []
    for position in lost[:MOST_ROWS].tolist():
        steps = points.diverged_at[position]
        own = steps >= 0
        low, high = int(steps[own].min()), int(steps[own].max())
        body.append(
            (
                f"{int(points.number[position])}",
                words.case(points.at(position, points.varied)) or words.NONE,
                f"{int(own.sum())} of {len(own) - int(points.missing[position])}",
                words.numbers(points.seeds[own].tolist()),
                f"{low:,}" if low == high else f"{low:,}–{high:,}",
            )
        )
    left = len(lost) - len(body)
    said = [f"The first {len(body):,} of {len(lost):,} points; the data set has them all."] if left else []
    return Table(header, body, said, 2)


def best_in_words(points: Points, found: list[Chosen]) -> list[str]:
    """A sentence for each scene: who is best, and who cannot be told from it."""
    said = []
    scenes: dict[tuple[tuple[str, float | str], ...], list[Chosen]] = {}
    for each in in_order(points, found):
        scenes.setdefault(scene(each), []).append(each)
    for key, cases in scenes.items():
        best = cases[0]
        if best.position is None:
            continue
        where = f"{words.case(dict(key))}: " if key else ""
        who = _who(best, points.only_learner)
        at = f" at {words.settings(best.settings)}" if best.settings else ""
        if len(cases) == 1:
            said.append(f"{where}{who or 'Loss'} reaches {words.with_error(best.mean, best.error)}{at}.")
            continue
        others = np.array([each.position for each in cases if each.position is not None])
        near = set(alike(points, best.position, others).tolist())
        names = [_who(each, None) for each in cases if each.position in near]
        told = f"; {words.listed(names, 6)} cannot be told from it" if names else ""
        said.append(f"{where}{who} is lowest, {words.with_error(best.mean, best.error)}{at}{told}.")
    return said


def _who(each: Chosen, learner: Value | None) -> str:
    """A case apart from its scene, `RFLO with adam`, with this learner where the case has none."""
    others = rest(each)
    learner = others.pop("learner", learner)
    name = "" if learner is None else words.shown("learner", learner)
    return " with ".join(filter(None, (name, " + ".join(words.named(*other) for other in others.items()))))


def networks(points: Points, failures: list[dict[str, Any]]) -> str:
    """How many networks there are, and what became of them."""
    total, missing, lost = points.final.size, int(points.missing.sum()), int(points.diverged.sum())
    seeds, many = words.count(len(points.seeds), "seed"), len(points.number) != 1
    rows = f"{len(points.number):,} points (combinations of settings)" if many else "one point"
    said = f"{words.count(total, 'network')}: {rows} with {seeds}{' each' * many}."
    if not missing:
        said += " All are finished." if total > 1 else " It is finished."
    else:
        said += f" {total - missing:,} are finished, {missing:,} are not."
    if lost:
        share = 100 * lost / (total - missing)
        where = words.count(int((points.diverged > 0).sum()), "point")
        said += f" {lost:,} of the finished ({words.number(share, 2)} %) diverged, at {where}."
    else:
        said += " None diverged." if missing < total else ""
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
    place = {int(number): position for position, number in enumerate(points.number.tolist())}
    said = []
    for each in in_order(points, found):
        texts = [words.settings(points.at(place[number], points.searched)) for number in each.alike]
        if texts:
            rest = f"; and {len(texts) - most:,} more" if len(texts) > most else ""
            said.append((words.case(in_words(points, each)) or "best", "; ".join(texts[:most]) + rest))
    return said
