"""How a run goes: a table on a terminal, a plain line now and then elsewhere, on standard error."""

import time
from contextlib import ExitStack
from typing import Any, cast

from recurra.cli.learning.session import Session
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
