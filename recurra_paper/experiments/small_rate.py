"""Online RTRL against backpropagation through a whole stretch, at smaller and smaller learning rates."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from recurra import RTRL, EfficientBPTT, Learner, train
from recurra.cells import Weights
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.setup import network_of, task_of

RATES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
#: length of the stretch
STRETCH = 100


@dataclass(frozen=True)
class SmallRate(Experiment):
    """Both start from the same weights and see the same steps of Add; only the recurrent weights are compared."""

    seeds: int

    @property
    def name(self) -> str:
        return "small-rate"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of("add", "1")
        return network_of(task, "1"), task, RATES, STRETCH

    @property
    def cost(self) -> float:
        return 15.0

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        with jax.enable_x64(True):  # the difference of two small changes is lost in single precision
            return self._compare(advance)

    def _compare(self, advance: Advance) -> Arrays:
        first = self._weights(RTRL(), 0.0)
        distances = []
        for i, rate in enumerate(RATES):
            online = self._weights(RTRL(), rate)
            unrolled = self._weights(EfficientBPTT(T=STRETCH), rate)
            distances.append(_relative(online, unrolled, first))
            advance((i + 1) / len(RATES))
        return {"rate": np.array(RATES), "distance": np.stack(distances, axis=1)}

    def _weights(self, learner: Learner, rate: float) -> Weights:
        """The recurrent weights of every seed after the stretch."""
        network, task, *_ = self.parts
        result = train(network, learner, task, steps=STRETCH, seeds=self.seeds, optimizer=rate, progress=False)
        return result.weights.cell


def _relative(online: Weights, unrolled: Weights, first: Weights) -> np.ndarray:
    """‖difference of the two changes‖ / ‖change by the unrolled gradient‖, for each seed."""
    change = lambda after: jax.tree.map(lambda u, v: np.asarray(u, np.float64) - v, after, first)
    flat = lambda tree: np.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)
    one, other = flat(change(online)), flat(change(unrolled))
    return np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)
