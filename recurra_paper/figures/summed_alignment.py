"""Errors that average out, and errors that do not: what the paper's cartoon of the two says, measured."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from recurra.pages import plots
from recurra_paper.figures.bias_panel import bias_table, draw_biases
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, seed_mean
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import TASK_NAMES

NAME = "summed_alignment"
TITLE = "Figure 9, measured. Which errors average out over time"

TASKS = ("add", "mimic")
EXACT = ("rtrl", "f-bptt")
#: the exact learner that each facing is compared with; F-BPTT itself is compared with RTRL
REFERENCES = {"past": "rtrl", "–": "rtrl", "future": "f-bptt"}
#: the experiments of each row of panels, by task, and what it shows
SUMS, HELD, BIASES = "gradients/{}/1", "held/{}", "bias/{}"
TITLES = {SUMS: "sums over w steps", HELD: "the same, with weights held", BIASES: "bias and randomness"}

LETTERS = "abcdef"

#: learner -> mean and standard error of a cosine at each window
Lines = Mapping[str, tuple[np.ndarray, np.ndarray]]


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names, and one that a claim beside it rests on."""
    return [*(kind.format(task) for kind in TITLES for task in TASKS), "enumeration/"]


def draw(data: Data) -> Drawn | None:
    """The alignment of sums over ever longer stretches, while learning and with weights held; bias against scatter."""
    shown = {kind: [task for task in TASKS if kind.format(task) in data] for kind in TITLES}
    shown = {kind: tasks for kind, tasks in shown.items() if tasks}
    if not shown:
        return None
    table, letters = Columns(), iter(LETTERS)
    with plots.style():
        heights = [2.0 if kind == HELD else 3.4 for kind in shown]
        height = sum(heights) + 0.9 * len(shown) + 0.5
        figure = plots.sheet(10.4, height)
        panels = figure.subplots(len(shown), 2, squeeze=False, height_ratios=heights)
        place = plots.options(bottom=0.95 / height, top=1 - 0.35 / height, wspace=0.36, hspace=0.36)
        figure.subplots_adjust(left=0.065, right=0.905, **place)
        for row, (kind, tasks) in zip(panels, shown.items(), strict=True):
            for axes, task in zip(row, TASKS, strict=True):
                axes.set_visible(task in tasks)
                if task in tasks:
                    plots.letter(axes, next(letters), f"{TASK_NAMES[task]}: {TITLES[kind]}")
                    _panel(axes, table, kind, task, data[kind.format(task)])
        plots.code_key(figure)
    return Drawn(figure, _caption(data, shown), _alt(data, shown), table)


def reference(learner: str) -> str:
    """The exact learner with whose sums its own are compared."""
    return "rtrl" if learner in EXACT else REFERENCES[plots.facing(learner)]


def summed(arrays: Mapping[str, np.ndarray], learner: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean cosine of two learners' sums over each window while learning, and its standard error over seeds."""
    learners = [str(x) for x in arrays["learners"]]
    return seed_mean(np.asarray(arrays["window_cosine"], float)[:, learners.index(learner), learners.index(other)])


def with_reference(kind: str, arrays: Mapping[str, np.ndarray]) -> Lines:
    """Each learner's sums compared with those of the exact learner that it is held against."""
    learners = [str(x) for x in arrays["learners"]]
    if kind == HELD:
        return {x: seed_mean(np.asarray(arrays["window_cosine"], float)[i]) for i, x in enumerate(learners)}
    return {x: summed(arrays, x, reference(x)) for x in learners if x != "rtrl"}


def _panel(axes: Axes, table: Columns, kind: str, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    if kind == BIASES:
        draw_biases(axes, arrays)
        bias_table(table, task, arrays)
        return
    lines = with_reference(kind, arrays)
    if kind == HELD:
        _sums(axes, arrays["windows"], lines, {})
        _held_table(table, task, arrays)
    else:
        faint = {x: summed(arrays, x, "rtrl") for x in lines if reference(x) != "rtrl"}
        _sums(axes, arrays["windows"], lines, faint)
        _sums_table(table, task, arrays)


def _sums(axes: Axes, w: np.ndarray, lines: Lines, faint: Lines) -> None:
    lowest = [float(np.nanmin(mean)) for mean, _ in (*lines.values(), *faint.values()) if np.isfinite(mean).any()]
    axes.set_xscale("log")
    axes.set(xlim=(w[0], w[-1]), ylim=(1.15 * min([0.0, *lowest]), 1.03))
    axes.set(xlabel="steps w summed over", ylabel="mean cosine of sums")
    if w[-1] < 100 * w[0]:
        axes.set_xticks(w, [f"{steps:,}" for steps in w], minor=False)
        axes.xaxis.set_minor_locator(NullLocator())
    ends = []
    for learner, (mean, _) in faint.items():
        look = plots.options(linestyle=(0, (1, 2.2)), linewidth=1.0, alpha=0.75, zorder=2)
        axes.plot(w, mean, color=plots.colour(learner), **look)
    for learner, (mean, error) in lines.items():
        colour = plots.colour(learner)
        axes.fill_between(w, mean - error, mean + error, color=colour, alpha=0.16, linewidth=0)
        axes.plot(w, mean, **plots.line_style(learner), clip_on=False)
        ends.append(Label(float(w[-1]), float(mean[-1]), plots.name(learner), colour))
    label_ends(axes, ends)


def _caption(data: Data, shown: Mapping[str, list[str]]) -> str:
    free = iter(LETTERS)
    letters = {kind: ", ".join(next(free) for _ in tasks) for kind, tasks in shown.items()}
    parts = []
    if SUMS in shown:
        seeds = counted(len(data[SUMS.format(task)]["mean"]) for task in shown[SUMS])
        parts.append(
            f"({letters[SUMS]}) While RTRL learns at α = 1, gradients are summed over w consecutive steps and then "
            "compared with the sum of an exact learner over the same steps. Learners that face the past are compared "
            "with RTRL, and DNI and DNI(b), which face the future, with F-BPTT; dotted, these two compared with RTRL "
            f"as well. F-BPTT and E-BPTT are compared with RTRL. Lines are the mean cosine over {seeds} seeds, with a "
            "band of one standard error to either side. Noise that averages out lets a line climb to one; an error of "
            "direction keeps it down. Learners that face different ways sum the same terms in another order, and "
            "differ at single steps for that alone."
        )
    if HELD in shown:
        networks = counted(data[HELD.format(task)]["window_cosine"].shape[1] for task in shown[HELD])
        parts.append(
            f"({letters[HELD]}) The same with the weights of {networks} trained networks held: what the course of "
            "learning adds to a sum is gone. Each learner is compared with the exact one of its facing, and F-BPTT "
            "with RTRL."
        )
    if BIASES in shown:
        replicas = counted(int(data[BIASES.format(task)]["replicas"]) for task in shown[BIASES])
        networks = counted(data[BIASES.format(task)]["bias"].shape[1] for task in shown[BIASES])
        parts.append(
            f"({letters[BIASES]}) With weights held, {replicas} replicas of a learner's random numbers give the "
            "distance of their mean from the exact gradient of the same facing (bias) and their scatter about it "
            "(standard deviation). Both are root mean squares over steps, in units of that gradient's norm; dots are "
            f"medians over {networks} networks, bars span the middle half. In the shaded region a bias is no larger "
            "than sampling alone would show. Learners without randomness stand at 0. Hollow: stochastic."
        )
    return " ".join(parts)


def _alt(data: Data, shown: Mapping[str, list[str]]) -> str:
    told = []
    for kind, task in ((kind, task) for kind, tasks in shown.items() for task in tasks if kind != BIASES):
        arrays = data[kind.format(task)]
        lines = with_reference(kind, arrays).items()
        values = [f"{plots.name(x)} {mean[0]:.2f} to {mean[-1]:.2f}" for x, (mean, _) in lines]
        steps = f"{arrays['windows'][0]:,} to {arrays['windows'][-1]:,} steps"
        told.append(f"{TASK_NAMES[task]}, {TITLES[kind]}, cosine over {steps}: {', '.join(values)}.")
    for task in shown.get(BIASES, ()):
        arrays = data[BIASES.format(task)]
        values = [
            f"{plots.name(str(x))} {np.median(b):.2g}" for x, b in zip(arrays["learners"], arrays["bias"], strict=True)
        ]
        told.append(f"Bias on {TASK_NAMES[task]}: {', '.join(values)}.")
    return " ".join(told)


def _sums_table(table: Columns, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    for learner in map(str, arrays["learners"]):
        for exact in (x for x in EXACT if x in arrays["learners"]):
            mean, error = summed(arrays, learner, exact)
            values = dict(w=arrays["windows"], value=mean, standard_error=error)
            quantity = f"mean cosine of sums over w with {plots.name(exact)}'s"
            table.extend(task=task, learner=learner, quantity=quantity, **values)


def _held_table(table: Columns, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    lines = with_reference(HELD, arrays).items()
    for (learner, (mean, error)), exact in zip(lines, map(str, arrays["against"]), strict=True):
        values = dict(w=arrays["windows"], value=mean, standard_error=error)
        quantity = f"weights held: mean cosine of sums over w with {plots.name(exact)}'s"
        table.extend(task=task, learner=learner, quantity=quantity, **values)
