"""Learning curves: what the three figures that show them share."""

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from recurra.pages import plots
from recurra_paper import analysis
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, listed
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import CURVES, TASK_NAMES

#: windows in the running average, as in the paper
SMOOTHING = 10
#: the lowest losses on Add, by what a network knows
BENCHMARKS = dict(
    zip(("output statistics", "first dependency", "both dependencies"), analysis.add_benchmarks(), strict=True)
)
ALPHAS = ("1", "0.5")


class Curve(NamedTuple):
    """The mean over the seeds that stayed finite, its standard error, how many there are and how many there were."""

    step: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    seeds: int
    started: int


def curve(arrays: Mapping[str, np.ndarray]) -> Curve:
    """Seeds that diverged are left out whole: a mean over those that survive a while would mix two populations."""
    loss = np.asarray(arrays["loss"], float)
    finite = (arrays["diverged"] < 0) & np.isfinite(loss).all(axis=-1)
    kept = analysis.smooth(loss[finite], SMOOTHING)
    n, step = len(kept), arrays["step"][-kept.shape[-1] :]
    nothing = np.full(len(step), np.nan)
    mean = kept.mean(axis=0) if n else nothing
    error = kept.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else nothing
    return Curve(step, mean, error, n, len(loss))


def draw_curve(axes: Axes, line: Curve, look: Mapping[str, Any]) -> None:
    """The mean with its band."""
    options = plots.options(color=look["color"], alpha=0.1, linewidth=0, zorder=2)
    axes.fill_between(line.step, line.mean - line.error, line.mean + line.error, **options)
    axes.plot(line.step, line.mean, **look)


def draw_benchmarks(axes: Axes, curves: list[Curve]) -> None:
    """Lines at those of Add's benchmark losses that are in sight, each named where the curves leave most room."""
    low, high = axes.get_ylim()
    last = max(line.step[-1] for line in curves)
    for text, value in BENCHMARKS.items():
        if value < low:
            continue
        axes.axhline(value, color=plots.MUTED, linewidth=0.8, linestyle=(0, (4, 2.5)), zorder=1)

        def room(place: tuple[float, float], value: float = value) -> float:
            start, side = place
            steps = np.linspace(start, start + 0.32, 60) * last
            away = lambda line: np.interp(steps, line.step, line.mean) - value - side * 0.025 * (high - low)
            return min(0.05 * (high - low), *(np.abs(away(line)).min() for line in curves))

        start, side = max(product(np.linspace(0.02, 0.66, 23), (1.0, -1.0)), key=room)
        look = plots.options(fontsize=6.8, color=plots.MUTED, va="bottom" if side > 0 else "top", zorder=5)
        place = plots.options(xycoords=axes.get_yaxis_transform(), xytext=(0, 1.5 * side), textcoords="offset points")
        label = axes.annotate(f"{text}, {value:.2f}", (start, value), **place, **look)
        label.set_path_effects([withStroke(linewidth=2, foreground="white", alpha=0.8)])


def fit_limits(axes: Axes, curves: list[Curve], benchmarks: bool = False, logarithmic: bool = False) -> None:
    """Show every curve, unless one runs so far off that the others would be squeezed flat, and the next benchmark."""
    low, high = extent(curves)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7) if high < 20 * low else (1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylim(low / (high / low) ** 0.05, high * (high / low) ** 0.05)
        return
    if benchmarks:
        high = max(high, *BENCHMARKS.values())
        below = max((value for value in BENCHMARKS.values() if value < low), default=low)
        low = below if low - below < high - low else low
    margin = 0.05 * (high - low)
    axes.set_ylim(low - margin, high + margin)


def extent(curves: list[Curve]) -> tuple[float, float]:
    """The least and the greatest mean loss, curves far above most others left aside."""
    tops = [float(line.mean.max()) for line in curves]
    usual = 1.3 * float(np.median(tops))
    return min(float(line.mean.min()) for line in curves), max(top for top in tops if top <= usual)


def steps_axis(axes: Axes, last: int) -> None:
    """Steps from zero to the last, counted in thousands or millions."""
    unit, word = (1_000_000, "million ") if last >= 1_000_000 else (1_000, "thousand ") if last >= 10_000 else (1, "")
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / unit:g}")
    axes.set_xlabel(f"{word}steps".strip())


def draw_losses(data: Data, task: str) -> Drawn | None:
    """All learners on one task, a panel for each alpha."""
    curves = {
        alpha: {
            learner: curve(data[f"loss/{task}/{alpha}/{learner}"])
            for learner in CURVES
            if f"loss/{task}/{alpha}/{learner}" in data
        }
        for alpha in ALPHAS
    }
    curves = {alpha: found for alpha, found in curves.items() if found}
    if not curves:
        return None
    table = Columns()
    # on a linear axis a steep start would hide what the best learners do at the end
    shown = [
        extent([c for c in found.values() if c.seeds])
        for found in curves.values()
        if any(c.seeds for c in found.values())
    ]
    logarithmic = task == "mimic" and any(high > 3 * low > 0 for low, high in shown)
    with plots.style():
        figure = plots.sheet(10.4, 4.7)
        panels = figure.subplots(1, len(curves), squeeze=False)[0]
        figure.subplots_adjust(left=0.06, right=0.877, bottom=0.2, top=0.92, wspace=0.53)
        for axes, tag, (alpha, found) in zip(panels, "ab", curves.items(), strict=False):
            shown = {learner: line for learner, line in found.items() if line.seeds}
            plots.letter(axes, tag, f"{TASK_NAMES[task]}, α = {alpha}")
            if shown:
                _panel(axes, shown, task, logarithmic)
            for learner, line in found.items():
                values = dict(step=line.step, mean=line.mean, standard_error=line.error)
                table.extend(task=task, alpha=alpha, learner=learner, seeds=line.seeds, **values)
        plots.code_key(figure)
    return Drawn(figure, _caption(task, curves), _alt(task, curves), table)


def _panel(axes: Axes, shown: dict[str, Curve], task: str, logarithmic: bool) -> None:
    lines = list(shown.values())
    fit_limits(axes, lines, benchmarks=task == "add", logarithmic=logarithmic)
    if task == "add":
        draw_benchmarks(axes, lines)
    for learner, line in shown.items():
        draw_curve(axes, line, plots.line_style(learner, len(line.step)))
    steps_axis(axes, int(max(line.step[-1] for line in lines)))
    what = "cross-entropy" if task == "add" else "half the summed squared error"
    axes.set_ylabel(what + (", logarithmic" if logarithmic else ""))
    top = axes.get_ylim()[1]
    ends = [
        Label(
            line.step[-1], line.mean[-1], plots.name(learner) + " ↑" * bool(line.mean[-1] > top), plots.colour(learner)
        )
        for learner, line in shown.items()
    ]
    label_ends(axes, ends)


def left_out(curves: Mapping[str, Curve]) -> str:
    """Which curves miss how many seeds, or that none does."""
    lost = [f"{name} ({c.started - c.seeds} of {c.started})" for name, c in curves.items() if c.seeds < c.started]
    if not lost:
        return "No seed diverged."
    return f"Seeds whose loss stopped being finite are left out: {listed(lost)}."


def windows(curves: Mapping[str, Curve]) -> str:
    """How the curves were smoothed, in words."""
    spacing = counted(int(step) for line in curves.values() for step in np.diff(line.step)[:1])
    return f"Losses are averaged over windows of {spacing} steps, then over the ten latest windows, once there are ten."


def _caption(task: str, curves: Mapping[str, Mapping[str, Curve]]) -> str:
    every = {f"{plots.name(k)}, α = {alpha}": line for alpha, found in curves.items() for k, line in found.items()}
    seeds = counted(line.started for line in every.values())
    panels = {
        "add": {
            "1": "α = 1 with dependencies 6 and 10 steps back",
            "0.5": "α = 0.5 with lags 3 and 5, every input held twice",
        },
        "mimic": {"1": "α = 1", "0.5": "α = 0.5, every input held twice"},
    }[task]
    which = "; ".join(f"({tag}) {panels[alpha]}" for tag, alpha in zip("ab", curves, strict=False))
    statistics, first, both = (f"{value:.2f}" for value in BENCHMARKS.values())
    benchmarks = (
        " Dashed lines, where in sight: the lowest loss open to a network that knows only how often each label occurs "
        f"({statistics}), the first dependency ({first}) or both ({both})."
    )
    return (
        f"Loss while learning the {TASK_NAMES[task]} task: {which}. Lines are means over {seeds} seeds, bands "
        "one standard error of the mean to either side; a seed gives every learner the same initial weights and the "
        f"same data. {windows(every)} {left_out(every)}{benchmarks if task == 'add' else ''}"
    )


def _alt(task: str, curves: Mapping[str, Mapping[str, Curve]]) -> str:
    parts = []
    for alpha, found in curves.items():
        ranked = sorted((line.mean[-1], learner) for learner, line in found.items() if line.seeds)
        parts.append(f"α = {alpha}: " + ", ".join(f"{plots.name(learner)} {loss:.3g}" for loss, learner in ranked))
    return f"Learning curves on {TASK_NAMES[task]}. Final losses, best first. " + ". ".join(parts) + "."
