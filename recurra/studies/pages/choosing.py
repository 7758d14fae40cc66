"""Which settings are best in each case, and how sure that is.

The best point is the one with the lowest mean final loss over seeds. A point at which a seed diverged is only chosen
where every point has one: then it is among those with the fewest.

Networks of one seed share their first weights and their data. So two points are compared by the differences between
their losses on the same seeds: these vary less than the losses do.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import xarray

from recurra.studies.pages.points import Points, Value, error_of, mean_of, ranked

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


@dataclass(frozen=True, kw_only=True)
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
    point: int | None = None
    settings: dict[str, Value] = field(default_factory=dict)
    mean: float = math.nan
    error: float = math.nan
    seeds: int = 0
    diverged: int
    missing: int
    edges: dict[str, str] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    alike: tuple[int, ...] = ()
    held_out: float = math.nan
    points: int
    of: int
    #: the place of the best point in arrays
    position: int | None = field(repr=False)


def chosen(data: xarray.Dataset) -> list[Chosen]:
    """The best point of each case, as the cases come in the study."""
    return chosen_of(Points.read(data))


def chosen_of(points: Points) -> list[Chosen]:
    """The same, from what was read before."""
    return [_choose(points, among) for among in points.split(points.cases, np.arange(len(points.number)))]


def _choose(points: Points, among: np.ndarray) -> Chosen:
    best = points.best(among)
    counted = among if best is None else [best]
    about = Chosen(
        case=points.at(int(among[0]), points.cases),
        diverged=int(points.diverged[counted].sum()),
        missing=int(points.missing[counted].sum()),
        points=int(np.isfinite(points.mean[among]).sum()),
        of=len(among),
        position=best,
    )
    if best is None:
        return about
    others = alike(points, best, among)
    ends = edges(points, best, among)
    return replace(
        about,
        point=int(points.number[best]),
        settings=points.at(best, points.searched),
        mean=float(points.mean[best]),
        error=float(points.error[best]),
        seeds=int(np.isfinite(points.final[best]).sum()),
        edges=ends,
        inside=tuple(name for name in ends if is_inside(points, name, others, among)),
        alike=tuple(points.number[others].tolist()),
        held_out=held_out(points, among),
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
        tried = np.unique(points.values[name][among][points.applies(name)[among]])
        if points.varied[name].is_text or not points.applies(name)[best] or len(tried) < LEAST_VALUES:
            continue
        place = points.place_in_range(name, among, points.values[name][best])
        for end, is_there, at_end in (("lowest", place <= NEAR, 0), ("highest", place >= 1 - NEAR, 1)):
            limit = points.place_in_range(name, among, ENDS.get((name, end), np.nan))
            if is_there and not abs(limit - at_end) <= NEAR:
                found[name] = end
    return found


def is_inside(points: Points, name: str, alike: np.ndarray, among: np.ndarray) -> bool:
    """Whether a value of this setting further inside the range is as good as the best."""
    places = points.place_in_range(name, among, points.values[name][alike])
    return bool(((places > NEAR) & (places < 1 - NEAR)).any())


def held_out(points: Points, among: np.ndarray) -> float:
    """The mean loss over all seeds, each at the point that the half without it chooses.

    It is too high rather than too low: half of the seeds choose less well than all of them.
    """
    if points.final.shape[1] < LEAST_SEEDS:
        return math.nan
    judged = []
    for choosing, judging in ((0, 1), (1, 0)):
        diverged = (points.diverged_at[among, choosing::2] >= 0).sum(axis=1)
        missing = points.is_missing[among, choosing::2].sum(axis=1)
        rank = ranked(points.final[among, choosing::2], diverged, missing)
        judged.append(points.final[among[np.argmin(rank)], judging::2])
    is_known = all(np.isfinite(half).any() for half in (*judged, points.final[among, ::2], points.final[among, 1::2]))
    return float(mean_of(np.concatenate(judged))) if is_known else math.nan
