"""The network, task, learners and optimizer of a run, built from its settings. JAX is imported when they are."""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from recurra.studies.language import RUN, Plan, fields_of, name_of, plan_of, word_for
from recurra.studies.settings import Settings, SettingsError

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
    """Every setting that matters to the run, by name, with those that have their defaults."""
    planner, _, _ = plan_of(settings.given, settings.learners)
    run = {name: getattr(settings, name) for name in RUN if name != "layers"}
    of_parts = {name_of(path): value for path, value in planner.used.items() if value is not None}
    return {"learners": list(settings.learners), **run, "engine": settings.engine, **of_parts}


def _build(settings: Settings) -> Parts:
    from recurra.learners import check_pairing

    _, plans, learners = plan_of(settings.given, settings.learners)
    task: Any = made(plans["task"])
    values = dict(plans["network"].values)
    cell = cell_of(values.pop("cell"), task.n_in)
    network: Any = plans["network"].kind(cell=cell, n_out=task.n_out, **_all(values))  # pyright: ignore[reportCallIssue]
    found: Any = {name: made(plan) for name, plan in learners.items()}
    for learner in found.values():
        check_pairing(learner, network.cell)
    return Parts(network, task, found, _optimizer(plans["optimizer"]))


def made(plan: Plan) -> Any:
    """The part of a plan. Equal ones are made once: a study has few tasks and cells, and many networks."""
    return _made(plan.kind, tuple(_all(plan.values).items()))


@functools.lru_cache(maxsize=1024)  # to check a cell takes a millisecond
def _made(kind: type, values: tuple[tuple[str, Any], ...]) -> Any:
    return kind(**dict(values))


def _all(values: dict[str, Any]) -> dict[str, Any]:
    return {name: made(value) if isinstance(value, Plan) else value for name, value in values.items()}


def cell_of(plan: Plan, n_in: int) -> "Cell":
    """The cell of a plan, for so many inputs; each layer of a stack has as many as the one below shows."""
    if "cells" not in fields_of(plan.kind):
        return _made(plan.kind, (("n_in", n_in), *_all(plan.values).items()))
    from recurra.cells import Stack

    layers: list[Cell] = []
    for each in plan.values["cells"]:
        layers.append(cell_of(each, layers[-1].shown_width if layers else n_in))
    return Stack(*layers, **_all({name: value for name, value in plan.values.items() if name != "cells"}))


def _optimizer(plan: Plan) -> "Optimizer":
    """Plain gradient descent is its bare rate, for which the program is the smallest."""
    from recurra.step import SGD

    values = _all(plan.values)
    if plan.kind is SGD and values.keys() == {"learning_rate"}:
        return SGD(**values).learning_rate
    return plan.kind(**values)


def hyperparameters(part: Any) -> dict[str, Any]:
    """A learner's hyperparameters as a TOML file writes them."""
    return {name: word_for(getattr(part, name)) for name in fields_of(type(part))}
