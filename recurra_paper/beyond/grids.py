"""Every learner over a grid of learning rates, with plain descent and with Adam: what is run, and what it ends at.

Two questions read these grids. `rates` asks how finely the rate of plain descent must be tuned at α = 1. `best_rates`
compares learners at their best rates, on both tasks, at both α, with both optimizers.

A seed's final loss is its mean over the last ten windows. A seed that diverged, or ended above the loss of an untrained
network, counts as untrained: at the first window of fixed W at the smallest rate.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from recurra import Adam
from recurra_paper.beyond.profiles import Profile
from recurra_paper.claims.base import Data, arrays
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.sweep import Sweep
from recurra_paper.setup import LEARNERS, TASKS, learner_of, network_of, task_of

Losses = Float[np.ndarray, "seeds rates"]

#: r-OK takes a hundred times as long as most learners, and is left out
RATED = tuple(x for x in LEARNERS if x != "r-ok")
OPTIMIZERS: Mapping[str, Callable[[float], Any]] = {"descent": float, "adam": Adam}
#: half a decade apart, in round numbers
HALF_DECADES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
#: the most seeds of RTRL, whose steps cost the most
AT_MOST = {"rtrl": 16}


class Condition(NamedTuple):
    """What learners are compared on, and with which optimizer."""

    task: str
    alpha: str = "1"
    optimizer: str = "descent"


class Scale(NamedTuple):
    """The grid, by task its learners."""

    learners: Mapping[str, tuple[str, ...]]
    alphas: tuple[str, ...]
    optimizers: tuple[str, ...]
    rates: tuple[float, ...]
    seeds: int
    steps: int


SCALES = {
    "full": Scale(dict.fromkeys(TASKS, RATED), ("1", "0.5"), tuple(OPTIMIZERS), HALF_DECADES, 64, 1_000_000),
    "quick": Scale(
        {"add": ("rtrl", "uoro", "kernl", "rflo", "dni", "fixed"), "mimic": ("rtrl", "uoro", "rflo", "fixed")},
        ("1",),
        tuple(OPTIMIZERS),
        (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        4,
        30_000,
    ),
    "tiny": Scale({"add": ("fixed", "dni")}, ("1",), ("descent",), (1e-4, 1e-3), 2, 300),
}


def grid_name(condition: Condition, learner: str) -> str:
    """The name of a learner's sweep over rates."""
    return f"grid/{condition.optimizer}/{condition.task}/{condition.alpha}/{learner}"


def grid(condition: Condition, learner: str, scale: Scale) -> Sweep:
    """One learner over all rates."""
    task, alpha = task_of(condition.task, condition.alpha), condition.alpha
    return Sweep(
        grid_name(condition, learner),
        network_of(task, alpha),
        {learner: learner_of(learner, condition.task, alpha)},
        {condition.task: task},
        scale.rates,
        min(scale.seeds, AT_MOST.get(learner, scale.seeds)),
        scale.steps,
        OPTIMIZERS[condition.optimizer],
    )


def grids(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    return [
        grid(Condition(task, alpha, optimizer), learner, scale)
        for optimizer in scale.optimizers
        for alpha in scale.alphas
        for task, learners in scale.learners.items()
        for learner in learners
    ]


def found(data: Data, condition: Condition) -> list[str]:
    """The learners that were run over rates."""
    return [x for x in RATED if grid_name(condition, x) in data]


def rates_of(data: Data, condition: Condition, learner: str = "fixed") -> Float[np.ndarray, " rates"]:
    """The learning rates of a sweep."""
    return np.asarray(arrays(data, grid_name(condition, learner))["rate"], float)


def final(loss: np.ndarray, diverged: np.ndarray, untrained: Float[np.ndarray, " more_seeds"]) -> Losses:
    """(seed, point) from losses (point, seed, window); what diverged or is worse than untrained counts as untrained."""
    with np.errstate(over="ignore", invalid="ignore"):
        last = np.asarray(loss, float)[..., -10:].mean(axis=-1)
    ended = np.isfinite(last) & (np.asarray(diverged) < 0)
    top = untrained[: last.shape[-1]]
    return np.minimum(np.where(ended, last, top), top).T


def grid_losses(data: Data, condition: Condition, learner: str) -> Losses:
    """Each seed's final loss at every rate."""
    fixed, run = arrays(data, grid_name(condition, "fixed")), arrays(data, grid_name(condition, learner))
    smallest = int(np.argmin(fixed["rate"]))
    untrained = np.asarray(fixed["loss"], float)[0, 0, smallest, :, 0]
    return final(run["loss"][0, 0], run["diverged"][0, 0], untrained)
