"""Several models on one stream. Nobody has to choose between them: their recent errors do."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from recurra import checks
from recurra.engine.hardware import cores
from recurra.engine.settings import settings_of_this_thread
from recurra.online import keeping
from recurra.online.diverging import Diverged
from recurra.online.model import Online
from recurra.online.rows import GivenRows, many_rows, one_row
from recurra.online.settling import Waiting, labels_of


class Race:
    """Models that see the same rows. Their predictions are added up, weighted by recent success.

    A model's loss is the mean of its squared errors, in which a row's weight falls by 1 - 1/`memory` with every row.
    With losses L and the smallest L*, weights are proportional to (L*/L)^`sharpness`. They follow from labels that were
    known when a prediction was made. A model that diverges leaves the race. `key` and the like belong to the models.

    Models that take other rows than the first one are a ValueError, and so is one model under two names. When all have
    diverged there is a `recurra.Diverged`.

    >>> rflo, fixed = rc.forecaster(n_in=1), rc.forecaster(n_in=1, learner="fixed")
    >>> rc.Race({"rflo": rflo, "fixed": fixed}).shares()
    {'rflo': 0.5, 'fixed': 0.5}
    """

    def __init__(self, models: Mapping[str, Online], memory: int = 200, sharpness: float = 4.0):
        self.models = dict(models)
        if not self.models or not all(isinstance(each, Online) for each in self.models.values()):
            raise TypeError(
                f"`models` must map names to models, as {{'rflo': recurra.Online(...)}} does, and is {models!r}."
            )
        _check_different(self.models)
        self.memory, self.sharpness = checks.whole_number("`memory`", memory), sharpness
        checks.in_range(self, "sharpness", least=0.0)
        self.sharpness = float(sharpness)
        shapes = {(each.n_in, each.n_out, each.horizon, each.step.learning.streams) for each in self.models.values()}
        if len(shapes) > 1:
            raise ValueError(
                "All models of a race must have the same number of inputs and outputs, horizon and number of "
                f"streams, and have {sorted(shapes)}."
            )
        first = next(iter(self.models.values()))
        self.n_in, self.n_out, self.horizon, self.step = first.n_in, first.n_out, first.horizon, first.step
        self._shape = (self.n_out,) if first.step.learning.streams == 1 else (first.step.learning.streams, self.n_out)
        self._waiting = Waiting(self.horizon)
        self._loss, self._count = np.zeros(len(self.models)), 0.0
        #: the row at which a model left the race
        self.left: dict[str, int] = {}
        self._why: dict[str, str] = {}

    @property
    def rows(self) -> int:
        """Rows seen so far."""
        return max(each.rows for each in self.models.values())

    @property
    def native(self) -> bool:
        """Whether rows of all models are computed by compiled C: see `recurra.Online`. It may be set at any time."""
        return all(each.native for each in self.models.values())

    @native.setter
    def native(self, wanted: bool) -> None:
        for each in self.models.values():
            each.native = wanted

    def shares(self) -> dict[str, float]:
        """The weight of each model in the next prediction."""
        return dict(zip(self.models, self._weights().tolist(), strict=True))

    def notes(self) -> list[str]:
        """What a person should know: which models left, and why, and what has grown."""
        left = [f"{name} left the race at row {row:,}. {self._why[name]}" for name, row in self.left.items()]
        return left + [f"{name}: {note}" for name, model in self.models.items() for note in model.notes()]

    def predict_one(self, x: Any) -> np.ndarray:
        """The prediction for a row, which is only looked at: nothing changes."""
        return self._combined(np.stack([self._looked(name, x) for name in self.models]))

    def learn_one(self, x: Any, y: Any = None) -> np.ndarray:
        """Take one row and its label, None if there is none. Returns the prediction for the row."""
        return self.take(one_row(self.step, x, y))[0]

    def learn_many(self, X: Any, Y: Any = None) -> np.ndarray:
        """Take many rows with their labels. Returns predictions; the bits are those of `learn_one` in a loop."""
        return self.take(many_rows(self.step, X, Y))

    def state_arrays(self) -> dict[str, np.ndarray]:
        """All numbers that a file keeps of the race."""
        own = {"loss": self._loss, "count": np.array(self._count), "waiting": self._waiting.arrays()}
        each = (keeping.under(str(i), model.state_arrays()) for i, model in enumerate(self.models.values()))
        return {name: array for part in (own, *each) for name, array in part.items()}

    def description(self) -> dict[str, Any]:
        """All else that a file keeps of it, as JSON."""
        models = {name: model.description() for name, model in self.models.items()}
        settings = {"memory": self.memory, "sharpness": self.sharpness}
        return {"models": models, **settings, "left": self.left, "why": self._why}

    @staticmethod
    def from_saved(
        description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], like: "Race | None" = None
    ) -> "Race":
        """The race of which these were made; ValueError if there is none. `like` has parts that no file describes."""
        described = description.get("models")
        if not isinstance(described, dict) or not all(isinstance(each, dict) for each in described.values()):
            raise ValueError("it describes no models")
        if like is not None and list(like.models) != list(described):
            raise ValueError("its models have other names than those of `like`")
        given = {} if like is None else like.models
        models = {
            name: Online.from_saved(each, keeping.within(arrays, str(i)), given.get(name))
            for i, (name, each) in enumerate(described.items())
        }
        try:
            race = Race(models, description["memory"], description["sharpness"])
            race.left, race._why = dict(description["left"]), dict(description["why"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"the race is not whole: {error}") from None
        if not set(race.left) == set(race._why) <= set(models):
            raise ValueError("models left the race that were not in it")
        loss, waiting = arrays.get("loss", np.zeros(0)), arrays.get("waiting", np.zeros(0))
        shape = (len(models), *race._shape)  # of models that left, loss and predictions may be nan
        count = min(race.rows, race.horizon)
        is_queue = "waiting" in arrays and waiting.shape == ((count, *shape) if count else (0,))
        if loss.shape != shape[:1] or not is_queue or not loss.dtype == waiting.dtype == np.float64:
            raise ValueError("what the race keeps of its models has another shape")
        race._loss, race._count = loss, float(keeping.shaped(arrays, "count"))
        race._waiting.restore(waiting)
        return race

    def take(self, rows: GivenRows) -> np.ndarray:
        """Take all rows, or none if something is wrong with one of them."""
        kept = [model.kept() for model in self.models.values()]
        own = self._loss, self._count, self._waiting.copy(), self.left, self._why
        try:
            return self._taken(rows)
        except BaseException:
            for model, before in zip(self.models.values(), kept, strict=True):
                model.go_back(before)
            self._loss, self._count, self._waiting, self.left, self._why = own
            raise

    def _taken(self, rows: GivenRows) -> np.ndarray:
        number, found = self.rows, self._all(rows)
        leaving = {name: error for name, (_, error) in zip(self.models, found, strict=True) if error is not None}
        each = np.stack([predictions for predictions, _ in found], axis=1)  # (rows, models, ...)
        labels, present = labels_of(rows, self._shape)
        out = np.empty((len(each), *self._shape))
        for i, predictions in enumerate(each):
            for name, error in leaving.items():
                if error.row == number + i:
                    self.left, self._why = self.left | {name: error.row}, self._why | {name: str(error)}
            for known in self._waiting.row(predictions, labels[i], bool(present[i]), self._settle):
                out[i] = self._combined(known)
        if len(self.left) == len(self.models):
            name, row = list(self.left.items())[-1]
            raise Diverged(f"All models of the race have diverged, the last at row {row:,}. {self._why[name]}", row)
        return out

    def _all(self, rows: GivenRows) -> list[tuple[np.ndarray, Diverged | None]]:
        """What `_run` returns of every model; for many rows, and at first, in threads: compiled code holds no lock."""
        if len(rows.x) == 1 and self.rows > self.horizon:
            return [self._run(name, rows) for name in self.models]
        there = settings_of_this_thread()

        def run(name: str) -> tuple[np.ndarray, Diverged | None]:
            with there():
                return self._run(name, rows)

        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(run, self.models))

    def _run(self, name: str, rows: GivenRows) -> tuple[np.ndarray, Diverged | None]:
        """A model's predictions, nan from the row on at which it diverged, and the error it raised there."""
        model, nothing = self.models[name], np.full((len(rows.x), *self._shape), np.nan)
        if name in self.left:
            return nothing, None
        try:
            if _is_usual(rows):
                return model.learn_one(rows.x[0, 0], rows.y[0, 0])[None], None
            return model.take(rows), None
        except Diverged as error:
            before = error.row - model.rows
            if before:
                nothing[:before] = model.take(rows.part(0, before))
            return nothing, error

    def _settle(self, predictions: np.ndarray, label: np.ndarray) -> None:
        error = np.mean((predictions - label).reshape(len(predictions), -1) ** 2, axis=1)
        self._count = min(self._count + 1, float(self.memory))
        self._loss = self._loss + (error - self._loss) / self._count

    def _weights(self) -> np.ndarray:
        """They add up to one, over the models that are still there."""
        alive = np.array([name not in self.left for name in self.models])
        losses = np.where(alive & np.isfinite(self._loss), self._loss, np.inf)
        best = losses.min()
        if not np.isfinite(best) or best == 0:
            good = alive if not np.isfinite(best) else losses == 0
            return good / max(good.sum(), 1)
        weights = (best / losses) ** self.sharpness
        return weights / weights.sum()

    def _combined(self, predictions: np.ndarray) -> np.ndarray:
        weights = np.where(np.isfinite(predictions).reshape(len(predictions), -1).all(axis=1), self._weights(), 0)
        if not weights.sum():
            return np.full(self._shape, np.nan)
        weights = weights / weights.sum()
        return np.tensordot(weights, np.where(np.isfinite(predictions), predictions, 0), axes=1)

    def _looked(self, name: str, x: Any) -> np.ndarray:
        return np.full(self._shape, np.nan) if name in self.left else self.models[name].predict_one(x)


def _is_usual(rows: GivenRows) -> bool:
    """Whether it is a single row of a single stream with its label, which a model takes in the least time."""
    return rows.present.shape == (1, 1) and rows.target is jax.Array and rows.reset is None and bool(rows.present[0, 0])


def _check_different(models: Mapping[str, Online]) -> None:
    """Raise if a model is there under two names: it would take every row twice."""
    names: dict[int, str] = {}
    for name, model in models.items():
        if names.setdefault(id(model), name) != name:
            raise ValueError(
                f"{name!r} and {names[id(model)]!r} of a race are one and the same model, which would learn every row "
                "twice: make a model for each name."
            )
