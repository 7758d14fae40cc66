"""Rows and labels as a user gives them: checked, brought into one shape, and moved near zero.

Where numbers are scaled by running statistics, their level does not matter to the model, and a large one would cost
digits: in single precision 1,000,000,000.5 is 1,000,000,000. So the first row, and the first label of each stream, are
subtracted in double precision: they are the `Origins`. Where numbers are not scaled, the origin is zero.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from recurra.linalg import decomposable
from recurra.online import keeping
from recurra.online.step import OnlineStep
from recurra.step import GivenCredit, GivenError


class GivenRows(NamedTuple):
    """Inputs and labels, (rows, streams, numbers), and which labels are there, (rows, streams).

    `target` is what the labels are: labels themselves, or errors or credit in their place. `reset` tells with which
    rows a sequence begins, (rows, streams); None: with none.
    """

    x: np.ndarray
    y: np.ndarray
    present: np.ndarray
    target: type = jax.Array
    reset: np.ndarray | None = None

    def part(self, start: int, stop: int) -> "GivenRows":
        """Some of the rows."""
        reset = None if self.reset is None else self.reset[start:stop]
        return GivenRows(self.x[start:stop], self.y[start:stop], self.present[start:stop], self.target, reset)


def one_row(step: OnlineStep, x: Any, y: Any, reset: Any = None) -> GivenRows:
    """A single row; None for y if it has no label."""
    streams = step.learning.streams
    x = _shaped(x, "x", 1, streams, step.n_in)
    return GivenRows(x, *_labels(step, y, "y", 1), _resets(step, reset))


def one_label(step: OnlineStep, y: Any) -> GivenRows:
    """A label without its row; None if there is none."""
    return GivenRows(np.zeros((1, step.learning.streams, step.n_in)), *_labels(step, y, "y", 1))


def many_rows(step: OnlineStep, X: Any, Y: Any, reset: Any = None) -> GivenRows:
    """Many rows; None for Y if none has a label."""
    streams, n_in = step.learning.streams, step.n_in
    X = _numbers(X, "X")
    wanted = (n_in,) if streams == 1 else (streams, n_in)
    if X.ndim < 2 or X.shape[1:] != wanted:
        raise ValueError(f"`X` must have shape {_words('rows', wanted)}, and has {X.shape}.")
    X = X.reshape(len(X), streams, n_in)
    return GivenRows(X, *_labels(step, Y, "Y", len(X)), _resets(step, reset, len(X)))


def _resets(step: OnlineStep, reset: Any, *rows: int) -> np.ndarray | None:
    """With which rows a sequence begins, (rows, streams). `rows` is their number, where they have an axis.

    A flag without an axis over streams is for all of them.
    """
    if reset is None or reset is False:
        return None
    if not step.resets:
        raise ValueError(
            "`reset` was given, and the model was made without resets: make it with recurra.OnlineStep(..., "
            "resets=True), as `Result.online` does after a task with resets."
        )
    if isinstance(reset, np.ma.MaskedArray) and np.ma.is_masked(reset):
        raise ValueError("`reset` has a mask of NumPy's: say true or false for every row.")
    try:
        flags = np.asarray(reset)
    except ValueError:  # a list of unequal lists
        flags = np.asarray(None)
    streams = step.learning.streams
    shapes = [rows, (*rows, streams)] if streams > 1 else [rows]
    if flags.dtype != bool or flags.shape not in shapes:
        raise ValueError(
            f"`reset` must hold true or false, of shape {' or '.join(map(str, shapes))}, and holds {flags.dtype} of "
            f"shape {flags.shape}."
        )
    return np.broadcast_to(flags if flags.ndim > len(rows) else flags[..., None], (*(rows or (1,)), streams))


def _labels(step: OnlineStep, y: Any, name: str, count: int) -> tuple[np.ndarray, np.ndarray, type]:
    """The labels, which of them are there, and what they are."""
    shape, width, kind = (count, step.learning.streams), step.n_out, jax.Array
    if y is None:
        return np.zeros((*shape, width)), np.zeros(shape, bool), kind
    if isinstance(y, np.ma.MaskedArray):
        return *_unmasked(y, name, *shape, width), kind
    if isinstance(y, GivenCredit):
        return _side_by_side(step, y, name, shape), np.ones(shape, bool), GivenCredit
    if isinstance(y, GivenError):
        y, kind = y.error, GivenError
    return _shaped(y, name, *shape, width), np.ones(shape, bool), kind


def _side_by_side(step: OnlineStep, given: GivenCredit, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Credit for all state variables in one array."""
    widths = step.learning.network.cell.widths
    if len(given.credit) != len(widths):
        raise ValueError(
            f"Credit is needed for {len(widths)} state variables, None where it is 0, and {given!r} was given."
        )
    parts = zip(given.credit, widths, strict=True)
    return np.concatenate([np.zeros((*shape, n)) if c is None else _shaped(c, name, *shape, n) for c, n in parts], -1)


def _unmasked(y: np.ma.MaskedArray, name: str, count: int, streams: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    values = _shaped(y.filled(0), name, count, streams, width)
    masked = np.ma.getmaskarray(y).reshape(values.shape)
    in_part = np.argwhere(masked.any(axis=-1) & ~masked.all(axis=-1))
    if in_part.size:
        raise ValueError(
            f"A label is there or missing as a whole, and row {in_part[0][0]} of `{name}` is masked in part."
        )
    return values, np.logical_not(masked.all(axis=-1))


def _shaped(value: Any, name: str, count: int, streams: int, width: int) -> np.ndarray:
    """The value as (rows, streams, numbers). A single number needs no axis of its own, and nor does a single row."""
    array = _numbers(value, name)
    one = (width,) if streams == 1 else (streams, width)
    shapes = [(count, *one), *([one] if name in ("x", "y") else [])]
    if array.shape not in [*shapes, *(shape[:-1] for shape in shapes if width == 1)]:
        wanted = _words("rows", one) if name == "Y" else one
        raise ValueError(f"`{name}` must have shape {wanted}, and has {array.shape}.")
    return array.reshape(count, streams, width)


def _numbers(value: Any, name: str) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"`{name}` has a mask of NumPy's, and every row needs its inputs: fill them first.")
    try:
        if value is None or np.iscomplexobj(value):
            raise TypeError
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must hold numbers, and is {value!r:.200}.") from None
    return array


def _words(first: str, others: tuple[int, ...]) -> str:
    return f"({first}, {', '.join(map(str, others))})"


def explain(
    rows: GivenRows, i: int, number: int, dtype: np.dtype, origins: tuple[np.ndarray, np.ndarray]
) -> str | None:
    """What is wrong with row i of these, which is row `number` of the stream; None if it is not the row.

    From inputs and labels these `origins` are subtracted before they are rounded.
    """
    labels = np.where(rows.present[i][:, None], rows.y[i], 0)
    for name, values, origin in (("input", rows.x[i], origins[0]), ("label", labels, origins[1])):
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = np.argwhere(~_is_near((values - origin).astype(dtype), dtype))
        if wrong.size:
            stream, column = wrong[0]
            of_stream = f" of stream {stream}" if len(values) > 1 else ""
            seen = values[stream, column]
            why = "is not finite" if not np.isfinite(seen) else f"is too large for {dtype}"
            return (
                f"Row {number:,}, column {column} of the {name}{of_stream}, is {seen:g}, which {why}. Nothing was "
                "learned from this call: leave the row out, or give its value another way (a label may be None or "
                "masked)."
            )
    return None


def _is_near(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Whether the difference of two such numbers has a finite square, which running variances need."""
    twice = 2 * values.astype(dtype)
    return np.isfinite(twice * twice)


def _can_be_origin(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Which numbers may be subtracted from others of their size. Half precision has no room for usual squares."""
    return _is_near(values.astype(dtype), decomposable(jnp.dtype(dtype)))


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

    def after(self, rows: GivenRows, dtype: np.dtype) -> "Origins":
        """With what these rows tell. Numbers that are too large are no origin."""
        x, y, needs_x, needs_y = self
        with np.errstate(over="ignore"):
            held = lambda values: np.where(_can_be_origin(values, dtype), values, 0.0)
            if needs_x:
                x, needs_x = held(rows.x[0]), False
            comes = rows.present.any(axis=0) & np.array(needs_y)
            if rows.target is jax.Array and comes.any():
                first = rows.y[rows.present.argmax(axis=0), np.arange(len(comes))]
                y = np.where(comes[:, None], held(first), y)
                needs_y = tuple((np.array(needs_y) & ~comes).tolist())
        return Origins(x, y, needs_x, needs_y)

    def too_large(self, rows: GivenRows, dtype: np.dtype) -> int | None:
        """The first of these rows with a number that would be an origin, and is too large for that; None if none is.

        It is refused itself. As an origin it would have the next row refused, which may be a usual one.
        """
        found = []
        with np.errstate(over="ignore"):
            if self.needs_x and not _can_be_origin(rows.x[0], dtype).all():
                found.append(0)
            for stream, needs in enumerate(self.needs_y):
                i = int(rows.present[:, stream].argmax())
                is_first = needs and rows.target is jax.Array and rows.present[i, stream]
                if is_first and not _can_be_origin(rows.y[i, stream], dtype).all():
                    found.append(i)
        return min(found, default=None)

    def widened(self, step: OnlineStep) -> "Origins":
        """The same for a step with as many or more columns and outputs, whose origin is zero."""
        wider = lambda values, width: np.pad(values, ((0, 0), (0, width - values.shape[1])))
        return self._replace(x=wider(self.x, step.n_in), y=wider(self.y, step.n_out))

    def added(self, predictions: np.ndarray, before: "Origins", rows: GivenRows, horizon: int) -> np.ndarray:
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
