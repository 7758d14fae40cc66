"""What an estimator's parameters mean: the model for a number of columns and outputs."""

from dataclasses import dataclass
from typing import Any

from recurra import checks
from recurra.learners import LEARNERS, check_pairing
from recurra.losses import Loss, SquaredError
from recurra.network import Network
from recurra.online.defaults import CELLS, OF_ONE_LAYER
from recurra.online.model import Online
from recurra.online.step import OnlineStep
from recurra.step import RLS, Adam, LearningStep

READOUTS = ("rls", "descent")
ABSENT = ("mean", "zero")
#: the loss of labels that are numbers
OF_NUMBERS = SquaredError()
#: how strongly least squares hold coefficients at zero before they know better
RIDGE = 0.1
#: the longest gradient
CLIP = 1.0


@dataclass(frozen=True)
class Recipe:
    """The parameters of an estimator, checked. `owner` is what messages call it.

    With `lags` the latest labels are inputs too. The newest is the first column, and `difference` predicts from it.
    """

    owner: str
    learner: str
    cell: str
    n: int
    learning_rate: float
    absent: str
    seed: int
    readout: str = "descent"
    forgetting: float = 1.0
    lags: int = 0
    difference: bool = False
    loss: Loss = OF_NUMBERS

    def __post_init__(self) -> None:
        self._check_choice("learner", OF_ONE_LAYER)
        self._check_choice("cell", CELLS)
        self._check_choice("readout", READOUTS)
        self._check_choice("absent", ABSENT)
        for name, least in (("n", 1), ("lags", int(self.difference))):
            checks.whole_number(f"`{name}` of {self.owner}", getattr(self, name), least)
        checks.seed(f"`seed` of {self.owner}", self.seed)
        _ = Adam(self.learning_rate), RLS(self.forgetting)  # which check their numbers
        check_pairing(LEARNERS[self.learner](), self._cell(1))

    def _check_choice(self, name: str, choices: Any) -> None:
        checks.one_of(f"`{name}` of {self.owner}", getattr(self, name), choices)

    def _cell(self, n_in: int) -> Any:
        kind: Any = CELLS[self.cell]
        return kind(n_in, self.n)

    @property
    def first(self) -> int:
        """The column of the first feature: before it may come the latest label."""
        return 1 if self.lags else 0

    def online(self, slots: int, outputs: int) -> Online:
        """The model before the first row, for so many features and outputs."""
        lagged = 1 if self.lags > 1 else 0
        wide = self.first + slots + max(self.lags - 1, 0) * lagged
        network = Network(self._cell(wide), outputs, self.loss, skip=True)
        step = LearningStep(
            network,
            LEARNERS[self.learner](),
            Adam(self.learning_rate, clip=CLIP),
            readout=RLS(self.forgetting, RIDGE) if self.readout == "rls" else None,
        )
        is_number = isinstance(self.loss, SquaredError)
        settings = OnlineStep(step, 0, max(self.lags, 1), lagged, scale_target=is_number, difference=self.difference)
        return Online(settings, int(self.seed))
