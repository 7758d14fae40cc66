"""Gradients of all learners along one run that RTRL drives: how they align, step by step and summed over windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from recurra import Learner, Network, Task, record, train
from recurra_paper.analysis import cosines
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.setup import LEARNING_RATE

#: the learners of the paper's comparison; the one that trains comes first
LEARNERS = (
    "rtrl", "f-bptt", "e-bptt", "uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "dni", "dni-b",
)  # fmt: skip
#: learners whose alignment with the first is compared with the norm of their gradient
NOISY = ("uoro", "r-kf-rtrl")
BINS = 100
#: each window is this many times as long as the one before
GROWTH = 4


@dataclass(frozen=True)
class Gradients(Experiment):
    """The first learner trains; the others say where they would have gone.

    The first `skipped` steps are run and not compared. Gradients leave the compiled loop in full and are reduced here,
    a piece at a time.
    """

    version: ClassVar[int] = 4

    known_as: str
    network: Network
    task: Task
    learners: Mapping[str, Learner]
    seeds: int
    steps: int
    rate: float = LEARNING_RATE
    skipped: int = 0

    @property
    def name(self) -> str:
        return self.known_as

    @property
    def cost(self) -> float:
        return 30 + 4e-4 * self.seeds * (self.steps + self.skipped / 4)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        first, *others = self.learners
        steps = self.skipped + self.steps
        late = max(learner.lag for learner in self.learners.values())  # the last steps have no complete outcome
        alignments = Alignments(tuple(self.learners), self.seeds, self.steps - late, self.skipped)
        train(
            self.network,
            self.learners[first],
            self.task,
            steps=steps,
            seeds=self.seeds,
            optimizer=self.rate,
            probes={name: self.learners[name] for name in others},
            record={"gradients": record.gradients},
            record_into=alignments,
            checkpoint=checkpoint,
            progress=lambda done: advance(done / steps),
        )
        return alignments.arrays()


def stacked(learners: Sequence[str], gradients: Mapping[str, Any], early: int = 0) -> np.ndarray:
    """(seed, step, learner, weight) without the first `early` steps; zero where a learner emitted nothing.

    The first of the learners is the one that trained.
    """
    flat = []
    for name in ("applied", *learners[1:]):
        leaves = [leaf[:, early:] for leaf in jax.tree.leaves(gradients[name])]
        flat.append(np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=-1))
    return np.stack(flat, axis=2)


class Alignments:
    """What is kept of the gradients of all steps after the first `skipped` ones, however they arrive in pieces."""

    def __init__(self, learners: tuple[str, ...], seeds: int, steps: int, skipped: int = 0):
        self.learners, self.noisy = learners, tuple(name for name in NOISY if name in learners)
        self.skipped = skipped  # how many of them are still to come
        count = len(learners)
        self.edges = np.linspace(-1, 1, BINS + 1)
        self.histogram = np.zeros((count, count, BINS), np.int64)
        empty = np.zeros((len(self.noisy), seeds, 0), np.float32)
        self.cosine, self.log_norm = [empty], [empty]
        levels = 1 + max(0, int(np.log(max(steps / 5, 1)) / np.log(GROWTH)))
        self.windows = [GROWTH**i for i in range(levels)]
        self.means = [Mean(seeds, count) for _ in self.windows]
        self._rest = [np.zeros((seeds, 0, 0, 0), np.float32) for _ in self.windows]

    def add(self, records: Mapping[str, Any]) -> None:
        """The gradients of the next steps."""
        count = jax.tree.leaves(records)[0].shape[1]
        early, self.skipped = min(self.skipped, count), max(self.skipped - count, 0)
        if early < count:
            self.take(stacked(self.learners, records["gradients"], early))

    def take(self, gradients: np.ndarray) -> None:
        """The next steps, (seed, step, learner, weight)."""
        cos = self._level(0, gradients)
        index = np.clip(((np.nan_to_num(cos) + 1) / 2 * BINS).astype(int), 0, BINS - 1)
        finite = np.isfinite(cos)
        for i in range(len(self.learners)):
            for j in range(len(self.learners)):
                self.histogram[i, j] += np.bincount(index[..., i, j][finite[..., i, j]], minlength=BINS)
        which = [self.learners.index(name) for name in self.noisy]
        with np.errstate(divide="ignore"):
            norms = np.log10(np.linalg.norm(gradients[:, :, which], axis=-1))
        self.cosine.append(np.moveaxis(cos[:, :, which, 0], 2, 0).astype(np.float32))
        self.log_norm.append(np.moveaxis(norms, 2, 0).astype(np.float32))

    def _level(self, level: int, sums: np.ndarray) -> np.ndarray:
        """Take in sums over windows of one length, and hand groups of them on as sums over the next."""
        cos = cosines(sums)
        self.means[level].add(cos)
        if level + 1 < len(self.windows):
            rest = self._rest[level]
            waiting = np.concatenate([rest, sums], axis=1) if rest.size else sums
            whole = waiting.shape[1] // GROWTH
            if whole:
                grouped = waiting[:, : whole * GROWTH].reshape(len(sums), whole, GROWTH, *sums.shape[2:])
                self._level(level + 1, grouped.sum(axis=2))
            self._rest[level] = waiting[:, whole * GROWTH :].copy()
        return cos

    def state(self) -> Arrays:
        """All of it, to go on from."""
        rest = {f"rest{i}": rest for i, rest in enumerate(self._rest)}
        sums = {f"mean{i}": mean.sums for i, mean in enumerate(self.means)}
        pairs = {name: np.concatenate(getattr(self, name), axis=2) for name in ("cosine", "log_norm")}
        return {"skipped": np.array(self.skipped), "histogram": self.histogram, **pairs, **rest, **sums}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned."""
        self.skipped = int(state["skipped"])
        self.histogram, self.cosine, self.log_norm = state["histogram"], [state["cosine"]], [state["log_norm"]]
        for i, mean in enumerate(self.means):
            self._rest[i], mean.sums = state[f"rest{i}"], state[f"mean{i}"]

    def arrays(self) -> Arrays:
        """All of it, as figures and claims expect it."""
        joined = lambda parts: np.concatenate(parts, axis=2)
        return {
            "learners": np.array(self.learners),
            "noisy": np.array(self.noisy),
            "edges": self.edges,
            "histogram": self.histogram,
            "mean": self.means[0].value(),
            "pair_cosine": joined(self.cosine),
            "pair_log_norm": joined(self.log_norm),
            "windows": np.array(self.windows),
            "window_cosine": np.stack([mean.value() for mean in self.means], axis=-1),
        }


class Mean:
    """A mean over steps of what is finite, (seed, learner, learner)."""

    def __init__(self, seeds: int, learners: int):
        self.sums = np.zeros((2, seeds, learners, learners))  # of the cosines, and how many they were

    def add(self, cosines: np.ndarray) -> None:
        """The cosines of the next steps, (seed, step, learner, learner)."""
        for now in np.moveaxis(cosines, 1, 0):  # step by step, so that the sum is the same however steps arrive
            seen = np.isfinite(now)
            self.sums += np.where(seen, now, 0), seen

    def value(self) -> np.ndarray:
        """The mean; nan where nothing was finite."""
        with np.errstate(invalid="ignore"):
            return self.sums[0] / self.sums[1]
