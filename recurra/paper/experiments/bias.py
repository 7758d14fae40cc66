"""Bias and variance: many replicas of a learner's randomness along one trajectory, the weights held."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from recurra.learners import Learner
from recurra.paper.experiments.base import Advance, Arrays, Experiment
from recurra.paper.experiments.running import records_of_replicas
from recurra.paper.setup import learner_of, network_of, task_of
from recurra.step import APPLIED
from recurra.training import record
from recurra.training.recording import StepRecorder

LEARNERS = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "dni")
#: steps at which gradients are compared, at most
SAMPLES = 40


@dataclass(frozen=True)
class Bias(Experiment):
    """Every replica sees the same weights and stream and draws its own random numbers.

    Stochastic learners start from M = 0, so that what is measured is the rule and not the start.
    """

    task: str
    replicas: int
    steps: int

    @property
    def name(self) -> str:
        return f"bias/{self.task}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of(self.task, "1")
        return network_of(task, "1"), task, *(learner_of(name, self.task, "1") for name in ("rtrl", *LEARNERS)), SAMPLES

    @property
    def cost(self) -> float:
        return len(LEARNERS) * (5 + 6e-5 * self.replicas * self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        exact = self._gradients(learner_of("rtrl", self.task, "1"), 1)[0]
        size = np.sqrt((exact**2).sum(axis=-1).mean())  # one scale for all steps: some gradients are near zero
        rows: dict[str, list[np.ndarray]] = {"bias": [], "bias_noise": [], "std": []}
        for i, name in enumerate(LEARNERS):
            sample = self._gradients(_from_zero(learner_of(name, self.task, "1")), self.replicas)
            variance = sample.var(axis=0, ddof=1).sum(axis=-1)
            rows["bias"].append(np.linalg.norm(sample.mean(axis=0) - exact, axis=-1) / size)
            rows["bias_noise"].append(np.sqrt(variance / self.replicas) / size)
            rows["std"].append(np.sqrt(variance) / size)
            advance((i + 1) / len(LEARNERS))
        stacked = {name: np.stack(values) for name, values in rows.items()}
        return {"learners": np.array(LEARNERS), "replicas": np.array(self.replicas), **stacked}

    def _gradients(self, learner: Learner, replicas: int) -> np.ndarray:
        """(replica, sampled step, weight), in double precision."""
        network, task, *_ = self.parts
        learners = {APPLIED: learner}
        recorder = StepRecorder.of({"gradient": record.gradients}, learners)
        assert recorder is not None
        records = records_of_replicas(network, learners, task, recorder, replicas, self.steps)
        leaves = jax.tree.leaves(records["gradient"])
        # The later half, spread out: the start, where M is still empty, says little.
        sampled = np.unique(np.linspace(self.steps // 2, self.steps - 1, SAMPLES).astype(int))
        rows = [np.asarray(leaf)[:, sampled].reshape(replicas, len(sampled), -1) for leaf in leaves]
        return np.concatenate(rows, axis=-1, dtype=np.float64)


def _from_zero(learner: Learner) -> Learner:
    if not hasattr(learner, "initial_scale"):
        return learner
    return eqx.tree_at(lambda tree: tree.initial_scale, learner, 0.0)
