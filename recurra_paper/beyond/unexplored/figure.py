"""Variance over time; and for each task bias and variance, final losses, and alignment with RTRL."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from recurra.pages import plots
from recurra_paper.analysis import mean
from recurra_paper.beyond.unexplored.measures import behind, cosine, sizes
from recurra_paper.beyond.unexplored.runs import RECEIVER, TRAINED, WEIGHTS, bias_name, gradients_name, growth_name
from recurra_paper.beyond.unexplored.told import alt, caption, relative_spread, table, trained
from recurra_paper.claims.base import Data
from recurra_paper.figures.drawn import Drawn, seed_mean
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import TASK_NAMES, TASKS

GROWTH_TITLES = {"orthogonal": "scatter over time", "contracting": "the same where |J| contracts"}
LOSSES = {"add": "cross-entropy", "mimic": "squared error"}
#: Losses further beyond fixed W than this part of the gap are drawn at the edge.
BEYOND = 0.6


def draw(data: Data) -> Drawn | None:
    """Above, variance over time; below it a row of panels for each task."""
    grown = [weights for weights in WEIGHTS if growth_name(weights) in data]
    tasks = [x for x in TASKS if bias_name(x) in data or gradients_name(x) in data or trained(data, x)]
    count = bool(grown) + len(tasks)
    if not count:
        return None
    letters = iter("abcdefgh")
    with plots.style():
        height = 3.45 * count + 0.5
        figure = plots.sheet(10.4, height)
        edges = plots.options(left=0.115, right=0.875)
        # Two of a row's panels share names at the left; curves have theirs at the right.
        rows = figure.add_gridspec(count, 1, **edges, bottom=0.85 / height, top=1 - 0.32 / height, hspace=0.38)
        first = rows[0].subgridspec(1, 2, wspace=0.58)
        for column, weights in enumerate(grown):
            axes = figure.add_subplot(first[0, column])
            plots.letter(axes, next(letters), GROWTH_TITLES[weights])
            _growth(axes, data, weights)
        for number, task in enumerate(tasks):
            _task(figure, rows[number + bool(grown)].subgridspec(1, 3, wspace=0.16), letters, data, task)
        _key(figure)
    return Drawn(figure, caption(data, grown, tasks), alt(data, grown, tasks), table(data, grown, tasks))


def _task(figure: Figure, places: Any, letters: Any, data: Data, task: str) -> None:
    """Bias and variance, final losses and alignment on one task."""
    kinds = [
        ("bias and scatter", bias_name(task) in data, _errors),
        ("final loss", bool(trained(data, task)), _losses),
        ("alignment with RTRL", gradients_name(task) in data, _alignments),
    ]
    for column, (title, known, panel) in enumerate(kinds):
        if known:
            axes = figure.add_subplot(places[0, column])
            if column == 2:
                box = axes.get_position()
                axes.set_position((box.x0 + 0.035, box.y0, box.width - 0.035, box.height))
            plots.letter(axes, next(letters), f"{TASK_NAMES[task]}: {title}")
            panel(axes, data, task)


def _growth(axes: Axes, data: Data, weights: str) -> None:
    """The standard deviation in norms of the exact gradient, on a logarithmic axis; geometric means over networks."""
    run, ends = data[growth_name(weights)], []
    steps = np.asarray(run["step"])
    for learner in map(str, run["learners"]):
        with np.errstate(divide="ignore"):
            each = np.log(relative_spread(data, weights, learner))
        value, error = seed_mean(each)
        low, middle, high = np.exp(value - error), np.exp(value), np.exp(value + error)
        axes.fill_between(steps, low, high, color=plots.colour(learner), alpha=0.13, linewidth=0)
        axes.plot(steps, middle, **plots.line_style(learner, len(steps)))
        ends.append(Label(float(steps[-1]), float(middle[-1]), plots.name(learner), plots.colour(learner)))
    axes.set(yscale="log", xlim=(1, steps[-1]), xlabel="steps from M = 0")
    axes.set_ylabel("standard deviation / exact norm")
    label_ends(axes, [end for end in ends if np.isfinite(end.y)])


def _rows(axes: Axes, named: bool) -> None:
    """A row for each learner, the same in all panels."""
    axes.set_yticks(range(len(TRAINED)), [plots.name(x) for x in TRAINED] if named else [""] * len(TRAINED))
    axes.set_ylim(len(TRAINED) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for place in range(len(TRAINED)):
        axes.axhline(place, color=plots.FAINT, linewidth=0.6, zorder=0)


def _errors(axes: Axes, data: Data, task: str) -> None:
    """Dots for the standard deviation, crosses for the bias, and lines for what sampling makes of no bias."""
    axes.set_xscale("log")
    for learner in map(str, data[bias_name(task)]["learners"]):
        place, colour = TRAINED.index(learner), plots.colour(learner)
        bias, noise, std = (np.quantile(x, [0.25, 0.5, 0.75]) for x in sizes(data, task, learner))
        axes.plot(bias[[0, 2]], [place] * 2, color=colour, linewidth=0.9)
        axes.plot(bias[1], place, color=colour, marker="x", markersize=5.5, markeredgewidth=1.5, zorder=4)
        if std[1] > 0:
            axes.plot(std[[0, 2]], [place] * 2, color=colour, linewidth=0.9)
            axes.plot(std[1], place, zorder=4, **plots.dot_style(learner))
            axes.plot([noise[1]] * 2, [place - 0.34, place + 0.34], color=plots.MUTED, linewidth=1.0, zorder=3)
    axes.set_xlabel("in norms of the exact gradient")
    _rows(axes, named=True)


def _losses(axes: Axes, data: Data, task: str) -> None:
    """Less RTRL's at the same seed: seeds as small dots, and their mean with its standard error."""
    means = {x: float(behind(data, task, x).mean()) for x in trained(data, task)}
    usual = [value for x, value in means.items() if x != RECEIVER]
    wide = max(max(usual) - min(usual), 1e-6)
    right = max(usual) + BEYOND * wide
    for learner in means:
        place, each = TRAINED.index(learner), behind(data, task, learner)
        e, colour = mean(each), plots.colour(learner)
        inside, at = each[each <= right], place + 0.2 * np.linspace(-1, 1, len(each))
        axes.plot(inside, at[each <= right], linestyle="none", marker="o", markersize=1.6, color=colour, alpha=0.45)
        axes.errorbar(min(e.value, right), place, xerr=e.error, elinewidth=1.2, **plots.dot_style(learner))
        if e.value > right:
            about = plots.options(textcoords="offset points", ha="right", va="center", fontsize=7, color=colour)
            axes.annotate(f"{e.value:.3g} →", (right, place), xytext=(-7, 0), **about)
    for learner in ("rtrl", "fixed"):
        look = plots.options(color=plots.colour(learner), linewidth=0.9, linestyle=(0, (3, 2)), zorder=0)
        axes.axvline(means[learner], **look)
    axes.set_xlim(right=right + 0.05 * wide)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{LOSSES[task]} less RTRL's")
    _rows(axes, named=bias_name(task) not in data)


def _alignments(axes: Axes, data: Data, task: str) -> None:
    """The mean cosine with RTRL of sums over w steps."""
    run, ends = data[gradients_name(task)], []
    w = np.asarray(run["windows"])
    for learner in map(str, run["learners"][1:]):
        value, error = seed_mean(cosine(data, task, learner))
        axes.fill_between(w, value - error, value + error, color=plots.colour(learner), alpha=0.13, linewidth=0)
        axes.plot(w, value, clip_on=False, **plots.line_style(learner, len(w)))
        ends.append(Label(float(w[-1]), float(value[-1]), plots.name(learner), plots.colour(learner)))
    axes.set(xscale="log", xlim=(1, max(w[-1], 2)), ylim=(min(axes.get_ylim()[0], 0.0), 1.03))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axhline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    axes.set(xlabel="steps w summed over", ylabel="mean cosine")
    label_ends(axes, [end for end in ends if np.isfinite(end.y)])


def _key(figure: Figure) -> None:
    dot = plots.options(color=plots.MUTED, linestyle="none")
    handles = [
        Line2D([], [], marker="o", markersize=6, markerfacecolor="white", label="standard deviation", **dot),
        Line2D([], [], marker="x", markersize=5.5, markeredgewidth=1.5, label="bias", **dot),
        Line2D([], [], marker="|", markersize=9, label="what sampling makes of no bias", **dot),
        Line2D([], [], color=plots.MUTED, linewidth=1.4, label="deterministic"),
        Line2D([], [], color=plots.MUTED, linewidth=1.4, linestyle=plots.DASHES, label="stochastic"),
    ]
    place = plots.options(loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=len(handles), handlelength=2.4)
    figure.legend(handles=handles, columnspacing=2.0, labelcolor=plots.INK, **place)
