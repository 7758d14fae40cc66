"""Mean gradients while the weights are held: what is left of an error once all that averages out over time has gone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from recurra import FutureBPTT, record, train
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.gradients import stacked
from recurra_paper.setup import LEARNING_RATE, learner_of, network_of, task_of

#: The learners, and the exact one of the same facing that each is held against.
AGAINST = {"rflo": "rtrl", "kernl": "rtrl", "dni": "f-bptt", "dni-b": "f-bptt", "f-bptt": "rtrl"}
#: F-BPTT's horizon here: longer than Add's longest lag, so that truncation does not pass for an error of DNI
HORIZON = 20
#: Gradients are summed over so many stretches of equal length.
STRETCHES = 32


@dataclass(frozen=True)
class Held(Experiment):
    """Networks that RTRL has trained for `learning` steps, and whose weights then do not move.

    Learners that fit something, like DNI, go on fitting it for `settling` steps before anything is measured.

    For each network the sums over stretches give products that noise does not bias: the mean of s_i · s_j over pairs of
    different stretches estimates the squared norm of the mean.
    """

    task: str
    networks: int
    learning: int
    settling: int
    steps: int

    @property
    def name(self) -> str:
        return f"held/{self.task}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of(self.task, "1")
        learners = {name: learner_of(name, self.task, "1") for name in ("rtrl", *AGAINST)}
        return network_of(task, "1"), task, {**learners, "f-bptt": FutureBPTT(T=HORIZON)}, STRETCHES

    @property
    def cost(self) -> float:
        return 20 + 3e-5 * self.networks * (self.learning + self.settling + self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, task, learners, _ = self.parts
        length, before = self.steps // STRETCHES, self.learning + self.settling
        last = before + STRETCHES * length + max(learner.lag for learner in learners.values())
        sums = Sums(tuple(learners), before, STRETCHES, length)
        train(
            network,
            learners["rtrl"],
            task,
            steps=last,
            seeds=self.networks,
            optimizer=optax.sgd(optax.piecewise_constant_schedule(LEARNING_RATE, {self.learning: 0.0})),
            probes={name: learners[name] for name in AGAINST},
            record={"gradients": record.gradients},
            record_into=sums,
            checkpoint=checkpoint,
            progress=lambda done: advance(done / last),
        )
        found = [measured(sums.of_seed(seed)) for seed in range(self.networks)]
        rows = {name: np.stack([each[name] for each in found], axis=1) for name in found[0]}
        about = {"learners": np.array(list(AGAINST)), "against": np.array(list(AGAINST.values()))}
        windows = np.array([length * 2**i for i in range(int(np.log2(STRETCHES)))])
        return {**about, **rows, "windows": windows, "settling": np.array(self.settling)}


class Sums:
    """Every learner's gradients, summed over stretches of equal length that begin after `before` steps."""

    def __init__(self, learners: tuple[str, ...], before: int, stretches: int, length: int):
        self.learners, self.before, self.stretches, self.length = learners, before, stretches, length
        self.step = 0
        self.sums = np.zeros((0, 0, 0, 0))  # (stretch, seed, learner, weight)

    def add(self, records: Mapping[str, Any]) -> None:
        """The gradients of the next steps."""
        count = jax.tree.leaves(records)[0].shape[1]
        start, self.step = self.step, self.step + count
        early = min(max(self.before - start, 0), count)
        if early == count:
            return
        gradients = stacked(self.learners, records["gradients"], early)
        if not self.sums.size:
            self.sums = np.zeros((self.stretches, *gradients.shape[:1], *gradients.shape[2:]))
        stretch = (np.arange(start + early, self.step) - self.before) // self.length
        for number in np.unique(stretch[stretch < self.stretches]):
            self.sums[number] += gradients[:, stretch == number].sum(axis=1, dtype=np.float64)

    def of_seed(self, seed: int) -> dict[str, np.ndarray]:
        """The sums of a seed for every learner, (stretch, weight)."""
        return {name: self.sums[:, seed, i] for i, name in enumerate(self.learners)}

    def state(self) -> Arrays:
        """All of it, to go on from."""
        return {"step": np.array(self.step), "sums": self.sums}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned."""
        self.step, self.sums = int(state["step"]), state["sums"]


def measured(sums: Mapping[str, np.ndarray]) -> Arrays:
    """For each learner: squared norms of its mean error and of the exact mean, and cosines of sums over windows."""
    rows: dict[str, list] = {"error": [], "exact": [], "window_cosine": []}
    for name, exact in AGAINST.items():
        rows["error"].append(squared_mean(sums[name] - sums[exact]))
        rows["exact"].append(squared_mean(sums[exact]))
        rows["window_cosine"].append(window_cosines(sums[name], sums[exact]))
    return {name: np.array(values) for name, values in rows.items()}


def squared_mean(sums: np.ndarray) -> float:
    """‖E s‖², without bias: the mean of s_i · s_j over pairs of different stretches, (stretch, weight) given."""
    count, total = len(sums), sums.sum(axis=0)
    return float((total @ total - (sums**2).sum()) / (count * (count - 1)))


def window_cosines(sums: np.ndarray, exact: np.ndarray) -> list[float]:
    """The mean cosine of sums over 1, 2, 4, ... stretches."""
    levels = []
    while len(sums) >= 2:
        dots = (sums * exact).sum(axis=1)
        levels.append(float(np.mean(dots / np.linalg.norm(sums, axis=1) / np.linalg.norm(exact, axis=1))))
        sums, exact = (each[: len(each) // 2 * 2].reshape(-1, 2, each.shape[1]).sum(axis=1) for each in (sums, exact))
    return levels
