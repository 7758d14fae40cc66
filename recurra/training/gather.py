"""What a run gathers on the host, piece by piece. The numbers do not depend on how the run is cut into pieces."""

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import PyTree

from recurra.engine.hardware import bytes_of
from recurra.engine.protocol import Piece
from recurra.saved.headers import DTYPES
from recurra.saved.trees import arrays_of
from recurra.training.windows import LossWindows


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
        self.losses.append(piece.loss, piece.labelled, piece.every, piece.diverged)
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
