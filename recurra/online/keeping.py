"""A model as named arrays and a description in JSON, and back."""

import hashlib
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax
import numpy as np

from recurra.cells.module import UserFunction
from recurra.cells.step import Step
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
    """The step in JSON; where that cannot be, the reason, and what tells the user's functions in it from others."""
    try:
        return {"step": described(step)}
    except NotDescribedError as error:
        return {"own_parts": str(error), "outline": outlined(step), **functions_of(step)}


def check_template(description: Mapping[str, Any], name: str, like: Part) -> None:
    """Raise unless `like` has the settings of the part that a description calls `name`, as far as it tells them."""
    known, told = name in description, outlined(like)
    found = described(rebuilt(description[name])) if known else description.get("outline", told)
    if differs := difference(found, told):
        fix = "leave `like` out to go on with the file's" if known else "build `like` as the saved model was built"
        raise ValueError(f"it holds a model with other settings than `like`: {differs}; {fix}")


def digests(part: Any) -> list[list[str]]:
    """The name of each user's function in a part, and a digest of its traced program."""
    if isinstance(part, Step | UserFunction):
        return [[part.name, hashlib.sha256(part.text.encode()).hexdigest()]]
    if isinstance(part, tuple | list):
        within = list(part)
    elif isinstance(part, dict):
        within = list(part.values())
    else:
        within = [getattr(part, field.name) for field in fields(part)] if isinstance(part, eqx.Module) else []
    return [each for inner in within for each in digests(inner)]


def functions_of(part: Any) -> dict[str, Any]:
    """What a file keeps of the users' functions in a part."""
    return {"functions": digests(part), "packages": _packages()}


def _packages() -> dict[str, str]:
    """The packages that a program may have come from, which write it otherwise in other versions."""
    used = [name for name in ("jax", "equinox", "flax") if name in sys.modules]
    return {name: version(name) for name in used}


def step_of(description: Mapping[str, Any], like: OnlineStep | None) -> OnlineStep:
    """The step of a description; `like` if the file cannot describe it."""
    if like is not None:
        check_template(description, "step", like)
        check_functions(description, like)
        return like
    if "own_parts" in description:
        raise NeedsTemplate(str(description["own_parts"]))
    step = rebuilt(description.get("step"))
    if not isinstance(step, OnlineStep):
        raise ValueError(f"it describes a {type(step).__name__}, and no model")
    return step


def check_functions(description: Mapping[str, Any], like: Part) -> None:
    """Raise where `like` has other functions of a user's than a file; only warn if other packages wrote them."""
    kept, own = description.get("functions"), digests(like)
    if kept is None or kept == own:
        return
    names = ", ".join(dict.fromkeys(name for name, _ in own)) or "none"
    told = f"it holds a model whose functions compute something else than those of `like` ({names})"
    before, now = description.get("packages"), _packages()
    if before == now:
        raise ValueError(f"{told}: build `like` with the functions that the model was saved with")
    warnings.warn(
        f"As far as can be told, {told}. They may be the same: the file was written with {_in_words(before)}, and here "
        f"are {_in_words(now)}, which may write a program in another way. Check a prediction.",
        stacklevel=2,
    )


def _in_words(packages: Any) -> str:
    known = packages if isinstance(packages, dict) else {}
    return ", ".join(f"{name} {number}" for name, number in known.items()) or "unknown packages"


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
