"""The page of a run: one file that needs no other and no network, and the figures that it shows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, StrMethodFormatter

from recurra import __version__
from recurra.cli.learning import report
from recurra.cli.learning.cells import moment
from recurra.cli.learning.files import PAGE
from recurra.cli.learning.session import Session
from recurra.cli.tables import counted
from recurra.pages.page import PageFigure, write_page
from recurra.pages.plots import FAINT, INK, MUTED, options, sheet, style
from recurra.studies.pages.words import number

#: points of a curve, and rows of the truth that are drawn as a line
POINTS, ROWS = 64, 240
MODEL = "#d1491b"
#: colours of the baselines, in their order
BASELINES = ("#8a8a8a", "#2a9d63", "#1a56c4")
#: colours of a race's members
MEMBERS = ("#d1491b", "#1a56c4", "#2a9d63", "#b98300", "#6d3fb5", "#1496cf", "#a81226", "#5c5c5c", "#d6409f", "#0b4a24")


def write_run(folder: Path, session: Session, name: str) -> Path:
    """Write the page of a run on the input of this name; returns its path."""
    lines = report.lines(session)
    content = {
        "title": f"{session.encoder.plan.target.name}, {_ahead(session.horizon)}",
        "name": name,
        "verdict": report.verdict(session),
        "lines": lines,
        "best": min((line.rmse for line in lines if line.rmse is not None), default=None),
        "remarks": [*report.remarks(session, name), *session.remarks()],
        "figures": list(all_figures(session)),
        "settings": _settings(session),
    }
    return write_page(folder / PAGE, "recurra.cli.learning", content, number=number)


def _ahead(horizon: int) -> str:
    return f"{counted(horizon, 'row')} ahead" if horizon else "from the same row"


def _settings(session: Session) -> dict[str, str]:
    """What the run was asked for, and what it made of it."""
    plan = session.encoder.plan
    asked = {option: value for option, value in session.options.decisive().items() if value not in (None, [])}
    inputs = ", ".join(plan.names)
    return {
        "target": plan.target.name,
        "inputs": inputs if len(inputs) < 2000 else f"{len(plan.names):,} columns",
        **({"time": plan.time.name} if plan.time else {}),
        "model": session.options.model_name,
        **{option: ", ".join(value) if isinstance(value, list) else str(value) for option, value in asked.items()},
        "recurra": __version__,
    }


def all_figures(session: Session) -> Iterable[PageFigure]:
    """The figures that there are data for."""
    caption = (
        "Root of the mean squared error of each forecast, in parts of the run of equal length. Forecasts are made "
        "before the value is seen."
    )
    if session.scores.scored:
        yield PageFigure("errors", "Error over time", caption, errors_over_time(session))
        shown, kept = min(ROWS, len(session.tail)), len(session.tail)
        caption = f"Left: the last {shown:,} rows, forecast {_ahead(session.horizon)}. Right: the last {kept:,} rows."
        yield PageFigure("predictions", "Predictions beside the truth", caption, predictions(session))
    drawn = shares(session)
    if drawn is not None:
        caption = f"The weights with which the race mixes its members, noted every {session.notes.every:,} rows."
        yield PageFigure("shares", "What was chosen", caption, drawn)


def errors_over_time(session: Session) -> Figure:
    """The error of each forecast, in parts of the run."""
    ends, errors = session.scores.windows(POINTS)
    with style("errors"):
        figure = sheet(9.2, 3.6)
        axes = figure.add_subplot()
        # Without a period the seasonal forecast is the last value, which shows between the dashes.
        last, *others = ({"color": each, "linewidth": 1.4} for each in BASELINES)
        model = {"color": MODEL, "linewidth": 2.2, "zorder": 5}
        looks = [model, {**last, "zorder": 4, "linestyle": (0, (4, 2))}, *others]
        for column, (name, look) in enumerate(zip(session.names(), looks, strict=True)):
            axes.plot(ends, errors[:, column], label=name, marker="o" if len(ends) == 1 else None, **look)
        _scale(axes, errors[np.isfinite(errors)])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set(xlabel="rows", ylabel="RMSE", xlim=(0, ends[-1]))
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        figure.legend(loc="upper left", bbox_to_anchor=(0.06, 1.0), ncols=4, handlelength=1.8, columnspacing=1.6)
        figure.subplots_adjust(left=0.085, right=0.985, top=0.87, bottom=0.14)
    return figure


def _scale(axes: Axes, errors: np.ndarray) -> None:
    """A logarithmic axis where no error is 0, with enough numbers at it."""
    if not errors.size or errors.min() <= 0:
        return
    axes.set_yscale("log")
    wide = errors.max() / errors.min() > 1000
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.10g}" if 1e-4 < value < 1e7 else f"{value:.0e}")
    )


def predictions(session: Session) -> Figure:
    """The latest rows: truth and prediction as lines, and one against the other."""
    rows, seconds, truth, predicted, width = session.tail.T
    target = session.encoder.plan.target.name
    with style("predictions"):
        figure = sheet(9.2, 3.5)
        lines, dots = figure.subplots(1, 2, width_ratios=(2.6, 1))
        last = slice(-ROWS, None)
        moments = _moments(seconds[last])
        x: Any = rows[last] if moments is None else moments
        if np.isfinite(width[last]).any():
            low, high = predicted[last] - width[last], predicted[last] + width[last]
            label = f"range, coverage {session.options.coverage:g}"
            lines.fill_between(x, low, high, color=MODEL, alpha=0.15, linewidth=0, label=label)
        lines.plot(x, truth[last], color=INK, linewidth=1.2, label="truth")
        lines.plot(x, predicted[last], color=MODEL, linewidth=1.2, label="prediction")
        _label_rows(lines, moments is not None)
        lines.set_ylabel(_short(target))
        lines.margins(x=0.01)
        lines.legend(loc="upper left", bbox_to_anchor=(0.0, 1.14), ncols=3, borderaxespad=0, handlelength=1.8)
        known = np.isfinite(truth) & np.isfinite(predicted)
        dots.plot(truth[known], predicted[known], ".", color=MODEL, markersize=2.5, alpha=0.5, rasterized=True)
        if known.any():
            ends = truth[known].min(), truth[known].max()
            dots.plot(ends, ends, color=MUTED, linewidth=0.9, zorder=1)
        dots.set(xlabel="truth", ylabel="prediction")
        dots.tick_params(axis="x", labelrotation=30)
        figure.subplots_adjust(left=0.085, right=0.985, top=0.88, bottom=0.19, wspace=0.26)
    return figure


def _moments(seconds: np.ndarray) -> list[Any] | None:
    """Times for an axis; None if not all are known and in order."""
    if not len(seconds) or not np.isfinite(seconds).all() or (np.diff(seconds) < 0).any():
        return None
    found = [moment(value) for value in seconds.tolist()]
    return None if None in found else found


def _label_rows(axes: Axes, are_times: bool) -> None:
    if are_times:
        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        return
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlabel("row")


def shares(session: Session) -> Figure | None:
    """How much each member of a race counted; None without a race."""
    notes, members = session.notes, list(session.shares())
    if len(notes.rows) < 2 or not members:
        return None
    values = np.nan_to_num(notes.shares())
    with style("shares"):
        figure = sheet(9.2, 2.9)
        axes = figure.add_subplot()
        colours = [MEMBERS[i % len(MEMBERS)] for i in range(len(members))]
        axes.stackplot(notes.rows, values.T, labels=[_short(name, 30) for name in members], colors=colours, linewidth=0)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set(xlabel="rows", ylabel="weight", xlim=(notes.rows[0], notes.rows[-1]), ylim=(0, 1))
        axes.legend(**options(loc="center left", bbox_to_anchor=(1.01, 0.5), reverse=True, handlelength=1.2))
        figure.subplots_adjust(left=0.085, right=0.76, top=0.95, bottom=0.17)
    return figure


def _short(text: str, most: int = 40) -> str:
    """A name that fits. A dollar sign would begin a formula."""
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")
