"""The model, and everything else that a run knows after a number of rows: baselines, errors, and what was read.

The model is a race of several, or one that the user chose. What a session knows does not depend on how the rows were
cut into batches.
"""

import math
import re
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from recurra.cli.learning.baselines import baselines, described
from recurra.cli.learning.columns import BadRowError, Chunk, ColumnPlan, Encoder
from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.rows import Record
from recurra.cli.learning.scores import Notes, Range, Scores
from recurra.online.keeping import under, within
from recurra.online.settling import Waiting
from recurra.studies.settings import SettingsError

#: how many bad rows are named in the end
NAMED = 3
#: what a checkpoint keeps of a session beside arrays
COUNTS = ("rows", "last_row", "skipped", "bad_rows")
#: rows that are shown at the end
TAIL = 2000


def build_model(options: LearnOptions, n_in: int) -> Any:
    """The model; `SettingsError` for what its constructor rejects."""
    import recurra as rc

    _configure_jax()
    make, given = (rc.forecaster, options.single()) if options.single() else (rc.race, {})
    try:
        return make(n_in, horizon=options.horizon, key=options.key, **given)
    except (ValueError, TypeError) as error:
        raise SettingsError(str(error)) from None


def restore_model(options: LearnOptions, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model that was saved."""
    import recurra as rc

    _configure_jax()
    try:
        return (rc.Online if options.single() else rc.Race).from_saved(description, arrays)
    except ValueError as error:
        raise SettingsError(f"The model in the checkpoint cannot be used: {error}.") from None


def _configure_jax() -> None:
    import jax

    from recurra.cli.environment import check_device

    # A row is computed in microseconds: handing it to another thread would take longer. JAX reads this when it starts.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    check_device()


def divergence() -> type[Exception]:
    """What a model raises whose numbers are no longer finite."""
    import recurra as rc

    return rc.Diverged


class DivergedError(Exception):
    """The model's numbers are no longer finite: what it forecast before, and what to try."""

    def __init__(self, lines: list[list[Any]], message: str):
        super().__init__(message)
        self.lines = lines


def state_of(part: Any) -> dict[str, np.ndarray]:
    """What the next row needs of a part of a session, as arrays.

    Its `KEPT` says which: an array of one attribute, or of several that are numbers.
    """

    def array(names: str | tuple[str, ...]) -> np.ndarray:
        if not isinstance(names, str):
            return np.array([getattr(part, name) for name in names])
        value = getattr(part, names)
        return value.arrays() if hasattr(value, "arrays") else np.array(value)

    return {name: array(names) for name, names in part.KEPT.items()}


def restore(part: Any, state: dict[str, np.ndarray]) -> None:
    """Let a part of a session go on from what `state_of` returned."""
    for name, names in part.KEPT.items():
        if not isinstance(names, str):
            for each, value in zip(names, state[name].tolist(), strict=True):
                setattr(part, each, type(getattr(part, each))(value))
        elif isinstance(getattr(part, names), np.ndarray):
            setattr(part, names, state[name].copy())
        elif isinstance(value := getattr(part, names), list | deque):
            value.clear()
            value.extend(state[name])
        else:
            value.restore(state[name])


class Session:
    """A run of `recurra learn`, without its files and its clock."""

    KEPT: ClassVar = {"own/kept": "_own", "others/kept": "_others", "tail/rows": "tail"}

    def __init__(self, options: LearnOptions, plan: ColumnPlan, model: Any = None):
        self.options, self.horizon = options, options.horizon
        #: a race or a single model, which needs `learn_many`, `state_arrays` and `description`
        self.model = model or build_model(options, len(plan.names))
        self.encoder = Encoder(plan)
        # With a horizon of 0 the value of a row is not known when it is predicted, so baselines know that before it.
        lead = max(self.horizon, 1)
        self.baselines = baselines(lead, options.period)
        self.scores = Scores(1 + len(self.baselines))
        self.range = None if options.coverage is None else Range(options.coverage)
        #: forecasts and half-widths, and forecasts of the baselines, on their way to the rows that they are about
        self._own, self._others = Waiting(self.horizon), Waiting(lead)
        #: row, time, truth, prediction and half-width of the latest rows
        self.tail = np.empty((0, 5))
        self.notes = Notes()
        #: rows learned from, and the number in the table of the last one that was dealt with
        self.rows, self.last_row = 0, 0
        self.skipped = 0
        self.bad_rows: list[str] = []

    def names(self) -> list[str]:
        """The forecasts that are scored, the model's first."""
        return [self.options.model_name, *(described(name, each) for name, each in self.baselines.items())]

    def shares(self) -> dict[str, float]:
        """How much each member of a race counts; nothing for a single model."""
        found = getattr(self.model, "shares", dict)()
        return {str(name): float(value) for name, value in found.items()}

    def remarks(self) -> list[str]:
        """What the model has to say."""
        return list(getattr(self.model, "notes", list)())

    def take(self, rows: Sequence[Record]) -> tuple[list[list[Any]], BadRowError | None]:
        """Learn from rows up to the first bad one.

        Returns a line of predictions for each, and what is wrong with that one. Nothing is learned from it.
        """
        before = state_of(self.encoder)
        batch, bad = self.encoder.encode(rows)
        forecasts, rejected = self._learn(batch.x, batch.y)
        if rejected is not None:
            restore(self.encoder, before)
            batch, _ = self.encoder.encode(rows[: len(forecasts)])
            bad = BadRowError(f"{rows[len(forecasts)].place}{self._explained(rejected)}")
        lines = self._note(batch, forecasts)
        if isinstance(rejected, divergence()):
            raise DivergedError(lines, str(rejected))
        return lines, bad

    def _explained(self, rejected: Exception) -> str:
        """What a model says of a row, in the words of the table: models count inputs, and know no names."""
        first, _, _ = str(rejected).partition(". ")
        found = re.fullmatch(r"Row [\d,]+, column (\d+) of the (input|label), is (.*)", first)
        if found is None:
            return f": {rejected}"
        plan = self.encoder.plan
        column = plan.target.name if found[2] == "label" else plan.names[int(found[1])]
        return f", column {column!r}: {found[3]}"

    def _learn(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Exception | None]:
        """The model's forecasts up to the row that it rejects, and why. Rows are cut until that row is found."""
        found, done, size = [np.empty(0)], 0, len(x)
        labels = np.ma.masked_invalid(y[:, None])
        while done < len(x):
            part = slice(done, done + size)
            try:
                forecasts = np.asarray(self.model.learn_many(x[part], labels[part]), float)
            except (divergence(), ValueError) as error:
                if size == 1:
                    return np.concatenate(found), error
                size //= 2
                continue
            found.append(forecasts.reshape(len(forecasts), -1)[:, 0])
            done += len(forecasts)
        return np.concatenate(found), None

    def _note(self, batch: Chunk, forecasts: np.ndarray) -> list[list[Any]]:
        """Score what was forecast of these rows, and keep what is forecast from them; the lines of predictions."""
        if not batch.rows:
            return []
        own, others = self._pass_on(batch.y.tolist(), forecasts.tolist())
        self.scores.add(batch.y, np.concatenate([own[:, :1], others], axis=1))
        numbers = [row.number for row in batch.rows]
        shown = np.column_stack([numbers, batch.seconds, batch.y, own])
        self.tail = np.concatenate([self.tail, shown])[-TAIL:]
        self.rows, self.last_row = self.rows + len(numbers), numbers[-1]
        self.notes.add(self.rows, float(batch.seconds[-1]), self.shares().values())

        prediction, width = own.T
        columns = {"row": numbers, "time": batch.times, "truth": batch.y, "prediction": prediction,
                   "low": prediction - width, "high": prediction + width, self._ahead: forecasts}  # fmt: skip
        cells = [_cells(columns[name]) for name in self.header()]
        return [list(line) for line in zip(*cells, strict=True)]

    def _pass_on(self, truth: list[float], forecasts: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """What was forecast of these rows; what is forecast now is kept for later.

        It is the model's forecast with the half-width of its range, (rows, 2), and those of the baselines. NaN stands
        for what nobody had forecast.
        """
        own, others = [], []

        def settle(forecast: np.ndarray, y: Any) -> None:
            own.append(forecast)
            if self.range is not None:
                self.range.see(y, *forecast.tolist())

        for y, forecast in zip(truth, forecasts, strict=True):
            for made in self._own.row(np.array([forecast, math.nan]), y, True, settle):
                made[1] = math.nan if self.range is None else self.range.width
            due = self._others.pass_on(np.array([each.see(y) for each in self.baselines.values()]))
            others += [] if due is None else [due]
        padded = lambda due, width: np.array([[math.nan] * width] * (len(truth) - len(due)) + due)
        return padded(own, 2), padded(others, len(self.baselines))

    @property
    def _ahead(self) -> str:
        return f"forecast+{self.horizon}"

    def header(self) -> list[str]:
        """The columns of the predictions: of this row, and with a horizon the forecast made at it."""
        time = ["time"] if self.encoder.plan.time else []
        ends = ["low", "high"] if self.range is not None else []
        return ["row", *time, "truth", "prediction", *ends, *([self._ahead] if self.horizon else [])]

    def forecast(self) -> float | None:
        """What the model forecasts of the row `horizon` rows after the last."""
        return float(self._own.arrays()[-1, 0]) if self.horizon and self.rows else None

    def skip(self, row: Record, bad: str) -> None:
        """Count a row that is left out."""
        self.skipped += 1
        self.last_row = row.number
        self.bad_rows = [*self.bad_rows, bad][:NAMED]

    def _parts(self) -> dict[str, Any]:
        """All that has a state of its own, but the model."""
        known = {"encoder": self.encoder, "scores": self.scores, "interval": self.range, "notes": self.notes}
        return {name: part for name, part in (known | self.baselines).items() if part is not None}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything as arrays and as JSON."""
        arrays = state_of(self) | under("model", self.model.state_arrays())
        for name, part in self._parts().items():
            arrays |= under(name, state_of(part))
        counts = {name: getattr(self, name) for name in COUNTS}
        return arrays, {**counts, "model": self.model.description()}

    @staticmethod
    def restored(
        options: LearnOptions, plan: ColumnPlan, arrays: dict[str, np.ndarray], document: dict[str, Any]
    ) -> "Session":
        """The session that `state` describes."""
        model = restore_model(options, document["model"], within(arrays, "model"))
        session = Session(options, plan, model)
        restore(session, arrays)
        for name, part in session._parts().items():
            restore(part, within(arrays, name))
        for name in COUNTS:
            setattr(session, name, type(getattr(session, name))(document[name]))
        return session


def _cells(values: Sequence[Any] | np.ndarray) -> list[Any]:
    """Values as a table has them: nothing for NaN."""
    return ["" if value != value else value for value in np.asarray(values, object).tolist()]
