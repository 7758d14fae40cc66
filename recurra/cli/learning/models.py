"""The model that learns: a race of several, or one that a user chose."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from recurra.studies.settings import SettingsError


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


@dataclass(frozen=True)
class ModelChoice:
    """What a user said of the model; with nothing but a key it is the race."""

    learner: str | None = None
    cell: str | None = None
    n: int | None = None
    lags: int | None = None
    learning_rate: float | None = None
    key: int = 0

    @property
    def is_race(self) -> bool:
        """Whether no single model is chosen."""
        return all(getattr(self, field.name) is None for field in fields(self) if field.name != "key")

    @property
    def name(self) -> str:
        """What tables call it."""
        return "race" if self.is_race else f"{self.learner or 'rflo'}, {self.cell or 'rnn'}"


def build(choice: ModelChoice, n_in: int, horizon: int) -> Model:
    """The model; `SettingsError` for what its constructor rejects."""
    import recurra as rc

    _prepare()
    try:
        if choice.is_race:
            return rc.race(n_in, horizon=horizon, key=choice.key)
        given = {name: value for name, value in asdict(choice).items() if value is not None}
        if "learning_rate" in given:
            given["rate"] = given.pop("learning_rate")
        return rc.forecaster(n_in, horizon=horizon, **given)
    except (ValueError, TypeError) as error:
        raise SettingsError(str(error)) from None


def restored(choice: ModelChoice, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """The model that was saved."""
    import recurra as rc

    _prepare()
    try:
        return (rc.Race if choice.is_race else rc.Online).from_saved(description, arrays)
    except ValueError as error:
        raise SettingsError(f"The model in the checkpoint cannot be used: {error}.") from None


def _prepare() -> None:
    import jax

    from recurra.studies.parts import check_device

    # A row is computed in microseconds: handing it to another thread would take longer. JAX reads this when it starts.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    check_device()


def shares(model: Model) -> dict[str, float]:
    """How much each member of a race counts; nothing for a single model."""
    found = getattr(model, "shares", None)
    return {} if found is None else {str(name): float(value) for name, value in found().items()}


def notes(model: Model) -> list[str]:
    """What the model has to say."""
    found = getattr(model, "notes", None)
    return [] if found is None else list(found())


def diverged() -> type[Exception]:
    """What a model raises whose numbers are no longer finite."""
    import recurra as rc

    return rc.Diverged
