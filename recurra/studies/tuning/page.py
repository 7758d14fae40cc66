"""The page of a search: one file that needs no other, and no network."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recurra import __version__
from recurra.pages.page import PageFigure, write_page
from recurra.studies.pages import words
from recurra.studies.tuning.figures import settings_figure, worth_figure
from recurra.studies.tuning.importance import FEWEST
from recurra.studies.tuning.tuned import Chosen, Point, TriedTrial, Tuned

PAGE = "tuned.html"
NONE = words.NONE


def write_search(folder: Path, cases: Sequence[Tuned], name: str) -> Path:
    """Write the page of all cases of a study of this name; returns its path."""
    shown = [_case(number, tuned, _apart(cases)) for number, tuned in enumerate(cases)]
    content = {"name": name, "spent": _spent(cases), "cases": shown, "made": _made(cases)}
    return write_page(folder / PAGE, "recurra.studies.tuning", content)


def _apart(cases: Sequence[Tuned]) -> list[str]:
    """The settings that tell cases apart, or all where there is one case."""
    names = list(dict.fromkeys(name for tuned in cases for name in tuned.case))
    return [name for name in names if len(cases) == 1 or len({repr(each.case.get(name)) for each in cases}) > 1]


def _case(number: int, tuned: Tuned, apart: Sequence[str]) -> dict[str, Any]:
    chosen = tuned.chosen
    case = {name: tuned.case[name] for name in apart if name in tuned.case}
    return {
        "anchor": f"case-{number}",
        "title": words.case(_values(case)) if case else "The search",
        "verdict": _verdict(chosen),
        "lines": _lines(tuned),
        "settings": words.settings(_values(chosen.settings)) if chosen else NONE,
        "confirmed": _with_error(chosen) if chosen else NONE,
        "diverged": f"{chosen.diverged} of {len(chosen.seeds)}" if chosen else "all",
        "part": _part(tuned),
        "figures": _figures(number, tuned),
        "names": [words.heading(name) for name in tuned.space],
        "looks": [f"Loss after {stop:,}" for stop in tuned.looks],
        "trials": [_row(tuned, trial) for trial in tuned.trials],
    }


def _values(point: Point) -> dict[str, float | str]:
    """Settings as the words for them are looked up."""
    said = {True: "true", False: "false"}
    return {
        name: value if isinstance(value, str) else said[value] if isinstance(value, bool) else float(value)
        for name, value in point.items()
    }


def _verdict(chosen: Chosen | None) -> str:
    if chosen is None:
        return "No settings were found under which networks do not diverge."
    said = words.settings(_values(chosen.settings)) if chosen.settings else "Nothing to search"
    return f"{said}: loss {_with_error(chosen)} on {words.count(len(chosen.seeds), 'fresh seed')}"


def _with_error(chosen: Chosen) -> str:
    return words.with_error(_number(chosen.confirmed), _number(chosen.standard_error))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _lines(tuned: Tuned) -> list[str]:
    """What else is to be known of a case."""
    spent, chosen, lines = tuned.network_steps, tuned.chosen, []
    complete = sum(trial.complete for trial in tuned.trials)
    taken = words.number(float(spent.search), 3)
    lines.append(
        f"{words.count(len(tuned.trials), 'trial')} of {words.count(len(tuned.seeds), 'seed')}, {complete:,} of them "
        f"to the last of {tuned.steps:,} steps: {taken} network-steps, {_part(tuned)} of what it costs to take all of "
        "them there."
    )
    if chosen:
        lines[0] += f" Finalists and confirmation took {words.number(_both(tuned), 3)} more."
    if chosen and chosen.diverged:
        lines.append(f"{chosen.diverged} of {len(chosen.seeds)} fresh seeds diverged, and are left out of the loss.")
    if chosen and chosen.optimism is not None:
        than = "below" if chosen.optimism > 0 else "above"
        amount = words.number(abs(chosen.optimism), 2)
        lines.append(f"In the search itself its loss was {words.number(_number(chosen.search))}, {amount} {than} that.")
    if edges := _edges(tuned):
        at = words.listed(edges)
        lines.append(f"Near the end of what was searched, and perhaps better beyond it: the chosen value of {at}.")
    return lines


def _edges(tuned: Tuned) -> list[str]:
    """Settings that were chosen in the last twentieth of their range."""
    found = []
    for name, choice in tuned.space.items():
        if tuned.chosen is None or "values" in choice or choice["low"] == choice["high"]:
            continue
        scale = math.log if choice["log"] else float
        low, high, value = (scale(float(each)) for each in (choice["low"], choice["high"], tuned.chosen.settings[name]))
        if not 0.05 <= (value - low) / (high - low) <= 0.95:
            found.append(words.setting(name))
    return found


def _both(tuned: Tuned) -> float:
    return float(tuned.network_steps.finalists + tuned.network_steps.confirmation)


def _part(tuned: Tuned) -> str:
    return f"{tuned.network_steps.search / tuned.network_steps.grid:.0%}"


def _row(tuned: Tuned, trial: TriedTrial) -> dict[str, Any]:
    losses = ["diverged" if mean is None else f"{mean:.4g}" for mean in trial.means]
    chosen = tuned.chosen is not None and trial.place == tuned.chosen.place
    return {
        "place": trial.place,
        "settings": [words.shown(name, value) for name, value in _values(trial.settings).items()],
        "losses": losses + [""] * (len(tuned.looks) - len(losses)),
        "look": "chosen" if chosen else "" if trial.complete else "stopped",
    }


def _figures(number: int, tuned: Tuned) -> list[PageFigure]:
    against = (
        "Loss of each trial, as a mean over seeds, where it ended. Grey trials were stopped early, when their loss was "
        "still higher. Triangles at the top lie above the panel."
    )
    worth = (
        "Left: the lowest loss of trials that took all steps, as the search went on. Middle: how narrowly each setting "
        f"must be chosen for a trial to be among the best quarter (PED-ANOVA, from {FEWEST} trials on). Right: "
        "finalists on fresh seeds, and the chosen one on further seeds that chose nothing: each seed, mean and "
        "standard error. Dashes: the loss in the search."
    )
    drawn = (
        ("settings", "Loss against each setting", against, settings_figure(tuned)),
        ("worth", "Cost, importance and confirmation", worth, worth_figure(tuned)),
    )
    return [
        PageFigure(f"{name}-{number}", title, caption, figure)
        for name, title, caption, figure in drawn
        if figure is not None
    ]


def _spent(cases: Sequence[Tuned]) -> str:
    total = sum(tuned.network_steps.search + _both(tuned) for tuned in cases)
    trials = sum(len(tuned.trials) for tuned in cases)
    many = f"{words.count(len(cases), 'case')}, " if len(cases) > 1 else ""
    return f"{many}{words.count(trials, 'trial')}, {words.number(float(total), 3)} network-steps in all"


def _made(cases: Sequence[Tuned]) -> dict[str, str]:
    """How it was searched, where all cases agree."""
    first = cases[0]
    ranges = {name: _range(choice) for name, choice in first.space.items()}
    alike = all(tuned.space == first.space for tuned in cases)
    return {
        **({words.heading(name): text for name, text in ranges.items()} if alike else {}),
        "Seeds of a trial": words.numbers(first.seeds),
        "Compared after": f"{words.listed([f'{stop:,}' for stop in first.looks])} steps",
        "Recurra": __version__,
    }


def _range(choice: dict[str, Any]) -> str:
    if "values" in choice:
        return words.listed([str(value) for value in choice["values"]])
    return f"{choice['low']:g} to {choice['high']:g}" + (", logarithmic" if choice["log"] else "")
