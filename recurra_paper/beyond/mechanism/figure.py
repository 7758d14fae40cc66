"""RFLO's gain against what an untrained network remembers, and against the horizon of the gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from recurra.pages import plots
from recurra_paper.analysis import mean
from recurra_paper.beyond.mechanism.claims import gain, memory, ranked
from recurra_paper.beyond.mechanism.runs import LEVELS, LONGEST, PLAIN, REACHED, horizon_of, name_of
from recurra_paper.beyond.mechanism.spectra import SPECTRA
from recurra_paper.claims.base import Data
from recurra_paper.figures.drawn import Columns, Drawn, counted, seed_mean
from recurra_paper.figures.labels import Label, label_ends, label_points
from recurra_paper.figures.rflo_results import INITS

NAME = "mechanism"
TITLE = "Is RFLO a prediction from what the network remembers by itself?"

REAL, COMPLEX = INITS["symmetric"], INITS["gaussian"]
#: below it the axis of gains is linear, above it logarithmic
SMALL_GAIN = 0.01
GAIN = "RFLO's gain, in coins"


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["mechanism/"]


def draw(data: Data) -> Drawn | None:
    """RFLO's gain against plain and reachable memory, how closely it follows them, and gain against the horizon."""
    remembered = [x for x in SPECTRA if f"mechanism/memory/{x}" in data and has_run(data, x, 1)]
    learned = {x: [T for T in range(1, LONGEST + 1) if has_run(data, x, T)] for x in SPECTRA}
    learned = {x: horizons for x, horizons in learned.items() if horizons}
    panels: list[tuple[str, Callable[[Axes], None]]] = []
    if remembered:
        panels += [
            ("plain r² of linear regression", lambda axes: _against(axes, data, remembered, PLAIN)),
            ("r² that descent reaches", lambda axes: _against(axes, data, remembered, REACHED)),
        ]
    if len(remembered) == len(SPECTRA):
        panels.append(("how closely the gain follows r²", lambda axes: _closeness(axes, data)))
    if learned:
        panels.append(("a longer horizon", lambda axes: _horizons(axes, data, learned)))
    if not panels:
        return None
    with plots.style():
        rows = -(-len(panels) // 2)
        height = 4.0 * rows + 0.5
        figure = plots.sheet(10.4, height)
        grid = figure.subplots(rows, 2, squeeze=False).ravel()
        figure.subplots_adjust(
            left=0.065, right=0.865, bottom=0.95 / height, top=1 - 0.4 / height, wspace=0.26, hspace=0.32
        )
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes, letter, (title, drawn) in zip(grid, "abcd", panels, strict=False):
            plots.letter(axes, letter, title)
            drawn(axes)
        _key(figure)
    return Drawn(figure, _caption(data, remembered, learned), _alt(data, learned), _table(data, remembered, learned))


def has_run(data: Data, spectrum: str, T: int) -> bool:
    """Whether there is a gain for this horizon."""
    return all(name_of(spectrum, name) in data for name in ("fixed", horizon_of(T)))


def _colour(spectrum: str) -> str:
    return REAL if SPECTRA[spectrum].real else COMPLEX


def _look(spectrum: str) -> dict[str, Any]:
    colour = _colour(spectrum)
    face = colour if SPECTRA[spectrum].normal else "white"
    return plots.options(color=colour, marker="o", markersize=5.5, markeredgewidth=1.4, markerfacecolor=face)


def _against(axes: Axes, data: Data, spectra: list[str], level: int) -> None:
    labels, bars = [], []
    for spectrum in spectra:
        x, y = mean(memory(data, spectrum, level)), mean(gain(data, spectrum, "rflo"))
        spread = plots.options(xerr=x.error, yerr=y.error, ecolor=to_rgba(_colour(spectrum), 0.35), elinewidth=1.0)
        axes.errorbar(x.value, y.value, **spread, linestyle="none", **_look(spectrum))
        at, both = np.array([x.value, y.value]), np.array([[-1], [1]])
        bars += [at + both * np.array(arm) for arm in ((x.error, 0), (0, y.error))]
        labels.append(Label(x.value, y.value, SPECTRA[spectrum].shown, _colour(spectrum)))
    axes.axhline(0, color=plots.FAINT, linewidth=0.8, zorder=0)
    axes.set_yscale("symlog", linthresh=SMALL_GAIN, linscale=0.4)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    if level == REACHED:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())  # labels of a short axis would run into each other
        axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(0.14, 0.1)
    what = "r² of y*(t) from a(t−1)" + (" with noise of variance 1/(ηt)" if level == REACHED else "")
    axes.set(xlabel=what, ylabel=GAIN)
    label_points(axes, labels, around=[bar for bar in bars if np.isfinite(bar).all()])


def _closeness(axes: Axes, data: Data) -> None:
    positions = range(len(LEVELS))
    estimates = [mean(ranked(data, level)) for level in positions]
    value = np.array([e.value for e in estimates])
    low, high = np.array([np.clip(e.interval(), -1, 1) for e in estimates]).T
    axes.axvline(REACHED, color=plots.FAINT, linewidth=6, zorder=0)
    axes.axhline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    axes.errorbar(positions, value, yerr=[value - low, high - value], elinewidth=1.0, color=plots.INK, marker="o")
    axes.set_xticks(positions, ["0\n(plain)", *(f"{level:g}" for level in LEVELS[1:])])
    axes.set_ylim(float(np.nanmin([*low, -0.25])) - 0.05, 1.05)
    axes.set(xlabel="variance of the noise, in units of 1/(ηt)", ylabel="rank correlation over spectra")


def _horizons(axes: Axes, data: Data, learned: dict[str, list[int]]) -> None:
    ends = []
    for spectrum, horizons in learned.items():
        value, error = seed_mean(np.stack([gain(data, spectrum, horizon_of(T)) for T in horizons], axis=1))
        colour = _colour(spectrum)
        axes.fill_between(horizons, value - error, value + error, color=colour, alpha=0.14, linewidth=0)
        line = plots.options(linestyle="-" if SPECTRA[spectrum].normal else plots.DASHES, markersize=3.5)
        axes.plot(horizons, value, linewidth=1.4, clip_on=False, **_look(spectrum) | line)
        ends.append(Label(float(horizons[-1]), float(value[-1]), SPECTRA[spectrum].shown, colour))
    last = max(horizons[-1] for horizons in learned.values())
    axes.set(xlim=(1, max(last, 2)), xlabel="horizon T of E-BPTT, steps (T = 1: RFLO)", ylabel="gain, in coins")
    axes.axhline(0, color=plots.FAINT, linewidth=0.8, zorder=0)
    label_ends(axes, ends)


def _key(figure: Figure) -> None:
    dot = lambda colour, face, label: Line2D(
        [], [], color=colour, marker="o", markersize=5.5, markeredgewidth=1.4, markerfacecolor=face, label=label
    )
    handles = [
        dot(COMPLEX, COMPLEX, "complex spectrum"),
        dot(REAL, REAL, "real spectrum"),
        Line2D([], [], color=plots.MUTED, marker="o", markersize=5.5, label="normal matrix"),
        dot(plots.MUTED, "white", "not normal"),
    ]
    handles[-1].set_linestyle(plots.DASHES)
    place = plots.options(loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=4, handlelength=3.0)
    figure.legend(handles=handles, columnspacing=2.0, labelcolor=plots.INK, **place)


def _caption(data: Data, remembered: list[str], learned: dict[str, list[int]]) -> str:
    runs = [data[name_of(x, "fixed")] for x in learned]
    seeds, steps = counted(len(run["loss"]) for run in runs), counted(int(np.max(run["step"])) for run in runs)
    told = [
        f"{len(learned)} kinds of recurrent weights of networks on Add, α = 1; {seeds} seeds each, {steps} steps of "
        "training. A gain is the final loss of the readout alone less that of the learner, in units of what knowing "
        "the first of the two coins is worth."
    ]
    if remembered:
        told.append(
            "(a) RFLO's gain against r² of a linear regression of y*(t) on a(t−1) in the untrained network. (b) The "
            "same with noise of variance 1/(ηt) added to a(t−1): what varies less is out of reach of descent at rate η "
            "in t steps. Means over seeds, bars one standard error."
        )
    if len(remembered) == len(SPECTRA):
        told.append(
            "(c) The rank correlation over the spectra of RFLO's gain with r², by the variance of the noise: mean over "
            "seeds, with 95 % intervals. The grey bar marks the variance of (b)."
        )
    if learned:
        letter = "d" if len(remembered) == len(SPECTRA) else "c" if remembered else "a"
        told.append(
            f"({letter}) The gain of E-BPTT by its horizon T; with T = 1 it is RFLO. Bands are one standard error to "
            "either side."
        )
    return " ".join(told)


def _alt(data: Data, learned: dict[str, list[int]]) -> str:
    told = (
        f"{SPECTRA[x].shown} {', '.join(f'{gain(data, x, horizon_of(T)).mean():.2f} at T = {T}' for T in horizons)}"
        for x, horizons in learned.items()
    )
    return f"Gains over the readout alone, in coins: {'; '.join(told)}."


def _table(data: Data, remembered: list[str], learned: dict[str, list[int]]) -> Columns:
    table = Columns()
    for x in remembered:
        for level, variance in enumerate(LEVELS):
            e = mean(memory(data, x, level))
            table.add(spectrum=x, quantity="r2", at=variance, value=e.value, standard_error=e.error)
    for x, horizons in learned.items():
        for T in horizons:
            e = mean(gain(data, x, horizon_of(T)))
            table.add(spectrum=x, quantity="gain in coins", at=T, value=e.value, standard_error=e.error)
    if len(remembered) == len(SPECTRA):
        for level, variance in enumerate(LEVELS):
            e = mean(ranked(data, level))
            table.add(spectrum="", quantity="rank correlation", at=variance, value=e.value, standard_error=e.error)
    return table
