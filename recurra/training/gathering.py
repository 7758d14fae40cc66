"""What a run gathers on the host, piece by piece: window means of losses, and records.

The numbers do not depend on how the run is cut into pieces.
"""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from recurra.engine.hardware import bytes_of
from recurra.engine.protocol import Piece
from recurra.saved.headers import DTYPES
from recurra.saved.trees import arrays_of
from recurra.training.record import Sink

#: at most the losses of so many steps are added up at once
PIECE = 4096
#: so many losses in double precision fit into a core's cache
CACHED = 2**15
#: what a window takes besides its numbers
WINDOW_BYTES = 256


class LossWindows:
    """Window means of the loss over labelled steps, in double precision; nan for a window without a label.

    A window is added up in parts. Where the parts end does not depend on how the run is cut into pieces. The `first`
    step may be any at which a window begins.
    """

    def __init__(self, seeds: Sequence[int], window: int, first: int = 0):
        self.seeds, self.window, self._first = seeds, window, first
        self.diverged: dict[int, int] = {}
        self._means: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []  # labelled steps of each window
        self._seen, self._sum, self._count = first, *self._nothing()  # over the parts of the present window so far
        # What waits for the rest of its part: sums over `sizes` steps each, which have labels or not.
        self._pending, self._labelled = np.zeros((len(seeds), 0), np.float32), np.zeros((len(seeds), 0), bool)
        self._sizes = np.zeros(0, np.int64)

    @staticmethod
    def bytes_of(seeds: int, steps: int, window: int) -> int:
        """How many bytes the means will take, and once more when they are put side by side."""
        return (2 * 8 * seeds + WINDOW_BYTES) * -(-steps // window)

    def append(
        self,
        losses: np.ndarray,
        labelled: np.ndarray | None = None,
        every: int = 1,
        diverged: np.ndarray | None = None,
    ) -> None:
        """Each seed's loss at the next steps, (seed, step), and which of them had a label; None: all.

        Where `labelled` holds whole numbers, a step counts as often as its number says. Losses are means over `every`
        steps each, and `diverged` is the first step at which a seed's loss is not finite: see `Piece`.
        """
        losses = losses if losses.dtype.kind == "f" else losses.astype(np.float32)  # bfloat16 is no type of NumPy's own
        losses = losses if labelled is None else np.where(labelled, losses, 0) * labelled
        step = self._seen - int(self._sizes.sum())  # where the present part begins
        missing = step + self._part(step) - self._seen
        if any(steps % every for steps in (missing, self.window, min(self.window, PIECE))):
            raise ValueError(f"Means over {every} steps, after {self._seen}, do not fit windows of {self.window}.")
        self._note_divergence(losses, every, diverged)
        count, at = losses.shape[1], 0  # `at` of them are taken
        self._seen += every * count
        losses = losses if every == 1 else losses.astype(np.float64) * every
        if self._sizes.size:
            at = min(missing // every, count)
            self._wait(losses[:, :at], None if labelled is None else labelled[:, :at], every)
            if at * every < missing:
                return
            step = self._add(step, self._pending, self._waiting_count()[:, None], self._part(step))
            self._pending, self._labelled, self._sizes = self._pending[:, :0], self._labelled[:, :0], self._sizes[:0]
        while self._seen - step >= (part := self._part(step)):
            windows = (self._seen - step) // part if part == self.window else 1
            until = at + windows * part // every
            counts = None if labelled is None else every * _in_parts(labelled[:, at:until], windows).sum(axis=2)
            step, at = self._add(step, losses[:, at:until], counts, part, windows), until
        if at < count:
            self._wait(losses[:, at:], None if labelled is None else labelled[:, at:], every)

    def means(self) -> np.ndarray:
        """(seed, window), an unfinished window last."""
        rest = []
        if self._seen % self.window:
            total = self._sum + self._pending.sum(axis=1, dtype=np.float64)
            rest = [_mean(total, self._count + self._waiting_count())]
        return np.stack(self._means + rest, axis=1) if self._means or rest else np.zeros((len(self.seeds), 0))

    @property
    def seen(self) -> int:
        """The steps so far."""
        return self._seen

    def labelled(self) -> np.ndarray:
        """How many steps of each window had a label, (seed, window)."""
        rest = [self._count + self._waiting_count()] if self._seen % self.window else []
        every = self._counts + rest
        return np.stack(every, axis=1) if every else np.zeros((len(self.seeds), 0), np.int64)

    def ends(self) -> np.ndarray:
        """The step after which each window ends."""
        whole = self._first + np.arange(1, len(self._means) + 1) * self.window
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
            "sizes": self._sizes,
            "seen": np.array(self._seen),
            "diverged": np.array([[row[seed] for seed in self.diverged], list(self.diverged.values())], np.int64),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        seen, diverged = int(state["seen"]), state["diverged"].reshape(2, -1)
        kept = [state[name] for name in ("means", "pending", "labelled", "sum", "count", "counts")]
        sizes = state.get("sizes", np.ones(kept[1].shape[1:], np.int64))  # older files have single steps
        if (
            any(len(array) != len(self.seeds) for array in kept)
            or kept[0].shape[1] != seen // self.window
            or kept[5].shape != kept[0].shape
            or not kept[1].shape == kept[2].shape == (len(self.seeds), *sizes.shape)
            or np.any(sizes < 1)
            or sizes.sum() > seen % self.window
            or np.any((diverged[0] < 0) | (diverged[0] >= len(self.seeds)))
        ):
            raise ValueError("losses of another shape")
        means, self._pending, self._labelled, self._sum, self._count, counts = kept
        self._seen, self._means, self._counts, self._sizes = seen, list(means.T), list(counts.T), sizes
        self.diverged = {self.seeds[int(row)]: int(step) for row, step in diverged.T}

    def _nothing(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(self.seeds)), np.zeros(len(self.seeds), np.int64)

    def _part(self, step: int) -> int:
        """How many steps the part has that begins at this one."""
        return min(PIECE, self.window - step % self.window)

    def _wait(self, losses: np.ndarray, labelled: np.ndarray | None, every: int) -> None:
        """Put sums over `every` steps beside those that wait."""
        labelled = np.broadcast_to(True, losses.shape) if labelled is None else labelled
        # An array that nothing is put beside keeps its type.
        self._pending = np.concatenate([self._pending, losses], axis=1) if self._sizes.size else losses.copy()
        self._labelled = np.concatenate([self._labelled, labelled], axis=1)
        self._sizes = np.append(self._sizes, np.full(losses.shape[1], every))

    def _waiting_count(self) -> np.ndarray:
        """The labelled steps of what waits, (seed,)."""
        return (self._labelled * self._sizes).sum(axis=1)

    def _add(self, step: int, losses: np.ndarray, counts: np.ndarray | None, part: int, windows: int = 1) -> int:
        """Add up a part that begins at `step`, or as many whole windows; returns the step after it.

        `counts` are its labelled steps, (seed, window); None: all.
        """
        total, after = self._sum[:, None] + _sums(losses, windows), step + windows * part
        count = self._count[:, None] + (np.full(total.shape, part) if counts is None else counts)
        if after % self.window:
            self._sum, self._count = total[:, 0], count[:, 0]
        else:
            self._means.extend(_mean(total, count).T)
            self._counts.extend(count.T)
            self._sum, self._count = self._nothing()
        return after

    def _note_divergence(self, losses: np.ndarray, every: int, diverged: np.ndarray | None) -> None:
        if diverged is None:
            diverged = every * _first_not_finite(losses)
        for row in np.flatnonzero(diverged >= 0):
            self.diverged.setdefault(self.seeds[int(row)], self._seen + int(diverged[row]))


def _first_not_finite(losses: np.ndarray) -> np.ndarray:
    """Where the first loss of each row is that is not finite; negative: nowhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = losses.sum(axis=1)
    found = np.full(len(losses), -1)
    for row in np.flatnonzero(~np.isfinite(total)):
        if (wrong := ~np.isfinite(losses[row])).any():  # and not only their sum is too large
            found[row] = wrong.argmax()
    return found


def _in_parts(rows: np.ndarray, parts: int) -> np.ndarray:
    return rows.reshape(len(rows), parts, -1)


def _sums(losses: np.ndarray, parts: int) -> np.ndarray:
    """Sums over as many equal parts, (seed, part), of a few rows at a time: their copies stay in the cache."""
    sums, rows = np.empty((len(losses), parts)), max(CACHED // losses.shape[1], 1)
    for first in range(0, len(losses), rows):
        some = losses[first : first + rows].astype(np.float64, order="C")
        sums[first : first + rows] = _in_parts(some, parts).sum(axis=2)
    return sums


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class Records:
    """Passes the records of every `every`-th step on to a sink, in their order.

    The first `delay` outcomes lie before the first step and are left out.
    """

    def __init__(self, sink: Sink, every: int, delay: int):
        self._sink, self._every, self._delay = sink, every, delay
        self._next = -delay  # the step that the next outcome belongs to

    def append(self, records: PyTree[np.ndarray]) -> None:
        """The outcomes of the next steps."""
        leaves = jax.tree.leaves(records)
        if not leaves:
            return
        start, self._next = self._next, self._next + leaves[0].shape[1]
        skipped = kept_before(start, self._every) * self._every - start
        if skipped < leaves[0].shape[1]:
            self._sink.add(jax.tree.map(lambda rows: rows[:, skipped :: self._every], records))

    def state(self) -> dict[str, np.ndarray]:
        """All that the sink has taken in, as plain arrays."""
        named = {f"records.{name}": array for name, array in self._sink.state().items()}
        return {**named, "next_record": np.array(self._next)} if named else {}

    def restore(self, state: Mapping[str, np.ndarray], seen: int) -> None:
        """Take up what `state` returned after so many steps; KeyError or ValueError if it is not whole."""
        named = {name.removeprefix("records."): state[name] for name in state if name.startswith("records.")}
        if not named and not self._sink.state():
            return
        self._next = int(state["next_record"])
        if self._next != seen - self._delay:
            raise ValueError("records of other steps than losses")
        self._sink.restore(named)
        if isinstance(self._sink, InMemory) and self._sink.count != kept_before(self._next, self._every):
            raise ValueError("records of fewer or more steps than losses")


def kept_before(step: int, every: int) -> int:
    """How many steps before this one are recorded."""
    return max(-(-step // every), 0)


class InMemory:
    """A sink that keeps all records, (seed, step, ...), in arrays that have room for all of them from the start."""

    def __init__(self, recorded: PyTree, seeds: int, steps: int):
        self._rows = jax.tree.map(lambda leaf: np.empty((seeds, steps, *leaf.shape), leaf.dtype), recorded)
        #: how many records each seed has so far
        self.count = 0

    @staticmethod
    def bytes_of(recorded: PyTree, seeds: int, steps: int) -> int:
        """How many bytes the records of so many steps will take."""
        return seeds * steps * bytes_of(recorded)

    def add(self, records: PyTree[np.ndarray]) -> None:
        """The records of the next steps."""
        start, self.count = self.count, self.count + jax.tree.leaves(records)[0].shape[1]
        for rows, new in zip(jax.tree.leaves(self._rows), jax.tree.leaves(records), strict=True):
            rows[:, start : self.count] = new

    def joined(self) -> PyTree[np.ndarray]:
        """All of them."""
        return jax.tree.map(lambda rows: rows[:, : self.count], self._rows)

    def state(self) -> dict[str, np.ndarray]:
        """All of them as plain arrays."""
        return {name: _plain(rows) for name, rows in arrays_of(self.joined()).items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        counts = set()
        for name, own in arrays_of(self._rows).items():
            kept = state[name] if own.dtype in DTYPES.values() else state[name].view(own.dtype)[..., 0]
            counts.add(count := kept.shape[1] if kept.ndim > 1 else 0)
            if (kept.shape, kept.dtype) != ((len(own), count, *own.shape[2:]), own.dtype) or count > own.shape[1]:
                raise ValueError("records of another shape")
            own[:, :count] = kept
        if len(counts) > 1:
            raise ValueError("records of different steps")
        self.count = counts.pop() if counts else 0


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
        labelled = None if piece.labelled is None else piece.labelled > 0  # in any stream
        self.losses.append(piece.loss, labelled, piece.every, piece.diverged)
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
