"""How far a run is: a bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, cast

from recurra.training.console import console, say

#: seconds between plain lines
LOG_EVERY = 10.0


#: takes the number of steps done so far
Report = Callable[[int], None]


@contextmanager
def progress(label: str, steps: int, show: bool | Report, unit: str = "steps") -> Iterator[Report]:
    """Reports go to standard error, or to `show`: a bar on a terminal if rich is there, else a line now and then."""
    if callable(show):
        yield show
    elif not show:
        yield lambda done: None
    elif console.isatty() and find_spec("rich"):
        with _bar(label, steps, unit) as report:
            yield report
    else:
        yield _log_lines(label, steps, unit)


@contextmanager
def _bar(label: str, steps: int, unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(file=cast(Any, console))) as bar:
        task = bar.add_task(label, total=steps, rate="compiling")
        pace = _Pace()

        def report(done: int) -> None:
            rate = pace(done)
            bar.update(task, completed=done, rate=f"{rate:,.0f} {unit}/s" if rate else "")

        yield report


class _Pace:
    """Steps a second since the first report, which comes when the run starts or goes on."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def __call__(self, done: int) -> float:
        now = time.perf_counter()
        self._first = self._first or (done, now)
        before, started = self._first
        return (done - before) / max(now - started, 1e-9)


def _log_lines(label: str, steps: int, unit: str) -> Report:
    last, pace = time.perf_counter(), _Pace()

    def report(done: int) -> None:
        nonlocal last
        now, rate = time.perf_counter(), pace(done)
        if now - last < LOG_EVERY or not rate:
            return
        last = now
        left = int((steps - done) / rate)
        clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        say(f"{label}: {done:,} of {steps:,} {unit}, {rate:,.0f} {unit}/s, {clock} left")

    return report
