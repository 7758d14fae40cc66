"""A model as named arrays and a description in JSON, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from recurra.checks import Part
from recurra.engine.forms import FORMS
from recurra.online.step import OnlineState, OnlineStep
from recurra.saved.parts import NotDescribedError, described, difference, outlined, rebuilt, register
from recurra.saved.trees import filled

# A model that is saved between two rows goes on with the same bits, and so in the form in which its learner runs.
register(OnlineStep, *FORMS)


class NeedsTemplate(TypeError):  # noqa: N818
    """A model has parts that no file can describe."""


def step_described(step: OnlineStep) -> dict[str, Any]:
    """The step in JSON; where that cannot be, the reason."""
    try:
        return {"step": described(step)}
    except NotDescribedError as error:
        return {"own_parts": str(error), "outline": outlined(step)}


def check_template(description: Mapping[str, Any], name: str, like: Part) -> None:
    """Raise unless `like` has the settings of the part that a description calls `name`, as far as it tells them."""
    known, told = name in description, outlined(like)
    found = described(rebuilt(description[name])) if known else description.get("outline", told)
    if differs := difference(found, told):
        fix = "leave `like` out to go on with the file's" if known else "build `like` as the saved model was built"
        raise ValueError(f"it holds a model with other settings than `like`: {differs}; {fix}")


def step_of(description: Mapping[str, Any], like: OnlineStep | None) -> OnlineStep:
    """The step of a description; `like` if the file cannot describe it."""
    if like is not None:
        check_template(description, "step", like)
        return like
    if "own_parts" in description:
        raise NeedsTemplate(str(description["own_parts"]))
    step = rebuilt(description.get("step"))
    if not isinstance(step, OnlineStep):
        raise ValueError(f"it describes a {type(step).__name__}, and no model")
    return step


def state_of(step: OnlineStep, arrays: Mapping[str, np.ndarray]) -> OnlineState:
    """The state in named arrays; their shapes are checked before anything is allocated."""
    shapes = jax.eval_shape(step.traced.init, jax.random.key(0))
    return filled(shapes, arrays, finite=True)


def within(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `name` and a slash, without that."""
    return {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{name}/")}


def under(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, each name behind `name` and a slash."""
    return {f"{name}/{key}": array for key, array in arrays.items()}


def whole(description: Mapping[str, Any], name: str, least: int = 0) -> int:
    """A whole number of a description."""
    value = description.get(name)
    if type(value) is not int or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}, and is {value!r}")
    return value


def shaped(arrays: Mapping[str, np.ndarray], name: str, *shape: int) -> np.ndarray:
    """An array of double precision, of this shape."""
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != np.float64 or not np.isfinite(found).all():
        raise ValueError(f"the array {name!r} must hold finite float64 numbers of shape {shape}")
    return found
