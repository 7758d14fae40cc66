"""What a user asked `recurra learn` for."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurra.cli.learning.kinds import Choice
from recurra.cli.learning.models import ModelChoice
from recurra.studies.settings import SettingsError


@dataclass(frozen=True)
class Wishes:
    """All of it, checked where that needs no look at the data."""

    columns: Choice
    file: str = ""
    demo: str | None = None
    follow: bool = False
    horizon: int = 1
    model: ModelChoice = field(default_factory=ModelChoice)
    period: int | None = None
    interval: float | None = None
    skip_bad: bool = False
    stop_when_full: bool = False
    predictions: Path | None = None
    out: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: float = 20.0
    force: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        rate = self.model.learning_rate
        if self.interval is not None and not 0 < self.interval < 1:
            raise SettingsError(f"`interval` must be between 0 and 1, such as 0.9, and is {self.interval}.")
        if rate is not None and not (rate > 0 and math.isfinite(rate)):
            raise SettingsError(f"`learning_rate` must be a finite number above 0, and is {rate}.")
        if not self.checkpoint_every >= 0:
            raise SettingsError(f"`checkpoint_every` must be a number of seconds, and is {self.checkpoint_every}.")
        if self.demo is not None and self.follow:
            raise SettingsError("`follow` is for files, and a demo does not grow: leave out one of the two.")

    def shaping(self) -> dict[str, Any]:
        """Everything that shapes the result, by option: a run that goes on must not change it."""
        columns, model = self.columns, self.model
        return {
            "target": columns.target,
            "features": list(columns.features),
            "ignore": list(columns.ignore),
            "time": columns.time,
            "horizon": self.horizon,
            "period": self.period,
            "interval": self.interval,
            "learner": model.learner,
            "cell": model.cell,
            "n": model.n,
            "lags": model.lags,
            "learning-rate": model.learning_rate,
            "key": model.key,
            "predictions": None if self.predictions is None else str(self.predictions),
        }
