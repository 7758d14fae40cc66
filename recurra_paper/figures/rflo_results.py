"""RFLO learns what the untrained network remembers by itself."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from recurra.pages import plots
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, listed
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.figures.losses import (
    Curve,
    curve,
    draw_benchmarks,
    draw_curve,
    fit_limits,
    left_out,
    steps_axis,
    windows,
)
from recurra_paper.figures.rflo_cartoon import cartoon

NAME = "rflo_results"
TITLE = "Figure 8. What a network remembers, and what RFLO makes of it"

LAGS = (6, 10)
#: the paper's four ways to draw the recurrent weights, and ways to draw diagonal ones, which it does not spell out
PAPERS = ("orthogonal", "gaussian", "symmetric", "diagonal")
#: The ways to draw the recurrent weights. Their colours mean nothing about learners: green for complex eigenvalues,
#: purple for real ones.
INITS = {
    "orthogonal": "#0b4a24",
    "gaussian": "#3f9b50",
    "symmetric": "#5a2a9c",
    "diagonal": "#a566bd",
    "diagonal-positive": "#d6409f",
    "diagonal-normal": "#8a1253",
}
INIT_NAMES = {
    "diagonal": "diagonal U[−1, 1]",
    "diagonal-positive": "diagonal U[0, 1]",
    "diagonal-normal": "diagonal N(0, ½)",
}
DIAGONALS = tuple(init for init in INITS if init.startswith("diagonal"))
NOW = "#0e8fa8"

Traces = Mapping[str, Mapping[str, np.ndarray]]
Curves = Mapping[tuple[str, str], Curve]


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["memory/", "rflo-loss/", "fixed-loss/"]


def draw(data: Data) -> Drawn | None:
    """What RFLO trains, memory traces, and learning curves, a colour for each way to draw the recurrent weights."""
    traces = {init: data[f"memory/{init}"] for init in INITS if f"memory/{init}" in data}
    curves = {
        (rule, init): curve(data[f"{rule}-loss/{init}"])
        for rule in ("rflo", "fixed")
        for init in INITS
        if f"{rule}-loss/{init}" in data
    }
    if not traces and not curves:
        return None
    lasting = {key: line for key, line in curves.items() if line.seeds}
    with plots.style():
        figure = plots.sheet(10.4, 8.6)
        figure.subplots_adjust(left=0.06, right=0.87, bottom=0.1, top=0.955, wspace=0.5, hspace=0.3)
        free = iter(figure.subplots(2, 2).flat)
        axes = next(free)
        plots.letter(axes, "a", "one step and the readout")
        cartoon(axes)
        for title, group in _groups(traces).items():
            axes = next(free)
            plots.letter(axes, "b", title)
            _memory(axes, group)
        if lasting:
            axes = next(free)
            plots.letter(axes, "c", "learning Add with RFLO")
            _losses(axes, lasting)
            _key(figure, axes)
        for axes in free:
            axes.set_visible(False)
    return Drawn(figure, _caption(traces, curves), _alt(traces, curves), _table(traces, curves))


def name(init: str) -> str:
    """A way to draw the recurrent weights, in words."""
    return INIT_NAMES.get(init, init)


def _groups(traces: Traces) -> dict[str, Traces]:
    """The memory traces of each panel, by its title: the paper's families, and the diagonal ones side by side."""
    papers = {init: arrays for init, arrays in traces.items() if init in PAPERS}
    diagonals = {init: arrays for init, arrays in traces.items() if init in DIAGONALS}
    groups = {"memory of the untrained network": papers}
    if set(diagonals) - set(PAPERS):
        groups["the same, for diagonal weights"] = diagonals
    return {title: group for title, group in groups.items() if group}


def _memory(axes: Axes, traces: Traces) -> None:
    lags = np.concatenate([arrays["lag"] for arrays in traces.values()])
    axes.set(xlim=(lags.min(), lags.max()), ylim=(0, 1.1))
    axes.set(xlabel="time shift Δt, steps", ylabel="r² of y*(t) from a(t + Δt)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for lag, text in ((-LAGS[1], "−t₂"), (-LAGS[0], "−t₁"), (-1, "−1")):
        if lags.min() <= lag <= lags.max():
            shade = NOW if lag == -1 else plots.MUTED
            axes.axvline(lag, color=shade, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
            axes.text(lag + 0.25, 1.06, text, color=shade, fontsize=8, ha="left", va="center")
    ends = []
    for init, arrays in traces.items():
        r2, shade = np.asarray(arrays["r2"], float), INITS[init]
        axes.plot(arrays["lag"], r2.T, color=shade, linewidth=0.5, alpha=0.4)
        axes.plot(arrays["lag"], r2.mean(axis=0), color=shade, linewidth=2.2, zorder=3)
        ends.append(Label(float(arrays["lag"][-1]), float(r2[:, -1].mean()), name(init), shade))
    label_ends(axes, ends, size=8.0)


def _losses(axes: Axes, curves: Curves) -> None:
    lines = list(curves.values())
    fit_limits(axes, lines, benchmarks=True)
    draw_benchmarks(axes, lines)
    for (rule, init), line in curves.items():
        look = (
            plots.options(linestyle="-", linewidth=2.0)
            if rule == "rflo"
            else plots.options(linestyle=(0, (1, 1.4)), linewidth=1.5)
        )
        draw_curve(axes, line, look | {"color": INITS[init]})
    steps_axis(axes, int(max(line.step[-1] for line in lines)))
    axes.set_ylabel("cross-entropy")
    ends = [
        Label(float(line.step[-1]), float(line.mean[-1]), name(init), INITS[init])
        for (rule, init), line in curves.items()
        if rule == "rflo"
    ]
    label_ends(axes, ends, size=8.0)


def _key(figure: Figure, axes: Axes) -> None:
    handles = [
        Line2D([], [], color=plots.MUTED, linewidth=2, label="RFLO"),
        Line2D([], [], color=plots.MUTED, linewidth=1.5, linestyle=(0, (1, 1.4)), label="readout alone"),
    ]
    place = axes.get_position()
    where = plots.options(loc="upper center", bbox_to_anchor=((place.x0 + place.x1) / 2, place.y0 - 0.055))
    figure.legend(handles=handles, ncols=2, handlelength=2.6, **where)


def _caption(traces: Traces, curves: Curves) -> str:
    parts = [
        "(a) At α = 1, one time step of the recurrent dynamics and the readout form a feedforward network with a "
        "single hidden layer, from â(t–1), which holds the state a(t–1), the input x(t) and a constant, to the output "
        "y(t). RFLO trains it to give the label y*(t). Drawn, not measured."
    ]
    if traces:
        seeds = counted(len(arrays["r2"]) for arrays in traces.values())
        drawn = [init for init in DIAGONALS if init in traces]
        parts.append(
            "(b) How much of the label y*(t) a linear map recovers from the state Δt steps later, in an untrained "
            f"network on Add, by how its recurrent weights are drawn: thin lines are {seeds} initializations each, "
            f"thick lines their means. A coin enters the state at minus its lag (t₁ = {LAGS[0]} and t₂ = {LAGS[1]}, "
            "dashed); at −1 stands what RFLO has to work with."
        )
        if len(drawn) > 1:
            parts.append(
                "The paper does not say how diagonal weights were drawn: U is uniform between the two numbers, N(0, s) "
                "normal with standard deviation s."
            )
    if curves:
        seeds = counted(line.started for line in curves.values())
        named = {f"{name(init)} {'RFLO' if rule == 'rflo' else 'readout'}": x for (rule, init), x in curves.items()}
        parts.append(
            "(c) Loss of networks that start from these weights and learn by RFLO (solid), and of the same networks "
            f"with only the readout learning (dotted); means over {seeds} seeds, bands one standard error to either "
            f"side. {windows(named)} {left_out(named)} Dashed grey lines as in the learning curves."
        )
    return " ".join(parts)


def _alt(traces: Traces, curves: Curves) -> str:
    memory = [
        f"{name(init)} {arrays['r2'][:, list(arrays['lag']).index(-1)].mean():.2f}"
        for init, arrays in traces.items()
        if -1 in arrays["lag"]
    ]
    final = [f"{name(init)} {line.mean[-1]:.3f}" for (rule, init), line in curves.items() if rule == "rflo"]
    facts = {"Memory one step back": memory, "Final loss with RFLO": final}
    told = (f"{what}: {listed(values) if values else 'not measured'}." for what, values in facts.items())
    return " ".join(told)


def _table(traces: Traces, curves: Curves) -> Columns:
    table = Columns()
    for init, arrays in traces.items():
        for seed, r2 in enumerate(arrays["r2"]):
            table.extend(quantity="r2", init=init, seed=str(seed), at=arrays["lag"], value=r2, standard_error="")
    for (rule, init), line in curves.items():
        values = dict(at=line.step, value=line.mean, standard_error=line.error)
        table.extend(quantity=f"loss of {rule}", init=init, seed="mean", **values)
    return table
