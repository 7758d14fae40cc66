"""Whether the noisy gradients are longer where they point the right way."""

from collections.abc import Mapping
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from scipy.ndimage import gaussian_filter

from recurra.pages import plots
from recurra_paper import analysis
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted
from recurra_paper.setup import TASK_NAMES

NAME = "norm_alignments"
TITLE = "Figure 7. Alignment with RTRL and the length of the gradient"

PAIRS = ("uoro", "r-kf-rtrl")
TASKS = ("add", "mimic")
BINS = 120
#: steps within which r is taken once more, so that what changes slowly over learning does not enter it
WINDOW = 2_000


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [f"gradients/{task}/1" for task in TASKS]


def draw(data: Data) -> Drawn | None:
    """The joint density for two stochastic learners on both tasks."""
    tasks = [task for task in TASKS if f"gradients/{task}/1" in data]
    if not tasks:
        return None
    table, densities, told, sizes = Columns(), Columns(), [], []
    with plots.style():
        figure = plots.sheet(10.4, 7.2)
        panels = figure.subplots(2, len(tasks), squeeze=False)
        figure.subplots_adjust(left=0.065, right=0.985, bottom=0.075, top=0.92, wspace=0.16, hspace=0.38)
        for axes, tag, (learner, task) in zip(panels.flat, "abcd", product(PAIRS, tasks), strict=False):
            plots.letter(axes, tag, f"{plots.name(learner)}, {TASK_NAMES[task]}", lines=1)
            each = paired(data[f"gradients/{task}/1"], learner)
            if each is None:
                axes.set_visible(False)
                continue
            found = analysis.mean(analysis.correlations(*each))
            within = analysis.mean(analysis.within_windows(*each, WINDOW))
            x, y = (values.ravel() for values in each)
            both = np.isfinite(x) & np.isfinite(y)
            _panel(axes, x[both], y[both], plots.colour(learner), found, within)
            told.append(f"{plots.name(learner)} on {TASK_NAMES[task]} {found.value:.3f}")
            sizes.append(int(both.sum()))
            measured = dict(r=found.value, standard_error=found.error, p=analysis.p_value(found))
            measured |= dict(r_within_windows=within.value, standard_error_within=within.error, window=WINDOW)
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
    if not sizes:
        return None
    caption = (
        f"How often each pair of alignment and length occurred, over {counted(sizes)} steps of learning by RTRL at "
        "α = 1, all seeds together: the cosine of the learner's gradient with RTRL's at the same step, and the common "
        "logarithm of its own norm; darker is more frequent. Red: the least-squares line. Above each panel stands the "
        "correlation r over all steps, its mean and standard error over seeds, and the p-value of Student's test for "
        f"r = 0, of which seeds are the sample; then the mean of r within windows of {WINDOW:,} steps, which "
        "leaves out what both owe to the course of learning."
    )
    alt = f"Densities with regression lines. Correlations: {', '.join(told)}."
    return Drawn(figure, caption, alt, table, more={"densities": densities})


def paired(arrays: Mapping[str, np.ndarray], learner: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The learner's cosines with RTRL and the logarithms of its norm, (seed, step); None where they were not kept."""
    noisy = [str(x) for x in arrays["noisy"]]
    if learner not in noisy:
        return None
    at = noisy.index(learner)
    return np.asarray(arrays["pair_cosine"][at], float), np.asarray(arrays["pair_log_norm"][at], float)


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


def _panel(
    axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, found: analysis.Estimate, within: analysis.Estimate
) -> None:
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
    told = lambda e: f"{e.value:.3f}" + (f" ± {e.error:.3f}" if np.isfinite(e.error) else "")
    text = f"r = {told(found)}, {probability(analysis.p_value(found))};  within {WINDOW:,} steps {told(within)}"
    axes.text(0.0, 1.03, text.replace("-0.", "−0."), transform=axes.transAxes, va="bottom", fontsize=8)


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
