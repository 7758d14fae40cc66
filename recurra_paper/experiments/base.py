"""What an experiment is: a name, the settings that determine its outcome, and arrays."""

import abc
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Arrays = dict[str, np.ndarray]
#: takes the finished part of an experiment, from 0 to 1
Advance = Callable[[float], None]


@dataclass(frozen=True)
class Experiment(abc.ABC):
    """An experiment. Its outcome depends on its fields, its `parts` and the `version` of its code alone."""

    version: ClassVar[int] = 1
    #: whether it must run alone, because it measures time
    alone: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Where figures and claims find it, such as "loss/add/1/rtrl"."""

    @property
    @abc.abstractmethod
    def cost(self) -> float:
        """A rough number of seconds on one core, for the progress of the whole."""

    @abc.abstractmethod
    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        """Run it. `checkpoint` is a file from which it goes on after it was killed."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """Networks, learners, tasks and constants that it is built from besides its fields."""
        return ()

    def settings(self) -> dict[str, Any]:
        """All that determines the outcome."""
        about = {"experiment": type(self).__name__, "version": self.version, "name": self.name}
        own = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {**about, **own, "parts": [described(part) for part in self.parts]}


def _plain(value: Any) -> Any:
    """Numbers, words and rows of them as they are; anything else described."""
    simple = lambda entry: entry is None or isinstance(entry, str | int | float)
    return value if simple(value) or (isinstance(value, tuple) and all(map(simple, value))) else described(value)


def described(part: Any) -> str:
    """A network, a learner or a number with every field, in words that are the same in every process."""
    if is_dataclass(part) and not isinstance(part, type):
        inside = (f"{field.name}={described(getattr(part, field.name))}" for field in fields(part))
        return f"{type(part).__name__}({', '.join(inside)})"
    if isinstance(part, dict):
        return "{" + ", ".join(f"{name}: {described(value)}" for name, value in part.items()) + "}"
    return part.__name__ if callable(part) else str(part)
