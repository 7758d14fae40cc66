"""What a run found out, for a person and for programs."""

import json
import math
from dataclasses import dataclass
from typing import Any

from recurra import __version__
from recurra.cli.comparison import print_table
from recurra.cli.learning import models
from recurra.cli.learning.live import number
from recurra.cli.learning.session import Session


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
    name = "race" if session.wishes.model.is_race else f"model ({own.name})"
    assert best.rmse is not None
    if own.rmse < best.rmse:
        part = number(own.rmse / best.rmse, 3)
        return f"The {name} has the smallest error: {part} of that of the {_told(best.name)}."
    if own.rmse == best.rmse:
        return f"The {name} and the {_told(best.name)} have the same error."
    mark = "," if "," in best.name else ""
    recent = ""
    if own.recent_rmse is not None and best.recent_rmse is not None and own.recent_rmse < best.recent_rmse:
        recent = f" Over the recent rows that of the {name} is smaller."
    part = number(best.rmse / own.rmse, 3)
    return f"The {_told(best.name)}{mark} has the smaller error: {part} of that of the {name}.{recent}"


def _told(name: str) -> str:
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
        "settings": session.wishes.shaping(),
        "inputs": encoder.names,
        "rows": session.rows,
        "scored": session.scores.scored,
        "missing": {"inputs": encoder.missing_inputs, "target": encoder.missing_targets},
        "skipped": session.skipped,
        "bad_rows": session.bad_rows,
        "forecasts": [vars(line) for line in lines(session)],
        "verdict": verdict(session),
        "shares": {member: _known(share) for member, share in models.shares(session.model).items()},
        "interval": None
        if interval is None
        else {"level": interval.level, "rows": interval.rows, "inside": interval.inside},
        "forecast": session.forecast(),
    }


def print_json(session: Session, name: str, **more: Any) -> None:
    """Everything as JSON, on standard output."""
    print(json.dumps({**for_programs(session, name), **more}, indent=2, allow_nan=False))
