"""Whether the noisy gradients are longer where they point the right way."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from scipy.ndimage import gaussian_filter

from recurra import analysis, plots
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
    table, told, sizes = Columns(), [], []
    with plots.style():
        figure = plots.sheet(8.2, 6.6)
        panels = figure.subplots(2, len(tasks), squeeze=False)
        figure.subplots_adjust(left=0.085, right=0.985, bottom=0.08, top=0.94, wspace=0.2, hspace=0.34)
        for row, learner in enumerate(PAIRS):
            for column, task in enumerate(tasks):
                arrays = data[f"gradients/{task}"]
                x, y = (np.asarray(arrays[name][row], float) for name in ("pair_cosine", "pair_log_norm"))
                both = np.isfinite(x) & np.isfinite(y)
                found = analysis.correlation(x[both], y[both])
                axes = panels[row, column]
                plots.letter(
                    axes, "abcd"[row * len(tasks) + column], f"{plots.name(learner)}, {plots.TASK_NAMES[task]}"
                )
                _panel(axes, x[both], y[both], plots.COLOURS[learner], found)
                told.append(f"{plots.name(learner)} on {plots.TASK_NAMES[task]} {found.r:.3f}")
                sizes.append(int(both.sum()))
                measured = dict(
                    r=found.r, p_independent=found.p, effective_steps=found.size, p_corrected=found.p_corrected
                )
                table.add(task=task, learner=learner, steps=sizes[-1], **measured)
        for axes in panels[-1]:
            axes.set_xlabel("cosine with RTRL's gradient")
        for axes in panels[:, 0]:
            axes.set_ylabel("log₁₀ of the gradient's norm")
    caption = (
        f"How often each pair of alignment and length occurred, over {counted(sizes)} steps of learning by RTRL: the "
        "cosine of the learner's gradient with RTRL's at the same step, and the common logarithm of its own norm; "
        "darker is more frequent. Red: the least-squares line. Each panel gives the correlation r and its p-value "
        "for r = 0, counting as many steps as are independent given how slowly both quantities vary."
    )
    return Drawn(figure, caption, f"Four densities with regression lines. Correlations: {', '.join(told)}.", table)


def _panel(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, found: analysis.Correlation) -> None:
    low, high = np.quantile(y, [0.0005, 0.9995]) if len(y) else (-1.0, 1.0)
    margin = 0.08 * max(high - low, 1e-6)
    left, right = np.quantile(x, [0.0005, 0.9995]) if len(x) else (-1.0, 1.0)
    side = 0.08 * max(right - left, 1e-6)
    box = [[max(left - side, -1), min(right + side, 1)], [low - margin, high + margin]]
    counts, xs, ys = np.histogram2d(x, y, bins=BINS, range=box)
    density = gaussian_filter(counts, np.clip(2.2 * (1e5 / max(len(x), 1)) ** (1 / 6), 2, 6))
    shades = LinearSegmentedColormap.from_list("density", ["#ffffff", colour, "#061533"])
    extent = (xs[0], xs[-1], ys[0], ys[-1])
    axes.imshow(np.sqrt(density).T, cmap=shades, extent=extent, origin="lower", aspect="auto", interpolation="bilinear")
    axes.set(xlim=box[0], ylim=box[1])
    axes.axvline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
    if np.isfinite(found.r):
        slope = found.r * y.std() / x.std()
        ends = np.array(box[0])
        axes.plot(ends, y.mean() + slope * (ends - x.mean()), color="#d6203a", linewidth=1.6)
    text = f"r = {found.r:.3f}\n{probability(found.p_corrected)}"
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
