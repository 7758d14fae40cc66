"""Gradients of all learners along one run that RTRL drives: how they align, step by step and summed over windows."""

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from recurra import record
from recurra.analysis import cosines
from recurra.fleet import Fleet
from recurra.loop import APPLIED, Loop
from recurra.paper.experiments.base import Advance, Arrays, Experiment
from recurra.paper.setup import learner_of, network_of, task_of
from recurra.training import CHUNK, LEARNING_RATE, numbers_as_arrays

#: the driver first
LEARNERS = (
    "rtrl", "f-bptt", "e-bptt", "uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "dni", "dni-b",
)  # fmt: skip
#: whose norm is held against its alignment
NOISY = ("uoro", "r-kf-rtrl")
BINS = 100


@dataclass(frozen=True)
class Gradients(Experiment):
    """Gradients leave the compiled loop in full and are reduced here, a chunk at a time."""

    task: str
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return f"gradients/{self.task}"

    @property
    def cost(self) -> float:
        return 30 + 3e-4 * self.seeds * self.steps

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        task = task_of(self.task, "1")
        driver, *others = LEARNERS
        learners = {APPLIED: learner_of(driver, self.task, "1")}
        learners |= {name: learner_of(name, self.task, "1") for name in others}
        recorders = {"gradients": record.gradients, "emitted": record.emitted}
        network = network_of(task, "1")
        loop = numbers_as_arrays(Loop(network, learners, task, LEARNING_RATE, recorders), network.cell.dtype)
        fleet = Fleet(loop, jax.random.key(0), tuple(range(self.seeds)), CHUNK)
        tally = Tally(self.seeds, self.steps - loop.delay)
        start = 0
        while start < self.steps:
            stop = min(start + fleet.capacity, self.steps)
            _, records = fleet.advance(start, stop)
            early = max(loop.delay - start, 0)  # moments that lie before the first step
            tally.add(_stacked(records)[:, early:])
            start = stop
            advance(start / self.steps)
        fleet.close()
        return tally.arrays()


def _stacked(records: dict[str, dict]) -> np.ndarray:
    """(seed, step, learner, weight); nan where a learner emitted nothing."""
    flat = []
    for name in (APPLIED, *LEARNERS[1:]):
        leaves = jax.tree.leaves(records["gradients"][name])
        rows = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=-1)
        flat.append(np.where(records["emitted"][name][..., None], rows, np.nan))
    return np.stack(flat, axis=2)


class Tally:
    """What is kept of the gradients of all steps."""

    def __init__(self, seeds: int, steps: int):
        count = len(LEARNERS)
        self.edges = np.linspace(-1, 1, BINS + 1)
        self.histogram = np.zeros((count, count, BINS), np.int64)
        self.total, self.seen = np.zeros((seeds, count, count)), np.zeros((seeds, count, count))
        self.cosine, self.log_norm = [], []
        longest = max(steps // 5, 1)
        self.windows = [w for w in (1, 3, 10, 32, 100, 316, 1000, 3162, 10000) if w <= longest]
        self.sums = [WindowCosine(w, seeds, count) for w in self.windows]

    def add(self, gradients: np.ndarray) -> None:
        """The next steps, (seed, step, learner, weight)."""
        cos = cosines(gradients)
        self.total += np.nansum(cos, axis=1)
        self.seen += np.isfinite(cos).sum(axis=1)
        index = np.clip(((np.nan_to_num(cos) + 1) / 2 * BINS).astype(int), 0, BINS - 1)
        finite = np.isfinite(cos)
        for i in range(len(LEARNERS)):
            for j in range(len(LEARNERS)):
                self.histogram[i, j] += np.bincount(index[..., i, j][finite[..., i, j]], minlength=BINS)
        which = [LEARNERS.index(name) for name in NOISY]
        with np.errstate(divide="ignore"):
            norms = np.log10(np.linalg.norm(gradients[:, :, which], axis=-1))
        self.cosine.append(np.moveaxis(cos[:, :, which, 0], 2, 0).astype(np.float32))
        self.log_norm.append(np.moveaxis(norms, 2, 0).astype(np.float32))
        for sums in self.sums:
            sums.add(np.nan_to_num(gradients))

    def arrays(self) -> Arrays:
        """All of it, as figures and claims expect it."""
        joined = lambda parts: np.concatenate(parts, axis=2).reshape(len(NOISY), -1)
        with np.errstate(invalid="ignore"):
            mean = self.total / self.seen
        return {
            "learners": np.array(LEARNERS),
            "edges": self.edges,
            "histogram": self.histogram,
            "mean": mean,
            "pair_cosine": joined(self.cosine),
            "pair_log_norm": joined(self.log_norm),
            "windows": np.array(self.windows),
            "window_cosine": np.stack([sums.mean() for sums in self.sums], axis=-1),
        }


class WindowCosine:
    """The mean cosine with the first learner's of gradients summed over whole windows of w steps."""

    def __init__(self, w: int, seeds: int, learners: int):
        self._w, self._done = w, 0
        self._partial: np.ndarray | None = None
        self._total, self._count = np.zeros((seeds, learners)), np.zeros((seeds, learners))

    def add(self, gradients: np.ndarray) -> None:
        """The next steps; windows go on from one call to the next."""
        steps = gradients.shape[1]
        first = -self._done % self._w  # where the next window begins
        edges = sorted({0, *range(first, steps, self._w)})
        sums = np.add.reduceat(gradients, edges, axis=1, dtype=np.float64)
        if self._partial is not None and self._done % self._w:
            sums[:, 0] += self._partial
        self._done += steps
        if self._done % self._w:
            self._partial, sums = sums[:, -1], sums[:, :-1]
        if sums.shape[1]:
            cos = cosines(sums)[..., 0]
            self._total += np.nansum(cos, axis=1)
            self._count += np.isfinite(cos).sum(axis=1)

    def mean(self) -> np.ndarray:
        """(seed, learner)."""
        with np.errstate(invalid="ignore"):
            return self._total / self._count
