"""The figure: losses with GRU and LSTM on both tasks, and how the learners' gradients align."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recurra.pages import plots
from recurra_paper.analysis import Estimate, mean
from recurra_paper.beyond.gated import panels
from recurra_paper.beyond.gated.claims import NOISY
from recurra_paper.beyond.gated.measure import Condition, compared, length_correlation, title
from recurra_paper.beyond.gated.runs import CELL_NAMES, CELLS, RATE, SLOW, gradients_name, loss_name
from recurra_paper.claims.base import Undecided
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted
from recurra_paper.figures.losses import Curve, curve, left_out, windows
from recurra_paper.setup import LEARNERS, LEARNING_RATE, TASKS, N

NAME = "gated"
TITLE = "Do the paper's findings carry over to gated networks?"

#: in inches: the height of a row of panels, of the gap between rows, and of the margins
ROW, BETWEEN, HEAD, FOOT = 2.75, 0.85, 0.4, 1.0

Curves = dict[Condition, dict[str, Curve]]
Correlations = dict[str, list[tuple[str, Estimate]]]


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [f"{NAME}/"]


def draw(data: Data) -> Drawn | None:
    """A row of loss curves for each cell, then a row of mean cosines and correlations."""
    curves, conditions = _curves(data), _compared(data)
    cells = [cell for cell in CELLS if any(cell == found for found, _ in curves)]
    tasks = [task for task in TASKS if any(task == found for _, found in curves)]
    if not cells and not conditions:
        return None
    rows = len(cells) + bool(conditions)
    height = rows * ROW + (rows - 1) * BETWEEN + HEAD + FOOT
    letters = iter("abcdefghijk")
    found = _correlations(data, conditions)
    with plots.style():
        figure = plots.sheet(10.4, height)
        edges = lambda row: _edges(row, height)
        for row, cell in enumerate(cells):
            grid = figure.add_gridspec(1, len(tasks), left=0.065, right=0.885, wspace=0.5, **edges(row))
            for column, task in enumerate(tasks):
                if (cell, task) in curves:
                    axes = figure.add_subplot(grid[column])
                    plots.letter(axes, next(letters), title((cell, task)))
                    panels.draw_losses(axes, curves[cell, task], task)
        if conditions:
            _gradients(figure, data, conditions, found, edges(rows - 1), letters)
            panels.draw_keys(figure, 0.42, 0.9, 0.34 / height, [x for x, _ in next(iter(found.values()), [])])
        plots.code_key(figure, y=0.0)
    table = _losses_table(curves)
    more = {"cosines": _cosines_table(data, conditions), "correlations": _correlations_table(found)}
    return Drawn(figure, _caption(data, curves, conditions), _alt(data, curves, conditions, found), table, more=more)


def _edges(row: int, height: float) -> dict[str, Any]:
    top = height - HEAD - row * (ROW + BETWEEN)
    return {"bottom": (top - ROW) / height, "top": top / height}


def _curves(data: Data) -> Curves:
    found: Curves = {}
    for cell in CELLS:
        for task in TASKS:
            run = [learner for learner in LEARNERS if loss_name(cell, task, learner) in data]
            if run:
                found[cell, task] = {learner: curve(data[loss_name(cell, task, learner)]) for learner in run}
    return found


def _compared(data: Data) -> list[Condition]:
    try:
        return compared(data)
    except Undecided:
        return []


def _correlations(data: Data, conditions: list[Condition]) -> Correlations:
    found: Correlations = {}
    for condition in conditions:
        noisy = [str(learner) for learner in data[gradients_name(*condition)]["noisy"]]
        each = [(x, mean(length_correlation(data, condition, x))) for x in NOISY if x in noisy]
        if each:
            found[title(condition)] = each
    return found


def _gradients(
    figure: Figure,
    data: Data,
    conditions: list[Condition],
    found: Correlations,
    edges: dict[str, Any],
    letters: Iterator[str],
) -> None:
    """One row: mean cosines in each condition, and all correlations."""
    grid = figure.add_gridspec(1, len(conditions), left=0.085, right=0.745, wspace=0.13, **edges)
    for column, condition in enumerate(conditions):
        axes = figure.add_subplot(grid[column])
        plots.letter(axes, next(letters), title(condition))
        panels.draw_cosines(axes, data[gradients_name(*condition)], named=column == 0)
    if found:
        axes = figure.add_subplot(figure.add_gridspec(1, 1, left=0.815, right=0.985, **edges)[0])
        plots.letter(axes, next(letters), "cosine and length")
        panels.draw_correlations(axes, found)


def _caption(data: Data, curves: Curves, conditions: list[Condition]) -> str:
    parts = []
    if curves:
        every = {f"{plots.name(x)}, {title(c)}": line for c, found in curves.items() for x, line in found.items()}
        cells = " and ".join(CELL_NAMES[cell] for cell in CELLS if any(cell == of for of, _ in curves))
        fewer = " (r-OK has fewest)" if any(SLOW in found for found in curves.values()) else ""
        parts.append(
            f"Upper panels: loss of networks of {N} units ({cells}) on the paper's tasks of α = 1, at a learning rate "
            f"of {RATE:g}, {RATE / LEARNING_RATE:g} times the paper's. Lines are means over "
            f"{counted(c.started for c in every.values())} seeds{fewer}, bands one standard error to either side. "
            "Arrows: above the panel. "
            f"{windows(every)} {left_out(every)} Dashed lines on Add: the lowest losses open to a network that knows "
            "nothing of the past, the first dependency, or both."
        )
    if conditions:
        of = [data[gradients_name(*condition)] for condition in conditions]
        seeds = counted(len(arrays["mean"]) for arrays in of)
        steps = counted(int(arrays["histogram"][0, 0].sum()) // len(arrays["mean"]) for arrays in of)
        parts.append(
            f"Lowest row: along RTRL's run of {steps} steps ({seeds} seeds), the mean cosine of each learner's "
            "gradient with RTRL's (filled) and with F-BPTT's (hollow), coloured by facing; and the correlation over "
            "steps of the cosine with RTRL and the logarithm of the gradient's norm, for UORO and R-KF-RTRL. Bars are "
            "one standard error over seeds to either side, where wide enough to be seen."
        )
    return " ".join(parts)


def _alt(data: Data, curves: Curves, conditions: list[Condition], found: Correlations) -> str:
    told = []
    for condition, each in curves.items():
        ranked = sorted((line.mean[-1], learner) for learner, line in each.items() if line.seeds)
        told.append(f"{title(condition)}: {', '.join(f'{plots.name(x)} {loss:.3g}' for loss, x in ranked)}")
    losses = f"Final losses, best first. {'. '.join(told)}. " if told else ""
    aligned = []
    for condition in conditions:
        arrays = data[gradients_name(*condition)]
        values = [f"{plots.name(x)} {panels.cosine(arrays, x, 'rtrl')[0]:.2f}" for x in panels.ordered(arrays)]
        aligned.append(f"{title(condition)}: {', '.join(values)}")
    cosines = f"Mean cosine with RTRL. {'. '.join(aligned)}. " if aligned else ""
    r = [f"{plots.name(x)}, {name}, {e.value:.2f}" for name, each in found.items() for x, e in each]
    return losses + cosines + (f"Correlations of cosine and length: {'; '.join(r)}." if r else "")


def _losses_table(curves: Curves) -> Columns:
    table = Columns()
    for (cell, task), found in curves.items():
        for learner, line in found.items():
            values = dict(step=line.step, mean=line.mean, standard_error=line.error)
            table.extend(cell=cell, task=task, learner=learner, seeds=line.seeds, **values)
    return table


def _cosines_table(data: Data, conditions: list[Condition]) -> Columns:
    table = Columns()
    for cell, task in conditions:
        arrays: Mapping[str, np.ndarray] = data[gradients_name(cell, task)]
        for learner in panels.ordered(arrays):
            for exact in panels.EXACT:
                value, error = panels.cosine(arrays, learner, exact)
                table.add(cell=cell, task=task, learner=learner, other=exact, mean_cosine=value, standard_error=error)
    return table


def _correlations_table(found: Correlations) -> Columns:
    table = Columns()
    for name, each in found.items():
        for learner, e in each:
            table.add(condition=name, learner=learner, r=e.value, standard_error=e.error)
    return table
