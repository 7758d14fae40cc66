"""A study in a few sentences: how many networks, what became of them, and who learns best."""

from typing import Any

import numpy as np

from recurra.studies.pages import words
from recurra.studies.pages.choosing import Chosen, alike
from recurra.studies.pages.points import Points, Value
from recurra.studies.pages.tables import in_order, in_words, rest, scene


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
