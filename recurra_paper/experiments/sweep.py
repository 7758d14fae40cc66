"""One kind of learner trained at every point of a grid: its own settings, tasks and learning rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from recurra.learners import Learner
from recurra.network import Network
from recurra.tasks import Task
from recurra.training.train import train
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.training import COMPILE_SECONDS, seconds


@dataclass(frozen=True)
class Sweep(Experiment):
    """Every learner on every task at every rate; losses are (learner, task, rate, seed, window).

    The learners are one algorithm with different numbers, and so are the tasks: all points share one compiled program.
    A point takes seconds, so nothing is kept of a sweep that was killed.
    """

    known_as: str
    network: Network
    learners: Mapping[str, Learner]
    tasks: Mapping[str, Task]
    rates: tuple[float, ...]
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return self.known_as

    @property
    def cost(self) -> float:
        points = len(self.tasks) * len(self.rates)
        each = [seconds(x.about.id, self.seeds, self.steps) - COMPILE_SECONDS for x in self.learners.values()]
        return COMPILE_SECONDS + points * sum(each)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        points = list(product(self.learners.values(), self.tasks.values(), self.rates))
        results = []
        for number, (learner, task, rate) in enumerate(points):

            def report(done: int, number: int = number) -> None:
                advance((number + done / self.steps) / len(points))

            result = train(
                self.network,
                learner,
                task,
                optimizer=rate,
                steps=self.steps,
                seeds=self.seeds,
                window=max(self.steps // 100, 1),
                progress=report,
            )
            results.append(result)
        grid = (len(self.learners), len(self.tasks), len(self.rates), self.seeds)
        diverged = [[result.diverged.get(seed, -1) for seed in result.seeds] for result in results]
        return {
            "learners": np.array(list(self.learners)),
            "tasks": np.array(list(self.tasks)),
            "rate": np.array(self.rates),
            "step": results[0].step,
            "loss": np.stack([result.loss for result in results]).reshape(*grid, -1),
            "diverged": np.array(diverged).reshape(grid),
        }
