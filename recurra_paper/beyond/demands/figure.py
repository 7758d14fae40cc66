"""Scores over lags, a panel for each number of bits, and how the reach shrinks with bits."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import NullFormatter, NullLocator

from recurra.pages import plots
from recurra_paper.beyond.demands.claims import in_bits
from recurra_paper.beyond.demands.reach import HALF, bits_of, capacity, reach, scores
from recurra_paper.claims.base import Data
from recurra_paper.figures.drawn import Columns, Drawn, counted, listed, seed_mean
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import LEARNERS, N

NAME = "demands"
TITLE = "What a task demands: limited information or limited horizon?"

#: ticks whose ratio is less than this carry one number
CLOSE = 1.24


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["demands/"]


def learners_of(data: Data, bits: int) -> list[str]:
    """The learners that were run with so many bits."""
    return [x for x in LEARNERS if f"demands/{bits}/{x}" in data]


def draw(data: Data) -> Drawn | None:
    """Left, the share of variance explained over lags; right, the reach against bits."""
    shown = bits_of(data)
    if not shown:
        return None
    columns = -(-len(shown) // 2)
    with plots.style():
        figure = plots.sheet(10.4, 6.8)
        widths = [*[1.0] * columns, 1.25]
        grid = figure.add_gridspec(2, columns + 1, width_ratios=widths, wspace=0.24, hspace=0.36)
        grid.update(left=0.06, right=0.885, bottom=0.125, top=0.95)
        for number, bits in enumerate(shown):
            axes = figure.add_subplot(grid[divmod(number, columns)])
            plots.letter(axes, "abcdefgh"[number], f"{in_bits(bits)} a step")
            _scores(axes, data, bits)
            if number % columns == 0:
                axes.set_ylabel("share of variance explained")
        _right(figure, grid, data, shown)
        plots.code_key(figure)
    return Drawn(figure, _caption(data, shown), _alt(data, shown), _table(data, shown), more={"reach": _reaches(data)})


def _scores(axes: Axes, data: Data, bits: int) -> None:
    ticks: set[float] = set()
    for learner in learners_of(data, bits):
        lags, share = scores(data, bits, learner)
        ticks |= set(lags)
        mean, error = seed_mean(share)
        axes.fill_between(lags, mean - error, mean + error, color=plots.colour(learner), alpha=0.14, linewidth=0)
        axes.plot(lags, mean, **plots.line_style(learner))
    axes.axhline(HALF, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sorted(ticks), _spaced(sorted(ticks)))
    axes.set(ylim=(-0.08, 1.03), xlabel="lag, in steps")


def _spaced(ticks: list[float]) -> list[str]:
    """Numbers at ticks of a logarithmic axis, none where the one before is too near."""
    labels, last = [], 0.0
    for tick in ticks:
        near = tick < CLOSE * last
        labels.append("" if near else f"{tick:g}")
        last = last if near else tick
    return labels


def _right(figure: Figure, grid: GridSpec, data: Data, shown: list[int]) -> None:
    axes = figure.add_subplot(grid[:, -1])
    plots.letter(axes, "abcdefghi"[len(shown)], "reach")
    bits = np.array(shown, float)
    ends = []
    for learner in LEARNERS:
        found = [b for b in shown if f"demands/{b}/{learner}" in data]
        if not found:
            continue
        mean, error = np.array([seed_mean(reach(data, b, learner)) for b in found]).T
        axes.errorbar(found, mean, yerr=error, elinewidth=0.9, clip_on=False, **plots.line_style(learner))
        if found[-1] == shown[-1]:
            ends.append(Label(float(found[-1]), float(mean[-1]), plots.name(learner), plots.colour(learner)))
    axes.set(xscale="log", yscale="log")
    low, high = axes.get_ylim()
    axes.plot(bits, capacity(bits), color=plots.MUTED, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1, clip_on=True)
    axes.set(xlim=(shown[0] / 1.12, shown[-1]), ylim=(low, high))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    axes.set_xticks(shown, [str(b) for b in shown])
    ticks = [t for t in (0.5, 1, 1.5, 2, 3, 4, 6, 8, 10, 14, 20, 28, 40) if low <= t <= high]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.set(xlabel="bits a step", ylabel="lag at which half of the variance is explained")
    label_ends(axes, ends)


def _table(data: Data, shown: list[int]) -> Columns:
    table = Columns()
    for bits in shown:
        for learner in learners_of(data, bits):
            lags, share = scores(data, bits, learner)
            mean, error = seed_mean(share)
            values = dict(lag=lags, score=mean, standard_error=error)
            table.extend(bits=bits, learner=learner, seeds=len(share), **values)
    return table


def _reaches(data: Data) -> Columns:
    table = Columns()
    for bits in bits_of(data):
        for learner in learners_of(data, bits):
            each = reach(data, bits, learner)
            mean, error = seed_mean(each)
            table.add(bits=bits, learner=learner, seeds=len(each), reach=float(mean), standard_error=float(error))
    return table


def _caption(data: Data, shown: list[int]) -> str:
    runs = [data[f"demands/{bits}/{x}"] for bits in shown for x in learners_of(data, bits)]
    seeds = counted(run["loss"].shape[3] for run in runs)
    steps = counted(int(run["step"][-1]) for run in runs)
    rates = sorted({float(rate) for run in runs for rate in run["rate"]})
    lost = sum(int((np.asarray(run["diverged"]) >= 0).sum()) for run in runs)
    total = sum(int(np.size(run["diverged"])) for run in runs)
    panels = "abcdefgh"[: len(shown)]
    single = [plots.name(x) for x in LEARNERS if any(_rates(data, b, x) == 1 for b in shown)]
    fewer = f"; {listed(single)} at {rates[-1]:g} alone" if len(rates) > 1 and single else ""
    return (
        f"A network of {N} tanh units sees fair coins, ±1, at every step and must answer all coins of some steps ago. "
        f"({panels[0]}–{panels[-1]}) The share of the label's variance that is explained after {steps} steps, against "
        f"the lag, for {listed(str(b) for b in shown)} coins a step. Lines are means over {seeds} seeds, bands one "
        f"standard error to either side. At each lag a learner is shown at the best of the learning rates "
        f"{listed(f'{rate:g}' for rate in rates)}{fewer}. ({'abcdefghi'[len(shown)]}) The reach: the lag at which half "
        "is explained (dashed in the other panels), read off each seed's scores joined by straight lines; means and "
        "standard errors over seeds. Dashed, where in sight: the longest lag at which so many units can explain half "
        f"if they keep every coin alike. Diverged runs, {lost} of {total}, count as explaining nothing."
    )


def _rates(data: Data, bits: int, learner: str) -> int:
    run = data.get(f"demands/{bits}/{learner}")
    return 0 if run is None else len(run["rate"])


def _alt(data: Data, shown: list[int]) -> str:
    parts = []
    for bits in shown:
        ranked = sorted(((float(reach(data, bits, x).mean()), x) for x in learners_of(data, bits)), reverse=True)
        parts.append(f"{in_bits(bits)}: " + ", ".join(f"{plots.name(x)} {steps:.2g}" for steps, x in ranked))
    return "Reach of every learner in steps, longest first. " + ". ".join(parts) + "."
