"""What is subtracted from rows and labels before they are rounded to the network's precision.

Where numbers are scaled by running statistics, their level does not matter to the model, and a large one would cost
digits: in single precision 1,000,000,000.5 is 1,000,000,000. So the first row, and the first label of each stream, are
subtracted in double precision. Where numbers are not scaled, the origin is zero.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from recurra.online import keeping
from recurra.online.rows import Rows
from recurra.online.step import OnlineStep


class Origins(NamedTuple):
    """The origins, (streams, numbers), and which are not known yet: that of inputs, and those of labels by stream."""

    x: np.ndarray
    y: np.ndarray
    needs_x: bool
    needs_y: tuple[bool, ...]

    @staticmethod
    def unknown(step: OnlineStep) -> "Origins":
        """Before the first row."""
        streams = step.learning.streams
        needs_y = (step.scale_target or step.difference,) * streams
        return Origins(np.zeros((streams, step.n_in)), np.zeros((streams, step.n_out)), step.scale_inputs, needs_y)

    @property
    def are_known(self) -> bool:
        """Whether nothing is missing."""
        return not self.needs_x and not any(self.needs_y)

    def after(self, rows: Rows, dtype: np.dtype) -> "Origins":
        """With what these rows tell."""
        x, y, needs_x, needs_y = self
        with np.errstate(over="ignore"):
            held = lambda values: np.where(np.isfinite(values.astype(dtype)), values, 0.0)
            if needs_x:
                x, needs_x = held(rows.x[0]), False
            comes = rows.present.any(axis=0) & np.array(needs_y)
            if rows.target is jax.Array and comes.any():
                first = rows.y[rows.present.argmax(axis=0), np.arange(len(comes))]
                y = np.where(comes[:, None], held(first), y)
                needs_y = tuple((np.array(needs_y) & ~comes).tolist())
        return Origins(x, y, needs_x, needs_y)

    def widened(self, step: OnlineStep) -> "Origins":
        """The same for a step with as many or more columns and outputs, whose origin is zero."""
        wider = lambda values, width: np.pad(values, ((0, 0), (0, width - values.shape[1])))
        return self._replace(x=wider(self.x, step.n_in), y=wider(self.y, step.n_out))

    def added(self, predictions: np.ndarray, before: "Origins", rows: Rows, horizon: int) -> np.ndarray:
        """Predictions, (rows, streams, n_out), at their level. Before the first label nothing is known of that."""
        if self.y is before.y:
            return predictions + self.y
        known = np.logical_or.accumulate(rows.present)
        known = known if horizon else np.concatenate([np.zeros_like(known[:1]), known[:-1]])
        return predictions + np.where(known[..., None], self.y, before.y)

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file keeps of them as arrays."""
        return {"origin_x": self.x, "origin_y": self.y}

    def flags(self) -> dict[str, Any]:
        """What a file keeps of them as JSON."""
        return {"needs_x": self.needs_x, "needs_y": list(self.needs_y)}

    @staticmethod
    def from_saved(step: OnlineStep, flags: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "Origins":
        """The origins of which these were made; ValueError if there are none."""
        streams, needs_y = step.learning.streams, flags.get("needs_y")
        x = keeping.shaped(arrays, "origin_x", streams, step.n_in)
        y = keeping.shaped(arrays, "origin_y", streams, step.n_out)
        if not isinstance(needs_y, list) or len(needs_y) != streams:
            raise ValueError("it does not say which streams had a label")
        return Origins(x, y, flags.get("needs_x") is True, tuple(each is True for each in needs_y))
