"""A study's data set as plain arrays: the points, their settings, and their networks' final losses."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

Value = float | str

#: a number of the problem with more values than this is a range to look along, not a list of problems
MOST_PROBLEMS = 12
#: so few values are a list, even if each point has its own
FEW_VALUES = 4


def is_problem(name: str) -> bool:
    """Whether a setting changes what is learned, or for how long. Losses under different ones are not compared."""
    return name in ("task", "steps") or name.startswith("task.")


@dataclass(frozen=True)
class Varied:
    """How a setting varies. What is drawn at random is searched, and never makes a case of its own."""

    is_text: bool
    is_log: bool = False
    is_drawn: bool = False


@dataclass(frozen=True)
class Points:
    """Arrays have a row for each point; `first`, `final`, `diverged_at` and `is_missing` a column for each seed.

    `values[name]` has "" or nan where a setting has no effect. `first` is the loss of the first window.
    `final` is nan for a network that diverged, was not run, or not to its end.
    """

    number: np.ndarray
    seeds: np.ndarray
    varied: dict[str, Varied]
    values: dict[str, np.ndarray]
    fixed: dict[str, Any]
    first: np.ndarray
    final: np.ndarray
    diverged_at: np.ndarray
    is_missing: np.ndarray

    @staticmethod
    def read(data: "xarray.Dataset") -> "Points":
        """From the data set of a study."""
        varied, values = {}, {}
        for name, about in json.loads(data.attrs.get("varied", "{}")).items():
            column = data[name].values
            is_text = about.get("kind") == "text" or column.dtype.kind not in "fiu"
            values[name] = _texts(column) if is_text else column.astype(float)
            is_log = not is_text and (bool(about.get("log")) or _looks_log(values[name]))
            varied[name] = Varied(is_text, is_log, bool(about.get("drawn")))
        diverged_at = data["diverged_at"].values.astype(np.int64)
        done, final = data["steps_done"].values, data["final_loss"].values.astype(float)
        has_ended = (diverged_at >= 0) | ((done > 0) & (done >= _ends(data)[:, None]) & np.isfinite(final))
        return Points(
            number=data["point"].values,
            seeds=data["seed"].values,
            varied=varied,
            values=values,
            fixed=json.loads(data.attrs.get("fixed", "{}")),
            first=data["loss"].values[..., 0] if data.sizes["window"] else np.full(final.shape, np.nan),
            final=np.where(has_ended & (diverged_at < 0), final, np.nan),
            diverged_at=diverged_at,
            is_missing=~has_ended,
        )

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean final loss over the seeds that have one."""
        return mean_of(self.final)

    @cached_property
    def error(self) -> np.ndarray:
        """Standard error of that mean."""
        return error_of(self.final)

    @cached_property
    def diverged(self) -> np.ndarray:
        """How many seeds diverged."""
        return (self.diverged_at >= 0).sum(axis=1)

    @cached_property
    def missing(self) -> np.ndarray:
        """How many seeds were not run, or not to their end."""
        return self.is_missing.sum(axis=1)

    @cached_property
    def rank(self) -> np.ndarray:
        """The place of each point, 0 for the best of all."""
        return ranked(self.final, self.diverged, self.missing)

    @cached_property
    def cases(self) -> list[str]:
        """Settings whose combinations are looked at apart: all that are text, and those that change the problem."""
        few = lambda name: len(np.unique(self.values[name])) <= MOST_PROBLEMS
        own = lambda name, how: not how.is_drawn and (how.is_text or (is_problem(name) and few(name)))
        return [name for name, how in self.varied.items() if own(name, how)]

    @cached_property
    def searched(self) -> list[str]:
        """The other settings, among whose values the best is sought."""
        return [name for name in self.varied if name not in self.cases]

    def start(self, among: np.ndarray) -> float:
        """The loss that these points' networks begin with: the median, since some rise within their first window."""
        known = self.first[among][np.isfinite(self.first[among])]
        return float(np.median(known)) if len(known) else float("nan")

    def applies(self, name: str) -> np.ndarray:
        """Where a setting has an effect."""
        values = self.values[name]
        return values != "" if self.varied[name].is_text else ~np.isnan(values)

    def varies(self, name: str, among: np.ndarray) -> bool:
        """Whether a setting takes more than one value among those of these points at which it has an effect."""
        return len(np.unique(self.values[name][among][self.applies(name)[among]])) > 1

    def is_scattered(self, name: str, own: np.ndarray) -> bool:
        """Whether most of a case's points have a value of their own, as random choices have, while others vary too."""
        others = any(other != name and self.varies(other, own) for other in self.searched)
        return others and len(np.unique(self.values[name][own])) > max(FEW_VALUES, len(own) / 2)

    def at(self, position: int, names: Iterable[str]) -> dict[str, Value]:
        """Those of the named settings that have an effect at a point."""
        return {name: self.values[name][position].item() for name in names if self.applies(name)[position]}

    def split(
        self, names: Iterable[str], among: np.ndarray | None = None
    ) -> list[tuple[tuple[Value, ...], np.ndarray]]:
        """Points that agree in the named settings, with the values that they share, as they come in the study."""
        among = np.arange(len(self.number)) if among is None else among
        names = list(names)
        code = np.zeros(len(among), np.int64)
        for name in names:
            _, own = np.unique(self.values[name][among], return_inverse=True)
            _, code = np.unique(code * (own.max(initial=0) + 1) + own, return_inverse=True)
        order = np.argsort(code, kind="stable")
        parts = np.split(among[order], np.flatnonzero(np.diff(code[order])) + 1) if len(among) else []
        parts.sort(key=lambda part: int(part[0]))
        return [(tuple(self.values[name][part[0]].item() for name in names), part) for part in parts]

    def best(self, among: np.ndarray) -> int | None:
        """The best of these points; None where no network has a final loss."""
        known = among[np.isfinite(self.mean[among])]
        return int(known[np.argmin(self.rank[known])]) if len(known) else None

    @property
    def only_learner(self) -> str | None:
        """The learner, where it is the same everywhere."""
        given = self.fixed.get("learners")
        return given[0] if isinstance(given, list) and len(given) == 1 else given if isinstance(given, str) else None


def ranked(final: np.ndarray, diverged: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Places of points: by the number of seeds that diverged, then of those not run, then by the mean final loss."""
    mean = mean_of(final)
    order = np.lexsort((mean, missing, diverged, np.isnan(mean)))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def mean_of(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of what is not nan; nan where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    with np.errstate(over="ignore"):
        return np.where(count > 0, np.where(known, values, 0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def error_of(values: np.ndarray) -> np.ndarray:
    """Standard error of that mean; nan with fewer than two values."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):  # losses close to the largest number there is
        squares = np.where(known, values - mean_of(values)[..., None], 0) ** 2
        variance = squares.sum(axis=-1) / np.maximum(count - 1, 1)
    return np.where(count > 1, np.sqrt(variance / np.maximum(count, 1)), np.nan)


def _texts(column: np.ndarray) -> np.ndarray:
    plain = lambda value: str(value).lower() if isinstance(value, bool | np.bool) else str(value)
    return np.array([plain(value) for value in column], dtype=str) if len(column) else np.zeros(0, "U1")


def _looks_log(values: np.ndarray) -> bool:
    """Whether a list of numbers, such as 0.001, 0.01 and 0.1, is rather spaced by its logarithms."""
    values = np.unique(values[np.isfinite(values)])
    if len(values) < 3 or values[0] <= 0 or values[-1] / values[0] < 50:
        return False
    return bool(np.median(values) < (values[0] + values[-1]) / 4)


def _ends(data: "xarray.Dataset") -> np.ndarray:
    """The step at which each point's networks end."""
    step = data["step"].values.astype(float)
    if not step.shape[-1]:
        return np.zeros(len(data["point"]))
    return np.broadcast_to(np.nanmax(np.nan_to_num(step), axis=-1), len(data["point"]))
