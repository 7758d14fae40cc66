"""Learning curves: the loss while networks learn, at the best settings."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from recurra.pages.plots import style
from recurra.studies.pages import looks
from recurra.studies.pages.choosing import Chosen
from recurra.studies.pages.points import Points, error_of, mean_of

if TYPE_CHECKING:
    import xarray

#: panels, lines of a panel, and places on a line
MOST_PANELS, MOST_LINES, MOST_WINDOWS = 8, 20, 120


def draw(data: "xarray.Dataset", points: Points, setting: str | None, scenes: dict[str, list[Chosen]]) -> Figure:
    """Panels by their titles, a line for each case: the mean over seeds, and a band of its standard error."""
    look = looks.looks(points, setting)
    used: dict[str, dict[str, Any]] = {}
    with style("curves"):
        shown = list(scenes.items())[:MOST_PANELS]
        has_names = setting is not None or points.only_learner is not None
        right = 1.5 if has_names else 0.15
        figure, drawn = looks.frame(len(shown), 2, 2.9, right=right, gaps=(0.6, 0.9))
        for axes, (title, cases) in zip(drawn, shown, strict=True):
            seen, starts = [], []
            for each in cases[:MOST_LINES]:
                assert each.position is not None
                step, mean, error = curve(data, points, each.position)
                value = each.case.get(setting, "") if setting else ""
                own = look(value, len(step))
                used[looks.named(points, setting, value)] = own
                axes.plot(step, mean, **own)
                band = {"color": own["color"], "alpha": 0.16, "linewidth": 0, "zorder": 2}
                axes.fill_between(step, mean - error, mean + error, **band)
                seen += [mean, mean - error, mean + error]
                starts.append(mean[:1])
            looks.loss_axis(axes, np.concatenate(seen), float(np.nanmedian(np.concatenate(starts))), usual=98)
            looks.value_axis(axes, np.array([0.0, max(float(line.get_xdata()[-1]) for line in axes.lines)]), False)  # type: ignore[index]
            looks.title(axes, title)
            axes.set(xlabel="steps", ylabel="loss")
        if has_names:
            looks.legend(figure, used, right)
    return figure


def curve(data: "xarray.Dataset", points: Points, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, mean loss over the seeds that did not diverge, and its standard error; neighbouring windows are joined."""
    step = data["step"].values
    step = (step[position] if step.ndim > 1 else step).astype(float)
    loss = data["loss"].values[position][np.isfinite(points.final[position])]
    used = (step > 0) & np.isfinite(loss).any(axis=0)
    step, loss = step[used], loss[:, used]
    join = math.ceil(len(step) / MOST_WINDOWS) or 1
    starts = range(0, len(step), join)
    joined = np.array([mean_of(loss[:, start : start + join]) for start in starts]).reshape(len(starts), len(loss))
    ends = np.array([step[min(start + join, len(step)) - 1] for start in starts])
    return ends, mean_of(joined), error_of(joined)
