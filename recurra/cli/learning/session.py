"""The model, and everything else that a run knows after a number of rows: baselines, errors, and what was read.

The model is a race of several, or one that the user chose. What a session knows does not depend on how the rows were
cut into batches.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from recurra.cli.learning.baselines import baselines, described
from recurra.cli.learning.columns import BadRowError, Batch, Encoder, Layout, row_name
from recurra.cli.learning.options import LearnOptions, ModelChoice
from recurra.cli.learning.rows import Row
from recurra.cli.learning.scores import Delay, Interval, Notes, Scores, Tail
from recurra.studies.settings import SettingsError

#: how many bad rows are named in the end
NAMED = 3


@runtime_checkable
class Model(Protocol):
    """What the command needs of a model. `shares` and `notes` may be missing."""

    def learn_many(self, X: Any, Y: Any = None) -> np.ndarray:
        """Predictions for rows, which it learns from one after the other."""
        ...

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Its numbers."""
        ...

    def description(self) -> dict[str, Any]:
        """What else has to be known to go on."""
        ...


def build_model(choice: ModelChoice, n_in: int, horizon: int) -> Model:
    """The model; `SettingsError` for what its constructor rejects."""
    import recurra as rc

    _configure_jax()
    try:
        if choice.is_race:
            return rc.race(n_in, horizon=horizon, key=choice.key)
        given = {name: value for name, value in vars(choice).items() if value is not None}
        return rc.forecaster(n_in, horizon=horizon, **given)
    except (ValueError, TypeError) as error:
        raise SettingsError(str(error)) from None


def restore_model(choice: ModelChoice, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """The model that was saved."""
    import recurra as rc

    _configure_jax()
    try:
        return (rc.Race if choice.is_race else rc.Online).from_saved(description, arrays)
    except ValueError as error:
        raise SettingsError(f"The model in the checkpoint cannot be used: {error}.") from None


def _configure_jax() -> None:
    import jax

    from recurra.cli.environment import check_device

    # A row is computed in microseconds: handing it to another thread would take longer. JAX reads this when it starts.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    check_device()


def shares_of(model: Model) -> dict[str, float]:
    """How much each member of a race counts; nothing for a single model."""
    found = getattr(model, "shares", None)
    return {} if found is None else {str(name): float(value) for name, value in found().items()}


def notes_of(model: Model) -> list[str]:
    """What the model has to say."""
    found = getattr(model, "notes", None)
    return [] if found is None else list(found())


def divergence() -> type[Exception]:
    """What a model raises whose numbers are no longer finite."""
    import recurra as rc

    return rc.Diverged


class Session:
    """A run of `recurra learn`, without its files and its clock."""

    def __init__(self, options: LearnOptions, layout: Layout, model: Model | None = None):
        self.options = options
        self.model = model or build_model(options.model, layout.width, options.horizon)
        self.encoder = Encoder(layout)
        self.horizon = options.horizon
        # With a horizon of 0 the value of a row is not known when it is predicted, so baselines know that before it.
        lead = max(self.horizon, 1)
        self.baselines = baselines(lead, options.period)
        self.scores = Scores(1 + len(self.baselines))
        self.interval = None if options.coverage is None else Interval(options.coverage)
        #: forecasts and half-widths on their way to the rows that they are about
        self._own = Delay(self.horizon, 2)
        self._others = Delay(lead, len(self.baselines))
        #: row, time, truth, prediction and half-width of the latest rows
        self.tail = Tail(5)
        self.notes = Notes()
        #: rows learned from, and the number in the table of the last one that was dealt with
        self.rows, self.last_row = 0, 0
        self.skipped = 0
        self.bad_rows: list[str] = []

    def names(self) -> list[str]:
        """The forecasts that are scored, the model's first."""
        return [self.options.model.name, *(described(name, each) for name, each in self.baselines.items())]

    def room(self) -> int:
        """How many rows may be taken at once."""
        return self.notes.room(self.rows)

    def take(self, rows: Sequence[Row]) -> tuple[list[list[Any]], BadRowError | None]:
        """Learn from rows up to the first bad one.

        Returns a line of predictions for each, and what is wrong with that one. Nothing is learned from it.
        """
        before = self.encoder.state()
        batch, bad = self.encoder.encode(rows)
        try:
            forecasts = self._learn(batch.x, batch.y)
        except _RejectedError as error:
            self.encoder.restore(before)
            batch, _ = self.encoder.encode(rows[: error.row])
            lines = self._note(batch, error.forecasts)
            if error.is_divergence:
                raise DivergedError(lines, str(error.cause)) from None
            return lines, BadRowError(f"{row_name(rows[error.row])}{self._explained(error.cause)}")
        return self._note(batch, forecasts), bad

    def _explained(self, rejected: Exception) -> str:
        """What a model says of a row, in the words of the table: models count inputs, and know no names."""
        first, _, _ = str(rejected).partition(". ")
        found = re.fullmatch(r"Row [\d,]+, column (\d+) of the (input|label), is (.*)", first)
        if found is None:
            return f": {rejected}"
        column = self.encoder.layout.target.name if found[2] == "label" else self.encoder.names[int(found[1])]
        return f", column {column!r}: {found[3]}"

    def _learn(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The model's forecasts. A batch that it cannot take as a whole is cut until the row is found."""
        if not len(x):
            return np.empty(0)
        try:
            labels = np.ma.masked_invalid(y[:, None])
            return np.asarray(self.model.learn_many(x, labels), float).reshape(len(x), -1)[:, 0]
        except (divergence(), ValueError) as error:
            if len(x) == 1:
                raise _RejectedError(0, np.empty(0), error) from None
        half = len(x) // 2
        first = self._learn(x[:half], y[:half])
        try:
            return np.concatenate([first, self._learn(x[half:], y[half:])])
        except _RejectedError as error:
            raise _RejectedError(half + error.row, np.concatenate([first, error.forecasts]), error.cause) from None

    def _note(self, batch: Batch, forecasts: np.ndarray) -> list[list[Any]]:
        """Score what was forecast of these rows, and keep what is forecast from them; the lines of predictions."""
        others = np.array([[each.see(y) for each in self.baselines.values()] for y in batch.y.tolist()])
        others = self._others.pass_on(others.reshape(len(forecasts), len(self.baselines)))
        own = self._with_widths(batch.y, forecasts)
        self.scores.add(batch.y, np.concatenate([own[:, :1], others], axis=1))
        numbers = [row.number for row in batch.rows]
        self.tail.add(np.column_stack([numbers, batch.seconds, batch.y, own]) if numbers else np.empty((0, 5)))
        self.rows += len(forecasts)
        if len(forecasts):
            self.last_row = numbers[-1]
            self.notes.add(self.rows, float(batch.seconds[-1]), shares_of(self.model))
        return self._lines(batch, own, forecasts)

    def _with_widths(self, truth: np.ndarray, forecasts: np.ndarray) -> np.ndarray:
        """Forecasts of these rows with their half-widths, (rows, 2); those made now are kept for later."""
        if self.interval is None:
            return self._own.pass_on(np.column_stack([forecasts, np.full(len(forecasts), math.nan)]))
        due = np.empty((len(forecasts), 2))
        for i, (y, forecast) in enumerate(zip(truth.tolist(), forecasts.tolist(), strict=True)):
            if not self.horizon:
                due[i] = forecast, self.interval.width
                self.interval.see(y, forecast, due[i, 1])
                continue
            # The truth of this row comes before the forecast that is made at it.
            due[i] = self._own.oldest
            width = self.interval.see(y, *due[i].tolist())
            self._own.pass_on(np.array([[forecast, width]]))
        return due

    def _lines(self, batch: Batch, own: np.ndarray, forecasts: np.ndarray) -> list[list[Any]]:
        has_time = self.encoder.layout.time is not None
        columns: list[Sequence[Any]] = [[row.number for row in batch.rows]]
        columns += [batch.times] if has_time else []
        columns += [_numbers(batch.y), _numbers(own[:, 0])]
        if self.interval is not None:
            columns += [_numbers(own[:, 0] - own[:, 1]), _numbers(own[:, 0] + own[:, 1])]
        columns += [_numbers(forecasts)] if self.horizon else []
        return [list(line) for line in zip(*columns, strict=True)]

    def header(self) -> list[str]:
        """The columns of the predictions: of this row, and with a horizon the forecast made at it."""
        time = ["time"] if self.encoder.layout.time else []
        ends = ["low", "high"] if self.interval is not None else []
        return ["row", *time, "truth", "prediction", *ends, *([f"forecast+{self.horizon}"] if self.horizon else [])]

    def forecast(self) -> float | None:
        """What the model forecasts of the row `horizon` rows after the last."""
        if not self.horizon or not self.rows:
            return None
        return float(self._own.newest[0])

    def skip(self, row: Row, bad: str) -> None:
        """Count a row that is left out."""
        self.skipped += 1
        self.last_row = row.number
        if len(self.bad_rows) < NAMED:
            self.bad_rows.append(bad)

    def _parts(self) -> dict[str, Any]:
        """All that has a state of its own, but the model and the notes."""
        interval = {} if self.interval is None else {"interval": self.interval}
        own = {"encoder": self.encoder, "scores": self.scores, "own": self._own, "others": self._others}
        return {**own, "tail": self.tail, **interval, **self.baselines}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as arrays and as JSON."""
        parts = {**self._parts(), "notes": self.notes}
        arrays = {f"{part}/{name}": array for part, each in parts.items() for name, array in each.state().items()}
        arrays |= {f"model/{name}": array for name, array in self.model.state_arrays().items()}
        counts = {"rows": self.rows, "last_row": self.last_row, "skipped": self.skipped, "bad_rows": self.bad_rows}
        members = list(self.notes.names)
        return arrays, {**counts, "members": members, "model": self.model.description()}

    @staticmethod
    def restored(
        options: LearnOptions, layout: Layout, arrays: dict[str, np.ndarray], document: dict[str, Any]
    ) -> "Session":
        """The session that `state` describes."""
        own = restore_model(options.model, document["model"], of_part(arrays, "model"))
        session = Session(options, layout, own)
        for part, each in session._parts().items():
            each.restore(of_part(arrays, part))
        session.notes.restore(of_part(arrays, "notes"), tuple(document["members"]))
        session.rows, session.last_row = int(document["rows"]), int(document["last_row"])
        session.skipped, session.bad_rows = int(document["skipped"]), list(document["bad_rows"])
        return session


class _RejectedError(Exception):
    """A row that the model could not take, and its forecasts before it."""

    def __init__(self, row: int, forecasts: np.ndarray, cause: Exception):
        super().__init__(str(cause))
        self.row, self.forecasts, self.cause = row, forecasts, cause

    @property
    def is_divergence(self) -> bool:
        return isinstance(self.cause, divergence())


class DivergedError(Exception):
    """The model's numbers are no longer finite: what it forecast before, and what to try."""

    def __init__(self, lines: list[list[Any]], message: str):
        super().__init__(message)
        self.lines = lines


def of_part(arrays: dict[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    """The arrays of one part."""
    return {name.removeprefix(f"{part}/"): array for name, array in arrays.items() if name.startswith(f"{part}/")}


def _numbers(values: np.ndarray) -> list[Any]:
    """Numbers as a table has them: nothing for NaN."""
    return ["" if value != value else value for value in values.tolist()]
