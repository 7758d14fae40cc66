"""A learner trained on a task, with a hundred windows of its loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recurra import Learner, Network, Task, train
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.setup import LEARNING_RATE

#: microseconds a step a seed, roughly, for the estimate of time left
MICROSECONDS = {"rtrl": 11.0, "r-ok": 10.0, "kf-rtrl": 1.3, "r-kf-rtrl": 1.8}
#: compiling a learner takes a few seconds
COMPILE_SECONDS = 4.0


@dataclass(frozen=True)
class Trained(Experiment):
    """A run of the first seeds, described by what it is built from.

    `slower` is how many times as long as usual a step of this learner takes; it serves the estimate of time left.
    """

    known_as: str
    network: Network
    learner: Learner
    task: Task
    seeds: int
    steps: int
    rate: float = LEARNING_RATE
    streams: int = 1
    slower: float = 1.0

    @property
    def name(self) -> str:
        return self.known_as

    @property
    def cost(self) -> float:
        return seconds(self.learner.about.id, self.seeds * self.streams, self.steps) * self.slower

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        return curve(
            self.network,
            self.learner,
            self.task,
            self.rate,
            self.seeds,
            self.steps,
            checkpoint,
            advance,
            streams=self.streams,
        )


def curve(
    network: Network,
    learner: Learner,
    task: Task,
    rate: float,
    seeds: int | Sequence[int],
    steps: int,
    checkpoint: Path,
    advance: Advance,
    streams: int = 1,
) -> Arrays:
    """Train, with a hundred windows of loss; interrupted, the checkpoint keeps the part done."""
    result = train(
        network,
        learner,
        task,
        optimizer=rate,
        steps=steps,
        seeds=seeds,
        streams=streams,
        window=max(steps // 100, 1),
        checkpoint=checkpoint,
        progress=lambda done: advance(done / steps),
    )
    diverged = np.array([result.diverged.get(seed, -1) for seed in result.seeds])
    return {"step": result.step, "loss": result.loss, "diverged": diverged}


def seconds(learner: str, seeds: int, steps: int) -> float:
    """A rough cost on one core."""
    return COMPILE_SECONDS + MICROSECONDS.get(learner, 1.0) * 1e-6 * seeds * steps
