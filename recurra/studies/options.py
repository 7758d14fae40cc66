"""The settings of learners, cells and tasks, as a TOML file writes them in tables of their own.

Nothing here imports JAX before it is needed, so that `recurra --help` is quick.
"""

import functools
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, create_model

if TYPE_CHECKING:
    from recurra.learners import Learner
    from recurra.tasks import Task

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)

#: fields of a cell that are settings of a run
FLAT_FIELDS = ("n_in", "n", "alpha", "w_rec", "dtype")


def hyperparameters(part: "Learner") -> dict[str, Any]:
    """A learner's hyperparameters as a TOML file writes them.

    ν is the name of its distribution. Another part is the name of its class, and has its defaults.
    """
    return {field.name: written(getattr(part, field.name)) for field in fields(part)}


def written(value: Any) -> Any:
    """A setting as a TOML file writes it."""
    from recurra.checks import Part

    if isinstance(value, Part):
        return type(value).__name__
    return value.__name__ if callable(value) else value


@functools.cache
def learner_table(learner: type["Learner"]) -> type[BaseModel]:
    """The model of a learner's table: a field for each hyperparameter, of the kind that its default has."""
    made = learner()
    return _table(learner.__name__, {field.name: getattr(made, field.name) for field in fields(learner)})


@functools.cache
def part_table(kind: type) -> type[BaseModel]:
    """The model of a cell's or a task's table: its settings that have a default and are no settings of a run."""
    defaults = {
        field.name: field.default
        for field in fields(kind)
        if field.init and field.default is not MISSING and field.name not in FLAT_FIELDS
    }
    return _table(kind.__name__, defaults)


def _table(name: str, defaults: Mapping[str, Any]) -> type[BaseModel]:
    shape: Any = {field: (_kind(value), written(value)) for field, value in defaults.items()}
    return create_model(name, __config__=STRICT, **shape)


def _kind(default: Any) -> Any:
    """What a setting with this default may be."""
    choices = alternatives(default)
    if choices is not None:
        return Literal[tuple(choices)]
    return float | None if default is None else type(default)


def alternatives(default: Any) -> dict[str, Any] | None:
    """What may stand in the place of a function or a part, by name; None for numbers, which are not named."""
    from recurra import cells, learners
    from recurra.learners import HandingDown, PastFacing
    from recurra.linalg import noise

    named = lambda *each: {choice.__name__: choice for choice in each}
    if isinstance(default, HandingDown):
        return named(learners.ThroughLayers, learners.RandomTargets, learners.LocalLosses)
    if isinstance(default, PastFacing):
        return named(*(kind for kind in learners.LEARNERS.values() if issubclass(kind, PastFacing)))
    families = (
        (noise.signs, noise.gaussian, noise.uniform),
        (cells.triangular, cells.fast_sigmoid, cells.arctan),
        _activations(),
    )
    return next((named(*family) for family in families if default in family), None) if callable(default) else None


@functools.cache
def _activations() -> tuple[Any, ...]:
    import jax

    return jax.numpy.tanh, jax.nn.relu, jax.nn.sigmoid, jax.nn.gelu, jax.nn.identity


def task_of(name: str) -> type["Task"]:
    """The class of a task by its name on the command line."""
    from recurra import tasks

    return getattr(tasks, name.capitalize())
