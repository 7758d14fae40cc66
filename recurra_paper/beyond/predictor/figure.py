"""The figure: rank correlation against the length of the window, and what it is the correlation of."""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from matplotlib.axes import Axes

from recurra.pages import plots
from recurra_paper.beyond.predictor.measure import Measured, comparable, longest, measured, over_learners
from recurra_paper.beyond.predictor.runs import CONDITIONS, HORIZON, experiments, gradients_name, loss_name
from recurra_paper.beyond.profiles import Profile
from recurra_paper.claims.base import Undecided
from recurra_paper.figures.drawn import Columns, Data, Drawn, counted, listed
from recurra_paper.figures.labels import Label, label_ends, label_points
from recurra_paper.figures.rflo_results import INITS
from recurra_paper.setup import TASK_NAMES, TASKS

NAME = "predictor"
TITLE = "Does alignment predict what a learner learns?"

#: colours of the conditions, which mean nothing about learners
SHADES = {"add": INITS["gaussian"], "mimic": INITS["diagonal"]}
#: lines of other lags than the paper's
LAGS = {None: "-", (3, 5): (0, (1, 1.2)), (9, 15): (0, (4.2, 1.3, 1.1, 1.3))}
#: in gaps: losses above it are shown at it
HIGHEST = 1.5


def needs(profile: Profile) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return [experiment.name for experiment in experiments(profile)]


def draw(data: Data) -> Drawn | None:
    """Left, ρ against w in every condition and its mean; right, alignment and loss of every learner."""
    found = _found(data)
    if not found:
        return None
    learnt = {name: m for name, m in found.items() if m.learnt}  # elsewhere there is no gap to measure losses by
    tasks = [task for task in TASKS if any(CONDITIONS[name].task == task for name in learnt)]
    with plots.style():
        height = 2.9 * max(len(tasks), 1) + 0.9
        figure = plots.sheet(10.4, height)
        edges = dict(bottom=0.55 / height, top=1 - 0.35 / height)
        curves = figure.add_subplot(figure.add_gridspec(1, 1, left=0.065, right=0.345, **edges)[0])
        plots.letter(curves, "a", "Alignment and low loss")
        _curves(curves, found)
        grid = figure.add_gridspec(max(len(tasks), 1), 2, left=0.545, right=0.985, wspace=0.1, hspace=0.38, **edges)
        letters = iter("bcde")
        for row, task in enumerate(tasks):
            of_task = {name: m for name, m in learnt.items() if CONDITIONS[name].task == task}
            for column, window in enumerate((1, longest(of_task))):
                axes = figure.add_subplot(grid[row, column])
                plots.letter(axes, next(letters), f"{TASK_NAMES[task]}, w = {window:,}")
                _scatter(axes, of_task, window, outer=column == 0)
    return Drawn(figure, _caption(data, found), _alt(found), _table(found), more={"learners": _points(found)})


def _found(data: Data) -> dict[str, Measured]:
    """The conditions that were run in full; one in which something is missing is not shown."""
    whole = {}
    for name in CONDITIONS:
        with suppress(Undecided):
            whole[name] = measured(data, name)
    return whole


def _curves(axes: Axes, found: Mapping[str, Measured]) -> None:
    ends = []
    for name, m in found.items():
        condition = CONDITIONS[name]
        colour, rho = SHADES[condition.task], [m.rho(int(w)) for w in m.windows]
        style = plots.DASHES if condition.alpha != "1" else LAGS[condition.lags]
        look = plots.options(color=colour, linestyle=style, alpha=1.0 if m.learnt else 0.45)
        axes.plot(m.windows, rho, linewidth=1.3, marker="o", markersize=3, clip_on=False, **look)
        ends.append(Label(float(m.windows[-1]), rho[-1], condition.title, colour))
    windows, mean, error = _mean(found)
    if len(windows):
        axes.fill_between(windows, mean - error, mean + error, color=plots.INK, alpha=0.1, linewidth=0)
        axes.plot(windows, mean, color=plots.INK, linewidth=2.6, zorder=5)
        ends.append(Label(float(windows[-1]), float(mean[-1]), "mean", plots.INK))
    axes.axhline(0, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    right = max(2, *(int(m.windows[-1]) for m in found.values()))
    for end in ends:  # a thin line leads from where a curve ends to its name
        axes.plot([end.x, right], [end.y, end.y], color=end.colour, linewidth=0.5, alpha=0.6)
    axes.set_xscale("log")
    axes.set(xlim=(1, right), ylim=(-1.05, 1.05))
    axes.set(xlabel="steps w summed over", ylabel="rank correlation ρ over learners")
    label_ends(axes, ends)


def _mean(found: Mapping[str, Measured]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The overall ρ at every window that the conditions that count share, with its error over learners."""
    counting = comparable(found)
    if {CONDITIONS[name].task for name in counting} != set(TASKS):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    windows = [int(w) for w in next(iter(counting.values())).windows if w <= longest(counting)]
    estimates = [over_learners(counting, w) for w in windows]
    return np.array(windows), np.array([e.value for e in estimates]), np.array([e.error for e in estimates])


def _in_gaps(m: Measured) -> np.ndarray:
    """Each learner's mean loss: 0 is RTRL's, 1 that of fixed W."""
    return (m.loss - m.rtrl[:, None]).mean(axis=0) / m.gap.mean()


def _scatter(axes: Axes, found: Mapping[str, Measured], window: int, outer: bool) -> None:
    points: dict[str, list[tuple[float, float]]] = {}
    for m in found.values():
        at = list(m.windows).index(window)
        for learner, x, y in zip(m.learners, m.alignment.mean(axis=0)[:, at], _in_gaps(m), strict=True):
            points.setdefault(learner, []).append((float(x), float(np.clip(y, -0.25, HIGHEST))))
    for learner, each in points.items():
        x, y = np.array(sorted(each)).T
        look = plots.options(**plots.dot_style(learner) | {"markersize": 4.5, "markeredgewidth": 1.2})
        axes.plot(x, y, color=plots.colour(learner), linewidth=0.7, alpha=0.4, zorder=1)
        axes.plot(x, y, **look, clip_on=False)
    every = np.array([point for each in points.values() for point in each])
    left, low = np.minimum(every.min(axis=0), (0.0, 0.0))
    axes.set(xlim=(left - 0.06, 1.04), ylim=(low - 0.08, max(1.08, every[:, 1].max() + 0.06)))
    levels = [np.array([(left - 0.06, level), (1.04, level)]) for level in (0.0, 1.0)]
    for level in levels:
        axes.plot(*level.T, color=plots.MUTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
    axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0], ["RTRL", "0.25", "0.5", "0.75", "fixed W"] if outer else [""] * 5)
    axes.set(xlabel="mean cosine with the exact gradient", ylabel="final loss, in gaps" if outer else "")
    rightmost = {learner: max(each) for learner, each in points.items()}
    names = [Label(*at, plots.name(learner), plots.colour(learner)) for learner, at in rightmost.items()]
    label_points(axes, names, 7.0, around=[*levels, *(np.array(sorted(each)) for each in points.values())])


def _caption(data: Data, found: Mapping[str, Measured]) -> str:
    steps = counted(int(np.max(data[loss_name(name, "fixed")]["step"])) for name in found)
    count = lambda name: int(data[gradients_name(name)]["histogram"][0, 0].sum())
    compared = counted(count(name) // len(m.alignment) for name, m in found.items())
    out = [CONDITIONS[name].title for name, m in found.items() if not m.learnt]
    left = (
        f" Pale, and left out of all else, since RTRL is not ahead of fixed W beyond doubt: {listed(out)}."
        if out
        else ""
    )
    return (
        f"Alignment: along RTRL's run of {compared} steps, gradients are summed over w steps, and the cosine is taken "
        "with the exact sum of the same facing: RTRL's for learners that face the past, F-BPTT's for those that face "
        f"the future. On Add F-BPTT sees all that matters; on Mimic it is exact up to its horizon of {HORIZON} steps. "
        f"Loss: each learner trained by itself for {steps} steps, mean over the last tenth. Means over "
        f"{counted(len(m.loss) for m in found.values())} seeds of training, and over "
        f"{counted(len(m.alignment) for m in found.values())} of the comparison of gradients. (a) Spearman's rank "
        "correlation, over "
        f"{counted(len(m.learners) for m in found.values())} approximate learners, of alignment and minus the loss: 1 "
        "if the better aligned always end lower. Bold: the mean over the conditions of a task, then over tasks; its "
        "band is one standard error to either side, by a jackknife over learners. Other panels: a point for each "
        "learner and condition; losses in units of fixed W's loss less RTRL's, so that RTRL is at 0 and fixed W at 1 "
        f"(above {HIGHEST} shown at {HIGHEST}); a thin line joins a learner's conditions. Hollow: stochastic.{left}"
    )


def _alt(found: Mapping[str, Measured]) -> str:
    first_last = lambda m: [f"{m.rho(int(w)):.2f} at w = {int(w):,}" for w in (m.windows[0], m.windows[-1])]
    told = [f"{CONDITIONS[name].title}, {' and '.join(first_last(m))}" for name, m in found.items()]
    return f"Rank correlation of alignment and low loss over learners: {'; '.join(told)}."


def _table(found: Mapping[str, Measured]) -> Columns:
    table = Columns()
    for name, m in found.items():
        rho = [over_learners({name: m}, int(w)) for w in m.windows]
        for w, e in zip(m.windows, rho, strict=True):
            table.add(condition=name, w=int(w), rho=e.value, jackknife_error=e.error, counts=bool(m.learnt))
    for w, value, error in zip(*_mean(found), strict=True):
        table.add(condition="mean", w=int(w), rho=float(value), jackknife_error=float(error), counts=True)
    return table


def _points(found: Mapping[str, Measured]) -> Columns:
    table = Columns()
    for name, m in found.items():
        for row, learner in enumerate(m.learners):
            loss = float(m.loss[:, row].mean())
            values = dict(w=m.windows, alignment=m.alignment[:, row].mean(axis=0))
            table.extend(condition=name, learner=learner, loss=loss, loss_in_gaps=float(_in_gaps(m)[row]), **values)
    return table
