"""Natural memory: how well a linear regression reads the label of step t from an untrained network at t + Δt."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from recurra import Fixed, Network, Task, train
from recurra_paper.analysis import memory_trace
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.losses import ALL_FAMILIES
from recurra_paper.setup import network_of, task_of

LAGS = np.arange(-15, 6)


@dataclass(frozen=True)
class Memory(Experiment):
    """One family of recurrent weights, several draws of it."""

    family: str
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return f"memory/{self.family}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of("add", "1")
        return network_of(task, "1", ALL_FAMILIES[self.family]), task, LAGS

    @property
    def cost(self) -> float:
        return 5 + 1e-5 * self.seeds * self.steps

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, task, lags = self.parts
        traces = [memory_trace(*run, lags) for run in untrained(network, task, self.seeds, self.steps)]
        advance(1.0)
        return {"lag": lags, "r2": np.stack(traces)}


def untrained(network: Network, task: Task, seeds: int, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each seed's states and labels, (step, ...), of a network that does not learn."""
    record = {"state": lambda outcome: outcome.state[0], "label": lambda outcome: outcome.label}
    result = train(network, Fixed(), task, steps=steps, seeds=seeds, optimizer=0.0, record=record, progress=False)
    states, labels = (jax.tree.leaves(result.records[name])[0] for name in ("state", "label"))
    return zip(states, labels, strict=True)
