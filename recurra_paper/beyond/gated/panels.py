"""The panels of the figure: loss curves, mean cosines with the exact gradients, and correlations with the norm."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recurra.pages import plots
from recurra_paper.analysis import Estimate
from recurra_paper.figures.drawn import seed_mean
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.figures.losses import Curve, draw_benchmarks, draw_curve, extent, fit_limits, steps_axis

EXACT = ("rtrl", "f-bptt")
LOSSES = {"add": "cross-entropy", "mimic": "half the summed squared error"}


def draw_losses(axes: Axes, curves: Mapping[str, Curve], task: str) -> None:
    """Every learner's loss, named at its end; one that runs off the panel has an arrow."""
    shown = {learner: line for learner, line in curves.items() if line.seeds}
    if not shown:
        return
    lines = list(shown.values())
    low, high = extent(lines)
    logarithmic = task == "mimic" and high > 3 * low > 0  # else a steep start hides what the best learners do
    fit_limits(axes, lines, benchmarks=task == "add", logarithmic=logarithmic)
    if task == "add":
        draw_benchmarks(axes, lines)
    for learner, line in shown.items():
        draw_curve(axes, line, plots.line_style(learner, len(line.step)))
    steps_axis(axes, int(max(line.step[-1] for line in lines)))
    axes.set_ylabel(LOSSES[task] + (", logarithmic" if logarithmic else ""))
    top = axes.get_ylim()[1]
    name = lambda learner, line: plots.name(learner) + " ↑" * bool(line.mean[-1] > top)
    label_ends(
        axes,
        [Label(line.step[-1], line.mean[-1], name(x, line), plots.colour(x)) for x, line in shown.items()],
        size=7.0,
    )


def ordered(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """The learners whose cosines are shown: past facing, neither, future facing."""
    learners = [str(learner) for learner in arrays["learners"] if str(learner) not in EXACT]
    return [x for facing in ("past", "–", "future") for x in learners if plots.facing(x) == facing]


def cosine(arrays: Mapping[str, np.ndarray], x: str, y: str) -> tuple[float, float]:
    """The mean cosine of two learners over seeds, and its standard error; nan where one is missing."""
    learners = [str(learner) for learner in arrays["learners"]]
    if y not in learners:
        return float("nan"), float("nan")
    mean, error = seed_mean(np.asarray(arrays["mean"], float)[:, learners.index(x), learners.index(y)])
    return float(mean), float(error)


def draw_cosines(axes: Axes, arrays: Mapping[str, np.ndarray], named: bool) -> None:
    """A row for each learner: its cosine with RTRL, filled, and with F-BPTT, hollow."""
    rows = ordered(arrays)[::-1]
    for y, learner in enumerate(rows):
        colour = plots.FACINGS[plots.facing(learner)]
        found = [cosine(arrays, learner, exact) for exact in EXACT]
        axes.plot([mean for mean, _ in found], [y] * len(found), color=colour, linewidth=1.2, alpha=0.5, zorder=1)
        for (mean, error), exact in zip(found, EXACT, strict=True):
            axes.errorbar(mean, y, xerr=np.nan_to_num(error), color=colour, elinewidth=1.1, **_marker(exact))
    axes.set_yticks(range(len(rows)), [plots.name(x) if named else "" for x in rows])
    for label, learner in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(plots.colour(learner))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)
    left = min(-0.05, axes.get_xlim()[0])
    axes.set(xlim=(left, 1.02), ylim=(-0.6, len(rows) - 0.4), xlabel="mean cosine")


def _marker(exact: str) -> dict[str, Any]:
    if exact == "rtrl":
        return plots.options(marker="o", markersize=5.5)
    return plots.options(marker="D", markersize=4.5, markerfacecolor="white", markeredgewidth=1.3)


def draw_correlations(axes: Axes, found: Mapping[str, Sequence[tuple[str, Estimate]]]) -> None:
    """A bar for each condition and learner, with its standard error over seeds."""
    ticks: list[tuple[int, str]] = []
    for y, condition in enumerate(reversed(list(found))):
        each = found[condition]
        for offset, (learner, e) in zip(np.linspace(0.17, -0.17, len(each)), each, strict=True):
            axes.errorbar(e.value, y + offset, xerr=np.nan_to_num(e.error), elinewidth=1.1, **plots.dot_style(learner))
        ticks.append((y, condition.replace(" on ", "\n")))
    axes.set_yticks([y for y, _ in ticks], [text for _, text in ticks])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)
    axes.set(ylim=(-0.6, len(found) - 0.4), xlabel="correlation r")
    axes.margins(x=0.15)


def draw_keys(figure: Figure, middle: float, right: float, y: float, learners: Sequence[str]) -> None:
    """Below the lower panels: what filled and hollow markers stand for, and whose correlations are shown."""
    look = plots.options(color=plots.MUTED, linestyle="none")
    handles = [Line2D([], [], label=f"with {plots.name(exact)}", **look, **_marker(exact)) for exact in EXACT]
    place = plots.options(loc="lower center", columnspacing=1.4, handlelength=1.2, borderaxespad=0.0)
    figure.legend(handles=handles, bbox_to_anchor=(middle, y), ncols=2, **place)
    dots = [Line2D([], [], label=plots.name(learner), **plots.dot_style(learner)) for learner in learners]
    if dots:
        figure.legend(handles=dots, bbox_to_anchor=(right, y), ncols=2, **place)
