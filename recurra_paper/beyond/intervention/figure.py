"""How far learners end behind RTRL, with less noise, with noise alone and with less bias."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from recurra.pages import plots
from recurra_paper.beyond.intervention.claims import NAME as NAME
from recurra_paper.beyond.intervention.claims import SHARES
from recurra_paper.beyond.intervention.deficits import lost
from recurra_paper.beyond.intervention.runs import NOISY, bias_name, copies_name, noise_name, numbers, reference_name
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, seed_mean

TITLE = "Bias against variance, by intervention"


class Points(NamedTuple):
    """What stands on the x axis, and how far those runs end behind RTRL: mean over seeds, its standard error."""

    x: np.ndarray
    mean: np.ndarray
    error: np.ndarray


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["intervention/"]


def draw(data: Data) -> Drawn | None:
    """A panel for each noisy learner, and one for RFLO's bias."""
    if reference_name("rtrl") not in data or reference_name("fixed") not in data:
        return None
    noisy = [learner for learner in NOISY if copies_name(learner, 1) in data]
    copies = {x: _points(data, copies_name(x, 1)[:-1]) for x in noisy}
    noise = {x: _points(data, noise_name(x, 1)[:-1]) for x in noisy}
    bias = _bias(data)
    if not noisy and not len(bias.x):
        return None
    with plots.style():
        figure = plots.sheet(10.4, 4.1)
        panels = figure.subplots(1, len(noisy) + bool(len(bias.x)), squeeze=False)[0]
        figure.subplots_adjust(left=0.072, right=0.985, bottom=0.245, top=0.9, wspace=0.3)
        for axes, tag, learner in zip(panels, "ab", noisy, strict=False):
            plots.letter(axes, tag, f"{plots.name(learner)}: noise by degrees")
            _noisy(axes, learner, copies[learner], noise[learner])
        top = max((axes.get_ylim()[1] for axes in panels[: len(noisy)]), default=1.0)
        low = min((axes.get_ylim()[0] for axes in panels[: len(noisy)]), default=0.0)
        for axes in panels[: len(noisy)]:
            axes.set_ylim(low, top)
        if len(bias.x):
            plots.letter(panels[-1], "abc"[len(noisy)], "RFLO: bias by degrees")
            _biased(panels[-1], bias)
    table = _table(copies, noise, bias)
    return Drawn(figure, _caption(data, noisy, bool(len(bias.x))), _alt(copies, noise, bias), table)


def _behind(data: Data, x: Iterable[float], names: Iterable[str]) -> Points:
    found = [seed_mean(lost(data, name)) for name in names]
    mean, error = (np.array([float(each[i]) for each in found]) for i in (0, 1))
    return Points(np.array(list(x), float), mean, error)


def _points(data: Data, prefix: str) -> Points:
    found = numbers(data, prefix)
    return _behind(data, map(float, found), (f"{prefix}{k}" for k in found))


def _bias(data: Data) -> Points:
    """Behind RTRL, by the share of RFLO's bias."""
    named = [(share, bias_name(share)) for share in SHARES if bias_name(share) in data]
    if not named or reference_name("rflo") not in data:
        return Points(*np.zeros((3, 0)))
    every = [(0.0, reference_name("rtrl")), *named, (1.0, reference_name("rflo"))]
    return _behind(data, (share for share, _ in every), (name for _, name in every))


def _noisy(axes: Axes, learner: str, copies: Points, noise: Points) -> None:
    k = np.geomspace(1, max(copies.x[-1], 4), 100)
    axes.axhline(0, color=plots.COLOURS["rtrl"], linewidth=1.2, zorder=1)
    first = copies.mean[copies.x == 1]
    if len(first):
        axes.plot(k, first[0] / k, color=plots.MUTED, linewidth=1.0, zorder=2)
        axes.plot(k, first[0] / k**0.5, color=plots.MUTED, linewidth=1.0, linestyle=(0, (1, 1.6)), zorder=2)
    bars = plots.options(elinewidth=1.0, capsize=2.0, zorder=4)
    axes.errorbar(copies.x, copies.mean, copies.error, **bars, **plots.dot_style(learner))
    # Beside the others, where they would cover each other.
    axes.errorbar(noise.x * 1.13, noise.mean, noise.error, **bars, **_noise_style())
    axes.set_xscale("log", base=4)
    axes.set_xlim(0.8, 1.3 * k[-1])
    axes.set_xticks(copies.x, [f"{int(x):,}" for x in copies.x])
    axes.set(xlabel="copies k averaged over, or variance divided by k", ylabel="final loss less RTRL's")
    handles = [
        Line2D([], [], **plots.dot_style(learner), label=f"mean of k copies of {plots.name(learner)}"),
        Line2D([], [], **_noise_style(), label="RTRL with the noise, / √k"),
        Line2D([], [], color=plots.MUTED, linewidth=1.0, label="∝ 1/k"),
        Line2D([], [], color=plots.MUTED, linewidth=1.0, linestyle=(0, (1, 1.6)), label="∝ 1/√k"),
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, columnspacing=1.2)


def _noise_style() -> dict[str, Any]:
    """That of RTRL, hollow since it is stochastic."""
    return plots.dot_style("rtrl") | {"marker": "D", "markersize": 5, "markerfacecolor": "white"}


def _biased(axes: Axes, bias: Points) -> None:
    axes.axhline(0, color=plots.COLOURS["rtrl"], linewidth=1.2, zorder=1)
    axes.plot([0, 1], [0, bias.mean[-1]], color=plots.MUTED, linewidth=1.0, zorder=2)
    look = plots.dot_style("rflo") | {"linestyle": "-", "linewidth": 1.2}
    axes.errorbar(bias.x, bias.mean, bias.error, elinewidth=1.0, capsize=2.0, zorder=4, **look)
    axes.set_xticks(bias.x, [f"{share:g}" for share in bias.x])
    axes.set(xlim=(-0.06, 1.06), xlabel="share s of RFLO's bias (1: RFLO itself)", ylabel="final loss less RTRL's")
    handles = [
        Line2D([], [], **look, label="RTRL with a share s of RFLO's bias"),
        Line2D([], [], color=plots.MUTED, linewidth=1.0, label="∝ s"),
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=1)


def _caption(data: Data, noisy: list[str], biased: bool) -> str:
    runs = [run for name, run in data.items() if name.startswith("intervention/")]
    seeds, steps = counted(len(run["loss"]) for run in runs), counted(int(np.max(run["step"])) for run in runs)
    gap = lost(data, reference_name("fixed")).mean()
    told = [
        f"How far a learner's final loss lies above RTRL's on Add, α = 1, at the paper's learning rate; {seeds} seeds, "
        f"{steps} steps. Means over seeds, paired with RTRL's; bars are one standard error to either side. Fixed W "
        f"lies {gap:.3f} above RTRL."
    ]
    if noisy:
        letters = "(a)" if len(noisy) == 1 else "(a, b)"
        told.append(
            f"{letters} Circles: the gradient is the mean of k independent copies of the learner, which has a k-th of "
            "its variance. Diamonds, moved aside a little: RTRL's gradient plus the learner's own error at that step, "
            "with a sign that is drawn at random, divided by √k. It has the variance of the mean of k copies, no bias "
            "and no correlation in time."
        )
    if biased:
        letter = "abc"[len(noisy)]
        told.append(f"({letter}) RTRL's gradient plus a share of the difference between RFLO's and its own.")
    return " ".join(told)


def _alt(copies: dict[str, Points], noise: dict[str, Points], bias: Points) -> str:
    row = lambda points: ", ".join(f"{x:g}: {y:.4f}" for x, y in zip(points.x, points.mean, strict=True))
    told = [f"Final loss less RTRL's by copies of {plots.name(x)}: {row(points)}." for x, points in copies.items()]
    told += [f"RTRL with the noise of {plots.name(x)}: {row(p)}." for x, p in noise.items() if len(p.x)]
    return " ".join(told + ([f"By the share of RFLO's bias: {row(bias)}."] if len(bias.x) else []))


def _table(copies: dict[str, Points], noise: dict[str, Points], bias: Points) -> Columns:
    table = Columns()
    rows = [("copies", x, points) for x, points in copies.items()] + [("noise / √k", x, p) for x, p in noise.items()]
    for what, learner, points in [*rows, ("share of bias", "rflo", bias)]:
        if len(points.x):
            values = dict(at=points.x, final_loss_less_rtrl=points.mean, standard_error=points.error)
            table.extend(what=what, learner=learner, **values)
    return table
