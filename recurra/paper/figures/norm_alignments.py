"""Whether the noisy gradients are longer where they point the right way."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from scipy.ndimage import gaussian_filter

from recurra.paper import analysis, plots
from recurra.paper.claims.alignment import paired
from recurra.paper.figures.drawn import Columns, Data, Drawn, counted

NAME = "norm_alignments"
TITLE = "Alignment with RTRL and the length of the gradient"

PAIRS = ("uoro", "r-kf-rtrl")
TASKS = ("add", "mimic")
BINS = 120


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [f"gradients/{task}" for task in TASKS]


def draw(data: Data) -> Drawn | None:
    """The joint density for two stochastic learners on both tasks."""
    tasks = [task for task in TASKS if f"gradients/{task}" in data]
    if not tasks:
        return None
    table, densities, told, sizes = Columns(), Columns(), [], []
    with plots.style():
        figure = plots.sheet(8.2, 6.6)
        panels = figure.subplots(2, len(tasks), squeeze=False)
        figure.subplots_adjust(left=0.085, right=0.985, bottom=0.08, top=0.94, wspace=0.2, hspace=0.34)
        for row, learner in enumerate(PAIRS):
            for column, task in enumerate(tasks):
                arrays = data[f"gradients/{task}"]
                each = paired(arrays, learner)
                found = analysis.mean(analysis.correlations(*each))
                x, y = (values.ravel() for values in each)
                both = np.isfinite(x) & np.isfinite(y)
                axes = panels[row, column]
                plots.letter(
                    axes, "abcd"[row * len(tasks) + column], f"{plots.name(learner)}, {plots.TASK_NAMES[task]}"
                )
                _panel(axes, x[both], y[both], plots.colour(learner), found)
                told.append(f"{plots.name(learner)} on {plots.TASK_NAMES[task]} {found.value:.3f}")
                sizes.append(int(both.sum()))
                measured = dict(r=found.value, standard_error=found.error, p=analysis.p_value(found))
                line = dict(zip(("slope", "intercept"), least_squares(x[both], y[both]), strict=True))
                table.add(task=task, learner=learner, seeds=len(each[0]), steps=sizes[-1], **measured, **line)
                counts, xs, ys = density(x[both], y[both])
                i, j = np.nonzero(counts)
                bins = dict(cosine_from=xs[i].round(5), log_norm_from=ys[j].round(5), steps=counts[i, j].astype(int))
                if len(i):
                    densities.extend(task=task, learner=learner, **bins)
        for axes in panels[-1]:
            axes.set_xlabel("cosine with RTRL's gradient")
        for axes in panels[:, 0]:
            axes.set_ylabel("log₁₀ of the gradient's norm")
    caption = (
        f"How often each pair of alignment and length occurred, over {counted(sizes)} steps of learning by RTRL, all "
        "seeds together: the cosine of the learner's gradient with RTRL's at the same step, and the common logarithm "
        "of its own norm; darker is more frequent. Red: the least-squares line. Each panel gives the correlation r, "
        "its mean and "
        "standard error over seeds, and the p-value of Student's test for r = 0, of which seeds are the sample."
    )
    alt = f"Four densities with regression lines. Correlations: {', '.join(told)}."
    return Drawn(figure, caption, alt, table, more={"densities": densities})


def least_squares(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and intercept; nan where x does not vary."""
    if len(x) < 2 or not np.ptp(x):
        return float("nan"), float("nan")
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(intercept)


def density(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts over a grid that holds all but the outermost thousandth, and its edges."""
    edge = lambda v: np.quantile(v, [0.0005, 0.9995]) if len(v) else np.array([-1.0, 1.0])
    wider = lambda ends: (ends[0] - 0.08 * max(np.ptp(ends), 1e-6), ends[1] + 0.08 * max(np.ptp(ends), 1e-6))
    left, right = wider(edge(x))
    return np.histogram2d(x, y, bins=BINS, range=[[max(left, -1), min(right, 1)], wider(edge(y))])


def _panel(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, found: analysis.Estimate) -> None:
    counts, xs, ys = density(x, y)
    smoothed = gaussian_filter(counts, np.clip(2.2 * (1e5 / max(len(x), 1)) ** (1 / 6), 2, 6))
    shades = LinearSegmentedColormap.from_list("density", ["#ffffff", colour, "#061533"])
    extent = (xs[0], xs[-1], ys[0], ys[-1])
    look = plots.options(extent=extent, origin="lower", aspect="auto", interpolation="bilinear")
    axes.imshow(np.sqrt(smoothed).T, cmap=shades, **look)
    axes.set(xlim=(xs[0], xs[-1]), ylim=(ys[0], ys[-1]))
    axes.axvline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
    slope, intercept = least_squares(x, y)
    ends = np.array([xs[0], xs[-1]])
    axes.plot(ends, intercept + slope * ends, color="#d6203a", linewidth=1.6)
    error = f" ± {found.error:.3f}" if np.isfinite(found.error) else ""
    text = f"r = {found.value:.3f}{error}\n{probability(analysis.p_value(found))}"
    axes.text(0.97, 0.05, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=8.5, linespacing=1.4)


def probability(p: float) -> str:
    """A p-value in print."""
    if not np.isfinite(p):
        return "p unknown"
    if p < 1e-300:
        return "p < 10$^{-300}$"
    if p < 1e-3:
        power = int(np.floor(np.log10(p)))
        return f"p = {p / 10.0**power:.1f} × 10$^{{{power}}}$"
    return f"p = {p:.3f}"
