"""The network, task, learners and optimizer of a run, built from its settings. JAX is imported when they are."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from recurra.cli.settings import NEEDS, Settings, SettingsError, hyperparameters

if TYPE_CHECKING:
    from recurra.cells import UnitwiseCell
    from recurra.learners import Learner
    from recurra.network import Network
    from recurra.step import Optimizer
    from recurra.tasks import Task


class Parts(NamedTuple):
    """What `recurra.train` takes."""

    network: "Network"
    task: "Task"
    learners: dict[str, "Learner"]
    optimizer: "Optimizer"


def check_device() -> None:
    """Raise a `SettingsError` if JAX has no device to compute on."""
    import jax

    try:
        jax.devices()
    except Exception as error:  # JAX raises several, some without a word
        said = str(error).partition(" (")[0].rstrip(".") or "there is no such device"
        asked = os.environ.get("JAX_PLATFORMS")
        raise SettingsError(
            f"JAX_PLATFORMS is {asked!r}, which JAX cannot use here: {said}. Unset it, or set JAX_PLATFORMS=cpu."
            if asked
            else f"JAX finds no device to compute on: {said}. JAX_PLATFORMS=cpu takes the processor."
        ) from None


def build(settings: Settings) -> Parts:
    """The parts of a run; what the library's own constructors reject is a `SettingsError` too."""
    import jax

    if settings.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    try:
        return _build(settings)
    except (ValueError, TypeError) as error:
        raise SettingsError(str(error)) from None


def full_configuration(settings: Settings, parts: Parts) -> dict[str, Any]:
    """Every setting that matters to the run, with the hyperparameters of all its learners spelled out."""
    config = {
        name: value
        for name, value in settings.model_dump(mode="json").items()
        if name not in NEEDS or getattr(settings, NEEDS[name][0]) == NEEDS[name][1]
    }
    return {**config, "learner": {name: hyperparameters(learner) for name, learner in parts.learners.items()}}


def _build(settings: Settings) -> Parts:
    import recurra
    from recurra.learners import check_pairing

    add = settings.task == "add"
    if add:
        task = recurra.Add(settings.t1, settings.t2, settings.stretch, settings.sampled)
    else:
        # The target is of the kind that is trained, but always starts as in the paper: `w_rec` is about learning.
        task = recurra.Mimic(_cell(settings, settings.inputs, "orthogonal"), settings.outputs, settings.stretch)
    cell = _cell(settings, task.n_in, settings.w_rec)
    loss = recurra.SoftmaxCrossEntropy() if add else recurra.SquaredError()
    learners = {name: _learner(name, settings.learner.get(name, {})) for name in settings.learners}
    for learner in learners.values():
        check_pairing(learner, cell)
    network = recurra.Network(cell, task.n_out, loss, settings.random_feedback)
    return Parts(network, task, learners, _optimizer(settings))


def _cell(settings: Settings, n_in: int, w_rec: str) -> "UnitwiseCell":
    from recurra import cells

    shared = {"n_in": n_in, "n": settings.n, "w_rec": getattr(cells, w_rec), "dtype": settings.dtype}
    if settings.cell == "rnn":
        return cells.RNN(**shared, alpha=settings.alpha)
    return {"lstm": cells.LSTM, "gru": cells.GRU}[settings.cell](**shared)


def _learner(name: str, given: Mapping[str, Any]) -> "Learner":
    from recurra import LEARNERS, noise

    # Text is the name of a distribution: no learner has any other use for it.
    values = {field: getattr(noise, value) if isinstance(value, str) else value for field, value in given.items()}
    return LEARNERS[name](**values)


def _optimizer(settings: Settings) -> "Optimizer":
    if settings.optimizer == "sgd":
        return settings.learning_rate  # a bare number, so that another one does not compile anew
    import optax

    choices = {"momentum": lambda rate: optax.sgd(rate, 0.9), "rmsprop": optax.rmsprop, "adam": optax.adam}
    return choices[settings.optimizer](settings.learning_rate)
