"""The network, task, learners and optimizer of a run, built from its settings. JAX is imported when they are."""

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from recurra.studies.settings import NEEDS, Settings, SettingsError, hyperparameters

if TYPE_CHECKING:
    import optax

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
    """The parts of a run; what the library's own constructors reject is a `SettingsError` too.

    For float64 JAX must have been told that it may compute with 64 bits: see `allow`.
    """
    try:
        return _build(settings)
    except (ValueError, TypeError) as error:
        raise SettingsError(str(error)) from None


def allow(settings: Settings) -> None:
    """Let JAX compute with 64 bits from now on, if the settings ask for it."""
    if settings.dtype == "float64":
        import jax

        jax.config.update("jax_enable_x64", True)


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
        task = _add(settings.t1, settings.t2, settings.stretch, settings.sampled)
    else:
        # The target is of the kind that is trained, but always starts as in the paper: `w_rec` is about learning.
        task = _mimic(_cell_of(settings, settings.inputs, "orthogonal"), settings.outputs, settings.stretch)
    cell = _cell_of(settings, task.n_in, settings.w_rec)
    loss = recurra.SoftmaxCrossEntropy() if add else recurra.SquaredError()
    learners = {name: _learner(name, settings.learner.get(name, {})) for name in settings.learners}
    for learner in learners.values():
        check_pairing(learner, cell)
    network = recurra.Network(cell, task.n_out, loss, settings.random_feedback)
    return Parts(network, task, learners, _optimizer(settings))


@functools.lru_cache(maxsize=1024)  # a study has few tasks and cells, and many networks
def _add(t1: int, t2: int, stretch: int, sampled: bool) -> "Task":
    import recurra

    return recurra.Add(t1, t2, stretch, sampled)


@functools.lru_cache(maxsize=1024)
def _mimic(target: "UnitwiseCell", outputs: int, stretch: int) -> "Task":
    import recurra

    return recurra.Mimic(target, outputs, stretch)


def _cell_of(settings: Settings, n_in: int, w_rec: str) -> "UnitwiseCell":
    return _cell(settings.cell, n_in, settings.n, settings.alpha, w_rec, settings.dtype)


@functools.lru_cache(maxsize=1024)  # to check a cell takes a millisecond
def _cell(kind: str, n_in: int, n: int, alpha: float, w_rec: str, dtype: str) -> "UnitwiseCell":
    from recurra import cells

    shared = {"n_in": n_in, "n": n, "w_rec": getattr(cells, w_rec), "dtype": dtype}
    if kind == "rnn":
        return cells.RNN(**shared, alpha=alpha)
    return {"lstm": cells.LSTM, "gru": cells.GRU}[kind](**shared)


def _learner(name: str, given: Mapping[str, Any]) -> "Learner":
    from recurra import LEARNERS, noise

    # Text is the name of a distribution: no learner has any other use for it.
    values = {field: getattr(noise, value) if isinstance(value, str) else value for field, value in given.items()}
    return LEARNERS[name](**values)


def _optimizer(settings: Settings) -> "Optimizer":
    """An optimizer whose rate is a number of the program, so that another rate does not compile anew."""
    from recurra.step.optimizers import SGD, Adam, Injected

    rate = float(settings.learning_rate)
    match settings.optimizer:
        case "sgd":
            return rate
        case "momentum":
            return SGD(rate, 0.9)
        case "adam":
            return Adam(rate)
        case "rmsprop":
            return Injected(_rmsprop(), {"learning_rate": rate})


@functools.cache  # programs are told apart by the functions in them
def _rmsprop() -> "optax.GradientTransformation":
    import optax

    return optax.inject_hyperparams(optax.rmsprop)(learning_rate=0.0)
