"""A study's data set as plain arrays: the points, their settings, and their networks' final losses."""

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray

from recurra.studies.choices import Value

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
    def read(data: xarray.Dataset) -> "Points":
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
        end = np.nan_to_num(data["step"].values.astype(float)).max(axis=-1, initial=0)[..., None]
        has_ended = (diverged_at >= 0) | ((done > 0) & (done >= end) & np.isfinite(final))
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

    def split(self, names: Iterable[str], among: np.ndarray) -> list[np.ndarray]:
        """These points in parts that agree in the named settings, as they come in the study."""
        codes = [np.unique(self.values[name][among], return_inverse=True)[1].tolist() for name in names]
        parts: dict[tuple[int, ...], list[int]] = {}
        for position, *code in zip(among.tolist(), *codes, strict=True):
            parts.setdefault(tuple(code), []).append(position)
        return [np.array(part) for part in parts.values()]

    def place_in_range(self, name: str, among: np.ndarray, values: np.ndarray | float) -> np.ndarray:
        """Where values of a setting lie between the lowest of these points, 0, and the highest, 1."""
        scale = np.log if self.varied[name].is_log else np.asarray
        low, high = scale(np.nanmin(self.values[name][among])), scale(np.nanmax(self.values[name][among]))
        return np.asarray((scale(values) - low) / (high - low))

    def parts_of_range(self, name: str, among: np.ndarray, count: int) -> np.ndarray:
        """The range of a setting cut into so many parts: the number of the one in which each of these points lies."""
        place = self.place_in_range(name, among, self.values[name][among])
        return np.minimum(place * count, count - 1).astype(int)

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
    return np.argsort(np.lexsort((mean, missing, diverged, np.isnan(mean))))


def mean_of(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of what is finite; nan where nothing is."""
    with warnings.catch_warnings(action="ignore"):
        return np.asarray(np.mean(values, axis=-1, where=np.isfinite(values)))


def error_of(values: np.ndarray) -> np.ndarray:
    """Standard error of that mean; nan with fewer than two values."""
    known = np.isfinite(values)
    with warnings.catch_warnings(action="ignore"):  # also that losses close to the largest number there is overflow
        return np.asarray(np.std(values, axis=-1, ddof=1, where=known) / np.sqrt(known.sum(axis=-1)))


def _texts(column: np.ndarray) -> np.ndarray:
    plain = lambda value: str(value).lower() if isinstance(value, bool | np.bool) else str(value)
    return np.array([plain(value) for value in column], dtype=str) if len(column) else np.zeros(0, "U1")


def _looks_log(values: np.ndarray) -> bool:
    """Whether a list of numbers, such as 0.001, 0.01 and 0.1, is rather spaced by its logarithms."""
    values = np.unique(values[np.isfinite(values)])
    if len(values) < 3 or values[0] <= 0 or values[-1] / values[0] < 50:
        return False
    return bool(np.median(values) < (values[0] + values[-1]) / 4)
