"""The result of a search as plain data, the file it is written to, and the table that is printed of it.

Optuna is not imported here, so that results can be shown and errors be caught where it is not installed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurra.saved.folders import FolderError
from recurra.saved.whole_files import write_whole
from recurra.studies.choices import Point, Random
from recurra.studies.folder import Folder

if TYPE_CHECKING:
    from recurra.studies.pages.tables import Table

#: the files of the results and of the page, in the folder of a search
TUNED, PAGE = "tuned.json", "tuned.html"
#: losses of a trial's seeds; None where a network diverged
Losses = tuple[float | None, ...]


class TuningError(Exception):
    """Why a search cannot go on: what was seen, and what to do."""


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
class Confirmed:
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

    @property
    def total(self) -> int:
        """What was taken in all."""
        return self.search + self.finalists + self.confirmation


@dataclass(frozen=True)
class Tuned:
    """The search of one case."""

    case: Point
    #: each setting that was searched: low, high, log and whole, or values
    space: dict[str, Random]
    seeds: tuple[int, ...]
    steps: int
    #: after which steps trials were compared
    looks: tuple[int, ...]
    trials: tuple[TriedTrial, ...]
    finalist_seeds: tuple[int, ...]
    finalists: tuple[Finalist, ...]
    #: None if every setting diverged
    chosen: Confirmed | None
    #: None if there were too few trials
    importance: dict[str, float] | None
    network_steps: Spent


def write_tuned(folder: Path, cases: Sequence[Tuned]) -> Path:
    """Write what all cases came to; where it is."""
    path = folder / TUNED
    text = json.dumps({"cases": [asdict(each) for each in cases]}, indent=1, allow_nan=False)
    write_whole(path, lambda file: file.write(text.encode()))
    return path


def found_in(folder: Folder) -> list[dict[str, Any]]:
    """What the search of each case came to, as far as they are finished."""
    try:
        return json.loads((folder.path / TUNED).read_text())["cases"]
    except (OSError, ValueError, KeyError):
        raise FolderError(
            f"{folder.path} has no case whose search is finished: let `recurra tune` go on, and look again."
        ) from None


def summary(folder: Folder) -> "Table":
    """The table of the chosen settings of each case, as they were confirmed."""
    from recurra.studies.pages import words
    from recurra.studies.pages.tables import Table

    cases = found_in(folder)
    names = list(dict.fromkeys(name for each in cases for name in each["case"]))
    rows = []
    for each in cases:
        chosen, spent = each["chosen"] or {}, each["network_steps"]
        rows.append(
            {words.heading(name): words.shown(name, each["case"].get(name, "")) for name in names}
            | {
                "Confirmed loss": words.with_error(chosen.get("confirmed"), chosen.get("standard_error")),
                "In the search": words.number(chosen.get("search")),
                "Diverged": f"{chosen['diverged']} of {len(chosen['seeds'])}" if chosen else "all",
                "Settings": words.settings(chosen.get("settings", {})),
                "Network-steps": f"{spent['search'] + spent['finalists']:,}",
            }
        )
    notes = [
        "\nThe confirmed loss is the mean over seeds that chose nothing, with its standard error. The loss in the "
        "search chose these settings, and is too low on average.",
        "Network-steps are those of the search and of its finalists. Those of the confirmation come on top.",
    ]
    return Table.of(rows, notes, len(names))
