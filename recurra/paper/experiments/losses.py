"""Loss curves: each learner on each task, and RFLO from each kind of initial weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recurra import cells
from recurra.learners import Learner
from recurra.network import Network
from recurra.paper.experiments.base import Advance, Arrays, Experiment
from recurra.paper.setup import learner_of, network_of, task_of
from recurra.tasks import Task
from recurra.training.train import LEARNING_RATE, train

#: the four families of recurrent weights of the analysis of RFLO
FAMILIES = {
    "orthogonal": cells.orthogonal,
    "gaussian": cells.gaussian,
    "symmetric": cells.symmetric,
    "diagonal": cells.diagonal,
}
#: microseconds a step a seed, roughly, for the estimate of time left
_MICROSECONDS = {"rtrl": 11.0, "r-ok": 10.0, "kf-rtrl": 1.3, "r-kf-rtrl": 1.8}
#: compiling a learner takes a few seconds
COMPILE_SECONDS = 4.0


@dataclass(frozen=True)
class LossCurve(Experiment):
    """One learner on one task."""

    task: str
    alpha: str
    learner: str
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return f"loss/{self.task}/{self.alpha}/{self.learner}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of(self.task, self.alpha)
        return network_of(task, self.alpha), learner_of(self.learner, self.task, self.alpha), task, LEARNING_RATE

    @property
    def cost(self) -> float:
        return seconds(self.learner, self.seeds, self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, learner, task, rate = self.parts
        return curve(network, learner, task, rate, self.seeds, self.steps, checkpoint, advance)


@dataclass(frozen=True)
class FamilyCurve(Experiment):
    """RFLO, or the readout alone, on Add from one kind of initial weights."""

    family: str
    learner: str
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.learner}-loss/{self.family}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of("add", "1")
        return network_of(task, "1", FAMILIES[self.family]), learner_of(self.learner, "add", "1"), task, LEARNING_RATE

    @property
    def cost(self) -> float:
        return seconds(self.learner, self.seeds, self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, learner, task, rate = self.parts
        return curve(network, learner, task, rate, self.seeds, self.steps, checkpoint, advance)


def curve(
    network: Network,
    learner: Learner,
    task: Task,
    rate: float,
    seeds: int,
    steps: int,
    checkpoint: Path,
    advance: Advance,
) -> Arrays:
    """Train, with a hundred windows of loss; interrupted, the checkpoint keeps the part done."""
    result = train(
        network,
        learner,
        task,
        optimizer=rate,
        steps=steps,
        seeds=seeds,
        window=max(steps // 100, 1),
        checkpoint=checkpoint,
        progress=lambda done: advance(done / steps),
    )
    diverged = np.array([result.diverged.get(seed, -1) for seed in result.seeds])
    return {"step": result.step, "loss": result.loss, "diverged": diverged}


def seconds(learner: str, seeds: int, steps: int) -> float:
    """A rough cost on one core."""
    return COMPILE_SECONDS + _MICROSECONDS.get(learner, 1.0) * 1e-6 * seeds * steps
