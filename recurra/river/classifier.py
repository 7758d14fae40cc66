"""A recurrent network as a classifier of River's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from river import base

from recurra.losses import Loss
from recurra.river.recipe import Recipe
from recurra.river.stream import Features, Stream, power_of_two
from recurra.saved.parts import register


class SeenCrossEntropy(Loss):
    """Softmax cross-entropy over the classes seen so far. The label is -1 for all other outputs, which stand still."""

    def __call__(
        self, z: Float[Array, " n_out"], label: Float[Array, " n_out"]
    ) -> tuple[Float[Array, ""], Float[Array, " n_out"]]:
        seen = label >= 0
        log_y = jax.nn.log_softmax(jnp.where(seen, z, -jnp.inf))
        zero = jnp.zeros_like(z)
        return -jnp.sum(jnp.where(label > 0, label * log_y, zero)), jnp.where(seen, jnp.exp(log_y) - label, zero)


register(SeenCrossEntropy)


class RNNClassifier(base.Classifier):
    """A recurrent network that learns online to tell classes apart, as many as appear.

    It has a memory: rows must come in the order of time. `predict_one` looks at a row and changes nothing. `learn_one`
    takes the row and its class, and moves the network on. So rows whose classes come late are seen late too, and
    predictions follow from the rows that have been learned so far. Probabilities are over the classes seen so far;
    before the first there are none. A class that is None or nan is a ValueError. For how features come and go see
    `RNNRegressor`.

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
    absent
        What stands for a feature in rows that lack it: "mean" is its running mean, which is zero once standardised;
        "zero" is for rows that leave zeros out, such as bags of words.
    seed
        Draws the first weights, and random numbers where the learner needs them.
        It is `key` elsewhere in recurra; River finds it by this name, in all models alike.

    Examples
    --------
    >>> from recurra.river import RNNClassifier
    >>> from river import datasets, evaluate, metrics
    >>> model = RNNClassifier(seed=1)
    >>> metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> metric.get() > 0.85
    True

    """

    def __init__(
        self,
        learner: str = "rflo",
        cell: str = "rnn",
        n: int = 32,
        learning_rate: float = 3e-3,
        absent: str = "mean",
        seed: int = 0,
    ):
        self.learner, self.cell, self.n, self.learning_rate, self.absent, self.seed = (
            learner,
            cell,
            n,
            learning_rate,
            absent,
            seed,
        )
        self._stream = Stream(self._recipe())
        #: classes in the order of their first appearance
        self._classes: dict[Any, int] = {}

    def _recipe(self) -> Recipe:
        return Recipe(
            "RNNClassifier",
            self.learner,
            self.cell,
            self.n,
            self.learning_rate,
            self.absent,
            self.seed,
            loss=SeenCrossEntropy(),
        )

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"learning_rate"}

    def learn_one(self, x: Features, y: Any) -> None:
        if y is None or y != y:
            raise ValueError(f"A class must be given, and is {y!r}. Nothing was learned from this row.")
        if self.learning_rate != self._stream.recipe.learning_rate:
            self._stream.retune(self._recipe())
        place = self._classes.get(y, len(self._classes))
        seen = max(len(self._classes), place + 1)
        label = np.full(max(power_of_two(seen), self._stream.outputs), -1.0)
        label[:seen] = 0
        label[place] = 1
        self._stream.learn(x, label)
        self._classes[y] = place

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Any, float]:
        z = self._stream.look(x)
        if z is None:
            return {}
        z = z[: len(self._classes)]
        y = np.exp(z - z.max())
        return dict(zip(self._classes, (y / y.sum()).tolist(), strict=True))
