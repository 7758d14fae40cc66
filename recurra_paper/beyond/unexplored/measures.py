"""What claims and figure read from the data: variances, cosines and final losses, by learner."""

import numpy as np
from jaxtyping import Float

from recurra_paper.analysis import scored
from recurra_paper.beyond.unexplored.runs import bias_name, gradients_name, growth_name, loss_name
from recurra_paper.claims.base import Data, Undecided, arrays, known_gap
from recurra_paper.claims.estimators import row


def variance(data: Data, task: str, learner: str) -> Float[np.ndarray, " networks"]:
    """Each network's mean variance over the later half of a trajectory."""
    (found,) = row(data, bias_name(task), learner, "variance")
    return found.mean(axis=-1)


def less_variance(data: Data, task: str, learner: str, other: str) -> Float[np.ndarray, " networks"]:
    """log(variance of other / variance of learner): positive where the learner varies less."""
    return np.log(variance(data, task, other) / variance(data, task, learner))


def sizes(data: Data, task: str, learner: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bias, what sampling adds to it, and standard deviation, at each network: in norms of the exact gradient."""
    squared, found = row(data, bias_name(task), learner, "squared_error", "variance")
    run = arrays(data, bias_name(task))
    norm = np.asarray(run["exact"], float).mean(axis=-1)
    bias, spread = squared.mean(axis=-1) / norm, found.mean(axis=-1) / norm
    return np.sqrt(bias), np.sqrt(spread / int(run["replicas"])), np.sqrt(spread)


def variance_after(data: Data, weights: str, learner: str, steps: int) -> Float[np.ndarray, " networks"]:
    """Each network's variance after so many steps from M = 0."""
    (found,) = row(data, growth_name(weights), learner, "variance")
    known = np.asarray(arrays(data, growth_name(weights))["step"]).tolist()
    if steps not in known:
        raise Undecided(f"Not decided: {growth_name(weights)} is without step {steps}.")
    return found[:, known.index(steps)]


def growth(data: Data, weights: str, learner: str, start: int, stop: int) -> Float[np.ndarray, " networks"]:
    """By how many orders of magnitude each network's variance grows from one step to a later one."""
    first, last = (variance_after(data, weights, learner, steps) for steps in (start, stop))
    return np.log10(last / first)


def cosine(data: Data, task: str, learner: str) -> Float[np.ndarray, "seeds windows"]:
    """Each seed's mean cosine with RTRL's gradient, of sums over every length of window; single steps come first."""
    run = arrays(data, gradients_name(task))
    known = [str(x) for x in run["learners"]]
    if learner not in known:
        raise Undecided(f"Not decided: {gradients_name(task)} is without {learner}.")
    return np.asarray(run["window_cosine"], float)[:, known.index(learner), 0]


def final_loss(data: Data, task: str, learner: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's loss at the end; a seed that diverged has learned nothing."""
    return scored(arrays(data, loss_name(task, learner)), arrays(data, loss_name(task, "fixed")))


def behind(data: Data, task: str, learner: str) -> Float[np.ndarray, " seeds"]:
    """How far a learner ends behind RTRL, at each seed."""
    return final_loss(data, task, learner) - final_loss(data, task, "rtrl")


def gap(data: Data, task: str) -> Float[np.ndarray, " seeds"]:
    """Fixed W's loss less RTRL's at each seed, if its mean is known to be positive."""
    return known_gap(behind(data, task, "fixed"), f"on {task.capitalize()}")
