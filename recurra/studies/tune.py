"""A study's random choices searched, case by case."""

import json
from importlib.util import find_spec
from typing import Any

from recurra.studies.folder import TRIALS, Folder, FolderError
from recurra.studies.networks import Networks, batch_of
from recurra.studies.pages.tables import Table
from recurra.studies.pages.words import heading, shown, with_error
from recurra.studies.places.base import Place
from recurra.studies.reading.points import Point
from recurra.studies.settings import SettingsError
from recurra.studies.study import Study
from recurra.studies.tuning.objective import Progress
from recurra.studies.tuning.tune import tune_case
from recurra.studies.tuning.tuned import TUNED, Tuned, write_tuned
from recurra.studies.work import window_of
from recurra.training.console import say

#: what the page of a search is called
PAGE = "tuned.html"


def tune(study: Study, folder: Folder, place: Place) -> list[Tuned]:
    """Search every case, and write what was found after each."""
    cases = study.cases()
    spaces = [study.space(case) for case in cases]
    if not all(spaces):
        raise SettingsError(
            "There is nothing to search: `recurra tune` searches random choices, so write for example "
            "learning_rate = { log_uniform = [1e-5, 1e-1] } under [vary]."
        )
    if any("steps" in space for space in spaces):
        raise SettingsError("`steps` cannot be searched, since trials are compared after as many: list its values.")
    doubles = lambda case, space: "float64" in getattr(space.get("dtype"), "values", [study.settings(case).dtype])
    x64 = any(map(doubles, cases, spaces))
    networks, batch = Networks(study, place, x64), batch_of(study, place)
    found: list[Tuned] = []
    for case, space in zip(cases, spaces, strict=True):
        settings = study.settings(case)
        found.append(
            tune_case(
                case,
                space,
                networks,
                study.tune,
                settings.steps,
                window_of(settings),
                study.seeds,
                settings.key,
                folder.path / TRIALS,
                batch,
                _Saying(case, study),
            )
        )
        write_tuned(folder.path, found)
        if find_spec("matplotlib") and find_spec("jinja2"):
            from recurra.studies.tuning.page import write_page

            write_page(folder.path, found, folder.path.resolve().name)
    return found


class _Saying:
    """Says how far the search of a case is, whenever that has changed."""

    def __init__(self, case: Point, study: Study):
        self._name = ", ".join(str(case[name]) for name in case if name in study.varied) or str(case["learner"])
        self._last: tuple[str, int] | None = None

    def __call__(self, progress: Progress) -> None:
        now = progress.phase, progress.finished
        if now == self._last:
            return
        self._last = now
        best = "" if progress.best is None else f", lowest loss {progress.best:.4g}"
        if progress.phase == "search":
            say(f"{self._name}: {progress.finished} of {progress.trials} trials{best}")
        else:
            say(f"{self._name}: {progress.phase} on fresh seeds")


def found_in(folder: Folder) -> list[dict[str, Any]]:
    """What the search of each case came to, as far as they are finished."""
    try:
        return json.loads((folder.path / TUNED).read_text())["cases"]
    except (OSError, ValueError, KeyError):
        raise FolderError(
            f"{folder.path} has no case whose search is finished: let `recurra tune` go on, and look again."
        ) from None


def summary(folder: Folder) -> Table:
    """The chosen settings of each case, as they were confirmed."""
    cases = found_in(folder)
    names = list(dict.fromkeys(name for each in cases for name in each["case"]))
    header = (*map(heading, names), "Confirmed loss", "In the search", "Diverged", "Settings", "Network-steps")
    rows = []
    for each in cases:
        case = tuple(shown(name, each["case"].get(name, "")) for name in names)
        chosen, spent = each["chosen"], each["network_steps"]
        taken = f"{spent['search'] + spent['finalists']:,}"
        if chosen is None:
            rows.append((*case, "–", "–", "all", "–", taken))
            continue
        settings = ", ".join(f"{name} = {shown(name, value)}" for name, value in chosen["settings"].items())
        lost = f"{chosen['diverged']} of {len(chosen['seeds'])}"
        mean, error = chosen["confirmed"], chosen["standard_error"]
        confirmed = "–" if mean is None else with_error(mean, float("nan") if error is None else error)
        searched = "–" if chosen["search"] is None else f"{chosen['search']:.4g}"
        rows.append((*case, confirmed, searched, lost, settings, taken))
    notes = [
        "\nThe confirmed loss is the mean over seeds that chose nothing, with its standard error. The loss in the "
        "search chose these settings, and is too low on average.",
        "Network-steps are those of the search and of its finalists. Those of the confirmation come on top.",
    ]
    return Table(header, rows, notes, len(names))
