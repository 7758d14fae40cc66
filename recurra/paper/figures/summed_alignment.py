"""Errors that average out, and errors that do not: what the paper's cartoon of the two says, measured."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from recurra.paper import plots
from recurra.paper.figures.drawn import Columns, Data, Drawn, counted, seed_mean
from recurra.paper.figures.labels import Label, label_ends, label_points

NAME = "summed_alignment"
TITLE = "Which errors average out over time"

TASKS = ("add", "mimic")
#: below it a learner's gradient counts as free of randomness
NEGLIGIBLE = 1e-6


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [f"{kind}/{task}" for kind in ("gradients", "bias") for task in TASKS]


def draw(data: Data) -> Drawn | None:
    """Above, the alignment of sums over ever longer stretches; below, bias against standard deviation."""
    shown = {kind: [task for task in TASKS if f"{kind}/{task}" in data] for kind in ("gradients", "bias")}
    shown = {kind: tasks for kind, tasks in shown.items() if tasks}
    if not shown:
        return None
    table, letters = Columns(), iter("abcd")
    with plots.style():
        height = 4.3 * len(shown) + 0.4
        figure = plots.sheet(10.4, height)
        panels = figure.subplots(len(shown), 2, squeeze=False)
        figure.subplots_adjust(
            left=0.065, right=0.905, bottom=0.85 / height, top=1 - 0.35 / height, wspace=0.36, hspace=0.3
        )
        for row, (kind, tasks) in zip(panels, shown.items(), strict=True):
            for axes, task in zip(row, TASKS, strict=True):
                axes.set_visible(task in tasks)
                if task in tasks:
                    what = "sums over w steps" if kind == "gradients" else "bias and randomness"
                    plots.letter(axes, next(letters), f"{plots.TASK_NAMES[task]}: {what}")
                    (_sums if kind == "gradients" else _biases)(axes, data[f"{kind}/{task}"])
                    (_sums_table if kind == "gradients" else _bias_table)(table, task, data[f"{kind}/{task}"])
        plots.code_key(figure)
    return Drawn(figure, _caption(data, shown), _alt(data, shown), table)


def _sums(axes: Axes, arrays: Mapping[str, np.ndarray]) -> None:
    w, cosine = arrays["windows"], np.asarray(arrays["window_cosine"], float)
    ends = []
    for index, learner in enumerate(map(str, arrays["learners"])):
        if learner == "rtrl":
            continue
        mean, error = seed_mean(cosine[:, index])
        colour = plots.colour(learner)
        axes.fill_between(w, mean - error, mean + error, color=colour, alpha=0.16, linewidth=0)
        axes.plot(w, mean, **plots.line_style(learner), clip_on=False)
        ends.append(Label(float(w[-1]), float(mean[-1]), plots.name(learner), colour))
    axes.set_xscale("log")
    axes.set(xlim=(w[0], w[-1]), ylim=(min(0.0, axes.get_ylim()[0]), 1.03))
    axes.set(xlabel="steps w summed over", ylabel="mean cosine with RTRL's sum")
    label_ends(axes, ends)


def _biases(axes: Axes, arrays: Mapping[str, np.ndarray]) -> None:
    learners = [str(x) for x in arrays["learners"] if str(x) != "rtrl"]
    rows = [list(map(str, arrays["learners"])).index(x) for x in learners]
    bias, std = (np.quantile(arrays[name][rows], [0.25, 0.5, 0.75], axis=1) for name in ("bias", "std"))
    random = std[1] > NEGLIGIBLE
    right = 4 * std[2, random].max() if random.any() else 10.0
    left = std[0, random].min() / 4 if random.any() else 0.1
    none = left / 3  # where those without randomness are shown
    std = np.where(random, std, none)
    axes.set(xscale="log", yscale="log", xlim=(none / 2, right))
    axes.set_ylim(bias[0].min() / 3, bias[2].max() * 3)
    replicas = int(arrays["replicas"])
    floor = np.array([left, right])
    axes.plot(floor, floor / np.sqrt(replicas), color=plots.MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
    axes.fill_between(floor, floor / np.sqrt(replicas), 1e-12, color="#eef0f2", linewidth=0, zorder=0)
    place = plots.options(transform=axes.transAxes, fontsize=7, color=plots.MUTED, ha="right", linespacing=1.3)
    axes.text(0.98, 0.03, f"within sampling error\nof {replicas:,} replicas", **place)
    for index, learner in enumerate(learners):
        x, y = std[:, index], bias[:, index]
        spread = plots.options(xerr=[[x[1] - x[0]], [x[2] - x[1]]], yerr=[[y[1] - y[0]], [y[2] - y[1]]])
        axes.errorbar(x[1], y[1], **spread, elinewidth=0.9, **plots.dot_style(learner))
    ticks = [tick for tick in 10.0 ** np.arange(-9, 9) if left <= tick <= right]
    first = [none] if not random.all() else []
    axes.set_xticks([*first, *ticks], [*(["0"] if first else []), *(f"{tick:g}" for tick in ticks)])
    axes.set(xlabel="standard deviation / norm of RTRL's gradient", ylabel="bias / norm of RTRL's gradient")
    named = [Label(float(std[1, i]), float(bias[1, i]), plots.name(x), plots.colour(x)) for i, x in enumerate(learners)]
    label_points(axes, named)


def _caption(data: Data, shown: Mapping[str, list[str]]) -> str:
    parts = []
    if "gradients" in shown:
        seeds = counted(len(data[f"gradients/{task}"]["mean"]) for task in shown["gradients"])
        parts.append(
            "Upper panels: gradients are summed over w consecutive steps before they are compared with RTRL's sum "
            f"over the same steps; the mean cosine over {seeds} seeds, with a band of one standard error to either "
            "side. Noise that averages out lets a line climb to one; an error of direction keeps it down. A learner "
            "that "
            "faces the future sums its terms in another order, and differs from RTRL at single steps for that alone."
        )
    if "bias" in shown:
        replicas = counted(int(data[f"bias/{task}"]["replicas"]) for task in shown["bias"])
        parts.append(
            f"Lower panels: along one trajectory with weights held, {replicas} replicas of a learner's random "
            "numbers give the distance of their mean from RTRL's gradient (bias) and their scatter about it "
            "(standard deviation), both in units of the root mean square of that gradient's norm over steps; medians "
            "over steps, bars span the middle "
            "half. In the shaded region a bias is no larger than sampling alone would show. Learners without "
            "randomness stand at 0. Hollow: stochastic."
        )
    return " ".join(parts)


def _alt(data: Data, shown: Mapping[str, list[str]]) -> str:
    told = []
    for task in shown.get("gradients", ()):
        arrays = data[f"gradients/{task}"]
        first, last = (seed_mean(arrays["window_cosine"][..., at])[0] for at in (0, -1))
        values = [
            f"{plots.name(str(x))} {a:.2f} to {b:.2f}" for x, a, b in zip(arrays["learners"], first, last, strict=True)
        ]
        told.append(
            f"Cosine with RTRL on {plots.TASK_NAMES[task]}, from one step to {arrays['windows'][-1]}: "
            f"{', '.join(values)}."
        )
    for task in shown.get("bias", ()):
        arrays = data[f"bias/{task}"]
        values = [
            f"{plots.name(str(x))} {np.median(b):.2g}" for x, b in zip(arrays["learners"], arrays["bias"], strict=True)
        ]
        told.append(f"Bias on {plots.TASK_NAMES[task]}: {', '.join(values)}.")
    return " ".join(told)


def _sums_table(table: Columns, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    for index, learner in enumerate(map(str, arrays["learners"])):
        mean, error = seed_mean(arrays["window_cosine"][:, index])
        values = dict(w=arrays["windows"], value=mean, standard_error=error)
        table.extend(task=task, learner=learner, quantity="mean cosine of sums over w", **values)


def _bias_table(table: Columns, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    for index, learner in enumerate(map(str, arrays["learners"])):
        for quantity in ("bias", "bias_noise", "std"):
            for part, name in ((0.25, "lower quartile"), (0.5, "median"), (0.75, "upper quartile")):
                value = float(np.quantile(arrays[quantity][index], part))
                row = dict(quantity=f"{name} of {quantity} / norm", w="", value=value, standard_error="")
                table.add(task=task, learner=learner, **row)
