"""Numbers that go wrong: the error, and what is said of norms that grow."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from recurra.online.step import OnlineState
from recurra.step import APPLIED


class Diverged(ArithmeticError):  # noqa: N818 (it is what happened)
    """A model's numbers are no longer finite. The model stays as it was before the call that found out.

    What a learner keeps is told by its gradient, however large it is. Where the gradient alone has 4 MB and more, such
    as that of 1,024 units, it may be found up to 63 rows later. The model then has such numbers before the call too.

    >>> series, model = np.sin(np.arange(300) / 7)[:, None], rc.forecaster(n_in=1)
    >>> try:
    ...     predictions = model.learn_many(series, series)
    ... except rc.Diverged as error:
    ...     print(error.row)
    """

    def __init__(self, message: str, row: int):
        super().__init__(message)
        #: the row at which it was found
        self.row = row


#: what the norm of the learner's own state is called
KEPT = "what the learner keeps"
#: It is noted from so many rows on, and said if it grows by this factor.
LOOK_FIRST, GROWN = 128, 1000.0


def norms_of(state: OnlineState) -> dict[str, float]:
    """The Euclidean norm of each part of a state, by a name that a person understands."""
    learning = state.delayed.learning
    called = lambda name: KEPT if name == APPLIED else f"what the probe {name} keeps"
    parts = {
        "the recurrent and input weights": learning.weights.cell,
        "the readout": learning.weights.readout,
        "the network state": learning.a,
        "the optimizer": learning.optimizers,
        **{called(name): kept for name, kept in learning.learners.items()},
    }
    return {name: _norm(part) for name, part in parts.items()}


def grown(before: OnlineState, after: OnlineState) -> str:
    """In words, which part grew most."""
    old, new = norms_of(before), norms_of(after)
    growth = {name: new[name] / max(old[name], 1e-30) if np.isfinite(new[name]) else np.inf for name in new}
    worst = max(growth, key=lambda name: (growth[name], new[name]))
    return f"the norm of {worst} went from {old[worst]:.3g} to {new[worst]:.3g}"


class Watch:
    """Says if what the learner keeps has grown. It looks whenever the number of rows has doubled."""

    def __init__(self) -> None:
        self._next, self._first = LOOK_FIRST, 0.0
        self._notes: list[str] = []

    def look(self, rows: int, norms: Callable[[], dict[str, float]]) -> list[str]:
        """All that is to be said so far. `norms` is called only when it is time to."""
        if rows >= self._next:
            self._next, now = 2 * rows, norms()[KEPT]
            self._first = self._first or now
            if self._first and now > GROWN * self._first:
                self._notes.append(
                    f"What the learner keeps has grown {now / self._first:,.0f}-fold by row {rows:,}: if errors grow "
                    "too, try a lower learning rate or another learner."
                )
        return list(self._notes)


def _norm(part: Any) -> float:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(part)]
    floats = [leaf.astype(np.float64) for leaf in leaves if leaf.dtype.kind not in "iub"]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(sum(float(np.sum(leaf * leaf)) for leaf in floats)))
