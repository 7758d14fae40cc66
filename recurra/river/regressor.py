"""A recurrent network as a regressor of River's."""

import math
import numbers
from typing import Any

import numpy as np
from river import base

from recurra.river.columns import LARGEST, too_large
from recurra.river.recipe import Recipe
from recurra.river.stream import Features, Stream


class RNNRegressor(base.Regressor):
    """A recurrent network that learns online to predict a number.

    It has a memory: rows must come in the order of time. `predict_one` looks at a row and changes nothing. `learn_one`
    takes the row and its label, and moves the network on. So rows whose labels come late are seen late too, and
    predictions follow from the rows that have been learned so far. Inputs and labels are standardised by the network
    itself; the first 20 rows only tell their scale.

    A feature gets a column when it is first learned, and is unknown to `predict_one` before. A feature that comes later
    than the first row is heard after its first 20 values, once it has varied. True and False are 1 and 0; None and nan
    are missing. A label that is not a number is a TypeError, and one that is not finite a ValueError. Nothing is then
    learned from the row.

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
        So many of the latest labels are inputs too.
    absent
        What stands for a feature in rows that lack it: "mean" is its running mean, which is zero once standardised;
        "zero" is for rows that leave zeros out, such as bags of words.
    seed
        Draws the first weights, and random numbers where the learner needs them.
        It is `key` elsewhere in recurra; River finds it by this name, in all models alike.

    Examples
    --------
    >>> from recurra.river import RNNRegressor
    >>> from river import datasets, evaluate, metrics
    >>> model = RNNRegressor(seed=1)
    >>> metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> metric.get() < 0.5
    True

    """

    def __init__(
        self,
        learner: str = "rflo",
        cell: str = "rnn",
        n: int = 32,
        learning_rate: float = 1e-3,
        readout: str = "rls",
        forgetting: float = 1.0,
        lags: int = 0,
        absent: str = "mean",
        seed: int = 0,
    ):
        self.learner, self.cell, self.n, self.learning_rate = learner, cell, n, learning_rate
        self.readout, self.forgetting, self.lags, self.absent, self.seed = readout, forgetting, lags, absent, seed
        self._stream = Stream(self._recipe())

    def _recipe(self) -> Recipe:
        return Recipe(
            "RNNRegressor", self.learner, self.cell, self.n, self.learning_rate, self.absent, self.seed, self.readout,
            self.forgetting, self.lags,
        )  # fmt: skip

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"learning_rate", "forgetting"}

    def learn_one(self, x: Features, y: Any) -> None:
        recipe = self._stream.recipe
        if self.learning_rate != recipe.learning_rate or self.forgetting != recipe.forgetting:
            self._stream.retune(self._recipe())
        self._stream.learn(x, label_of(y))

    def predict_one(self, x: Features) -> float:
        found = self._stream.look(x)
        return 0.0 if found is None else float(found[0])


def label_of(y: Any) -> np.ndarray:
    """A label as a network takes it."""
    if not isinstance(y, numbers.Real | np.bool):
        raise TypeError(f"A label must be a number, and is {y!r:.80}. Nothing was learned from this row.")
    number = float(y)
    if math.isnan(number) or abs(number) > LARGEST:
        why = "not a number" if math.isnan(number) else too_large(number)
        raise ValueError(f"The label is {y!r}, which is {why}. Nothing was learned from this row.")
    return np.array([number])
