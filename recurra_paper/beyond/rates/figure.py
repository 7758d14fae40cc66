"""Final loss against rate, the ranges of usable rates, rates of a learner's own, and long runs."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from recurra.pages import plots
from recurra_paper.beyond.grids import RATED, Condition, found, grid_losses, rates_of
from recurra_paper.beyond.profiles import Profile
from recurra_paper.beyond.rates.runs import GRIDS, experiments
from recurra_paper.beyond.rates.told import alt, caption, rows, table
from recurra_paper.beyond.rates.usable import (
    best,
    has_gap,
    long_loss,
    long_of,
    mean_gap,
    own_losses,
    own_of,
    spacing,
    tasks_of,
    usable,
    width,
)
from recurra_paper.claims.base import Data
from recurra_paper.figures.drawn import Drawn, seed_mean
from recurra_paper.figures.labels import Label, label_ends, label_points
from recurra_paper.figures.losses import curve, draw_curve
from recurra_paper.setup import LEARNING_RATE, TASK_NAMES

NAME = "rates"
TITLE = "Rates: how fast, how finely tuned, and how patient must a learner be?"

#: from this ratio of the highest to the lowest loss on, their axis is logarithmic
WIDE = 4.0
DASHED = plots.options(linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)


def needs(profile: Profile) -> list[str]:
    """The experiments it shows, by the start of their names."""
    names = [experiment.name for experiment in experiments(profile)]
    return ["rates/", *(grid for grid in GRIDS if any(name.startswith(grid) for name in names))]


def draw(data: Data) -> Drawn | None:
    """Above, losses over rates on both tasks and in long runs; below, usable rates and rates of a learner's own."""
    tasks = tasks_of(data)
    measured = [task for task in tasks if has_gap(data, task)]
    shown = [x for x in RATED if any(x in found(data, Condition(task)) for task in measured)]
    above: list[tuple[str, Callable[[Axes], None]]] = []
    below: list[tuple[str, Callable[[Axes], None]]] = []
    for task in tasks:
        title = TASK_NAMES[task]
        above.append((f"{title}: loss over rates", lambda axes, task=task: _losses(axes, data, task)))
        if task in measured:
            named = task == measured[0]
            ranges = lambda axes, task=task, named=named: _ranges(axes, data, task, shown, named)
            below.append((f"{title}: usable rates", ranges))
    if long_of(data):
        above.append(("Add: long runs", lambda axes: _long(axes, data)))
    if own_of(data):
        below.append(("Add: loss over own rates", lambda axes: _own(axes, data)))
    lines = [line for line in (above, below) if line]
    if not lines:
        return None
    with plots.style():
        height = 3.6 * len(lines) + 0.5
        figure = plots.sheet(10.4, height)
        columns = max(map(len, lines))
        panels = figure.subplots(len(lines), columns, squeeze=False)
        figure.subplots_adjust(
            left=0.075, right=0.915, bottom=0.95 / height, top=1 - 0.4 / height, wspace=0.46, hspace=0.36
        )
        letters = iter("abcdef")
        for row, line in zip(panels, lines, strict=True):
            for axes in row[len(line) :]:
                axes.set_visible(False)
            for axes, (title, drawn) in zip(row, line, strict=False):
                plots.letter(axes, next(letters), title)
                drawn(axes)
        plots.code_key(figure)
    return Drawn(figure, caption(data, tasks), alt(data, tasks), table(data, tasks), rows(data, tasks))


def _rate_axis(axes: Axes, rates: np.ndarray) -> None:
    step = 10 ** (spacing(rates) / 2)
    axes.set_xscale("log")
    axes.set_xlim(rates.min() / step, rates.max() * step)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(LEARNING_RATE, color=plots.MUTED, **DASHED)
    axes.set_xlabel("learning rate")


def _losses(axes: Axes, data: Data, task: str) -> None:
    top = 0.0
    for learner in found(data, Condition(task)):
        rates, losses = rates_of(data, Condition(task), learner), grid_losses(data, Condition(task), learner)
        mean, error = seed_mean(losses)
        axes.fill_between(rates, mean - error, mean + error, color=plots.colour(learner), alpha=0.12, linewidth=0)
        axes.plot(rates, mean, **plots.line_style(learner))
        top = max(top, float(mean.max()))
    _rate_axis(axes, rates_of(data, Condition(task)))
    low = min(float(grid_losses(data, Condition(task), x).mean(axis=0).min()) for x in found(data, Condition(task)))
    if low > 0 and top > WIDE * low:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("final cross-entropy" if task == "add" else "final half summed squared error")


def _ranges(axes: Axes, data: Data, task: str, shown: list[str], named: bool) -> None:
    gap, rates = mean_gap(data, task), rates_of(data, Condition(task))
    for row, learner in enumerate(shown):
        if learner not in found(data, Condition(task)):
            continue
        own, losses = (
            rates_of(data, Condition(task), learner),
            grid_losses(data, Condition(task), learner).mean(axis=0, keepdims=True),
        )
        bar = plots.options(color=plots.colour(learner), alpha=0.35, linewidth=5, solid_capstyle="butt")
        for low, high in _stretches(own, usable(losses, gap)[0]):
            axes.plot([low, high], [row, row], **bar)
        axes.plot(own[best(losses)], row, **plots.dot_style(learner))
        decades, error = seed_mean(width(data, task, learner))
        told = f"{decades:.1f}" + (f" ± {error:.1f}" if np.isfinite(error) else "")
        place = plots.options(transform=axes.get_yaxis_transform(), fontsize=7, va="center_baseline")
        axes.text(1.02, row, told, color=plots.colour(learner), **place)
    _rate_axis(axes, rates)
    axes.set_yticks(range(len(shown)), [plots.name(learner) if named else "" for learner in shown])
    for text, learner in zip(axes.get_yticklabels(), shown, strict=True):
        text.set_color(plots.colour(learner))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    heading = plots.options(transform=axes.transAxes, fontsize=7, color=plots.MUTED, va="bottom")
    axes.text(1.02, 1.0, "decades", **heading)


def _stretches(rates: np.ndarray, within: np.ndarray) -> list[tuple[float, float]]:
    """Where each run of neighbouring usable rates begins and ends, halfway to the rates beyond."""
    step = 10 ** spacing(rates)
    padded = np.concatenate([[rates[0] / step], rates, [rates[-1] * step]])
    edges = np.sqrt(padded[1:] * padded[:-1])
    change = np.flatnonzero(np.diff(np.concatenate([[0], within.astype(int), [0]])))
    return [(float(edges[i]), float(edges[j])) for i, j in change.reshape(-1, 2)]


def _long(axes: Axes, data: Data) -> None:
    ends, last = [], 0.0
    for learner in long_of(data):
        line = curve(data[f"rates/long/{learner}"])
        if not line.seeds:
            continue
        draw_curve(axes, line, plots.line_style(learner, len(line.step)))
        last = max(last, float(line.step[-1]))
        ends.append((float(line.step[-1]), float(line.mean[-1]), learner))
    axes.set_xscale("log")
    axes.set_xlim(right=last)
    for stop, value, learner in ends:
        if stop < last:  # carried on for comparison
            axes.plot([stop, last], [value, value], color=plots.colour(learner), **DASHED)
    axes.set(xlabel="steps", ylabel="cross-entropy")
    label_ends(axes, [Label(last, value, plots.name(x), plots.colour(x)) for _, value, x in ends])


def _own(axes: Axes, data: Data) -> None:
    lowest, drawn, tops = [], [], [0.0]
    axes.set_xscale("log")
    for learner, paper in own_of(data).items():
        own, losses = own_losses(data, learner)
        tried = own > 0
        mean, error = seed_mean(losses)
        x, y, colour = own[tried] / paper, mean[tried], plots.colour(learner)
        axes.fill_between(x, y - error[tried], y + error[tried], color=colour, alpha=0.12, linewidth=0)
        axes.plot(x, y, **plots.line_style(learner))
        axes.axhline(float(mean[~tried][0]), color=colour, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        lowest.append(Label(float(x[y.argmin()]), float(y.min()), plots.name(learner), colour))
        drawn.append(np.stack([x, y], axis=1))
        tops.append(float(x.max()))
    ends = []
    for learner, value in (("fixed", float(own_losses(data, "fixed")[1].mean())), ("rtrl", _rtrl(data))):
        if np.isfinite(value):
            axes.axhline(value, color=plots.colour(learner), **DASHED)
            ends.append(Label(max(tops), value, plots.name(learner), plots.colour(learner)))
    axes.axvline(1.0, color=plots.MUTED, **DASHED)
    axes.set_xlim(right=max(tops))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("own rate / the paper's")
    label_ends(axes, ends)
    label_points(axes, lowest, around=drawn)


def _rtrl(data: Data) -> float:
    known = "rates/long/rtrl" in data and "rates/long/fixed" in data
    return float(long_loss(data, "rtrl").mean()) if known else float("nan")
