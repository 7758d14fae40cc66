"""What a search cost, which settings matter, and what the best are worth on fresh seeds."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from recurra.pages import plots
from recurra.studies.pages import words
from recurra.studies.tuning.against import GREYS, colour
from recurra.studies.tuning.tuned import Tuned


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
