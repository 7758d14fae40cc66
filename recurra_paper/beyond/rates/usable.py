"""Final losses over a grid of rates: the best rate, and how many decades of rates do nearly as well.

`recurra_paper.beyond.grids` says what a final loss is. A learner's best rate is the one of the lowest mean loss over
seeds. The gap of a task is fixed W's loss at its best rate less RTRL's at its own.

A rate is usable for a learner if it ends within a tenth of the gap of the learner's lowest loss. The width of the
usable range counts every usable rate of a seed as one step of the grid, in decades.
"""

import numpy as np
from jaxtyping import Float

from recurra_paper.analysis import less
from recurra_paper.beyond.grids import Condition, Losses, final, found, grid_losses, rates_of
from recurra_paper.beyond.rates.runs import LONG, PAPERS_OWN
from recurra_paper.claims.base import Data, Undecided, arrays, known_gap
from recurra_paper.claims.rule import GAPS
from recurra_paper.setup import TASKS


def own_name(learner: str) -> str:
    """The name of a sweep over a learner's own rates."""
    return f"rates/own/{learner}"


def tasks_of(data: Data) -> list[str]:
    """The tasks of the grid that can be shown: fixed W, which says what an untrained network loses, was run."""
    return [task for task in TASKS if "fixed" in found(data, Condition(task))]


def best(losses: Losses) -> int:
    """The number of the best rate."""
    return int(losses.mean(axis=0).argmin())


def grid_gap(data: Data, task: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's gap, if its mean is known to be positive."""
    fixed, rtrl = (grid_losses(data, Condition(task), x) for x in ("fixed", "rtrl"))
    return known_gap(less(fixed[:, best(fixed)], rtrl[:, best(rtrl)]))


def mean_gap(data: Data, task: str) -> float:
    """The mean gap over seeds."""
    return float(grid_gap(data, task).mean())


def has_gap(data: Data, task: str) -> bool:
    """Whether the gap is known."""
    try:
        return mean_gap(data, task) > 0
    except Undecided:
        return False


def usable(losses: Losses, gap: float) -> np.ndarray:
    """Which rates are usable, by the seed's losses (seed, rate)."""
    return losses <= losses.min(axis=-1, keepdims=True) + GAPS * gap


def spacing(rates: Float[np.ndarray, " rates"]) -> float:
    """The step of a grid, in decades."""
    return float(np.diff(np.log10(np.sort(rates))).mean()) if len(rates) > 1 else 0.0


def width(data: Data, task: str, learner: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's width of the usable range, in decades."""
    within = usable(grid_losses(data, Condition(task), learner), mean_gap(data, task))
    return within.sum(axis=1) * spacing(rates_of(data, Condition(task), learner))


def own_of(data: Data) -> dict[str, float]:
    """The learners whose own rates were varied beside fixed W, with the paper's rate of each."""
    return {x: rate for x, rate in PAPERS_OWN.items() if own_name(x) in data and own_name("fixed") in data}


def own_losses(data: Data, learner: str) -> tuple[Float[np.ndarray, " rates"], Losses]:
    """The rates of a learner's own, zero first, and each seed's final loss at them."""
    run, fixed = arrays(data, own_name(learner)), arrays(data, own_name("fixed"))
    untrained = np.asarray(fixed["loss"], float)[0, 0, 0, :, 0]
    own = np.array([0.0 if name == learner else float(name) for name in np.asarray(run["learners"]).astype(str)])
    return own, final(run["loss"][:, 0, 0], run["diverged"][:, 0, 0], untrained)


def long_of(data: Data) -> list[str]:
    """The learners of the long runs that were run."""
    return [x for x in LONG if f"rates/long/{x}" in data]


def long_loss(data: Data, learner: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's loss at the end of a long run."""
    run, fixed = arrays(data, f"rates/long/{learner}"), arrays(data, "rates/long/fixed")
    untrained = np.asarray(fixed["loss"], float)[:, 0]
    return final(run["loss"][None], run["diverged"][None], untrained)[:, 0]
