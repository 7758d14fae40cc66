"""Final loss against rate for both optimizers, and what is left between learners at their best rates."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from recurra.pages import plots
from recurra_paper.beyond.best_rates.claims import NAME, WORDS
from recurra_paper.beyond.best_rates.measure import CONDITIONS, at_best, behind, best, best_rate
from recurra_paper.beyond.grids import RATED, Condition, found, grid_losses, grid_name, rates_of
from recurra_paper.claims.base import Data, Undecided
from recurra_paper.figures.drawn import Columns, Drawn, counted, listed, seed_mean
from recurra_paper.setup import LEARNING_RATE, TASK_NAMES

TITLE = "Best rates: what is left of the paper's order?"
#: from this ratio of the highest to the lowest loss on, their axis is logarithmic
WIDE = 4.0
#: a task and an α
Place = tuple[str, str]
MARKED = plots.options(linestyle="none", markersize=4, zorder=5)

__all__ = ["NAME", "TITLE", "draw", "needs"]


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["grid/"]


def draw(data: Data) -> Drawn | None:
    """A row of losses over rates for each optimizer, and below how far behind RTRL everybody is at best rates."""
    ran = [condition for condition in CONDITIONS if "fixed" in found(data, condition)]
    if not ran:
        return None
    places = list(dict.fromkeys((condition.task, condition.alpha) for condition in ran))
    lines: list[list[tuple[str, Callable[[Axes], None]]]] = []
    for optimizer, words in WORDS.items():
        here = [condition for condition in ran if condition.optimizer == optimizer]
        panel = lambda condition: lambda axes: _losses(axes, data, condition)
        lines.append([(f"{_where(condition[:2])}, {words}", panel(condition)) for condition in here])
    compared = [place for place in places if _measured(data, place)]
    panel = lambda place, named: lambda axes: _behind(axes, data, place, named)
    lines.append([(f"{_where(place)}: at best rates", panel(place, place == compared[0])) for place in compared])
    lines = [line for line in lines if line]
    with plots.style():
        columns, height = max(map(len, lines)), 2.9 * len(lines) + 0.5
        width = max(3.2 * columns, 8.4)
        figure = plots.sheet(width, height)
        panels = figure.subplots(len(lines), columns, squeeze=False)
        figure.subplots_adjust(
            left=1.0 / width, right=0.985, bottom=0.9 / height, top=1 - 0.4 / height, wspace=0.32, hspace=0.42
        )
        letters = iter("abcdefghijkl")
        for row, line in zip(panels, lines, strict=True):
            for axes in row[len(line) :]:
                axes.set_visible(False)
            for axes, (title, drawn) in zip(row, line, strict=False):
                plots.letter(axes, next(letters), title)
                drawn(axes)
        plots.code_key(figure)
    return Drawn(figure, _caption(data, ran), _alt(data, ran), _table(data, ran), _rows(data, ran))


def _where(place: Place) -> str:
    task, alpha = place
    return f"{TASK_NAMES[task]}, α = {alpha}"


def _measured(data: Data, place: Place) -> list[Condition]:
    """The optimizers with which distances from RTRL are known in this place."""
    known = []
    for condition in CONDITIONS:
        if condition[:2] == place:
            try:
                behind(data, condition, "fixed", "rtrl")
            except Undecided:
                continue
            known.append(condition)
    return known


def _losses(axes: Axes, data: Data, condition: Condition) -> None:
    low, top = np.inf, 0.0
    for learner in found(data, condition):
        rates, (mean, error) = rates_of(data, condition, learner), seed_mean(grid_losses(data, condition, learner))
        axes.fill_between(rates, mean - error, mean + error, color=plots.colour(learner), alpha=0.12, linewidth=0)
        axes.plot(rates, mean, **plots.line_style(learner))
        index = best(data, condition, learner)
        axes.plot(rates[index], mean[index], marker="o", color=plots.colour(learner), **MARKED)
        low, top = min(low, float(mean.min())), max(top, float(mean.max()))
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(LEARNING_RATE, color=plots.MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
    axes.set_xlabel("learning rate")
    if low > 0 and top > WIDE * low:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("final cross-entropy" if condition.task == "add" else "final half summed squared error")


def _behind(axes: Axes, data: Data, place: Place, named: bool) -> None:
    known = _measured(data, place)
    shown = [x for x in RATED if x != "rtrl" and any(x in found(data, condition) for condition in known)]
    for condition in known:
        shift, hollow = (-0.14, False) if condition.optimizer == "descent" else (0.14, True)
        for row, learner in enumerate(shown):
            if learner not in found(data, condition):
                continue
            e, colour = behind(data, condition, learner, "rtrl"), plots.colour(learner)
            low, high = e.interval()
            axes.plot([low, high], [row + shift] * 2, color=colour, linewidth=1.2)
            face = "white" if hollow else colour
            axes.plot(e.value, row + shift, marker="o", color=colour, markerfacecolor=face, **MARKED)
    axes.axvline(0.0, color=plots.INK, linewidth=0.7, zorder=1)
    axes.axvspan(-0.1, 0.1, color=plots.FAINT, alpha=0.5, linewidth=0, zorder=0)
    axes.set_yticks(range(len(shown)), [plots.name(learner) if named else "" for learner in shown])
    for text, learner in zip(axes.get_yticklabels(), shown, strict=True):
        text.set_color(plots.colour(learner))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("behind RTRL, in gaps")


def _caption(data: Data, ran: list[Condition]) -> str:
    runs = [data[grid_name(condition, x)] for condition in ran for x in found(data, condition)]
    seeds = counted(run["loss"].shape[3] for run in runs)
    steps = counted(int(run["step"][-1]) for run in runs)
    optimizers = listed(dict.fromkeys(WORDS[condition.optimizer] for condition in ran))
    return (
        f"Final loss after {steps} steps against the learning rate, with {optimizers}; means over {seeds} seeds, bands "
        "one standard error to either side. A seed that diverged, or lost more than an untrained network, counts as "
        "untrained. Dots are best rates, found on the even seeds; the vertical line is the paper's rate. Last row: how "
        "far each learner is behind RTRL at their best rates, judged by the odd seeds, in gaps, fixed W's loss less "
        "RTRL's, with 95 % intervals; filled plain descent, hollow Adam. The grey band is what does not matter."
    )


def _table(data: Data, ran: list[Condition]) -> Columns:
    """Every seed's final loss at every rate."""
    numbers = Columns()
    for condition in ran:
        for learner in found(data, condition):
            losses = grid_losses(data, condition, learner)
            for rate, each in zip(rates_of(data, condition, learner), losses.T, strict=True):
                of = dict(optimizer=condition.optimizer, task=condition.task, alpha=condition.alpha, learner=learner)
                final = np.array([f"{loss:.7g}" for loss in each])
                numbers.extend(**of, rate=f"{rate:g}", seed=np.arange(len(each)), final_loss=final)
    return numbers


def _rows(data: Data, ran: list[Condition]) -> list[dict[str, str]]:
    """A row for each learner: its best rate, and how far behind RTRL it is there."""
    known = [condition for condition in ran if condition in _measured(data, condition[:2])]

    def cell(condition: Condition, learner: str) -> str:
        if learner not in found(data, condition):
            return "–"
        e = behind(data, condition, learner, "rtrl")
        told = "0" if learner == "rtrl" else f"{e.value:.2f} ± {e.error:.2f}"
        return f"{told} at {best_rate(data, condition, learner):g}"

    heading = lambda condition: f"{_where(condition[:2])}, {WORDS[condition.optimizer]}"
    shown = [x for x in RATED if any(x in found(data, condition) for condition in known)]
    return [{"learner": plots.name(x)} | {heading(c): cell(c, x) for c in known} for x in shown]


def _alt(data: Data, ran: list[Condition]) -> str:
    told = []
    for condition in ran:
        each = [
            f"{plots.name(x)} {np.mean(at_best(data, condition, x)):.3g} at {best_rate(data, condition, x):g}"
            for x in found(data, condition)
        ]
        told.append(f"{_where(condition[:2])}, {WORDS[condition.optimizer]}: {', '.join(each)}.")
    return "Best final loss of every learner and the rate it is reached at. " + " ".join(told)
