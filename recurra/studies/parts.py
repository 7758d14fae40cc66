"""The network, task, learners and optimizer of a run, built from its settings. JAX is imported when they are."""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from recurra.studies.blueprints import Blueprint, blueprints
from recurra.studies.language import RUN
from recurra.studies.settings import Settings
from recurra.training.aliases import name_of
from recurra.training.choices import fields_of, word_for

if TYPE_CHECKING:
    from recurra.cells import Cell
    from recurra.learners import Learner
    from recurra.network import Network
    from recurra.step import Optimizer
    from recurra.tasks import Task


class Parts(NamedTuple):
    """What `recurra.train` takes."""

    network: "Network"
    task: "Task"
    learners: "dict[str, Learner]"
    optimizer: "Optimizer"


def build(settings: Settings) -> Parts:
    """The parts of a run; what the library's own constructors refuse is a `SettingsError` too.

    For float64 JAX must have been told that it may compute with 64 bits: see `allow`.
    """
    from recurra.learners import check_pairing

    found = blueprints(settings.given, settings.learners)
    try:
        task: Any = made(found.task)
        values = dict(found.network.values)
        cell = cell_of(values.pop("cell"), task.n_in)
        network: Any = found.network.kind(cell=cell, n_out=task.n_out, **_made_of(values))
        learners: Any = {name: made(learner) for name, learner in found.learners.items()}
        for learner in learners.values():
            check_pairing(learner, cell)
        return Parts(network, task, learners, _optimizer(found.optimizer))
    except (ValueError, TypeError, ImportError) as error:  # a task's data may be in a package that is not installed
        raise settings.refused(str(error)) from None


def allow(settings: Settings) -> None:
    """Let JAX compute with 64 bits from now on, if the settings ask for it."""
    if settings.dtype == "float64":
        import jax

        jax.config.update("jax_enable_x64", True)


def full_configuration(settings: Settings, parts: Parts) -> dict[str, Any]:
    """Every setting that matters to the run, by name, with those that have their defaults."""
    used = blueprints(settings.given, settings.learners).used
    found = {name_of(path): value for path, value in used.items() if value is not None or path in RUN}
    return {"learners": list(settings.learners), **found}


def made(blueprint: Blueprint) -> Any:
    """The part of a blueprint. Equal ones are made once: a study has few tasks and cells, and many networks."""
    return _made(blueprint.kind, tuple(_made_of(blueprint.values).items()))


@functools.lru_cache(maxsize=1024)  # to check a cell takes a millisecond
def _made(kind: type, values: tuple[tuple[str, Any], ...]) -> Any:
    return kind(**dict(values))


def _made_of(values: dict[str, Any]) -> dict[str, Any]:
    return {name: made(value) if isinstance(value, Blueprint) else value for name, value in values.items()}


def cell_of(blueprint: Blueprint, n_in: int) -> "Cell":
    """The cell of a blueprint, for so many inputs; each layer of a stack has as many as the one below shows."""
    from recurra.cells import Stack

    if "cells" not in blueprint.values:
        return made(Blueprint(blueprint.kind, {"n_in": n_in, **blueprint.values}))
    return Stack.fitting([cell_of(each, n_in) for each in blueprint.values["cells"]], blueprint.values["skip"])


def _optimizer(blueprint: Blueprint) -> "Optimizer":
    """Plain gradient descent is its bare rate, for which the program is the smallest."""
    from recurra.step import SGD

    optimizer = made(blueprint)
    return optimizer.learning_rate if optimizer == SGD(optimizer.learning_rate) else optimizer


def hyperparameters(part: Any) -> dict[str, Any]:
    """A learner's hyperparameters as a TOML file writes them."""
    return {name: word_for(getattr(part, name)) for name in fields_of(type(part))}
