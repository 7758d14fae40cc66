"""What a run keeps on the host between chunks, independent of how it is cut."""

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import PyTree


class Losses:
    """Window means of the loss. A window is averaged whole, in double precision, once its last step is in."""

    def __init__(self, seeds: tuple[int, ...], window: int):
        self.seeds, self.window = seeds, window
        self.diverged: dict[int, int] = {}
        self._means: list[np.ndarray] = []
        self._pending: list[np.ndarray] = []
        self._waiting = self._seen = 0

    def append(self, losses: np.ndarray) -> None:
        """Each seed's loss at the next steps, (seed, step)."""
        self._note_divergence(losses)
        self._seen += losses.shape[1]
        self._waiting += losses.shape[1]
        self._pending.append(losses)
        if self._waiting < self.window:
            return
        pending = np.concatenate(self._pending, axis=1)
        whole = self._waiting // self.window
        for i in range(whole):
            self._means.append(self._mean(pending[:, i * self.window : (i + 1) * self.window]))
        self._pending = [pending[:, whole * self.window :].copy()]
        self._waiting -= whole * self.window

    def means(self) -> np.ndarray:
        """(seed, window), an unfinished window last."""
        rest = [self._mean(np.concatenate(self._pending, axis=1))] if self._waiting else []
        return np.stack(self._means + rest, axis=1) if self._means or rest else np.zeros((len(self.seeds), 0))

    def ends(self) -> np.ndarray:
        """The step after which each window ends."""
        whole = np.arange(1, len(self._means) + 1) * self.window
        return np.append(whole, self._seen) if self._waiting else whole

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        rows = [self.seeds.index(seed) for seed in self.diverged]
        return {
            "means": np.stack(self._means, axis=1) if self._means else np.zeros((len(self.seeds), 0)),
            "pending": np.concatenate(self._pending, axis=1) if self._waiting else np.zeros((len(self.seeds), 0)),
            "diverged": np.array([rows, list(self.diverged.values())], dtype=np.int64),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned."""
        self._means = list(state["means"].T)
        self._pending, self._waiting = [state["pending"]], state["pending"].shape[1]
        self._seen = len(self._means) * self.window + self._waiting
        self.diverged = {self.seeds[row]: int(step) for row, step in state["diverged"].T}

    def _mean(self, losses: np.ndarray) -> np.ndarray:
        return losses.mean(axis=1, dtype=np.float64)

    def _note_divergence(self, losses: np.ndarray) -> None:
        wrong = ~np.isfinite(losses)
        for row in np.flatnonzero(wrong.any(axis=1)):
            self.diverged.setdefault(self.seeds[row], self._seen + int(wrong[row].argmax()))


class Records:
    """Per-step records, (seed, step, ...). The first `delay` moments lie before the first step and are left out."""

    def __init__(self, delay: int):
        self._delay = delay
        self._chunks: list[PyTree[np.ndarray]] = []

    def append(self, records: PyTree[np.ndarray]) -> None:
        """The records of the next steps."""
        if jax.tree.leaves(records):
            self._chunks.append(records)

    def joined(self) -> PyTree[np.ndarray]:
        """All of them."""
        if not self._chunks:
            return {}
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1)[:, self._delay :], *self._chunks)
