"""A recurrent network as a forecaster of River's."""

from collections.abc import Collection
from typing import Any

from river import time_series

from recurra import checks
from recurra.river.recipe import Recipe
from recurra.river.regressor import label_of
from recurra.river.stream import Features, Stream


class RNNForecaster(time_series.base.Forecaster):
    """A recurrent network that learns online how a series goes on.

    It predicts by how much the next value differs from the latest one, from the latest `lags` values and from features
    of the time that is predicted, if there are any. `forecast` repeats this: each forecast is taken for the value, and
    the next is made from it. It works on a copy of the state, and changes nothing. Values and features are standardised
    by the network itself; the first 20 rows only tell their scale.

    Features that a row lacks are missing, and so are all of them in `forecast` without `xs`: their running means stand
    for them. Other than `horizon` rows of `xs` are a ValueError. For how features come and go, and for labels that are
    refused, see `RNNRegressor`.

    Parameters
    ----------
    learner
        The algorithm that trains the recurrent weights, by its name: "rflo", "rtrl", "uoro", "e-bptt" and so on.
        "fixed" leaves them as they are.
    cell
        A name of `recurra.CELLS`, such as "gru" or "lstm".
    n
        The number of units.
    learning_rate
        The learning rate of Adam. It may be changed with `mutate`.
    readout
        "rls" fits the readout by recursive least squares, "descent" by Adam.
    forgetting
        With "rls", the weight of an error falls by this factor with every row. It may be changed with `mutate`.
    lags
        So many of the latest values are inputs, at least one.
    seed
        Draws the first weights, and random numbers where the learner needs them.
        It is `key` elsewhere in recurra; River finds it by this name, in all models alike.

    Examples
    --------
    >>> from recurra.river import RNNForecaster
    >>> model = RNNForecaster()
    >>> for t in range(200):
    ...     model.learn_one(t % 12)
    >>> [round(y) for y in model.forecast(4)]
    [8, 9, 10, 11]

    """

    def __init__(
        self,
        learner: str = "rflo",
        cell: str = "rnn",
        n: int = 32,
        learning_rate: float = 1e-3,
        readout: str = "rls",
        forgetting: float = 1.0,
        lags: int = 12,
        seed: int = 0,
    ):
        self.learner, self.cell, self.n, self.learning_rate = learner, cell, n, learning_rate
        self.readout, self.forgetting, self.lags, self.seed = readout, forgetting, lags, seed
        self._stream = Stream(self._recipe())

    def _recipe(self) -> Recipe:
        return Recipe(
            "RNNForecaster", self.learner, self.cell, self.n, self.learning_rate, "mean", self.seed, self.readout,
            self.forgetting, self.lags, difference=True,
        )  # fmt: skip

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"learning_rate", "forgetting"}

    def learn_one(self, y: Any, x: Features | None = None) -> None:
        recipe = self._stream.recipe
        if self.learning_rate != recipe.learning_rate or self.forgetting != recipe.forgetting:
            self._stream.retune(self._recipe())
        self._stream.learn({} if x is None else x, label_of(y))

    def forecast(self, horizon: int, xs: Collection[Features] | None = None) -> list[float]:
        horizon = checks.whole_number("`horizon`", horizon)
        if xs is not None and len(xs) != horizon:
            raise ValueError(f"`xs` must have one row for each of {horizon} steps, and has {len(xs)}.")
        return self._stream.ahead([{}] * horizon if xs is None else xs)
