"""One kind of learner trained at every point of a grid: its own settings, tasks and learning rates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recurra import Learner, Network, Task, sweep
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.training import COMPILE_SECONDS, seconds


@dataclass(frozen=True)
class Sweep(Experiment):
    """Every learner on every task at every rate; losses are (learner, task, rate, seed, window).

    The learners are one algorithm with different numbers, and so are the tasks: all points share one compiled program.
    What is finished of a sweep that was killed is kept in a folder in the place of a checkpoint.
    """

    known_as: str
    network: Network
    learners: Mapping[str, Learner]
    tasks: Mapping[str, Task]
    rates: tuple[float, ...]
    seeds: int
    steps: int
    #: what makes an optimizer of a rate: a number itself is plain gradient descent
    optimizer: Callable[[float], Any] = float

    @property
    def name(self) -> str:
        return self.known_as

    @property
    def cost(self) -> float:
        points = len(self.tasks) * len(self.rates)
        each = [seconds(x.about.id, self.seeds, self.steps) - COMPILE_SECONDS for x in self.learners.values()]
        return COMPILE_SECONDS + points * sum(each)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        optimizers = {f"{rate:g}": self.optimizer(rate) for rate in self.rates}
        total = len(self.learners) * len(self.tasks) * len(self.rates) * self.seeds * self.steps
        data = sweep(
            self.network,
            next(iter(self.learners.values())),
            next(iter(self.tasks.values())),
            vary={"learner": self.learners, "task": self.tasks, "optimizer": optimizers},
            steps=self.steps,
            seeds=self.seeds,
            folder=checkpoint,
            progress=lambda done: advance(done / total),
        )
        return {
            "learners": np.array(list(self.learners)),
            "tasks": np.array(list(self.tasks)),
            "rate": np.array(self.rates),
            "step": data.step.to_numpy(),
            "loss": data.loss.to_numpy(),
            "diverged": data.diverged_at.to_numpy(),
        }
