"""A model whose rows are dictionaries. It begins with the first row, and grows with what appears later."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from recurra.online.model import Online
from recurra.river.columns import Columns, numbers_of
from recurra.river.recipe import Recipe


def carried_on(old: Online, new: Online) -> Online:
    """`new` with the state of `old`. A learner whose arrays are larger now starts anew."""
    fresh = new.state
    state = jax.tree.map(lambda before, after: _in_corner(before, after, old), old.state, fresh)
    learning = lambda state: state.delayed.learning
    shapes = lambda state: [leaf.shape for leaf in jax.tree.leaves(learning(state).learners)]
    if shapes(old.state) != shapes(fresh):
        kept = learning(state)._replace(learners=learning(fresh).learners)
        state = state._replace(delayed=state.delayed._replace(learning=kept))
    return old.with_state(state, new.step)


def with_statistics(model: Online, statistics: Mapping[int, tuple[float, float]]) -> Online:
    """The model with given means and variances of some columns, which were always zero so far."""
    state = model.state
    assert state.inputs is not None  # models for River scale their inputs
    mean, variance = np.array(state.inputs.mean), np.array(state.inputs.variance)
    for column, (its_mean, its_variance) in statistics.items():
        mean[column], variance[column] = its_mean, its_variance
    return model.with_state(state._replace(inputs=state.inputs._replace(mean=mean, variance=variance)))


def _in_corner(before: Any, fresh: Any, old: Online) -> Any:
    if before.shape == fresh.shape:
        return before
    places = [_places(a, b, old) for a, b in zip(before.shape, fresh.shape, strict=True)]
    larger = np.array(fresh)
    larger[np.ix_(*places)] = before
    return larger


def _places(before: int, after: int, old: Online) -> np.ndarray:
    """Where the entries of an axis go. Lags stay behind all columns, in what the cell hears and in u = (1, a, x)."""
    places = np.arange(before)
    cell = old.step.learning.network.cell
    if after > before and before in (cell.n_in, 1 + cell.shown_width + cell.n_in):
        lags = cell.n_in - old.n_in
        places[before - lags :] += after - before
    return places


Features = Mapping[Hashable, Any]

#: Columns and outputs are powers of two from here on, so that few programs are compiled.
LEAST = 4


class Stream:
    """A `recurra.Online` for dictionaries: features get columns as they appear."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self.online: Online | None = None
        self.columns: Columns | None = None
        #: the latest label, where labels are inputs too
        self.latest = 0.0

    def look(self, x: Features) -> np.ndarray | None:
        """The prediction for a row, which is only looked at; None before the first row was learned."""
        features = numbers_of(x)
        if self.online is None or self.columns is None:
            return None
        return self.online.predict_one(self._row(self.columns.row(features), self.latest))

    def learn(self, x: Features, y: np.ndarray) -> None:
        """Take a row and its label, which may be longer than before. After an error nothing is learned."""
        features = numbers_of(x)
        online, columns = self._for(features, len(y))
        if not columns.rows:
            self.latest = float(y[0])  # before the first row all was as it is now
        row = columns.row(features)
        online.learn_one(self._row(row, self.latest), y)
        self.latest = float(y[0])
        if ready := columns.seen(features, row):
            self.online = with_statistics(online, {self.recipe.first + place: each for place, each in ready.items()})

    def ahead(self, xs: Iterable[Features]) -> list[float]:
        """Forecasts for rows to come: each is taken for the latest label of the next. Nothing changes."""
        each = [numbers_of(x) for x in xs]
        if self.online is None or self.columns is None:
            return [0.0] * len(each)
        columns, to_come = self.columns, iter(each)
        row_after = lambda y: self._row(columns.row(next(to_come)), float(y[0]))
        forecasts = self.online.forecast_ahead(row_after, np.array([self.latest]), len(each))
        return [float(forecast[0]) for forecast in forecasts]

    def retune(self, recipe: Recipe) -> None:
        """Go on with other numbers in the place of the recipe's."""
        if self.online is not None:
            self.online = carried_on(self.online, recipe.online(self._slots, self.outputs))
        self.recipe = recipe

    @property
    def outputs(self) -> int:
        """How many outputs there are, 0 before the first row."""
        return 0 if self.online is None else self.online.n_out

    @property
    def _slots(self) -> int:
        return 0 if self.columns is None else len(self.columns.mean)

    def _row(self, row: np.ndarray, latest: float) -> np.ndarray:
        return np.concatenate([[latest], row]) if self.recipe.lags else row

    def _for(self, features: Mapping[Hashable, float], outputs: int) -> tuple[Online, Columns]:
        """A model that has room for these features and outputs."""
        online, columns = self.online, self.columns
        known = {} if columns is None else columns.names
        new = sum(name not in known for name in features)
        slots = max(self._slots, power_of_two(len(known) + new) if new else 0, 0 if self.recipe.lags else LEAST)
        if online is None or columns is None:
            online = self.recipe.online(slots, outputs)
            columns = Columns(self.recipe.absent, online.step.warmup, online.step.memory)
        elif slots > self._slots or outputs > self.outputs:
            online = carried_on(online, self.recipe.online(slots, outputs))
        if new or len(columns.mean) < slots:
            columns.make_room(features, slots)
        self.online, self.columns = online, columns
        return online, columns

    def __getstate__(self) -> dict[str, Any]:
        about = None if self.online is None else (self.online.description(), self.online.state_arrays())
        return {"recipe": self.recipe, "online": about, "columns": self.columns, "latest": self.latest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["online"] is not None:
            self.online = Online.from_saved(*state["online"])


def power_of_two(number: int) -> int:
    """The smallest that is as large, and at least `LEAST`."""
    return max(LEAST, 1 << (number - 1).bit_length())
