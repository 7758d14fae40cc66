"""KeRNL's loss against RFLO's over the grid, and what averaging does to it."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from recurra.pages import plots
from recurra_paper.beyond.kernl.claims import NAME as NAME
from recurra_paper.beyond.kernl.claims import ahead, settings
from recurra_paper.beyond.kernl.runs import (
    BATCH,
    COPIES,
    PACE,
    SIGMA,
    VERSIONS,
    copies_name,
    filter_name,
    reference_name,
    setting_name,
)
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, seed_mean
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import RELEASED

TITLE = "KeRNL: is it too noisy?"

LEARNERS = {"derived": "kernl", "released": RELEASED}
#: losses are shown in thousandths of a nat
UNIT = 1e-3
#: the σ of the last panel; the filter alone has none
SHOWN = (SIGMA, 0.0)


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["kernl/"]


def draw(data: Data) -> Drawn | None:
    """A map of the grid for each version, and the losses along the paper's σ."""
    shown = [version for version in VERSIONS if settings(data, version)]
    if not shown or any(reference_name(name) not in data for name in ("fixed", "rflo")):
        return None
    table = Columns()
    with plots.style():
        figure = plots.sheet(10.4, 4.2)
        widths = [1.0] * len(shown) + [1.5]
        panels = figure.subplots(1, len(widths), squeeze=False, gridspec_kw={"width_ratios": widths})[0]
        figure.subplots_adjust(left=0.07, right=0.93, bottom=0.225, top=0.91, wspace=0.34)
        limit = max(float(behind(data, reference_name("fixed"))[0]), UNIT) / UNIT
        for axes, tag, version in zip(panels, "ab", shown, strict=False):
            plots.letter(axes, tag, f"as {version}")
            _map(axes, data, version, limit, table)
        plots.letter(panels[-1], "abc"[len(shown)], "copies and streams")
        _lines(panels[-1], data, shown, limit, table)
        _key(figure, shown)
    return Drawn(figure, _caption(data, shown), _alt(table), table)


def behind(data: Data, name: str, streams: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """How far a run ends behind RFLO with as many streams: mean over seeds and its standard error."""
    return seed_mean(-ahead(data, name, reference_name("rflo", streams)))


def _map(axes: Axes, data: Data, version: str, limit: float, table: Columns) -> None:
    found = settings(data, version)
    sigmas, paces = (sorted({at[i] for at in found}) for i in (0, 1))
    grid = np.full((len(paces), len(sigmas)), np.nan)
    for sigma, pace in found:
        mean, error = behind(data, setting_name(version, sigma, pace))
        grid[paces.index(pace), sigmas.index(sigma)] = mean / UNIT
        _row(table, f"as {version}", 1, sigma, pace, mean, error)
    norm, digits = TwoSlopeNorm(0.0, -limit, limit), 0 if limit >= 20 else 1
    look = plots.options(cmap="PuOr_r", norm=norm, origin="lower", aspect="auto")
    axes.imshow(np.clip(grid, -limit, limit), **look)
    for (row, column), value in np.ndenumerate(grid):
        if np.isfinite(value):
            ink = plots.ON_DARK if abs(value) > 0.65 * limit else plots.ON_LIGHT
            run = data[setting_name(version, sigmas[column], paces[row])]
            gone = np.mean(np.asarray(run["diverged"]) >= 0) > 0.5
            text = "div." if gone else f"{value:+.{digits}f}".replace("-", "−")
            axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=ink)
    if SIGMA in sigmas and PACE in paces:
        corner = sigmas.index(SIGMA) - 0.5, paces.index(PACE) - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=plots.ON_LIGHT, linewidth=2.0, zorder=5))
    axes.set_xticks(range(len(sigmas)), [_power(sigma) for sigma in sigmas])
    axes.set_yticks(range(len(paces)), [_power(pace) for pace in paces])
    axes.set(xlabel="σ of the perturbations", ylabel="pace of the fit: rate · σ²")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _lines(axes: Axes, data: Data, shown: list[str], limit: float, table: Columns) -> None:
    """Along the paper's σ; the filter alone stands at pace 0."""
    paces = sorted({pace for version in shown for sigma, pace in settings(data, version) if sigma == SIGMA})
    places = {pace: float(np.log10(pace)) for pace in paces}
    zero = min(places.values(), default=0.0) - 1.0
    bars = plots.options(elinewidth=0.9, capsize=1.8, zorder=4)
    for streams in (1, BATCH):
        if filter_name(streams) in data and reference_name("rflo", streams) in data:
            mean, error = behind(data, filter_name(streams), streams)
            axes.errorbar(zero, mean / UNIT, error / UNIT, **bars, **_look("filter", streams))
            _row(table, "never fitted", streams, 0.0, 0.0, mean, error)
        for version in shown:
            name = lambda pace, version=version, streams=streams: setting_name(version, SIGMA, pace, streams)
            run = [pace for pace in paces if name(pace) in data and reference_name("rflo", streams) in data]
            points = [behind(data, name(pace), streams) for pace in run]
            mean, error = (np.array([point[i] for point in points]) / UNIT for i in (0, 1))
            look = _look(version, streams)
            axes.errorbar([places[pace] for pace in run], np.clip(mean, -9e9, 1.5 * limit), error, **bars, **look)
            if streams > 1:
                for pace, (value, uncertainty) in zip(run, points, strict=True):
                    _row(table, f"as {version}", streams, SIGMA, pace, value, uncertainty)
    for version in shown:
        if copies_name(version) in data and PACE in places:
            mean, error = behind(data, copies_name(version))
            look = _look(version, 1) | plots.options(linestyle="none", marker="*", markersize=10)
            axes.errorbar(places[PACE] + 0.12, mean / UNIT, error / UNIT, **bars, **look)
            _row(table, f"as {version}, {COPIES} copies", 1, SIGMA, PACE, mean, error)
    axes.set_xticks([zero, *places.values()], ["0", *map(_power, places)])
    axes.set(xlim=(zero - 0.3, max(places.values(), default=1.0) + 0.3))
    axes.set_ylim(top=min(axes.get_ylim()[1], 1.3 * limit))
    axes.set(xlabel=f"pace of the fit, at σ = {_power(SIGMA)}", ylabel="final loss less RFLO's, 10⁻³ nats")
    levels = {"rflo": 0.0, "fixed": limit}
    for learner, loss in levels.items():
        axes.axhline(loss, color=plots.colour(learner), linewidth=1.2, zorder=1)
    right = axes.get_xlim()[1]
    label_ends(axes, [Label(right, loss, plots.name(x), plots.colour(x)) for x, loss in levels.items()])


def _look(version: str, streams: int) -> dict[str, Any]:
    """One stream solid and full, a batch dashed and hollow."""
    colour = plots.MUTED if version == "filter" else plots.colour(LEARNERS[version])
    marker = {"filter": "s", "derived": "o", "released": "^"}[version]
    look = plots.options(color=colour, marker=marker, markersize=5, markeredgewidth=1.2, linewidth=1.4)
    return look | (plots.options(linestyle=plots.DASHES, markerfacecolor="white") if streams > 1 else {})


def _key(figure: Figure, shown: list[str]) -> None:
    handles = [
        Line2D([], [], **_look(version, streams), label=f"as {version}, {streams} stream{'s' if streams > 1 else ''}")
        for version in shown
        for streams in (1, BATCH)
    ]
    star = plots.options(color=plots.MUTED, marker="*", markersize=9, linestyle="none")
    dot = _look("filter", 1) | plots.options(linestyle="none")
    handles.append(Line2D([], [], **dot, label="never fitted"))
    handles.append(Line2D([], [], **star, label=f"mean of {COPIES} copies"))
    place = plots.options(loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=len(handles))
    figure.legend(handles=handles, columnspacing=1.6, labelcolor=plots.INK, **place)


def _power(value: float) -> str:
    """5e-06 as 5·10⁻⁶, and 0.001 as 10⁻³."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    first = value / 10.0**exponent
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if abs(first - 1) < 1e-6 else f"{first:g}·10{raised}"


def _row(table: Columns, what: str, streams: int, sigma: float, pace: float, mean: Any, error: Any) -> None:
    values = dict(final_loss_less_rflo=float(mean), standard_error=float(error))
    table.add(what=what, streams=streams, sigma=sigma, pace=pace, **values)


def _caption(data: Data, shown: list[str]) -> str:
    runs = {1: [data[setting_name(v, *at)] for v in shown for at in settings(data, v)]}
    several = [reference_name("rflo", BATCH), filter_name(BATCH), *map(copies_name, shown)]
    several += [setting_name(v, *at, BATCH) for v in shown for at in settings(data, v)]
    runs[BATCH] = [data[name] for name in several if name in data]
    seeds = {streams: counted(len(run["loss"]) for run in found) for streams, found in runs.items() if found}
    steps = counted(int(np.max(run["step"])) for run in runs[1])
    fixed = float(behind(data, reference_name("fixed"))[0]) / UNIT
    fewer = f", {seeds[BATCH]} for copies and several streams" if seeds.get(BATCH, seeds[1]) != seeds[1] else ""
    maps = "(a)" if len(shown) == 1 else "(a, b)"
    return (
        f"Final loss of KeRNL less RFLO's on Add, α = 1, after {steps} steps; means over {seeds[1]} seeds{fewer}, "
        f"paired. Fixed W lies {fixed:+.0f}·10⁻³ from RFLO. {maps} In 10⁻³ nats, over the size σ of the perturbations "
        "and the pace of the fit, its learning rate times σ². Where KeRNL is better the map is purple; div.: most "
        "seeds diverged. The frame marks the paper's setting, a rate of 5. "
        f"({'abc'[len(shown)]}) Along the paper's σ, with bars of one standard error to either side; what lies far "
        "above fixed W is cut off. Runs with several streams are compared with RFLO in as many. At pace 0 nothing is "
        f"fitted: A = I and α = 0.8. Stars: the gradient is the mean of {COPIES} copies, each with perturbations of "
        "its own."
    )


def _alt(table: Columns) -> str:
    rows = zip(*(table[name] for name in ("what", "streams", "sigma", "pace", "final_loss_less_rflo")), strict=True)
    told = (f"{what}, streams {n}, pace {pace:g}: {loss:.4f}" for what, n, sigma, pace, loss in rows if sigma in SHOWN)
    return f"Final loss less RFLO's at σ = {SIGMA:g}. {'; '.join(told)}."
