"""What each of DNI(b)'s approximations costs, and how far it turns the gradient away from the exact one."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from recurra.pages import plots
from recurra_paper.analysis import mean
from recurra_paper.beyond.dni_b.claims import NAMES, added, alignment, final_loss
from recurra_paper.beyond.dni_b.runs import ALL, NONE, SCALES, gradients_name, loss_name
from recurra_paper.claims.base import Data
from recurra_paper.figures.drawn import Columns, Drawn, counted, seed_mean
from recurra_paper.figures.labels import Label, label_ends
from recurra_paper.setup import TASK_NAMES, TASKS

NAME = "dni_b"
TITLE = "DNI(b) taken apart: which of its approximations costs what?"

#: DNI, DNI(b) and each approximation alone have looks of their own; two of them together are grey
COLOURS = {
    NONE: plots.COLOURS["dni"],
    ALL: plots.COLOURS["dni-b"],
    "tanh": "#7a1031",
    "feedback": "#d81b60",
    "jacobian": "#7d5a3c",
}
LOSSES = {"add": "cross-entropy", "mimic": "half the summed squared error"}
MARKERS = {NONE: "^", ALL: "v", "tanh": "s", "feedback": "o", "jacobian": "D"}


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["dni_b/"]


def draw(data: Data) -> Drawn | None:
    """Above, the cost of every variant; below, its alignment with F-BPTT over ever longer stretches."""
    trained = {task: _trained(data, task) for task in TASKS}
    compared = {task: [x for x in NAMES if gradients_name(task, x) in data] for task in TASKS}
    rows = [kind for kind in (trained, compared) if any(kind.values())]
    if not rows:
        return None
    letters = iter("abcd")
    with plots.style():
        height = 3.9 * len(rows) + 0.2
        figure = plots.sheet(10.4, height)
        panels = figure.subplots(len(rows), 2, squeeze=False)
        figure.subplots_adjust(
            left=0.135, right=0.86, bottom=0.5 / height, top=1 - 0.35 / height, wspace=0.58, hspace=0.34
        )
        for row, kind in zip(panels, rows, strict=True):
            for axes, task in zip(row, TASKS, strict=True):
                axes.set_visible(bool(kind[task]))
                if kind[task]:
                    what = "what it costs" if kind is trained else "alignment with F-BPTT"
                    plots.letter(axes, next(letters), f"{TASK_NAMES[task]}: {what}")
                    (_costs if kind is trained else _alignments)(axes, data, task, kind[task])
    return Drawn(
        figure, _caption(data, trained, compared), _alt(data, trained, compared), _table(data, trained, compared)
    )


def _trained(data: Data, task: str) -> list[str]:
    """The variants whose cost is known: those that were run beside DNI, fixed W and RTRL."""
    beside = all(loss_name(task, x) in data for x in (NONE, "fixed", "rtrl"))
    return [x for x in NAMES if beside and loss_name(task, x) in data]


def _look(variant: str) -> dict[str, Any]:
    colour = COLOURS.get(variant, plots.MUTED)
    marker, face = MARKERS.get(variant, "o"), colour if variant in COLOURS else "white"
    return plots.options(color=colour, marker=marker, markerfacecolor=face, markeredgewidth=1.2)


def _costs(axes: Axes, data: Data, task: str, variants: list[str]) -> None:
    for place, variant in enumerate(variants):
        each = added(data, task, variant)
        value, look = mean(each), _look(variant)
        if variant != NONE:  # which is zero at every seed
            spread = place + 0.16 * np.linspace(-1, 1, len(each))
            axes.plot(each, spread, linestyle="none", marker="o", markersize=2, color=look["color"], alpha=0.5)
        axes.errorbar(value.value, place, xerr=value.error, markersize=6.5, elinewidth=1.4, **look)
    ends = {x: float(np.mean(added(data, task, x))) for x in ("rtrl", "fixed")}
    for learner, at in ends.items():
        left = at == min(ends.values())
        axes.axvline(at, color=plots.COLOURS[learner], linewidth=1.0, linestyle=(0, (3, 2)), zorder=0)
        place = plots.options(xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=7.5)
        place |= plots.options(xytext=(-3 if left else 3, 0), ha="right" if left else "left")
        axes.annotate(plots.name(learner), (at, 1), color=plots.COLOURS[learner], **place)
    axes.axvline(0, color=plots.FAINT, linewidth=0.8, zorder=0)
    axes.margins(x=0.16)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_yticks(range(len(variants)), [NAMES[x] for x in variants])
    axes.set_ylim(len(variants) - 0.4, -1.1)
    axes.set_xlabel(f"final loss ({LOSSES[task]}) less DNI's")


def _alignments(axes: Axes, data: Data, task: str, variants: list[str]) -> None:
    ends = []
    for variant in variants:
        w = data[gradients_name(task, variant)]["windows"]
        value, error = seed_mean(np.stack([alignment(data, task, variant, i) for i in range(len(w))], axis=1))
        look = _look(variant)
        axes.fill_between(w, value - error, value + error, color=look["color"], alpha=0.13, linewidth=0)
        line = plots.options(linestyle="-" if variant in COLOURS else plots.DASHES, linewidth=1.4, markersize=4)
        axes.plot(w, value, clip_on=False, **look | line)
        ends.append(Label(float(w[-1]), float(value[-1]), NAMES[variant], look["color"]))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    longest = max(data[gradients_name(task, x)]["windows"][-1] for x in variants)
    axes.set(xlim=(1, max(longest, 2)), ylim=(min(axes.get_ylim()[0], -0.05), 1.03))
    axes.axhline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    axes.set(xlabel="steps w summed over", ylabel="mean cosine with F-BPTT's sum")
    label_ends(axes, ends)


def _caption(data: Data, trained: dict[str, list[str]], compared: dict[str, list[str]]) -> str:
    told = []
    if any(trained.values()):
        runs = [data[loss_name(task, x)] for task, variants in trained.items() for x in variants]
        seeds, steps = counted(len(run["loss"]) for run in runs), counted(int(np.max(run["step"])) for run in runs)
        told.append(
            "Upper panels: the final loss of DNI with one, two or all of DNI(b)'s approximations less that of DNI, "
            f"after {steps} steps at α = 1. Small dots are {seeds} seeds, paired with DNI's; large ones are their "
            "means, with bars of one standard error. Between the dashed lines lies the gap, the unit of the claims. "
            "Small feedback is random feedback as large as the readout's first weights; on Mimic it is that large "
            "anyway."
        )
    if any(compared.values()):
        all_of = [data[gradients_name(task, x)] for task, variants in compared.items() for x in variants]
        seeds = counted(len(arrays["mean"]) for arrays in all_of)
        ended = [int(np.isfinite(arrays["mean"][:, 0, 0]).sum()) for arrays in all_of]
        each = [int(arrays["histogram"][0, 0].sum()) // n for arrays, n in zip(all_of, ended, strict=True) if n]
        steps = counted(each or [0])
        lost = sum(len(arrays["mean"]) for arrays in all_of) - sum(ended)
        gone = f" {lost} of {lost + sum(ended)} runs diverged and are left out." if lost else ""
        told.append(
            "Lower panels: each variant trains a network, and F-BPTT says along that run what the exact gradient "
            f"facing the future would be, up to its horizon; {steps} steps are compared, after the first "
            f"{SCALES['full'].skipped:,} of the run (in the full profile). The mean cosine of both, each summed over w "
            f"consecutive steps; mean over {seeds} seeds, bands one standard error to either side.{gone}"
        )
    return " ".join(told)


def _alt(data: Data, trained: dict[str, list[str]], compared: dict[str, list[str]]) -> str:
    told = []
    for task, variants in trained.items():
        costs = [f"{NAMES[x]} {added(data, task, x).mean():.3g}" for x in variants]
        if costs:
            told.append(f"Final loss less DNI's on {TASK_NAMES[task]}: {', '.join(costs)}.")
    for task, variants in compared.items():
        cosines = [
            f"{NAMES[x]} {alignment(data, task, x).mean():.2f} to {alignment(data, task, x, -1).mean():.2f}"
            for x in variants
        ]
        if cosines:
            told.append(f"Cosine with F-BPTT on {TASK_NAMES[task]}, from one step on: {', '.join(cosines)}.")
    return " ".join(told)


def _table(data: Data, trained: dict[str, list[str]], compared: dict[str, list[str]]) -> Columns:
    table = Columns()
    for task, variants in trained.items():
        for x in (*variants, *(("rtrl", "fixed") if variants else ())):
            e = mean(final_loss(data, task, x))
            table.add(task=task, variant=x, quantity="final loss", w="", value=e.value, standard_error=e.error)
    for task, variants in compared.items():
        for x in variants:
            arrays = data[gradients_name(task, x)]
            for column, other in enumerate(map(str, arrays["learners"])):
                value, error = seed_mean(arrays["window_cosine"][:, 0, column])
                values = dict(w=arrays["windows"], value=value, standard_error=error)
                if column:
                    table.extend(task=task, variant=x, quantity=f"cosine with {other}", **values)
    return table
