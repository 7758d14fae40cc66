"""Predictions that wait for the truth: what was said is compared with what came, as soon as it came."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from recurra.online.rows import GivenRows

#: takes what was predicted, and the label it should have been
Settle = Callable[[np.ndarray, Any], None]


class Waiting:
    """Predictions whose labels come `horizon` rows later; with a horizon of 0, right after the prediction."""

    def __init__(self, horizon: int):
        self.horizon, self._queue = horizon, deque()

    def pass_on(self, prediction: np.ndarray) -> np.ndarray | None:
        """Take in a prediction made at this row, and hand out the one whose label comes now; None before the first."""
        self._queue.append(prediction)
        return self._queue.popleft() if len(self._queue) > self.horizon else None

    def row(self, prediction: np.ndarray, y: Any, is_present: bool, settle: Settle) -> Iterator[np.ndarray]:
        """One row: yields the prediction once, when all labels known at this time are settled."""
        due = self.pass_on(prediction)
        if not self.horizon:
            yield prediction
        if due is not None and is_present:
            settle(due, y)
        if self.horizon:
            yield prediction

    def copy(self) -> "Waiting":
        """The same, to go back to."""
        found = Waiting(self.horizon)
        found._queue = self._queue.copy()
        return found

    def arrays(self) -> np.ndarray:
        """What waits, oldest first."""
        return np.array(list(self._queue))

    def restore(self, waiting: np.ndarray) -> None:
        """Take up what `arrays` returned."""
        self._queue = deque(np.asarray(waiting))


def labels_of(rows: GivenRows, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Labels in the shape of predictions, and whether each row has one in every stream."""
    if rows.target is not jax.Array:  # what is given in their place tells no truth
        return np.zeros((len(rows.y), *shape)), np.zeros(len(rows.y), bool)
    return rows.y.reshape(len(rows.y), *shape), np.all(rows.present, axis=1)
