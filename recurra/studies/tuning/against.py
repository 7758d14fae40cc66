"""The loss of each trial of a search against each setting: where the good ones lie."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from recurra.pages import plots
from recurra.studies.pages import words
from recurra.studies.tuning.tuned import TriedTrial, Tuned

#: panels in a row
ACROSS = 3
#: trials stopped at the first look, and at later ones
GREYS = ("#c9ced6", "#8f96a1", "#5d6570", "#3d434b")


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
