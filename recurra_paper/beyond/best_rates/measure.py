"""What learners reach at their best rates, in units that mean the same in every condition.

A learner's best rate is that with the lowest mean loss over seeds 0, 2, 4 ... Its loss at that rate is judged by seeds
1, 3, 5 ..., so that no learner is judged by the seeds it was tuned on. The gap is fixed W's loss less RTRL's, each at
its own best rate.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from jaxtyping import Float

from recurra_paper.analysis import Estimate, less, relative
from recurra_paper.beyond.grids import OPTIMIZERS, Condition, found, grid_losses, rates_of
from recurra_paper.claims.base import Data, Undecided, known_gap
from recurra_paper.setup import ALPHAS, TASKS

#: every condition, by optimizer
CONDITIONS = tuple(Condition(task, alpha, optimizer) for optimizer, task, alpha in product(OPTIMIZERS, TASKS, ALPHAS))


def tuned_on(losses: Float[np.ndarray, "seeds rates"]) -> Float[np.ndarray, "half rates"]:
    """The seeds that rates are chosen by."""
    return losses[0::2]


def judged_by(losses: Float[np.ndarray, "seeds *rates"]) -> Float[np.ndarray, "half *rates"]:
    """The seeds that learners are judged by."""
    return losses[1::2]


def best(data: Data, condition: Condition, learner: str) -> int:
    """The number of a learner's best rate."""
    return int(tuned_on(grid_losses(data, condition, learner)).mean(axis=0).argmin())


def best_rate(data: Data, condition: Condition, learner: str) -> float:
    """A learner's best rate."""
    return float(rates_of(data, condition, learner)[best(data, condition, learner)])


def at_best(data: Data, condition: Condition, learner: str) -> Float[np.ndarray, " half"]:
    """The losses by which a learner is judged, at its best rate."""
    return judged_by(grid_losses(data, condition, learner))[:, best(data, condition, learner)]


def at_rate(data: Data, condition: Condition, learner: str, rate: float) -> Float[np.ndarray, " half"]:
    """The losses by which a learner is judged, at this rate."""
    near = np.flatnonzero(np.isclose(rates_of(data, condition, learner), rate, rtol=1e-6))
    if not len(near):
        raise Undecided(f"Not decided: no run has a learning rate of {rate:g}.")
    return judged_by(grid_losses(data, condition, learner))[:, int(near[0])]


def gap(data: Data, condition: Condition) -> Float[np.ndarray, " half"]:
    """Each seed's gap, if its mean is known to be positive."""
    return known_gap(less(at_best(data, condition, "fixed"), at_best(data, condition, "rtrl")))


def behind(data: Data, condition: Condition, x: str, y: str) -> Estimate:
    """How far x is behind y, both at their best rates, in gaps."""
    return relative(less(at_best(data, condition, x), at_best(data, condition, y)), gap(data, condition))


def regrets(
    data: Data, conditions: Sequence[tuple[str, str]], learners: Sequence[str]
) -> dict[tuple[str, float], Float[np.ndarray, "conditions learners"]]:
    """What is lost by one optimizer and rate for everything, by optimizer and rate.

    A learner's regret in a condition, a task and an α, is its mean loss with that optimizer at that rate less its
    lowest mean over all optimizers and rates, in units of fixed W's lowest mean loss less RTRL's. The default of
    `recurra.train` is to be the pair with the lowest mean regret over conditions and learners.
    """
    ran = [optimizer for optimizer in OPTIMIZERS if found(data, Condition(*conditions[0], optimizer))]
    rates = rates_of(data, Condition(*conditions[0], ran[0]))

    def means(which: tuple[str, str], learner: str) -> Float[np.ndarray, "optimizers rates"]:
        return np.array([grid_losses(data, Condition(*which, each), learner).mean(axis=0) for each in ran])

    def regret(which: tuple[str, str], learner: str) -> Float[np.ndarray, "optimizers rates"]:
        losses = means(which, learner)
        return (losses - losses.min()) / (means(which, "fixed").min() - means(which, "rtrl").min())

    every = np.array([[regret(which, learner) for learner in learners] for which in conditions])
    return {
        (optimizer, float(rate)): every[:, :, i, j] for i, optimizer in enumerate(ran) for j, rate in enumerate(rates)
    }
