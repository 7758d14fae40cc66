"""The page of lives: what agents earned, and what one of them sees and does."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from recurra import __version__
from recurra.learners import LEARNERS
from recurra.pages import plots
from recurra.pages.page import PageFigure, write_page
from recurra.rl import Environment, Life, watch
from recurra.training.result import save

#: points of a curve, steps of the scene that is shown, and rows of its picture at most
POINTS, SCENE, ROWS = 50, 60, 12
#: colours of windows of backpropagation, which are no learners of the library
WINDOWS = ("#d1491b", "#e09b2d", "#a81226", "#b98300")


def write_lives(
    folder: Path,
    agents: Mapping[str, Any],
    environment: Any,
    lives: Mapping[str, Life],
    rows: Mapping[str, Mapping[str, Any]],
    asked: Mapping[str, Any],
) -> Path:
    """Write a netCDF file for each life, and the page over all of them; returns the page's path."""
    for name, life in lives.items():
        save(life.to_xarray(), folder / f"{name.replace(':', '-')}.nc")
    content = {
        "title": f"{environment.name}, {asked['agent'].upper()}",
        "rows": rows,
        "figures": list(_figures(agents, environment, lives)),
        "settings": {name: value for name, value in asked.items() if value is not None} | {"recurra": __version__},
        "interrupted": any(life.interrupted for life in lives.values()),
    }
    return write_page(folder / "index.html", "recurra.cli.living", content, number=_number)


def _number(value: float | int | None) -> str:
    return "–" if value is None else f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"


def _figures(agents: Mapping[str, Any], environment: Any, lives: Mapping[str, Life]) -> Iterable[PageFigure]:
    band = "Lines are means over seeds, bands one standard error."
    if any(len(returns) for life in lives.values() for returns in life.returns):
        caption = f"The return of the episodes that ended in each part of the lives. {band}"
        yield PageFigure("returns", "Returns of episodes", caption, _curves(lives, _returns, "return of an episode"))
    else:
        caption = f"The mean reward of a step. {band}"
        yield PageFigure("rewards", "Rewards", caption, _curves(lives, _of("reward"), "reward of a step"))
    caption = f"The mean square of δ, the error of what the agents expect. {band}"
    errors = _curves(lives, _of("squared_error"), "mean square of δ", log=True)
    yield PageFigure("errors", "Errors of what is expected", caption, errors)
    name, life = max(lives.items(), key=lambda pair: np.nan_to_num(pair[1].last_return(), nan=-np.inf).max())
    if isinstance(environment, Environment) and life.stages is not None:
        last = np.nan_to_num(life.last_return(), nan=-np.inf)
        seed = life.seeds[int(last.argmax())]
        caption = (
            f"{SCENE} further steps of the best life, of {name} with seed {seed}. Vertical lines are ends of episodes. "
            "(a) What the agent sees, an entry of the observation in each row. (b) What it does. (c) What its network "
            "makes of it: for an actor and critic the value of what it sees, for others the highest of its outputs."
        )
        scene = _scene(agents[name], environment, life, seed)
        yield PageFigure("scene", "What it sees and does", caption, scene)


def _returns(life: Life, edges: np.ndarray) -> np.ndarray:
    """Mean returns of the episodes that ended in each part, (seed, part); nan where none did."""
    found = np.full((len(life.seeds), len(edges) - 1), np.nan)
    for row, (returns, ends) in enumerate(zip(life.returns, life.ends, strict=True)):
        part = np.searchsorted(edges, ends, side="left") - 1
        for each in np.unique(part):
            found[row, each] = returns[part == each].mean()
    return found


def _of(field: str) -> Any:
    """Means of a record over each part, (seed, part)."""

    def means(life: Life, edges: np.ndarray) -> np.ndarray:
        values, part = getattr(life, field), np.searchsorted(edges, life.step, side="left") - 1
        columns = [values[:, part == each] for each in range(len(edges) - 1)]
        empty = np.full(len(life.seeds), np.nan)
        return np.stack([each.mean(axis=1) if each.size else empty for each in columns], axis=1)

    return means


def _curves(lives: Mapping[str, Life], of: Any, label: str, log: bool = False) -> Figure:
    with plots.style("lives"):
        figure = plots.sheet(9.2, 3.8)
        axes = figure.add_subplot()
        colours = iter(WINDOWS * len(lives))
        for name, life in lives.items():
            edges = np.linspace(0, life.steps, min(POINTS, max(life.steps // 20, 1)) + 1)
            values = of(life, edges)
            known = np.isfinite(values)
            count = known.sum(axis=0)
            mean = np.where(known, values, 0).sum(axis=0) / np.where(count > 0, count, np.nan)
            spread = np.sqrt(np.where(known, (values - mean) ** 2, 0).sum(axis=0) / np.maximum(count - 1, 1))
            error = np.where(count > 1, spread / np.sqrt(np.maximum(count, 1)), 0)
            look: Any = plots.line_style(name, len(mean)) if name in LEARNERS else {"color": next(colours)}
            middle = (edges[1:] + edges[:-1]) / 2
            axes.plot(middle, mean, label=plots.name(name) if name in LEARNERS else name, **look)
            axes.fill_between(middle, mean - error, mean + error, color=look["color"], alpha=0.15, linewidth=0)
        if log and all(np.nanmin(line.get_ydata()) > 0 for line in axes.get_lines()):  # pyright: ignore[reportArgumentType]
            axes.set_yscale("log")
        axes.set(xlabel="step", ylabel=label)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(axis="y", color=plots.FAINT, linewidth=0.6)
        figure.legend(loc="upper left", bbox_to_anchor=(0.07, 1.0), ncols=6)
        figure.subplots_adjust(left=0.09, right=0.98, top=0.87, bottom=0.14)
    return figure


def _scene(agent: Any, environment: Any, life: Life, seed: int) -> Figure:
    scene = watch(agent, environment, life.stage_of(seed), SCENE)
    steps, ends = np.arange(SCENE), np.flatnonzero(scene.ends) + 0.5
    seen = scene.observations[:, :ROWS].T
    has_value = agent.actions is not None and scene.outputs.shape[1] == 1 + agent.actions.n_out
    value = scene.outputs[:, 0] if has_value else scene.outputs.max(axis=1)
    with plots.style("scene"):
        figure = plots.sheet(9.2, 5.2)
        top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.2, 1.6))
        span = np.abs(seen).max() or 1.0
        top.imshow(seen, aspect="auto", cmap="RdBu_r", vmin=-span, vmax=span, interpolation="nearest")
        top.set(ylabel="seen", yticks=range(len(seen)))
        plots.letter(top, "a")
        done = scene.actions.reshape(SCENE, -1)
        middle.plot(steps, done, ".", markersize=5)
        rewarded = np.flatnonzero(scene.rewards)
        if scene.rewards.ndim == 1 and 0 < len(rewarded) < SCENE / 2:
            for at in rewarded:
                middle.annotate(f"{scene.rewards[at]:+.2g}", (at, done[at, 0]), (0, 5), textcoords="offset points",
                                ha="center", fontsize=7, color=plots.MUTED)  # fmt: skip
        middle.set(ylabel="action")
        middle.margins(y=0.5)
        plots.letter(middle, "b")
        bottom.plot(steps, value, color=plots.FACINGS["past"])
        bottom.set(ylabel="value", xlabel="step")
        plots.letter(bottom, "c")
        for axes in (top, middle, bottom):
            for end in ends:
                axes.axvline(end, color=plots.MUTED, linewidth=0.7)
        figure.subplots_adjust(left=0.08, right=0.98, top=0.93, bottom=0.09, hspace=0.5)
    return figure
