"""What a run reports: its progress on standard error, and in the end a table, or JSON for programs."""

import json
import math
from typing import Any, NamedTuple, cast

import numpy as np

from recurra import __version__
from recurra.cli.learning.session import Session
from recurra.cli.tables import counted, print_table, table_of
from recurra.studies.pages.words import number
from recurra.training.console import console, say
from recurra.training.progress import Pace

#: seconds between changes of the table
SHOW_EVERY = 0.25
HEADER = ("Forecast", "RMSE", "MAE", "Recent RMSE", "Recent MAE", "RMSE / last value's")


class LiveTable:
    """Shows the errors so far, as a context: a table on a terminal, a plain line now and then elsewhere."""

    def __init__(self, name: str, session: Session):
        self._name = name
        self._live: Any = None
        if console.isatty():
            from rich.console import Console
            from rich.live import Live

            where = Console(file=cast(Any, console), markup=False, highlight=False)
            table = _titled(f"{name}: compiling", session)
            self._live = Live(table, console=where, auto_refresh=False, transient=True)
        self._pace = Pace(SHOW_EVERY if self._live else None)
        self._logged = -1

    def __enter__(self) -> "LiveTable":
        if self._live is not None:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, session: Session, part: float | None, waiting: bool = False) -> None:
        """Show the state of the run, if it is time to. `part` is how much of the input was read."""
        rate = self._pace.rate(session.rows)
        if not self._pace.is_due():
            return
        doing = ", waiting for more" if waiting else f", {rate:,.0f} rows/s" if rate else ""
        read = "" if part is None or waiting else f" ({min(part, 1):.0%})"
        title = f"{self._name}: {session.rows:,} rows{read}{doing}"
        if self._live is not None:
            self._live.update(_titled(title, session), refresh=True)
        elif session.rows != self._logged:
            say(f"{title}; RMSE {_in_words(session)}")
        self._logged = session.rows


def _titled(title: str, session: Session) -> Any:
    return table_of(HEADER, _cells(session), title=title, title_justify="left")


def _in_words(session: Session) -> str:
    errors = ((line.name, number(line.rmse), number(line.recent_rmse)) for line in lines(session))
    return ", ".join(f"{name} {total} (recent {recent})" for name, total, recent in errors)


class ErrorLine(NamedTuple):
    """The errors of one forecast."""

    name: str
    rmse: float | None
    mae: float | None
    recent_rmse: float | None
    recent_mae: float | None
    #: its RMSE as a part of the last value's
    ratio: float | None


def lines(session: Session) -> list[ErrorLine]:
    """The errors of all forecasts, the model's first."""
    errors = session.scores.errors()
    against = errors[1, 0]
    ratios = errors[:, :1] / against if against > 0 else np.full((len(errors), 1), math.nan)
    values = np.concatenate([errors, ratios], axis=1).tolist()
    return [ErrorLine(name, *map(_known, each)) for name, each in zip(session.names(), values, strict=True)]


def _cells(session: Session) -> list[tuple[str, ...]]:
    return [(line.name, *map(number, line[1:-1]), number(line.ratio, 3)) for line in lines(session)]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def verdict(session: Session) -> str:
    """In a sentence, whose error is smallest."""
    own, *others = lines(session)
    if own.rmse is None:
        return "No row was scored: there was no forecast of a known value yet."
    # Forecasts that are the same, as the seasonal one without a period, are told by the simplest.
    best = min(others, key=lambda line: math.inf if line.rmse is None else line.rmse)
    name = f"model ({own.name})" if session.options.single() else "race"
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
    found = [f"{counted(session.rows, 'row')} of {name}, {session.scores.scored:,} of them scored."]
    if encoder.missing_targets:
        found.append(f"Missing values of the target: {encoder.missing_targets:,}. These rows have no label.")
    if count := encoder.missing_inputs - encoder.missing_targets:
        found.append(f"Missing values of other inputs: {count:,}. The latest known value took their place.")
    if session.skipped:
        more = session.skipped - len(session.bad_rows)
        tail = f"; and {more:,} more" if more > 0 else ""
        found.append(f"Bad rows that were left out: {session.skipped:,}. {'; '.join(session.bad_rows)}{tail}.")
    if (held := session.range) is not None and held.rows:
        share = f"{held.inside / held.rows:.1%} of {held.rows:,} rows"
        found.append(f"The range held the truth in {share}; --coverage asks for {session.options.coverage:g}.")
    ahead = session.forecast()
    if ahead is not None:
        rows = "the next row" if session.horizon == 1 else f"the row {session.horizon:,} rows after the last"
        found.append(f"The forecast of {rows} is {number(ahead, 6)}.")
    return found


def print_report(session: Session, name: str) -> None:
    """The table and the remarks, on standard output."""
    print_table(HEADER, _cells(session))
    print(f"\n{verdict(session)}")
    for remark in remarks(session, name):
        print(remark)


def for_programs(session: Session, name: str) -> dict[str, Any]:
    """Everything, ready for JSON."""
    encoder, held = session.encoder, session.range
    return {
        "version": __version__,
        "input": name,
        "settings": session.options.decisive(),
        "inputs": encoder.plan.names,
        "rows": session.rows,
        "scored": session.scores.scored,
        "missing": {"inputs": encoder.missing_inputs, "target": encoder.missing_targets},
        "skipped": session.skipped,
        "bad_rows": session.bad_rows,
        "forecasts": [line._asdict() for line in lines(session)],
        "verdict": verdict(session),
        "shares": {member: _known(share) for member, share in session.shares().items()},
        "range": None if held is None else {"rows": held.rows, "inside": held.inside},
        "forecast": session.forecast(),
    }


def print_json(session: Session, name: str, **more: Any) -> None:
    """Everything as JSON, on standard output."""
    print(json.dumps({**for_programs(session, name), **more}, indent=2, allow_nan=False))
