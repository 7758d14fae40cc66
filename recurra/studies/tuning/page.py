"""The page of a search: one file that needs no other, and no network; and its figures.

They are the loss of each trial against each setting; and what the search cost, which settings matter, and what the best
are worth on fresh seeds. The page's sentences are in its template.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from recurra import __version__
from recurra.pages import plots
from recurra.pages.page import PageFigure, write_page
from recurra.studies.choices import Choices, Random
from recurra.studies.pages import looks, words
from recurra.studies.pages.points import error_of, mean_of
from recurra.studies.tuning.importance import FEWEST
from recurra.studies.tuning.sampling import every_value
from recurra.studies.tuning.tuned import PAGE, Losses, Tuned

#: panels in a row
ACROSS = 3
#: trials stopped at the first look, and at later ones
GREYS = ("#c9ced6", "#8f96a1", "#5d6570", "#3d434b")
#: a value in this part of the range at either end is near it
NEAR = 0.05
RING = plots.options(color=plots.INK, marker="o", markersize=9.5, markerfacecolor="none", markeredgewidth=1.3, zorder=5)
DOTS = plots.options(linestyle="none", marker="o", markeredgewidth=0, clip_on=False)


def write_search(folder: Path, cases: Sequence[Tuned], name: str) -> Path:
    """Write the page of all cases of a study of this name; returns its path."""
    names = dict.fromkeys(name for tuned in cases for name in tuned.case)
    apart = [name for name in names if len(cases) == 1 or len({repr(each.case.get(name)) for each in cases}) > 1]
    content = {"name": name, "made": _made(cases), "words": words, "cases": []}
    for number, tuned in enumerate(cases):
        title = words.case({name: tuned.case[name] for name in apart if name in tuned.case})
        content["cases"].append(
            {
                "anchor": f"case-{number}",
                "title": title or "The search",
                "tuned": tuned,
                "edges": _edges(tuned),
                "figures": _figures(number, tuned),
            }
        )
    return write_page(folder / PAGE, "recurra.studies.tuning", content)


def _edges(tuned: Tuned) -> list[str]:
    """Settings that were chosen near the end of their range."""
    found = []
    for name, choice in tuned.space.items():
        if tuned.chosen is None or isinstance(choice, Choices) or choice.low == choice.high:
            continue
        scale = math.log if choice.log else float
        low, high, value = (scale(float(each)) for each in (choice.low, choice.high, tuned.chosen.settings[name]))
        if not NEAR <= (value - low) / (high - low) <= 1 - NEAR:
            found.append(words.setting(name))
    return found


def _made(cases: Sequence[Tuned]) -> dict[str, str]:
    """How it was searched, where all cases agree."""
    first = cases[0]
    space = first.space if all(tuned.space == first.space for tuned in cases) else {}
    return {
        **{words.heading(name): _range(choice) for name, choice in space.items()},
        "Seeds of a trial": words.numbers(first.seeds),
        "Compared after": f"{words.listed([f'{stop:,}' for stop in first.looks])} steps",
        "Recurra": __version__,
    }


def _range(choice: Random) -> str:
    if isinstance(choice, Choices):
        return words.listed([str(value) for value in choice.values])
    return f"{choice.low:g} to {choice.high:g}" + ", logarithmic" * choice.log


def _figures(number: int, tuned: Tuned) -> list[PageFigure]:
    found = []
    if names := [name for name, choice in tuned.space.items() if len(every_value(choice) or "many") > 1]:
        caption = (
            "Loss of each trial, as a mean over seeds, where it ended. Grey trials were stopped early, when their loss "
            "was still higher. Triangles at the top lie above the panel."
        )
        figure = settings_figure(tuned, names)
        found.append(PageFigure(f"settings-{number}", "Loss against each setting", caption, figure))
    if tuned.chosen:
        caption = (
            "Left: the lowest loss of trials that took all steps, as the search went on. Middle: how narrowly each "
            "setting must be chosen for a trial to be among the best quarter (PED-ANOVA, from "
            f"{FEWEST} trials on). Right: finalists on fresh seeds, and the chosen one on further seeds that chose "
            "nothing: each seed, mean and standard error. Dashes: the loss in the search."
        )
        found.append(PageFigure(f"worth-{number}", "Cost, importance and confirmation", caption, worth_figure(tuned)))
    return found


def colour(tuned: Tuned) -> str:
    """The colour of the case: that of its learner."""
    learner = tuned.case.get("learner")
    return plots.colour(learner) if isinstance(learner, str) else plots.INK


def _last_losses(tuned: Tuned) -> np.ndarray:
    """The mean loss of each trial where it ended; nan where a seed diverged."""
    return np.array([trial.means[-1] for trial in tuned.trials], float)


def settings_figure(tuned: Tuned, names: Sequence[str]) -> Figure:
    """The loss of each trial against each of these settings."""
    losses, looked = _last_losses(tuned), np.array([len(trial.steps) for trial in tuned.trials])
    is_chosen = np.array([tuned.chosen is not None and trial.place == tuned.chosen.place for trial in tuned.trials])
    all_steps = DOTS | {"label": "all steps", "color": colour(tuned), "markersize": 5, "zorder": 4}
    kinds: dict[int, dict[str, Any]] = {len(tuned.looks): all_steps}
    for count in sorted(set(looked.tolist()) - set(kinds), reverse=True):
        grey = GREYS[min(count, len(GREYS)) - 1]
        label = f"stopped after {tuned.looks[count - 1]:,}"
        kinds[count] = DOTS | {"label": label, "color": grey, "markersize": 3.6, "zorder": 3}
    lost = DOTS | {"color": GREYS[2], "marker": "x", "markersize": 4.5, "markeredgewidth": 1.0}
    ring = {"chosen": DOTS | RING} if tuned.chosen else {}
    cross = {"diverged": lost} if np.isnan(losses).any() else {}
    with plots.style():
        figure, drawn = looks.frame(len(names), ACROSS, 2.2, right=1.75, gaps=(0.55, 0.7))
        for number, (axes, name) in enumerate(zip(drawn, names, strict=True)):
            x, top = _across(axes, tuned, name), looks.loss_axis(axes, losses, math.nan, usual=60)
            axes.plot(x[is_chosen], np.fmin(losses, top)[is_chosen], **DOTS | RING)
            for count, look in kinds.items():
                beyond = look | {"markersize": 4.5, "markeredgewidth": 1.0, "zorder": 2}
                for which, own_look in (
                    (losses <= top, look),
                    (losses > top, beyond | {"marker": 6}),
                    (np.isnan(losses), beyond | {"marker": "x"}),
                ):
                    own = which & (looked == count)
                    axes.plot(x[own], np.fmin(losses, top)[own], **own_look)
            axes.set_title(words.setting(name))
            if number % ACROSS == 0:
                axes.set_ylabel("loss at the last step taken")
        looks.legend(figure, {look["label"]: look for look in kinds.values()} | ring | cross, 1.75, most=25)
    return figure


def _across(axes: Axes, tuned: Tuned, name: str) -> np.ndarray:
    """Where trials lie along the axis of a setting, which is scaled for it."""
    choice, values = tuned.space[name], [trial.settings[name] for trial in tuned.trials]
    if not isinstance(choice, Choices):
        looks.value_axis(axes, np.array([choice.low, choice.high, *values], float), choice.log)
        return np.array(values, float)
    axes.set_xticks(range(len(choice.values)), [words.shown(name, value) for value in choice.values])
    axes.set_xlim(-0.6, len(choice.values) - 0.4)
    places = np.array([trial.place for trial in tuned.trials])
    return [*map(choice.values.index, values)] + 0.5 * _spread(places)


def _spread(numbers: np.ndarray) -> np.ndarray:
    """Offsets from -0.5 to 0.5, far from each other, and the same each time."""
    return (numbers * plots.GOLDEN) % 1 - 0.5


def worth_figure(tuned: Tuned) -> Figure:
    """What the search cost, which settings matter, and the best on fresh seeds."""
    with plots.style():
        figure = plots.sheet(10.4, 3.1)
        for axes, draw in zip(figure.subplots(1, 3), (_cost, _importance, _fresh), strict=True):
            draw(axes, tuned)
        figure.tight_layout(w_pad=2.2)
    return figure


def _cost(axes: Axes, tuned: Tuned) -> None:
    axes.set_title("Lowest loss so far")
    losses, taken = _last_losses(tuned), np.cumsum([trial.steps[-1] * len(tuned.seeds) for trial in tuned.trials])
    done = np.array([trial.complete for trial in tuned.trials]) & np.isfinite(losses)
    if not done.any():
        return _say(axes, "no trial took all steps\nwithout diverging")
    x, losses = taken[done], losses[done]
    best = np.minimum.accumulate(losses)
    high = max(best[0], np.quantile(losses, 0.9))
    axes.plot([*x, taken[-1]], [*best, best[-1]], color=colour(tuned), drawstyle="steps-post")
    axes.plot(x, np.minimum(losses, high), color=colour(tuned), markersize=3.2, alpha=0.45, **DOTS)
    looks.loss_axis(axes, np.minimum(losses, high), math.nan, usual=100)
    axes.set(xlabel="network-steps", xlim=(0, taken[-1] * 1.03))
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    return None


def _importance(axes: Axes, tuned: Tuned) -> None:
    axes.set_title("Importance")
    if tuned.importance is None:
        return _say(axes, "too few trials to say" if tuned.space else "nothing was searched")
    names, shares = list(tuned.importance)[::-1], list(tuned.importance.values())[::-1]
    bars = axes.barh([words.sign(name) for name in names], shares, height=0.55, color=colour(tuned))
    axes.bar_label(bars, [f"{share:.0%}" for share in shares], padding=3, fontsize=7.5)
    axes.set(xlim=(0, 1.12), ylim=(-0.6, max(len(names), 3) - 0.4), xticks=[])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
    return None


def _fresh(axes: Axes, tuned: Tuned) -> None:
    axes.set_title("On fresh seeds")
    assert tuned.chosen is not None
    searched = {trial.place: trial.means[-1] for trial in tuned.trials}
    columns = [*tuned.finalists, tuned.chosen]
    for x, each in enumerate(columns):
        _column(axes, x, each.losses, colour(tuned) if each.place == tuned.chosen.place else GREYS[1])
        if (value := searched[each.place]) is not None:
            axes.hlines(value, x - 0.32, x + 0.32, color=plots.INK, linewidth=0.9, linestyle=(0, (2, 1.6)))
    if tuned.finalists:
        axes.axvline(len(columns) - 1.5, color=plots.FAINT, linewidth=0.8)
    labels = [f"trial {each.place}" for each in columns]
    axes.set_xticks(range(len(columns)), [*labels[:-1], f"{labels[-1]},\nconfirmed"], fontsize=7)
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)


def _column(axes: Axes, x: int, losses: Losses, shade: str) -> None:
    """Losses of the seeds, their mean and its standard error."""
    kept = np.array(losses, float)
    offsets = 0.3 * _spread(np.arange(len(kept)) + 1)
    axes.plot(x + offsets, kept, color=shade, markersize=3, alpha=0.45, **DOTS)
    look = plots.options(color=shade, marker="D", markersize=4.5, capsize=3, linewidth=1.3)
    axes.errorbar([x], [mean_of(kept)], yerr=[np.nan_to_num(error_of(kept))], **look)


def _say(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    axes.set_title(axes.get_title(loc="left"))
    axes.text(0.0, 0.9, text, transform=axes.transAxes, va="top", color=plots.MUTED)
