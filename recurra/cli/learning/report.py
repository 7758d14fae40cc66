"""What a run reports: its progress on standard error, and in the end a table, or JSON for programs."""

import json
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

from recurra import __version__
from recurra.cli.learning.session import Session, shares_of
from recurra.cli.tables import print_table
from recurra.training.console import console, say

#: seconds between plain lines, and between changes of the table
LOG_EVERY, SHOW_EVERY = 10.0, 0.25


class Progress:
    """Shows the errors so far, as a context."""

    def __init__(self, name: str):
        self._name = name
        self._is_live = console.isatty()
        self._live: Any = None
        self._last = time.monotonic()
        #: rows and time at the first look, which comes after the first rows were compiled; rows at the last line
        self._first: tuple[int, float] | None = None
        self._logged = -1
        self._open = ExitStack()

    def __enter__(self) -> "Progress":
        if self._is_live:
            from rich.console import Console
            from rich.live import Live

            where = Console(file=cast(Any, console))
            self._live = self._open.enter_context(Live(console=where, auto_refresh=False, transient=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self, session: Session) -> None:
        """Say that the first rows take longer."""
        if self._live is not None:
            self._live.update(_table(f"{self._name}: compiling", session), refresh=True)

    def show(self, session: Session, part: float | None, waiting: bool = False) -> None:
        """Show the state of the run, if it is time to. `part` is how much of the input was read."""
        now = time.monotonic()
        before, started = self._first = self._first or (session.rows, now)
        if now - self._last < (SHOW_EVERY if self._is_live else LOG_EVERY):
            return
        self._last = now
        pace = (session.rows - before) / max(now - started, 1e-9)
        doing = ", waiting for more" if waiting else f", {pace:,.0f} rows/s" if pace else ""
        read = "" if part is None or waiting else f" ({min(part, 1):.0%})"
        title = f"{self._name}: {session.rows:,} rows{read}{doing}"
        if self._live is not None:
            self._live.update(_table(title, session), refresh=True)
        elif session.rows != self._logged:
            say(f"{title}; RMSE {_in_words(session)}")
        self._logged = session.rows


def number(value: float | None, digits: int = 4) -> str:
    """A number in a table."""
    return "–" if value is None or value != value else f"{value:.{digits}g}"


def _in_words(session: Session) -> str:
    errors = zip(session.names(), session.scores.total(), session.scores.recent(), strict=True)
    return ", ".join(f"{name} {number(total.rmse)} (recent {number(recent.rmse)})" for name, total, recent in errors)


def _table(title: str, session: Session) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("Forecast", "RMSE", "Recent RMSE", "Recent MAE"):
        table.add_column(name, justify="left" if name == "Forecast" else "right")
    for name, total, recent in zip(session.names(), session.scores.total(), session.scores.recent(), strict=True):
        table.add_row(Text(name), number(total.rmse), number(recent.rmse), number(recent.mae))
    return table


@dataclass(frozen=True)
class Line:
    """The errors of one forecast."""

    name: str
    rmse: float | None
    mae: float | None
    recent_rmse: float | None
    recent_mae: float | None
    #: its RMSE as a part of the last value's
    ratio: float | None


def lines(session: Session) -> list[Line]:
    """The errors of all forecasts, the model's first."""
    totals, recents = session.scores.total(), session.scores.recent()
    against = totals[1].rmse
    found = []
    for name, total, recent in zip(session.names(), totals, recents, strict=True):
        ratio = total.rmse / against if against > 0 else math.nan
        found.append(Line(name, *map(_known, (*total, *recent, ratio))))
    return found


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def verdict(session: Session) -> str:
    """In a sentence, whose error is smallest."""
    own, *others = lines(session)
    if own.rmse is None:
        return "No row was scored: there was no forecast of a known value yet."
    # Forecasts that are the same, as the seasonal one without a period, are told by the simplest.
    best = min(others, key=lambda line: math.inf if line.rmse is None else line.rmse)
    name = "race" if session.options.model.is_race else f"model ({own.name})"
    assert best.rmse is not None
    if own.rmse < best.rmse:
        part = number(own.rmse / best.rmse, 3)
        return f"The {name} has the smallest error: {part} of that of the {_in_a_sentence(best.name)}."
    if own.rmse == best.rmse:
        return f"The {name} and the {_in_a_sentence(best.name)} have the same error."
    mark = "," if "," in best.name else ""
    recent = ""
    if own.recent_rmse is not None and best.recent_rmse is not None and own.recent_rmse < best.recent_rmse:
        recent = f" Over the recent rows that of the {name} is smaller."
    part = number(best.rmse / own.rmse, 3)
    return f"The {_in_a_sentence(best.name)}{mark} has the smaller error: {part} of that of the {name}.{recent}"


def _in_a_sentence(name: str) -> str:
    """A baseline in a sentence: `seasonal naive forecast, period 48`."""
    first, _, rest = name.partition(", ")
    return f"{first} forecast, {rest}" if rest else f"{first} forecast"


def remarks(session: Session, name: str) -> list[str]:
    """What was read, left out and filled in."""
    encoder = session.encoder
    found = [f"{_count(session.rows, 'row')} of {name}, {session.scores.scored:,} of them scored."]
    if encoder.missing_targets:
        found.append(f"Missing values of the target: {encoder.missing_targets:,}. These rows have no label.")
    if count := encoder.missing_inputs - encoder.missing_targets:
        found.append(f"Missing values of other inputs: {count:,}. The latest known value took their place.")
    if session.skipped:
        more = session.skipped - len(session.bad_rows)
        tail = f"; and {more:,} more" if more > 0 else ""
        found.append(f"Bad rows that were left out: {session.skipped:,}. {'; '.join(session.bad_rows)}{tail}.")
    if (interval := session.interval) is not None and interval.rows:
        share = interval.inside / interval.rows
        found.append(
            f"The truth was within the interval of {interval.level:g} in {share:.1%} of {interval.rows:,} rows."
        )
    ahead = session.forecast()
    if ahead is not None:
        rows = "the next row" if session.horizon == 1 else f"the row {session.horizon:,} rows after the last"
        found.append(f"The forecast of {rows} is {number(ahead, 6)}.")
    return found


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def print_report(session: Session, name: str) -> None:
    """The table and the remarks, on standard output."""
    header = ("Forecast", "RMSE", "MAE", "Recent RMSE", "Recent MAE", "RMSE / last value's")
    rows = []
    for line in lines(session):
        errors = (line.rmse, line.mae, line.recent_rmse, line.recent_mae)
        rows.append((line.name, *(number(error) for error in errors), number(line.ratio, 3)))
    print_table(header, rows)
    print(f"\n{verdict(session)}")
    for remark in remarks(session, name):
        print(remark)


def for_programs(session: Session, name: str) -> dict[str, Any]:
    """Everything, ready for JSON."""
    encoder, interval = session.encoder, session.interval
    return {
        "version": __version__,
        "input": name,
        "settings": session.options.result_settings(),
        "inputs": encoder.names,
        "rows": session.rows,
        "scored": session.scores.scored,
        "missing": {"inputs": encoder.missing_inputs, "target": encoder.missing_targets},
        "skipped": session.skipped,
        "bad_rows": session.bad_rows,
        "forecasts": [vars(line) for line in lines(session)],
        "verdict": verdict(session),
        "shares": {member: _known(share) for member, share in shares_of(session.model).items()},
        "interval": None
        if interval is None
        else {"level": interval.level, "rows": interval.rows, "inside": interval.inside},
        "forecast": session.forecast(),
    }


def print_json(session: Session, name: str, **more: Any) -> None:
    """Everything as JSON, on standard output."""
    print(json.dumps({**for_programs(session, name), **more}, indent=2, allow_nan=False))
