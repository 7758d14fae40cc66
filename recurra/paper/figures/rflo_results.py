"""RFLO learns what the untrained network remembers by itself."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from recurra import plots
from recurra.paper.figures.drawn import Columns, Data, Drawn, counted
from recurra.paper.figures.losses import Curve, curve, draw_benchmarks, draw_curve, fit_limits, left_out, steps_axis, windows

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
        plots.letter(memory, "a", "memory of the untrained network")
        plots.letter(loss, "b", "learning Add with RFLO")
        if traces:
            _memory(memory, traces)
        if any(line.seeds for line in curves.values()):
            _losses(loss, {key: line for key, line in curves.items() if line.seeds})
        _key(loss)
    return Drawn(figure, _caption(traces, curves), _alt(traces, curves), _table(traces, curves))


def _memory(axes: Axes, traces: dict[str, dict[str, np.ndarray]] | dict) -> None:
    lags = np.concatenate([arrays["lag"] for arrays in traces.values()])
    axes.set(xlim=(lags.min(), lags.max()), ylim=(0, 1.02), xlabel="time shift Δt, steps", ylabel="r² of y*(t) from a(t + Δt)")
    for lag, text in ((-LAGS[1], f"–t₂ = –{LAGS[1]}"), (-LAGS[0], f"–t₁ = –{LAGS[0]}"), (-1, "–1")):
        if lags.min() <= lag <= lags.max():
            colour = "#0e8fa8" if lag == -1 else plots.MUTED
            axes.axvline(lag, color=colour, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
            axes.text(lag, 1.03, text, color=colour, fontsize=7, ha="center", va="bottom")
    ends = []
    for init, arrays in traces.items():
        r2, colour = np.asarray(arrays["r2"], float), plots.INITS[init]
        axes.plot(arrays["lag"], r2.T, color=colour, linewidth=0.6, alpha=0.45)
        axes.plot(arrays["lag"], r2.mean(axis=0), color=colour, linewidth=2.2)
        ends.append(plots.End(float(r2[:, -1].mean()), init, colour))
    plots.label_ends(axes, ends, size=8)


def _losses(axes: Axes, curves: dict[tuple[str, str], Curve]) -> None:
    lines = list(curves.values())
    fit_limits(axes, lines, benchmarks=True)
    draw_benchmarks(axes, lines)
    for (rule, init), line in curves.items():
        look = dict(linestyle="-", linewidth=2.0) if rule == "rflo" else dict(linestyle=(0, (1, 1.4)), linewidth=1.5)
        draw_curve(axes, line, look | {"color": plots.INITS[init]})
    steps_axis(axes, int(max(line.step[-1] for line in lines)))
    axes.set_ylabel("cross-entropy")
    ends = [plots.End(line.mean[-1], init, plots.INITS[init]) for (rule, init), line in curves.items() if rule == "rflo"]
    plots.label_ends(axes, ends, size=8)


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
            f"(a) How much of the label y*(t) a linear map recovers from the state Δt steps later, in an untrained network on Add, for four ways to draw "
            f"the recurrent weights: thin lines are {seeds} initializations each, thick lines their means. A coin enters the state at minus its lag "
            f"({-LAGS[1]} and {-LAGS[0]}, dashed); at –1 stands what RFLO has to work with."
        )
    if curves:
        seeds = counted(line.started for line in curves.values())
        named = {f"{init} {'RFLO' if rule == 'rflo' else 'readout'}": line for (rule, init), line in curves.items()}
        parts.append(
            f"(b) Loss of networks that start from these weights and learn by RFLO (solid), and of the same networks with only the readout learning "
            f"(dotted); means over {seeds} seeds, bands one standard error to either side. {windows(named)} {left_out(named)} Dotted grey lines as in the "
            "learning curves."
        )
    return " ".join(parts)


def _alt(traces: dict, curves: dict[tuple[str, str], Curve]) -> str:
    memory = [f"{init} {arrays['r2'][:, list(arrays['lag']).index(-1)].mean():.2f}" for init, arrays in traces.items() if -1 in arrays["lag"]]
    final = [f"{init} {line.mean[-1]:.3f}" for (rule, init), line in curves.items() if rule == "rflo"]
    return f"Memory one step back: {', '.join(memory) or 'not measured'}. Final loss with RFLO: {', '.join(final) or 'not measured'}."


def _table(traces: dict, curves: dict[tuple[str, str], Curve]) -> Columns:
    table = Columns()
    for init, arrays in traces.items():
        for seed, r2 in enumerate(arrays["r2"]):
            table.extend(quantity="r2", init=init, seed=str(seed), at=arrays["lag"], value=r2, standard_error="")
    for (rule, init), line in curves.items():
        values = dict(at=line.step, value=line.mean, standard_error=line.error)
        table.extend(quantity=f"loss of {rule}", init=init, seed="mean", **values)
    return table
