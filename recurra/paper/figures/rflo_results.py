"""RFLO learns what the untrained network remembers by itself."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from recurra.paper import plots
from recurra.paper.figures.drawn import Columns, Data, Drawn, counted
from recurra.paper.figures.labels import Label, label_ends
from recurra.paper.figures.losses import (
    Curve,
    curve,
    draw_benchmarks,
    draw_curve,
    fit_limits,
    left_out,
    steps_axis,
    windows,
)

NAME = "rflo_results"
TITLE = "What a network remembers, and what RFLO makes of it"

LAGS = (6, 10)


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["memory/", "rflo-loss/", "fixed-loss/"]


def draw(data: Data) -> Drawn | None:
    """Memory traces beside learning curves, a colour for each way to draw the recurrent weights."""
    traces = {init: data[f"memory/{init}"] for init in plots.INITS if f"memory/{init}" in data}
    curves = {
        (rule, init): curve(data[f"{rule}-loss/{init}"])
        for rule in ("rflo", "fixed")
        for init in plots.INITS
        if f"{rule}-loss/{init}" in data
    }
    if not traces and not curves:
        return None
    with plots.style():
        figure = plots.sheet(10.4, 4.5)
        memory, loss = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.06, right=0.895, bottom=0.2, top=0.91, wspace=0.34)
        memory.set_visible(bool(traces))
        loss.set_visible(any(line.seeds for line in curves.values()))
        if memory.get_visible():
            plots.letter(memory, "a", "memory of the untrained network")
            _memory(memory, traces)
        if loss.get_visible():
            plots.letter(loss, "b", "learning Add with RFLO")
            _losses(loss, {key: line for key, line in curves.items() if line.seeds})
            _key(loss)
    return Drawn(figure, _caption(traces, curves), _alt(traces, curves), _table(traces, curves))


def _memory(axes: Axes, traces: dict[str, dict[str, np.ndarray]] | dict) -> None:
    lags = np.concatenate([arrays["lag"] for arrays in traces.values()])
    axes.set(
        xlim=(lags.min(), lags.max()), ylim=(0, 1.1), xlabel="time shift Δt, steps", ylabel="r² of y*(t) from a(t + Δt)"
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for lag, text in ((-LAGS[1], "−t₂"), (-LAGS[0], "−t₁"), (-1, "−1")):
        if lags.min() <= lag <= lags.max():
            colour = "#0e8fa8" if lag == -1 else plots.MUTED
            axes.axvline(lag, color=colour, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
            axes.text(lag + 0.2, 1.06, text, color=colour, fontsize=8, ha="left", va="center")
    ends = []
    for init, arrays in traces.items():
        r2, colour = np.asarray(arrays["r2"], float), plots.INITS[init]
        axes.plot(arrays["lag"], r2.T, color=colour, linewidth=0.6, alpha=0.45)
        axes.plot(arrays["lag"], r2.mean(axis=0), color=colour, linewidth=2.2)
        ends.append(Label(float(arrays["lag"][-1]), float(r2[:, -1].mean()), init, colour))
    label_ends(axes, ends, size=8.0)


def _losses(axes: Axes, curves: dict[tuple[str, str], Curve]) -> None:
    lines = list(curves.values())
    fit_limits(axes, lines, benchmarks=True)
    draw_benchmarks(axes, lines)
    for (rule, init), line in curves.items():
        look = (
            plots.options(linestyle="-", linewidth=2.0)
            if rule == "rflo"
            else plots.options(linestyle=(0, (1, 1.4)), linewidth=1.5)
        )
        draw_curve(axes, line, look | {"color": plots.INITS[init]})
    steps_axis(axes, int(max(line.step[-1] for line in lines)))
    axes.set_ylabel("cross-entropy")
    ends = [
        Label(float(line.step[-1]), float(line.mean[-1]), init, plots.INITS[init])
        for (rule, init), line in curves.items()
        if rule == "rflo"
    ]
    label_ends(axes, ends, size=8.0)


def _key(axes: Axes) -> None:
    handles = [
        Line2D([], [], color=plots.MUTED, linewidth=2, label="RFLO"),
        Line2D([], [], color=plots.MUTED, linewidth=1.5, linestyle=(0, (1, 1.4)), label="readout alone"),
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, handlelength=2.6)


def _caption(traces: dict, curves: dict[tuple[str, str], Curve]) -> str:
    parts = []
    if traces:
        seeds = counted(len(arrays["r2"]) for arrays in traces.values())
        parts.append(
            "(a) How much of the label y*(t) a linear map recovers from the state Δt steps later, in an untrained "
            f"network on Add, for four ways to draw the recurrent weights: thin lines are {seeds} initializations "
            f"each, thick lines their means. A coin enters the state at minus its lag (t₁ = {LAGS[0]} and t₂ = "
            f"{LAGS[1]}, dashed); at −1 stands what RFLO has to work with."
        )
    if curves:
        seeds = counted(line.started for line in curves.values())
        named = {f"{init} {'RFLO' if rule == 'rflo' else 'readout'}": line for (rule, init), line in curves.items()}
        parts.append(
            "(b) Loss of networks that start from these weights and learn by RFLO (solid), and of the same networks "
            f"with only the readout learning (dotted); means over {seeds} seeds, bands one standard error to either "
            f"side. {windows(named)} {left_out(named)} Dotted grey lines as in the learning curves."
        )
    return " ".join(parts)


def _alt(traces: dict, curves: dict[tuple[str, str], Curve]) -> str:
    memory = [
        f"{init} {arrays['r2'][:, list(arrays['lag']).index(-1)].mean():.2f}"
        for init, arrays in traces.items()
        if -1 in arrays["lag"]
    ]
    final = [f"{init} {line.mean[-1]:.3f}" for (rule, init), line in curves.items() if rule == "rflo"]
    facts = {"Memory one step back": memory, "Final loss with RFLO": final}
    told = (f"{what}: {', '.join(values) or 'not measured'}." for what, values in facts.items())
    return " ".join(told)


def _table(traces: dict, curves: dict[tuple[str, str], Curve]) -> Columns:
    table = Columns()
    for init, arrays in traces.items():
        for seed, r2 in enumerate(arrays["r2"]):
            table.extend(quantity="r2", init=init, seed=str(seed), at=arrays["lag"], value=r2, standard_error="")
    for (rule, init), line in curves.items():
        values = dict(at=line.step, value=line.mean, standard_error=line.error)
        table.extend(quantity=f"loss of {rule}", init=init, seed="mean", **values)
    return table
