"""The network, task, learners and optimizer of a run, built from its settings. JAX is imported when they are."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from recurra.studies.settings import NEEDS, Settings, SettingsError, alternatives, hyperparameters, task_of

if TYPE_CHECKING:
    import optax

    from recurra.cells import Cell, UnitwiseCell
    from recurra.learners import Learner
    from recurra.losses import Loss
    from recurra.network import Network
    from recurra.step import Optimizer
    from recurra.tasks import Task


class Parts(NamedTuple):
    """What `recurra.train` takes."""

    network: "Network"
    task: "Task"
    learners: dict[str, "Learner"]
    optimizer: "Optimizer"


def build(settings: Settings) -> Parts:
    """The parts of a run; what the library's own constructors reject is a `SettingsError` too.

    For float64 JAX must have been told that it may compute with 64 bits: see `allow`.
    """
    try:
        return _build(settings)
    except (ValueError, TypeError, ImportError) as error:  # a task's data may be in a package that is not installed
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
    if not _is_w_rec_used(settings):
        del config["w_rec"]
    return {**config, "learner": {name: hyperparameters(learner) for name, learner in parts.learners.items()}}


def _build(settings: Settings) -> Parts:
    import recurra
    from recurra.learners import check_pairing

    task = _task(settings)
    cell = _network_cell(settings, task.n_in)
    learners = {name: _learner(name, settings.learner.get(name, {})) for name in settings.learners}
    for learner in learners.values():
        check_pairing(learner, cell)
    network = recurra.Network(cell, task.n_out, _loss(settings.task), settings.random_feedback)
    return Parts(network, task, learners, _optimizer(settings))


def _task(settings: Settings) -> "Task":
    if settings.task == "add":
        return _add(settings.t1, settings.t2, settings.stretch, settings.sampled)
    if settings.task == "mimic":
        # The target is of the kind that is trained, but always starts as in the paper: `w_rec` is about learning.
        return _mimic(_one_cell(settings, settings.inputs, "orthogonal"), settings.outputs, settings.stretch)
    return _after(settings.task, tuple(settings.task_options.items()))


def _loss(task: str) -> "Loss":
    import recurra

    return recurra.SquaredError() if task in ("mimic", "adding", "pattern") else recurra.SoftmaxCrossEntropy()


@functools.lru_cache(maxsize=1024)
def _after(task: str, options: tuple[tuple[str, Any], ...]) -> "Task":
    return task_of(task)(**dict(options))


def _network_cell(settings: Settings, n_in: int) -> "Cell":
    """The network's cell; with several layers, as many of them on top of each other."""
    from recurra.cells import Stack

    first = _one_cell(settings, n_in, settings.w_rec)
    others = [_one_cell(settings, first.shown_width, settings.w_rec) for _ in range(settings.layers - 1)]
    return Stack(first, *others) if others else first


@functools.lru_cache(maxsize=1024)  # a study has few tasks and cells, and many networks
def _add(t1: int, t2: int, stretch: int, sampled: bool) -> "Task":
    import recurra

    return recurra.Add(t1, t2, stretch, sampled)


@functools.lru_cache(maxsize=1024)
def _mimic(target: "UnitwiseCell", outputs: int, stretch: int) -> "Task":
    import recurra

    return recurra.Mimic(target, outputs, stretch)


def _one_cell(settings: Settings, n_in: int, w_rec: str) -> "UnitwiseCell":
    own = settings.cell_options | ({"alpha": settings.alpha} if settings.cell == "rnn" else {})
    drawn = w_rec if _is_w_rec_used(settings) else settings.density
    return _cell(settings.cell, n_in, settings.n, drawn, settings.dtype, tuple(own.items()))


def _is_w_rec_used(settings: Settings) -> bool:
    """Whether `w_rec` says how recurrent weights start.

    A spiking cell has weights of its own kind, which `w_rec` replaces only if it is given.
    """
    given = settings.cell in ("rnn", "lstm", "gru") or "w_rec" in settings.model_fields_set
    return given and settings.density is None


@functools.lru_cache(maxsize=1024)  # to check a cell takes a millisecond
def _cell(
    kind: str, n_in: int, n: int, w_rec: str | float | None, dtype: str, options: tuple[tuple[str, Any], ...]
) -> "UnitwiseCell":
    from recurra import cells

    made = cells.CELLS[kind]
    values = _chosen(made, dict(options))
    if w_rec is not None and any(rec for rec, _, _ in made.listens):
        values["w_rec"] = getattr(cells, w_rec) if isinstance(w_rec, str) else cells.Sparsely(w_rec, itself=made.smooth)
    return made(n_in=n_in, n=n, dtype=dtype, **values)  # pyright: ignore[reportCallIssue, reportArgumentType]


def _learner(name: str, given: Mapping[str, Any]) -> "Learner":
    from recurra import LEARNERS

    return LEARNERS[name](**_chosen(LEARNERS[name], given))


def _chosen(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a part; what is named in words, such as a distribution, is looked up."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}

    def value_of(name: str, value: Any) -> Any:
        choices = alternatives(defaults[name]) if isinstance(value, str) else None
        found = value if choices is None else choices[value]
        return found() if isinstance(found, type) else found

    return {name: value_of(name, value) for name, value in given.items()}


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
