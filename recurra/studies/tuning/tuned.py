"""What a search came to, as plain data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from recurra.saved.whole_files import write_whole
from recurra.studies.choices import Choices, Random
from recurra.studies.tuning.halving import lost_seeds
from recurra.studies.tuning.objective import Point

TUNED = "tuned.json"
Losses = tuple[float | None, ...]


@dataclass(frozen=True)
class TriedTrial:
    """One trial: its settings, and its mean loss at each comparison it reached."""

    place: int
    settings: Point
    #: whether it was taken to the last step
    complete: bool
    #: steps of each comparison, and the mean over seeds there: None if one of them diverged
    steps: tuple[int, ...]
    means: tuple[float | None, ...]
    #: losses of the seeds, None where the network diverged, at the last of them
    losses: Losses


@dataclass(frozen=True)
class Finalist:
    """One of the best trials, on fresh seeds."""

    place: int
    losses: Losses


@dataclass(frozen=True)
class Chosen:
    """The settings that were chosen, and what they are worth."""

    place: int
    settings: Point
    #: mean loss over the seeds of the search: too low, as these chose it
    search: float | None
    #: on seeds that chose nothing: mean loss, its standard error, and how many diverged and are left out of these
    confirmed: float | None
    standard_error: float | None
    diverged: int
    seeds: tuple[int, ...]
    losses: Losses
    #: by how much the search's figure is too low: confirmed less search
    optimism: float | None


@dataclass(frozen=True)
class Spent:
    """Network-steps: those of the parts, and of a grid that takes as many trials to the last step."""

    search: int
    finalists: int
    confirmation: int
    grid: int


@dataclass(frozen=True)
class Tuned:
    """The search of one case."""

    case: Point
    #: each setting that was searched: low, high, log and whole, or values
    space: dict[str, dict[str, Any]]
    seeds: tuple[int, ...]
    steps: int
    #: after which steps trials were compared
    looks: tuple[int, ...]
    trials: tuple[TriedTrial, ...]
    finalist_seeds: tuple[int, ...]
    finalists: tuple[Finalist, ...]
    #: None if every setting diverged
    chosen: Chosen | None
    #: None if there were too few trials
    importance: dict[str, float] | None
    network_steps: Spent


def tried(trial: FrozenTrial) -> TriedTrial:
    """One of the study's trials."""
    reached = sorted(trial.intermediate_values)
    values = [trial.intermediate_values[step] for step in reached]
    return TriedTrial(
        place=trial.user_attrs["place"],
        settings=dict(trial.params),
        complete=trial.state == TrialState.COMPLETE,
        steps=tuple(reached),
        means=tuple(None if lost_seeds(value) else value for value in values),
        losses=tuple(trial.user_attrs[f"losses {reached[-1]}"]),
    )


def chosen(trial: FrozenTrial, seeds: Sequence[int], losses: Losses) -> Chosen:
    """What a trial is worth, by its losses on seeds that chose nothing."""
    kept = np.array([loss for loss in losses if loss is not None])
    mean = float(kept.mean()) if len(kept) else None
    search = None if lost_seeds(trial.values[0]) else trial.values[0]
    return Chosen(
        place=trial.user_attrs["place"],
        settings=dict(trial.params),
        search=search,
        confirmed=mean,
        standard_error=float(kept.std(ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else None,
        diverged=len(losses) - len(kept),
        seeds=tuple(seeds),
        losses=losses,
        optimism=None if mean is None or search is None else mean - search,
    )


def described(space: Mapping[str, Random]) -> dict[str, dict[str, Any]]:
    """The search space as plain data."""
    return {
        name: {"values": list(choice.values)} if isinstance(choice, Choices) else asdict(choice)
        for name, choice in space.items()
    }


def write_tuned(folder: Path, cases: Sequence[Tuned]) -> Path:
    """Write what all cases came to; where it is."""
    path = folder / TUNED
    text = json.dumps({"cases": [asdict(each) for each in cases]}, indent=1, allow_nan=False)
    write_whole(path, lambda file: file.write(text.encode()))
    return path
