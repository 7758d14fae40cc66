"""Forecasters that work without a choice: what `recurra learn` uses."""

from typing import Any

from recurra import checks
from recurra.cells import CELLS
from recurra.learners import LEARNERS
from recurra.losses import SquaredError
from recurra.network import Network
from recurra.online.model import Online
from recurra.online.race import Race
from recurra.online.step import OnlineStep
from recurra.step import RLS, Adam, LearningStep

#: learners of networks with one layer and dense weights
OF_ONE_LAYER = {name: kind for name, kind in LEARNERS.items() if not (kind.about.layers or kind.about.sparse)}


def forecaster(
    n_in: int,
    n_out: int = 1,
    horizon: int = 1,
    learner: str = "rflo",
    cell: str = "rnn",
    n: int = 32,
    lags: int = 24,
    learning_rate: float = 1e-3,
    forgetting: float = 1.0,
    ridge: float = 0.1,
    key: int = 0,
) -> Online:
    """A network with a least-squares readout that also sees its inputs directly, and predicts differences.

    The targets must be the first of the `n_in` columns: their latest `lags` values are inputs.

    `learner` is a name of `recurra.LEARNERS`, except those that need layers or sparse weights, and `cell` one of
    `recurra.CELLS`. Another name is a ValueError, and a learner that does not go with the cell a TypeError.

    >>> series = np.sin(np.arange(300) / 7)[:, None]
    >>> model = rc.forecaster(n_in=1)
    >>> predictions = model.learn_many(series, series)  # each is of the next row
    >>> bool(abs(predictions[-2, 0] - series[-1, 0]) < 0.02)
    True
    """
    wide = n_in + (lags - 1) * n_out
    kind: Any = CELLS[checks.one_of("`cell`", cell, CELLS)]
    network = Network(kind(wide, n), n_out, SquaredError(), skip=True)
    applied = OF_ONE_LAYER[checks.one_of("`learner`", learner, OF_ONE_LAYER)]()
    step = LearningStep(network, applied, Adam(learning_rate, clip=1.0), readout=RLS(forgetting, ridge))
    return Online(OnlineStep(step, horizon, lags, n_out if lags > 1 else 0, difference=True), key)


#: The members of a race: learners, rates, with and without lags. Those called echo keep their recurrent weights,
#: and the readout of the last one stays at zero: it forecasts that nothing changes.
MEMBERS = {
    "rtrl": {"learner": "rtrl", "lags": 1},
    "rflo, 6 lags": {"learner": "rflo", "lags": 6},
    "rtrl, 24 lags": {"learner": "rtrl", "lags": 24, "forgetting": 0.999},
    "gru e-bptt, 24 lags": {"learner": "e-bptt", "cell": "gru", "lags": 24},
    "echo": {"learner": "fixed", "n": 64, "lags": 1},
    "echo, 24 lags": {"learner": "fixed", "n": 64, "lags": 24, "forgetting": 0.999},
    "last value": {"learner": "fixed", "n": 1, "lags": 1, "ridge": 1e9},
}


def race(n_in: int, n_out: int = 1, horizon: int = 1, key: int = 0) -> Race:
    """Six forecasters of different kinds, and the last value, weighted by recent success: nothing has to be chosen.

    The targets must be the first of the `n_in` columns.

    >>> len(rc.race(n_in=1).models)
    7
    """
    return Race({name: forecaster(n_in, n_out, horizon, key=key, **member) for name, member in MEMBERS.items()})
