"""The figure in words and numbers: caption, table and what stands in for it."""

import numpy as np
from jaxtyping import Float

from recurra.pages import plots
from recurra_paper.analysis import mean
from recurra_paper.beyond.unexplored.measures import cosine, final_loss, sizes
from recurra_paper.beyond.unexplored.runs import (
    MARKS,
    RECEIVER,
    TRAINED,
    bias_name,
    gradients_name,
    growth_name,
    loss_name,
)
from recurra_paper.claims.base import Data
from recurra_paper.claims.estimators import row
from recurra_paper.figures.drawn import Columns, counted, listed, seed_mean
from recurra_paper.setup import TASK_NAMES


def trained(data: Data, task: str) -> list[str]:
    """The learners whose final losses can be shown: those that were run beside fixed W and RTRL."""
    beside = all(loss_name(task, x) in data for x in ("fixed", "rtrl"))
    return [x for x in TRAINED if beside and loss_name(task, x) in data]


def relative_spread(data: Data, weights: str, learner: str) -> Float[np.ndarray, "networks steps"]:
    """Standard deviations over time, in norms of the exact gradient: one for each network, a mean over steps."""
    (variance,) = row(data, growth_name(weights), learner, "variance")
    size = np.asarray(data[growth_name(weights)]["exact"], float).mean(axis=-1, keepdims=True)
    return np.sqrt(variance / size)


def caption(data: Data, grown: list[str], tasks: list[str]) -> str:
    """What the panels show, of how many networks, seeds and steps."""
    parts = []
    if grown:
        runs = [data[growth_name(weights)] for weights in grown]
        parts.append(
            "Upper panels: the standard deviation of gradients over replicas of a learner's randomness against time, "
            "on Add with 32 units, weights held. Geometric means over "
            f"{counted(len(run['exact']) for run in runs)} networks of {counted(int(run['replicas']) for run in runs)} "
            "replicas, with bands of one standard error. Control: orthogonal weights so small that |J|, which is J "
            "without the signs of its entries, has a spectral norm below 0.8."
        )
    compared = [data[bias_name(task)] for task in tasks if bias_name(task) in data]
    if compared:
        steps = counted(int(run["step"][-1]) for run in compared)
        parts.append(
            f"Bias and scatter: medians over {counted(len(run['exact']) for run in compared)} networks of "
            f"{counted(int(run['replicas']) for run in compared)} replicas, with quartiles, in the later half of "
            f"{steps} steps. A bias near the grey line is within the error of sampling."
        )
    runs = [data[loss_name(task, x)] for task in tasks for x in trained(data, task)]
    if runs:
        seeds, steps = counted(len(run["loss"]) for run in runs), counted(int(np.max(run["step"])) for run in runs)
        parts.append(
            f"Final loss: less RTRL's at the same seed, after {steps} steps at α = 1. Small dots are {seeds} seeds, "
            "large ones their means with bars of one standard error; dashed lines are RTRL and fixed W. A seed that "
            "diverged counts as untrained; what lies far beyond fixed W is drawn at the edge."
        )
        lost = {
            plots.name(x): sum(int((data[loss_name(task, x)]["diverged"] >= 0).sum()) for task in tasks)
            for x in TRAINED
            if all(loss_name(task, x) in data for task in tasks)
        }
        gone = [f"{count} of {name}" for name, count in lost.items() if count]
        parts.append(f"Runs that diverged: {listed(gone)}." if gone else "No run diverged.")
    along = [data[gradients_name(task)] for task in tasks if gradients_name(task) in data]
    if along:
        parts.append(
            "Alignment: RTRL trains, and the mean cosine with its gradient is shown, both summed over w consecutive "
            f"steps; {counted(len(run['mean']) for run in along)} seeds. Receiver-UORO is left out where its numbers "
            "leave the range of floats, which they do after some hundred steps."
        )
    return " ".join(parts)


def alt(data: Data, grown: list[str], tasks: list[str]) -> str:
    """What stands in for the figure."""
    told = []
    for weights in grown:
        learners = [x for x in (RECEIVER, "uoro") if x in map(str, data[growth_name(weights)]["learners"])]
        steps = np.asarray(data[growth_name(weights)]["step"]).tolist()
        for x in learners:
            spread = np.median(relative_spread(data, weights, x), axis=0)
            each = [f"{spread[steps.index(t)]:.2g} after {t}" for t in MARKS if t in steps]
            told.append(f"{plots.name(x)}, {weights} weights: standard deviation {', '.join(each)} steps")
    for task in tasks:
        found = {x: float(final_loss(data, task, x).mean()) for x in trained(data, task)}
        each = ", ".join(f"{plots.name(x)} {loss:.3g}" for x, loss in found.items())
        told += [f"Final loss on {TASK_NAMES[task]}: {each}"] if found else []
        known = [] if bias_name(task) not in data else [str(x) for x in data[bias_name(task)]["learners"]]
        each = ", ".join(f"{plots.name(x)} {np.median(sizes(data, task, x)[2]):.2g}" for x in known)
        told += [f"Standard deviation on {TASK_NAMES[task]}: {each}"] if known else []
    return ". ".join(told) + "."


def table(data: Data, grown: list[str], tasks: list[str]) -> Columns:
    """Means over networks or seeds, of all that is shown."""
    numbers = Columns()

    def several(where: str, learner: str, quantity: str, at: np.ndarray, values: np.ndarray) -> None:
        value, error = seed_mean(values)
        about = dict(where=where, learner=learner, quantity=quantity)
        numbers.extend(**about, at=at, value=value, standard_error=error)

    for weights in grown:
        run = data[growth_name(weights)]
        for index, learner in enumerate(map(str, run["learners"])):
            with np.errstate(divide="ignore"):
                spread = np.log10(relative_spread(data, weights, learner))
            where, steps = f"Add, {weights} weights", np.asarray(run["step"])
            several(where, learner, "log10 of standard deviation / norm, after steps", steps, spread)
            several(where, learner, "cosine with the exact gradient, after steps", steps, run["cosine"][index])
    for task in tasks:
        where = TASK_NAMES[task]
        for learner in map(str, data[bias_name(task)]["learners"] if bias_name(task) in data else ()):
            for name, each in zip(
                ("bias", "bias from sampling", "standard deviation"), sizes(data, task, learner), strict=True
            ):
                e = mean(each)
                numbers.add(
                    where=where,
                    learner=learner,
                    quantity=f"{name} / norm",
                    at="",
                    value=e.value,
                    standard_error=e.error,
                )
        for learner in trained(data, task):
            e = mean(final_loss(data, task, learner))
            numbers.add(
                where=where, learner=learner, quantity="final loss", at="", value=e.value, standard_error=e.error
            )
        for learner in map(str, data[gradients_name(task)]["learners"][1:] if gradients_name(task) in data else ()):
            windows = np.asarray(data[gradients_name(task)]["windows"])
            several(where, learner, "cosine with RTRL, sums over steps", windows, cosine(data, task, learner))
    return numbers
