"""Which settings are best in each case, and how sure that is.

The best point is the one with the lowest mean final loss over seeds. A point at which a seed diverged is only chosen
where every point has one: then it is among those with the fewest.

Networks of one seed share their first weights and their data. So two points are compared by the differences between
their losses on the same seeds: these vary less than the losses do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from recurra.studies.pages.points import Points, Value, error_of, mean_of, ranked

if TYPE_CHECKING:
    import xarray

#: the level of the paired t-tests
LEVEL = 0.05
#: the least number of seeds of which one half chooses and the other judges
LEAST_SEEDS = 4
#: a loss of so many times the first is not one of a network that learns
RISEN = 2.0
#: of fewer values than this one or all are at an end
LEAST_VALUES = 3
#: a value this part of the range from its end is as good as at the end
NEAR = 0.05
#: ends beyond which a setting makes no sense, so that nobody can widen the range
ENDS = {("alpha", "highest"): 1.0, ("n", "lowest"): 1.0}


@dataclass(frozen=True)
class Chosen:
    """The best point of a case, which is a combination of learner, task and other texts.

    `point` is its number in the study, None where no network has a final loss. `mean` and `error` are over the seeds
    that did not diverge, `seeds` of them. `settings` are those that were searched; `edges` names those whose best value
    lies at an end of the range, and `inside` those of them of which an inner value is as good. `alike` are numbers of
    points that a paired t-test over seeds cannot tell from the best, best first. `held_out` is the mean loss over
    seeds, each at the point that the half without it chooses; nan with fewer than four seeds. `points` counts the
    case's points that have a loss, out of `of`.
    """

    case: dict[str, Value]
    point: int | None
    settings: dict[str, Value]
    mean: float
    error: float
    seeds: int
    diverged: int
    missing: int
    edges: dict[str, str]
    inside: tuple[str, ...]
    alike: tuple[int, ...]
    held_out: float
    points: int
    of: int
    #: the place of the best point in arrays
    position: int | None = field(repr=False)


def chosen(data: "xarray.Dataset") -> list[Chosen]:
    """The best point of each case, as the cases come in the study."""
    return chosen_of(Points.read(data))


def chosen_of(points: Points) -> list[Chosen]:
    """The same, from what was read before."""
    return [_choose(points, among) for _, among in points.split(points.cases)]


def _choose(points: Points, among: np.ndarray) -> Chosen:
    best = points.best(among)
    case = points.at(int(among[0]), points.cases)
    known = int(np.isfinite(points.mean[among]).sum())
    if best is None:
        none = float("nan")
        lost = int(points.diverged[among].sum()), int(points.missing[among].sum())
        return Chosen(case, None, {}, none, none, 0, *lost, {}, (), (), none, 0, len(among), None)
    ends, others = edges(points, best, among), alike(points, best, among)
    return Chosen(
        case=case,
        point=int(points.number[best]),
        settings=points.at(best, points.searched),
        mean=float(points.mean[best]),
        error=float(points.error[best]),
        seeds=int(np.isfinite(points.final[best]).sum()),
        diverged=int(points.diverged[best]),
        missing=int(points.missing[best]),
        edges=ends,
        inside=inside(points, ends, others, among),
        alike=tuple(int(points.number[other]) for other in others),
        held_out=held_out(points, among),
        points=known,
        of=len(among),
        position=best,
    )


def alike(points: Points, best: int, among: np.ndarray) -> np.ndarray:
    """Points that differ from the best by no more than chance would have it: p > 0.05 in a paired t-test over seeds.

    Those at which more seeds diverged than at the best do not count, nor those that share fewer than two seeds with it.
    A seed whose loss rose to twice its start, or more, counts as diverged here: a single loss of 10⁵ would else make
    the standard error so large that nothing could be told apart.
    """
    from scipy.special import stdtrit

    has_risen = points.final >= RISEN * points.start(among)
    lost = points.diverged + has_risen.sum(axis=1)
    others = among[(among != best) & (lost[among] <= lost[best])]
    difference = points.final[others] - points.final[best]
    count = np.isfinite(difference).sum(axis=1)
    mean, error = mean_of(difference), error_of(difference)
    with np.errstate(invalid="ignore"):
        is_alike = (count > 1) & (np.abs(mean) <= stdtrit(np.maximum(count - 1, 1), 1 - LEVEL / 2) * error)
    found = others[is_alike]
    return found[np.argsort(points.rank[found])]


def edges(points: Points, best: int, among: np.ndarray) -> dict[str, str]:
    """The settings whose best value lies at an end of its range, though the range could be wider, and at which."""
    found = {}
    for name in points.searched:
        values = points.values[name]
        tried = np.unique(values[among][points.applies(name)[among]])
        if points.varied[name].is_text or np.isnan(values[best]) or len(tried) < LEAST_VALUES:
            continue
        is_log = points.varied[name].is_log
        place = place_in_range(values[among], values[best], is_log)
        end = "lowest" if place <= NEAR else "highest" if place >= 1 - NEAR else None
        if end is not None and not _is_end_of_sense(name, end, values[among], is_log):
            found[name] = end
    return found


def inside(points: Points, names: Iterable[str], alike: np.ndarray, among: np.ndarray) -> tuple[str, ...]:
    """Those of the named settings of which a value further inside the range is as good as the best."""
    found = []
    for name in names:
        values, is_log = points.values[name], points.varied[name].is_log
        places = [place_in_range(values[among], value, is_log) for value in values[alike].tolist()]
        if any(NEAR < place < 1 - NEAR for place in places):
            found.append(name)
    return tuple(found)


def _is_end_of_sense(name: str, end: str, values: np.ndarray, is_log: bool) -> bool:
    """Whether the range reaches, or almost reaches, the end beyond which the setting makes no sense."""
    if (name, end) not in ENDS:
        return False
    place = place_in_range(values, ENDS[name, end], is_log)
    return place <= 1 + NEAR if end == "highest" else place >= -NEAR


def place_in_range(values: np.ndarray, value: float, is_log: bool) -> float:
    """Where a value lies between the lowest, 0, and the highest, 1."""
    values = values[np.isfinite(values)]
    scale = np.log if is_log and min(values.min(), value) > 0 else np.asarray
    low, high = float(scale(values.min())), float(scale(values.max()))
    return (float(scale(value)) - low) / (high - low)


def held_out(points: Points, among: np.ndarray) -> float:
    """The mean loss over all seeds, each at the point that the half without it chooses.

    It is too high rather than too low: half of the seeds choose less well than all of them.
    """
    if points.final.shape[1] < LEAST_SEEDS:
        return float("nan")
    judged = []
    for first, second in ((0, 1), (1, 0)):
        own, others = points.final[among, first::2], points.final[among, second::2]
        diverged = (points.diverged_at[among, first::2] >= 0).sum(axis=1)
        missing = points.is_missing[among, first::2].sum(axis=1)
        if np.isfinite(own).any():
            judged.append(others[np.argmin(ranked(own, diverged, missing))])
    if len(judged) < 2 or not all(np.isfinite(half).any() for half in judged):
        return float("nan")
    return float(mean_of(np.concatenate(judged)))
