"""The figure in words and numbers: caption, table and what stands in for it."""

import numpy as np

from recurra.pages import plots
from recurra_paper.analysis import mean
from recurra_paper.beyond.grids import Condition, found, grid_losses, grid_name, rates_of
from recurra_paper.beyond.rates.usable import best, has_gap, long_of, own_name, own_of, width
from recurra_paper.claims.base import Data
from recurra_paper.claims.rule import GAPS
from recurra_paper.figures.drawn import Columns, counted, listed, seed_mean
from recurra_paper.setup import TASK_NAMES


def caption(data: Data, tasks: list[str]) -> str:
    """What the panels show, of how many seeds and steps."""
    parts = []
    if tasks:
        runs = [data[grid_name(Condition(task), x)] for task in tasks for x in found(data, Condition(task))]
        seeds = counted(run["loss"].shape[3] for run in runs)
        steps = counted(int(run["step"][-1]) for run in runs)
        lost = sum(int((np.asarray(run["diverged"]) >= 0).sum()) for run in runs)
        parts.append(
            f"Loss over rates: final loss after {steps} steps of plain gradient descent against its learning rate, α = "
            f"1, on {listed(TASK_NAMES[task] for task in tasks)}; means over {seeds} seeds, bands one standard "
            "error to either side. Seeds that diverged, or lost more than an untrained network, count as untrained "
            f"({lost} of {sum(run['diverged'].size for run in runs)} runs diverged). The vertical line is the paper's "
            "rate."
        )
    if any(has_gap(data, task) for task in tasks):
        parts.append(
            f"Usable rates: bars are rates whose mean loss is within {GAPS:g} of the gap (fixed W's best loss less "
            "RTRL's) of the learner's own best, the dot; at the right the width of that range in decades, mean and "
            "standard error of what single seeds give."
        )
    if long_of(data):
        runs = {x: data[f"rates/long/{x}"] for x in long_of(data)}
        steps = counted(int(run["step"][-1]) for run in runs.values())
        seeds = counted(len(run["loss"]) for run in runs.values())
        parts.append(
            f"Long runs: loss over {steps} steps, {seeds} seeds, smoothed over ten windows; a dashed line carries on "
            "the last loss of a shorter run."
        )
    if own_of(data):
        fixed = data[own_name("fixed")]
        parts.append(
            "Loss over own rates: final cross-entropy of DNI against the rate with which it fits its predictor, and of "
            f"KeRNL against that of its kernel, both over the paper's value, after {int(fixed['step'][-1]):,} steps at "
            f"a learning rate of {float(fixed['rate'][0]):g}. Dotted: the same learner without updates. Dashed: "
            "fixed W, and RTRL where it was run."
        )
    return " ".join(parts)


def table(data: Data, tasks: list[str]) -> Columns:
    """Mean losses over rates."""
    numbers = Columns()
    for task in tasks:
        for learner in found(data, Condition(task)):
            losses = grid_losses(data, Condition(task), learner)
            value, error = seed_mean(losses)
            columns = dict(rate=rates_of(data, Condition(task), learner), final_loss=value, standard_error=error)
            numbers.extend(task=task, learner=learner, seeds=len(losses), **columns)
    return numbers


def rows(data: Data, tasks: list[str]) -> list[dict[str, str]]:
    """A row for each learner: best rate, best loss and width on each task."""
    lines = []
    for learner in dict.fromkeys(x for task in tasks for x in found(data, Condition(task))):
        line = {"learner": plots.name(learner)}
        for task in tasks:
            shown = TASK_NAMES[task]
            known = learner in found(data, Condition(task))
            losses = grid_losses(data, Condition(task), learner) if known else np.zeros((1, 1))
            index = best(losses)
            e = mean(losses[:, index])
            wide = mean(width(data, task, learner)) if known and has_gap(data, task) else None
            line[f"{shown}: best rate"] = f"{rates_of(data, Condition(task), learner)[index]:g}" if known else "–"
            line[f"{shown}: loss there"] = f"{e.value:.3g} ± {e.error:.1g}" if known else "–"
            line[f"{shown}: usable decades"] = f"{wide.value:.1f} ± {wide.error:.1f}" if wide else "–"
        lines.append(line)
    return lines


def alt(data: Data, tasks: list[str]) -> str:
    """What stands in for the figure."""
    parts = []
    for task in tasks:
        told = []
        for learner in found(data, Condition(task)):
            losses = grid_losses(data, Condition(task), learner)
            index = best(losses)
            rate = rates_of(data, Condition(task), learner)[index]
            told.append(f"{plots.name(learner)} {losses[:, index].mean():.3g} at {rate:g}")
        parts.append(f"{TASK_NAMES[task]}: " + ", ".join(told))
    return "Best final loss of every learner and the rate it is reached at. " + ". ".join(parts) + "."
