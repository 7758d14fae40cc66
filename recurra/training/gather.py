"""What a run gathers on the host, piece by piece. The numbers do not depend on how the run is cut into pieces."""

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import PyTree

#: at most so many losses are added up at once
PIECE = 4096


class LossWindows:
    """Window means of the loss, in double precision.

    A window is added up in parts. Where the parts end does not depend on how the run is cut into pieces.
    """

    def __init__(self, seeds: tuple[int, ...], window: int):
        self.seeds, self.window = seeds, window
        self.diverged: dict[int, int] = {}
        self._means: list[np.ndarray] = []
        self._seen, self._sum = 0, np.zeros(len(seeds))  # the sum is over the pieces of the window so far
        self._pending = np.zeros((len(seeds), 0), np.float32)

    def append(self, losses: np.ndarray) -> None:
        """Each seed's loss at the next steps, (seed, step)."""
        self._note_divergence(losses)
        self._seen += losses.shape[1]
        pending = np.concatenate([self._pending.astype(losses.dtype), losses], axis=1)
        step = self._seen - pending.shape[1]
        while pending.shape[1] >= (piece := min(PIECE, self.window - step % self.window)):
            self._sum = self._sum + pending[:, :piece].sum(axis=1, dtype=np.float64)
            pending, step = pending[:, piece:], step + piece
            if step % self.window == 0:
                self._means.append(self._sum / self.window)
                self._sum = np.zeros(len(self.seeds))
        self._pending = pending.copy()

    def means(self) -> np.ndarray:
        """(seed, window), an unfinished window last."""
        count = self._seen % self.window
        rest = [(self._sum + self._pending.sum(axis=1, dtype=np.float64)) / count] if count else []
        return np.stack(self._means + rest, axis=1) if self._means or rest else np.zeros((len(self.seeds), 0))

    def ends(self) -> np.ndarray:
        """The step after which each window ends."""
        whole = np.arange(1, len(self._means) + 1) * self.window
        return np.append(whole, self._seen) if self._seen % self.window else whole

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        rows = [self.seeds.index(seed) for seed in self.diverged]
        return {
            "means": np.stack(self._means, axis=1) if self._means else np.zeros((len(self.seeds), 0)),
            "sum": self._sum,
            "pending": self._pending,
            "seen": np.array(self._seen),
            "diverged": np.array([rows, list(self.diverged.values())], dtype=np.int64),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned."""
        self._means = list(state["means"].T)
        self._seen, self._sum, self._pending = int(state["seen"]), state["sum"], state["pending"]
        self.diverged = {self.seeds[row]: int(step) for row, step in state["diverged"].T}

    def _note_divergence(self, losses: np.ndarray) -> None:
        wrong = ~np.isfinite(losses)
        for row in np.flatnonzero(wrong.any(axis=1)):
            self.diverged.setdefault(self.seeds[row], self._seen + int(wrong[row].argmax()))


class Records:
    """Per-step records, (seed, step, ...). The first `delay` outcomes lie before the first step and are left out."""

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
