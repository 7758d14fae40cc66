"""What a run gathers on the host, piece by piece. The numbers do not depend on how the run is cut into pieces."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from recurra.engine.hardware import bytes_of
from recurra.engine.protocol import Piece
from recurra.saved.headers import DTYPES
from recurra.saved.trees import arrays_of

#: at most so many losses are added up at once
PIECE = 4096
#: what a window takes besides its numbers
WINDOW_BYTES = 256


class LossWindows:
    """Window means of the loss over labelled steps, in double precision; nan for a window without a label.

    A window is added up in parts. Where the parts end does not depend on how the run is cut into pieces.
    """

    def __init__(self, seeds: Sequence[int], window: int):
        self.seeds, self.window = seeds, window
        self.diverged: dict[int, int] = {}
        self._means: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []  # labelled steps of each window
        self._seen, self._sum, self._count = 0, *self._nothing()  # over the parts of the present window so far
        self._pending, self._labelled = np.zeros((len(seeds), 0), np.float32), np.zeros((len(seeds), 0), bool)

    @staticmethod
    def bytes_of(seeds: int, steps: int, window: int) -> int:
        """How many bytes the means will take, and once more when they are put side by side."""
        return (2 * 8 * seeds + WINDOW_BYTES) * -(-steps // window)

    def append(self, losses: np.ndarray, labelled: np.ndarray | None = None) -> None:
        """Each seed's loss at the next steps, (seed, step), and which of them had a label; None: all."""
        losses = losses if losses.dtype.kind == "f" else losses.astype(np.float32)  # bfloat16 is no type of NumPy's own
        if labelled is None:
            counted, labelled = losses, np.broadcast_to(True, losses.shape)
        else:
            counted = np.where(labelled, losses, 0)
        self._note_divergence(~np.isfinite(losses) & labelled)
        self._seen += losses.shape[1]
        pending = np.concatenate([self._pending.astype(losses.dtype), counted], axis=1)
        labelled = np.concatenate([self._labelled, labelled], axis=1)
        step = self._seen - pending.shape[1]
        while pending.shape[1] >= (piece := min(PIECE, self.window - step % self.window)):
            self._sum = self._sum + pending[:, :piece].sum(axis=1, dtype=np.float64)
            self._count = self._count + labelled[:, :piece].sum(axis=1)
            pending, labelled, step = pending[:, piece:], labelled[:, piece:], step + piece
            if step % self.window == 0:
                self._means.append(_mean(self._sum, self._count))
                self._counts.append(self._count)
                self._sum, self._count = self._nothing()
        self._pending, self._labelled = pending.copy(), labelled.copy()

    def means(self) -> np.ndarray:
        """(seed, window), an unfinished window last."""
        rest = []
        if self._seen % self.window:
            total = self._sum + self._pending.sum(axis=1, dtype=np.float64)
            rest = [_mean(total, self._count + self._labelled.sum(axis=1))]
        return np.stack(self._means + rest, axis=1) if self._means or rest else np.zeros((len(self.seeds), 0))

    @property
    def seen(self) -> int:
        """The steps so far."""
        return self._seen

    def labelled(self) -> np.ndarray:
        """How many steps of each window had a label, (seed, window)."""
        rest = [self._count + self._labelled.sum(axis=1)] if self._seen % self.window else []
        every = self._counts + rest
        return np.stack(every, axis=1) if every else np.zeros((len(self.seeds), 0), np.int64)

    def ends(self) -> np.ndarray:
        """The step after which each window ends."""
        whole = np.arange(1, len(self._means) + 1) * self.window
        return np.append(whole, self._seen) if self._seen % self.window else whole

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        row = {seed: i for i, seed in enumerate(self.seeds)}
        return {
            "means": np.stack(self._means, axis=1) if self._means else np.zeros((len(self.seeds), 0)),
            "counts": np.stack(self._counts, axis=1) if self._counts else np.zeros((len(self.seeds), 0), np.int64),
            "sum": self._sum,
            "count": self._count,
            "pending": self._pending,
            "labelled": self._labelled,
            "seen": np.array(self._seen),
            "diverged": np.array([[row[seed] for seed in self.diverged], list(self.diverged.values())], np.int64),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        seen, diverged = int(state["seen"]), state["diverged"].reshape(2, -1)
        kept = [state[name] for name in ("means", "pending", "labelled", "sum", "count", "counts")]
        waiting = seen - seen // self.window * self.window
        if (
            any(len(array) != len(self.seeds) for array in kept)
            or kept[0].shape[1] != seen // self.window
            or kept[5].shape != kept[0].shape
            or not kept[1].shape == kept[2].shape
            or kept[1].shape[1] > waiting
            or np.any((diverged[0] < 0) | (diverged[0] >= len(self.seeds)))
        ):
            raise ValueError("losses of another shape")
        means, self._pending, self._labelled, self._sum, self._count, counts = kept
        self._seen, self._means, self._counts = seen, list(means.T), list(counts.T)
        self.diverged = {self.seeds[int(row)]: int(step) for row, step in diverged.T}

    def _nothing(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(self.seeds)), np.zeros(len(self.seeds), np.int64)

    def _note_divergence(self, wrong: np.ndarray) -> None:
        for row in np.flatnonzero(wrong.any(axis=1)):
            self.diverged.setdefault(self.seeds[int(row)], self._seen + int(wrong[row].argmax()))


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class Records:
    """Records of every `every`-th step, (seed, step, ...), in arrays that have room for all of them from the start.

    The first `delay` outcomes lie before the first step and are left out.
    """

    def __init__(self, recorded: PyTree, seeds: int, steps: int, every: int, delay: int):
        self._every, self._delay, self._next = every, delay, -delay  # the step that the next outcome belongs to
        count = self._kept_before(steps - delay)
        self._rows = jax.tree.map(lambda leaf: np.empty((seeds, count, *leaf.shape), leaf.dtype), recorded)

    @staticmethod
    def bytes_of(recorded: PyTree, seeds: int, steps: int, every: int) -> int:
        """How many bytes the records will take."""
        return seeds * -(-steps // every) * bytes_of(recorded)

    def append(self, records: PyTree[np.ndarray]) -> None:
        """The outcomes of the next steps."""
        leaves = jax.tree.leaves(records)
        if not leaves:
            return
        start, stop = self._next, self._next + leaves[0].shape[1]
        first = self._kept_before(start)
        skipped = first * self._every - start
        for rows, new in zip(jax.tree.leaves(self._rows), leaves, strict=True):
            rows[:, first : self._kept_before(stop)] = new[:, skipped :: self._every]
        self._next = stop

    def joined(self) -> PyTree[np.ndarray]:
        """All of them."""
        return jax.tree.map(lambda rows: rows[:, : self._kept_before(self._next)], self._rows)

    def state(self) -> dict[str, np.ndarray]:
        """All of them as plain arrays."""
        named = {f"records.{name}": _plain(rows) for name, rows in arrays_of(self.joined()).items()}
        return {**named, "next_record": np.array(self._next)} if named else {}

    def restore(self, state: Mapping[str, np.ndarray], seen: int) -> None:
        """Take up what `state` returned after so many steps; KeyError or ValueError if it is not whole."""
        rows = {f"records.{name}": array for name, array in arrays_of(self._rows).items()}
        if not rows:
            return
        self._next = int(state["next_record"])
        if self._next != seen - self._delay:
            raise ValueError("records of other steps than losses")
        count = self._kept_before(self._next)
        for name, own in rows.items():
            kept = state[name] if own.dtype in DTYPES.values() else state[name].view(own.dtype)[..., 0]
            if (kept.shape, kept.dtype) != ((len(own), count, *own.shape[2:]), own.dtype):
                raise ValueError("records of another shape")
            own[:, :count] = kept

    def _kept_before(self, step: int) -> int:
        """How many steps before this one are kept."""
        return max(-(-step // self._every), 0)


def _plain(array: np.ndarray) -> np.ndarray:
    """An array of a type that files hold: others, such as complex numbers, as bytes along one more axis."""
    return array if array.dtype in DTYPES.values() else np.asarray(array, order="C")[..., None].view(np.uint8)


class Gathering:
    """The losses and records of a run, up to the same step."""

    def __init__(self, losses: LossWindows, records: Records):
        self.losses, self.records = losses, records
        #: the steps that are gathered completely
        self.seen = 0

    def append(self, piece: Piece) -> None:
        """The next steps."""
        self.losses.append(piece.loss, piece.labelled)
        self.records.append(piece.records)
        self.seen = piece.stop  # last: an interruption may come anywhere

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        return {**self.losses.state(), **self.records.state()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        self.losses.restore(state)
        self.records.restore(state, self.losses.seen)
        self.seen = self.losses.seen
