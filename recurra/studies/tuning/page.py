"""The page of a search: one file that needs no other, and no network; and its figures.

They are the loss of each trial against each setting; and what the search cost, which settings matter, and what the best
are worth on fresh seeds.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from recurra import __version__
from recurra.pages import plots
from recurra.pages.page import PageFigure, write_page
from recurra.studies.pages import words
from recurra.studies.tuning.importance import FEWEST
from recurra.studies.tuning.tuned import Chosen, Point, TriedTrial, Tuned

PAGE = "tuned.html"
NONE = words.NONE
#: panels in a row
ACROSS = 3
#: trials stopped at the first look, and at later ones
GREYS = ("#c9ced6", "#8f96a1", "#5d6570", "#3d434b")


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


def colour(tuned: Tuned) -> str:
    """The colour of the case: that of its learner."""
    learner = tuned.case.get("learner")
    return plots.colour(learner) if isinstance(learner, str) else plots.INK


def settings_figure(tuned: Tuned) -> Figure | None:
    """The loss of each trial against each setting; None if nothing was searched."""
    names = [name for name, choice in tuned.space.items() if not _single(choice)]
    if not names:
        return None
    rows = math.ceil(len(names) / ACROSS)
    across = min(len(names), ACROSS)
    with plots.style():
        figure = plots.sheet(10.4, 2.9 * rows + 0.45)
        axes = [figure.add_subplot(rows, ACROSS, number + 1) for number in range(len(names))]
        top = _top(tuned)
        for panel, name in zip(axes, names, strict=True):
            _setting(panel, tuned, name, top)
            if panel in axes[::ACROSS]:
                panel.set_ylabel("loss at the last step taken")
        bottom = 0.45 / figure.get_figheight()
        figure.tight_layout(rect=(0, bottom, 1, 1), w_pad=2.2)
        figure.legend(
            handles=_key(tuned),
            loc="lower left" if across < ACROSS else "lower center",
            bbox_to_anchor=(0.03 if across < ACROSS else 0.5, 0),
            ncols=6,
            handletextpad=0.3,
            columnspacing=1.6,
        )
    return figure


def _single(choice: dict) -> bool:
    return len(choice["values"]) == 1 if "values" in choice else choice["low"] == choice["high"]


def _top(tuned: Tuned) -> float:
    """Where the loss's axis ends: most trials have room, and those far off do not press the others together."""
    means = [trial.means[-1] for trial in tuned.trials if trial.means[-1] is not None]
    if not means:
        return 1.0
    low, middle = min(means), float(np.median(means))
    return min(max(means), low + 2.5 * (middle - low)) if middle > low else low + (abs(low) or 1.0)


def _setting(axes: Axes, tuned: Tuned, name: str, top: float) -> None:
    choice = tuned.space[name]
    for trial in tuned.trials:
        _dot(axes, tuned, trial, _across(choice, trial, name), top)
    if "values" in choice:
        axes.set_xticks(range(len(choice["values"])), [str(value) for value in choice["values"]])
        axes.set_xlim(-0.6, len(choice["values"]) - 0.4)
    elif choice["log"]:
        axes.set_xscale("log")
        axes.set_xlim(choice["low"] / 1.1, choice["high"] * 1.1)
        if choice["high"] < 1000 * choice["low"]:
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        room = 0.03 * (choice["high"] - choice["low"])
        axes.set_xlim(choice["low"] - room, choice["high"] + room)
    lowest = min((trial.means[-1] for trial in tuned.trials if trial.means[-1] is not None), default=0.0)
    axes.set_ylim(lowest - 0.07 * (top - lowest), top + 0.05 * (top - lowest))
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)
    axes.set_title(words.setting(name))


def _across(choice: dict, trial: TriedTrial, name: str) -> float:
    value = trial.settings[name]
    if "values" not in choice:
        return float(value)
    # spread out, the same way each time
    return choice["values"].index(value) + 0.5 * ((trial.place * plots.GOLDEN) % 1 - 0.5)


def _dot(axes: Axes, tuned: Tuned, trial: TriedTrial, x: float, top: float) -> None:
    loss = trial.means[-1]
    look = _look(tuned, len(trial.steps) if not trial.complete else None)
    if loss is None or loss > top:
        look |= {"marker": "x" if loss is None else 6, "markersize": 4.5, "markeredgewidth": 1.0, "zorder": 2}
        loss = top
    axes.plot([x], [loss], clip_on=False, **look)
    if tuned.chosen is not None and trial.place == tuned.chosen.place:
        axes.plot([x], [loss], **_ring())


def _look(tuned: Tuned, looks: int | None) -> dict:
    """How a trial is drawn that was stopped after so many looks; None for one that took all steps."""
    if looks is None:
        return plots.options(color=colour(tuned), marker="o", markersize=5, linestyle="none", zorder=4)
    grey = GREYS[min(looks, len(GREYS)) - 1]
    return plots.options(color=grey, marker="o", markersize=3.6, linestyle="none", zorder=3, markeredgewidth=0.8)


def _ring() -> dict:
    ring = plots.options(color=plots.INK, marker="o", markersize=9.5, markerfacecolor="none", markeredgewidth=1.3)
    return ring | plots.options(linestyle="none", zorder=5)


def _key(tuned: Tuned) -> list[Line2D]:
    stopped = sorted({len(trial.steps) for trial in tuned.trials if not trial.complete})
    handles = [Line2D([], [], label="all steps", **_look(tuned, None))]
    handles += [
        Line2D([], [], label=f"stopped after {tuned.looks[looks - 1]:,}", **_look(tuned, looks))
        for looks in reversed(stopped)
    ]
    if tuned.chosen is not None:
        handles.append(Line2D([], [], label="chosen", **_ring()))
    if any(trial.means[-1] is None for trial in tuned.trials):
        handles.append(Line2D([], [], color=GREYS[2], marker="x", markersize=4.5, linestyle="none", label="diverged"))
    return handles


def worth_figure(tuned: Tuned) -> Figure | None:
    """What the search cost, which settings matter, and the best on fresh seeds; None if nothing was chosen."""
    if tuned.chosen is None:
        return None
    with plots.style():
        figure = plots.sheet(10.4, 3.1)
        panels = [figure.add_subplot(1, 3, number) for number in (1, 2, 3)]
        _cost(panels[0], tuned)
        _importance(panels[1], tuned)
        _fresh(panels[2], tuned)
        figure.tight_layout(w_pad=2.2)
    return figure


def _cost(axes: Axes, tuned: Tuned) -> None:
    axes.set_title("Lowest loss so far")
    axes.set_xlabel("network-steps")
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    taken = np.cumsum([trial.steps[-1] * len(tuned.seeds) for trial in tuned.trials])
    done = [
        (float(at), trial.means[-1])
        for at, trial in zip(taken, tuned.trials, strict=True)
        if trial.complete and trial.means[-1] is not None
    ]
    if not done:
        return _say(axes, "no trial took all steps\nwithout diverging")
    x, losses = np.array(done).T
    best = np.minimum.accumulate(losses)
    low, high = best[-1], max(best[0], np.quantile(losses, 0.9))
    axes.plot([*x, taken[-1]], [*best, best[-1]], color=colour(tuned), drawstyle="steps-post")
    axes.plot(x, np.minimum(losses, high), "o", color=colour(tuned), markersize=3.2, alpha=0.45, markeredgewidth=0)
    room = 0.08 * (high - low or abs(low) or 1.0)
    axes.set_ylim(low - room, high + room)
    axes.set_xlim(0, taken[-1] * 1.03)
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)
    return None


def _importance(axes: Axes, tuned: Tuned) -> None:
    axes.set_title("Importance")
    if tuned.importance is None:
        return _say(axes, "too few trials to say" if tuned.space else "nothing was searched")
    names = list(tuned.importance)[::-1]
    axes.barh(range(len(names)), [tuned.importance[name] for name in names], height=0.55, color=colour(tuned))
    for row, name in enumerate(names):
        axes.text(tuned.importance[name] + 0.015, row, f"{tuned.importance[name]:.0%}", va="center", fontsize=7.5)
    axes.set_yticks(range(len(names)), [words.sign(name) for name in names])
    axes.set_ylim(-0.6, max(len(names), 3) - 0.4)
    axes.set_xlim(0, 1.12)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
    return None


def _fresh(axes: Axes, tuned: Tuned) -> None:
    axes.set_title("On fresh seeds")
    assert tuned.chosen is not None
    columns = [(f"trial {each.place}", each.losses) for each in tuned.finalists]
    columns.append((f"trial {tuned.chosen.place},\nconfirmed", tuned.chosen.losses))
    searched = {trial.place: trial.means[-1] for trial in tuned.trials}
    places = [*(each.place for each in tuned.finalists), tuned.chosen.place]
    for column, ((_, losses), place) in enumerate(zip(columns, places, strict=True)):
        last = column == len(columns) - 1
        _column(axes, column, losses, colour(tuned) if last or place == tuned.chosen.place else GREYS[1])
        if (value := searched[place]) is not None:
            axes.hlines(value, column - 0.32, column + 0.32, color=plots.INK, linewidth=0.9, linestyle=(0, (2, 1.6)))
    if tuned.finalists:
        axes.axvline(len(columns) - 1.5, color=plots.FAINT, linewidth=0.8)
    axes.set_xticks(range(len(columns)), [name for name, _ in columns], fontsize=7)
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)


def _column(axes: Axes, x: int, losses: Sequence[float | None], shade: str) -> None:
    """Losses of the seeds, their mean and its standard error."""
    kept = np.array([loss for loss in losses if loss is not None])
    if not len(kept):
        return
    offsets = 0.3 * (((np.arange(len(kept)) + 1) * plots.GOLDEN) % 1 - 0.5)
    axes.plot(x + offsets, kept, "o", color=shade, markersize=3, alpha=0.45, markeredgewidth=0)
    error = kept.std(ddof=1) / math.sqrt(len(kept)) if len(kept) > 1 else 0.0
    axes.errorbar([x], [kept.mean()], yerr=[error], color=shade, marker="D", markersize=4.5, capsize=3, linewidth=1.3)


def _say(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    axes.set_title(axes.get_title(loc="left"))
    axes.text(0.0, 0.9, text, transform=axes.transAxes, va="top", color=plots.MUTED)
