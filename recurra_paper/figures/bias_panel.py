"""Bias against standard deviation of every learner's gradient: panels of the figure about errors that average out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from recurra.pages import plots
from recurra_paper.figures.drawn import Columns
from recurra_paper.figures.labels import Label, label_points

#: below it a learner's gradient counts as free of randomness
NEGLIGIBLE = 1e-6


def draw_biases(axes: Axes, arrays: Mapping[str, np.ndarray]) -> None:
    """A dot a learner, the median over networks, on logarithmic axes; those without randomness stand at 0."""
    learners = [str(x) for x in arrays["learners"]]
    bias, std = (np.quantile(arrays[name], [0.25, 0.5, 0.75], axis=1) for name in ("bias", "std"))
    random = std[1] > NEGLIGIBLE
    right = 4 * std[2, random].max() if random.any() else 10.0
    left = std[0, random].min() / 4 if random.any() else 0.1
    none = left / 3  # where those without randomness are shown
    std = np.where(random, std, none)
    axes.set(xscale="log", yscale="log", xlim=(none / 2, right))
    axes.set_ylim(bias[0].min() / 3, bias[2].max() * 3)
    floor = np.geomspace(left, right, 60)
    sampling = floor / np.sqrt(int(arrays["replicas"]))
    axes.plot(floor, sampling, color=plots.MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
    axes.fill_between(floor, sampling, 1e-12, color="#eef0f2", linewidth=0, zorder=0)
    place = plots.options(transform=axes.transAxes, fontsize=7, color=plots.MUTED, ha="right", linespacing=1.3)
    axes.text(0.98, 0.03, f"within sampling error\nof {int(arrays['replicas']):,} replicas", **place)
    around, named = [np.column_stack([floor, sampling])], []
    for index, learner in enumerate(learners):
        x, y = std[:, index], bias[:, index]
        spread = plots.options(xerr=[[x[1] - x[0]], [x[2] - x[1]]], yerr=[[y[1] - y[0]], [y[2] - y[1]]])
        axes.errorbar(x[1], y[1], **spread, elinewidth=0.9, **plots.dot_style(learner))
        around += [np.array([(x[0], y[1]), (x[2], y[1])]), np.array([(x[1], y[0]), (x[1], y[2])])]
        named.append(Label(float(x[1]), float(y[1]), plots.name(learner), plots.colour(learner)))
    ticks = [tick for tick in 10.0 ** np.arange(-9, 9) if left <= tick <= right]
    first = [none] if not random.all() else []
    axes.set_xticks([*first, *ticks], [*(["0"] if first else []), *(f"{tick:g}" for tick in ticks)])
    axes.set(xlabel="standard deviation / norm of the exact gradient", ylabel="bias / norm of the exact gradient")
    label_points(axes, named, around=around)


def bias_table(table: Columns, task: str, arrays: Mapping[str, np.ndarray]) -> None:
    """The quartiles over networks."""
    for index, learner in enumerate(map(str, arrays["learners"])):
        for quantity in ("bias", "bias_noise", "std"):
            for part, name in ((0.25, "lower quartile"), (0.5, "median"), (0.75, "upper quartile")):
                value = float(np.quantile(arrays[quantity][index], part))
                row = dict(quantity=f"{name} of {quantity} / norm", w="", value=value, standard_error="")
                table.add(task=task, learner=learner, **row)
