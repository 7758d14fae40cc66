"""How the learners' gradients point relative to each other, step by step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recurra.pages import plots
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, seed_mean
from recurra_paper.setup import ALPHAS, TASK_NAMES

NAME = "alignment_analysis"
TITLE = "Figure 6. How the gradients align"

TASKS = ("add", "mimic")
EXACT = ("rtrl", "f-bptt")
#: in a cell of side 1: where a cosine of -1 and of 1 stands, the floor, how high the tallest bar is, and the number
LEFT, RIGHT, FLOOR, HEIGHT, NUMBER = 0.06, 0.94, 0.04, 0.62, 0.69
MIXED = "#9a8fa6"


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [f"gradients/{task}/" for task in TASKS]


def draw(data: Data) -> Drawn | None:
    """For each task at α = 1 a triangle of histograms, and the mean alignments with the two exact learners."""
    tasks = [task for task in TASKS if f"gradients/{task}/1" in data]
    if not tasks:
        return None
    with plots.style():
        figure = plots.sheet(10.4, 5.9 * len(tasks) + 0.5)
        panels = figure.subplots(len(tasks), 2, squeeze=False, width_ratios=[1.9, 1])
        height = figure.get_figheight()
        place = plots.options(bottom=0.9 / height, top=1 - 0.4 / height, wspace=0.28, hspace=0.2)
        figure.subplots_adjust(left=0.08, right=0.985, **place)
        for row, task in enumerate(tasks):
            arrays = data[f"gradients/{task}/1"]
            plots.letter(panels[row, 0], "ac"[row], f"{TASK_NAMES[task]}: cosines of every pair")
            plots.letter(panels[row, 1], "bd"[row], f"{TASK_NAMES[task]}: with the exact gradients")
            _triangle(panels[row, 0], arrays)
            _pairs(panels[row, 1], arrays)
        _keys(figure)
    seeds = counted(len(data[f"gradients/{task}/1"]["mean"]) for task in tasks)
    caption = (
        "At α = 1, weights follow RTRL; at each step the other learners say where they would have gone. (a, c) For "
        "every pair, how often each cosine between their gradients occurred, from −1 to 1, counts of all steps and "
        f"{seeds} seeds; every histogram has the same height. Dashed: zero; solid line and number: the mean. Colours "
        "tell whether the two face the same way. (b, d) Mean cosine with the exact past-facing gradient, RTRL's, "
        "and with the future-facing one, F-BPTT's; bars are one standard error over seeds to either side, where "
        "wide enough to be seen. E-BPTT counts only at the steps at which it emits."
    )
    if any(f"gradients/{task}/0.5" in data for task in TASKS):
        caption += " Mean cosines at α = 0.5 are among the numbers."
    return Drawn(figure, caption, _alt(data, tasks), _table(data), more={"histograms": _histograms(data, tasks)})


def _triangle(axes: Axes, arrays: Mapping[str, np.ndarray]) -> None:
    learners = [str(x) for x in arrays["learners"]]
    count, merged = len(learners), max(1, (len(arrays["edges"]) - 1) // 50)
    edges = np.asarray(arrays["edges"], float)[::merged]
    mean = seed_mean(arrays["mean"])[0]
    across = lambda cosine: LEFT + (RIGHT - LEFT) * (cosine + 1) / 2
    shapes, colours, zeros, means = [], [], [], []
    for i in range(1, count):
        for j in range(i):
            counts = np.asarray(arrays["histogram"][i, j], float)
            bars = np.add.reduceat(counts, np.arange(0, len(counts), merged))[: len(edges) - 1]
            x, floor = j, count - 1 - i + FLOOR
            upright = lambda cosine, x=x, floor=floor: [(x + across(cosine), floor), (x + across(cosine), floor + 0.66)]
            outline = floor + HEIGHT * np.repeat(bars / max(bars.max(), 1), 2)
            filled = np.flatnonzero(bars)
            run = slice(2 * filled[0], 2 * filled[-1] + 2) if len(filled) else slice(0)
            steps = np.column_stack([x + across(np.repeat(edges, 2)[1:-1]), outline])[run]
            shapes.append([(steps[0, 0], floor), *steps, (steps[-1, 0], floor)] if len(steps) else [(x, floor)])
            colours.append(_shade(learners[i], learners[j]))
            zeros.append(upright(0))
            if np.isfinite(mean[i, j]):
                means.append(upright(mean[i, j]))
                text = f"{round(mean[i, j], 2) + 0.0:.2f}".replace("-", "−")
                at = (x + np.clip(across(mean[i, j]), 0.25, 0.75), floor + NUMBER)
                axes.text(*at, text, ha="center", va="bottom", fontsize=6.6)
    axes.add_collection(PolyCollection(shapes, facecolors=colours, edgecolors="none"))
    axes.add_collection(LineCollection(zeros, colors="#8b9097", linewidths=0.6, linestyles=[(0, (2, 2))]))
    axes.add_collection(LineCollection(means, colors=plots.INK, linewidths=1.0))
    frames = [[(j, count - 1 - i), (j + 1, count - 1 - i)] for i in range(1, count) for j in range(i)]
    axes.add_collection(LineCollection(frames, colors="#c3c8cf", linewidths=0.6))
    axes.set(xlim=(0, count - 1), ylim=(0, count - 0.5))
    for i, learner in enumerate(learners):
        look = plots.options(color=plots.colour(learner), fontsize=7.5)
        if i:
            axes.text(-0.12, count - 0.55 - i, plots.name(learner), ha="right", va="center", **look)
        if i < count - 1:
            axes.text(i + 0.12, count - 0.9 - i, plots.name(learner), ha="left", va="bottom", **look)
    for cosine in (-1, 0, 1):
        look = plots.options(fontsize=6.6, color=plots.MUTED, ha="center", va="top")
        axes.text(across(cosine), -0.08, f"{cosine}".replace("-", "−"), **look)
    axes.axis("off")


def _pairs(axes: Axes, arrays: Mapping[str, np.ndarray]) -> None:
    learners = [str(x) for x in arrays["learners"]]
    shown = [x for facing in ("past", "–", "future") for x in learners if plots.facing(x) == facing and x not in EXACT]
    for y, learner in enumerate(reversed(shown)):
        colour = plots.FACINGS[plots.facing(learner)]
        found = [alignment(arrays, learner, exact) for exact in EXACT if exact in learners]
        axes.plot([mean for mean, _ in found], [y] * len(found), color=colour, linewidth=1.2, alpha=0.5, zorder=1)
        for (mean, error), marker in zip(found, "oD", strict=False):
            look = plots.options(marker=marker, markersize=6.5) if marker == "o" else _hollow(marker)
            axes.errorbar(mean, y, xerr=np.nan_to_num(error), color=colour, elinewidth=1.2, **look)
    axes.set_yticks(range(len(shown)), [plots.name(x) for x in reversed(shown)])
    for label, learner in zip(axes.get_yticklabels(), reversed(shown), strict=True):
        label.set_color(plots.colour(learner))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color="#8b9097", linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)
    axes.set(ylim=(-0.6, len(shown) - 0.4), xlabel="mean cosine")


def alignment(arrays: Mapping[str, np.ndarray], x: str, y: str) -> tuple[float, float]:
    """The mean cosine between two learners over seeds, and its standard error."""
    learners = [str(learner) for learner in arrays["learners"]]
    mean, error = seed_mean(arrays["mean"][:, learners.index(x), learners.index(y)])
    return float(mean), float(error)


def _hollow(marker: str) -> dict[str, Any]:
    return plots.options(marker=marker, markersize=5.5, markerfacecolor="white", markeredgewidth=1.4)


def _shade(x: str, y: str) -> str:
    facings = {plots.facing(x), plots.facing(y)}
    return plots.FACINGS[facings.pop()] if len(facings) == 1 else MIXED


def _keys(figure: Figure) -> None:
    names = {
        plots.FACINGS["past"]: "both past facing",
        plots.FACINGS["future"]: "both future facing",
        MIXED: "otherwise",
    }
    left = [Line2D([], [], color=colour, linewidth=5, label=text) for colour, text in names.items()]
    place = plots.options(loc="lower center", ncols=3, handlelength=1.6, columnspacing=1.6)
    figure.legend(handles=left, bbox_to_anchor=(0.34, 0.0), **place)
    look = plots.options(color=plots.MUTED, linestyle="none")
    right = [
        Line2D([], [], marker="o", markersize=6.5, label="with RTRL", **look),
        Line2D([], [], label="with F-BPTT", **look, **_hollow("D")),
    ]
    figure.legend(handles=right, bbox_to_anchor=(0.84, 0.0), **place)


def _alt(data: Data, tasks: list[str]) -> str:
    told = []
    for task in tasks:
        arrays = data[f"gradients/{task}/1"]
        values = [
            f"{plots.name(str(x))} {' and '.join(f'{alignment(arrays, str(x), y)[0]:.2f}' for y in EXACT)}"
            for x in arrays["learners"]
            if str(x) not in EXACT
        ]
        told.append(f"{TASK_NAMES[task]}: {', '.join(values)}")
    return (
        f"Histograms of cosines for every pair of learners. Mean cosine with RTRL and with F-BPTT, {'; '.join(told)}."
    )


def _histograms(data: Data, tasks: list[str]) -> Columns:
    table = Columns()
    for task in tasks:
        arrays = data[f"gradients/{task}/1"]
        edges = np.asarray(arrays["edges"], float)
        for i, j, pair in _every_pair(arrays):
            counts = np.asarray(arrays["histogram"][i, j])
            bins = dict(cosine_from=edges[:-1].round(6), cosine_to=edges[1:].round(6), steps=counts)
            seen = {name: column[counts > 0] for name, column in bins.items()}
            if counts.any():
                table.extend(task=task, alpha="1", **pair, **seen)
    return table


def _table(data: Data) -> Columns:
    """Every mean cosine, at every α there is."""
    table = Columns()
    for task, alpha in ((task, alpha) for task in TASKS for alpha in ALPHAS if f"gradients/{task}/{alpha}" in data):
        arrays = data[f"gradients/{task}/{alpha}"]
        for _, _, pair in _every_pair(arrays):
            mean, error = alignment(arrays, **dict(zip("xy", pair.values(), strict=True)))
            table.add(task=task, alpha=alpha, **pair, mean_cosine=mean, standard_error=error)
    return table


def _every_pair(arrays: Mapping[str, np.ndarray]) -> list[tuple[int, int, dict[str, str]]]:
    learners = [str(x) for x in arrays["learners"]]
    return [(i, j, dict(learner=learners[i], other=learners[j])) for i in range(1, len(learners)) for j in range(i)]
