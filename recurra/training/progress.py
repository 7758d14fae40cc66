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


class Pace:
    """How fast a run goes, how long it still takes, and whether it is time to report that.

    `every` is the number of seconds between two reports. An example is in docs/how-to/add-a-command.md.
    """

    def __init__(self, every: float | None = None):
        self._every, self._last = LOG_EVERY if every is None else every, time.perf_counter()
        self._first: tuple[int | float, float] | None = None

    def is_due(self) -> bool:
        """Whether it is time for a report. The next one is due `every` seconds after the last."""
        now = time.perf_counter()
        is_due = now - self._last >= self._every
        self._last = now if is_due else self._last
        return is_due

    def rate(self, done: int | float) -> float:
        """What was done in a second since the first call, which comes when the run starts or goes on."""
        now = time.perf_counter()
        before, started = self._first = self._first or (done, now)
        return (done - before) / max(now - started, 1e-9)

    def left(self, done: int | float, whole: int | float) -> str:
        """The time that is left, such as `0:01:30 left`; nothing as long as the rate is 0."""
        rate = self.rate(done)
        left = int((whole - done) / rate) if rate else None
        return "" if left is None else f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"


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
        pace = Pace()

        def report(done: int) -> None:
            rate = pace.rate(done)
            bar.update(task, completed=done, rate=f"{rate:,.0f} {unit}/s" if rate else "")

        yield report


def _log_lines(label: str, steps: int, unit: str) -> Report:
    pace = Pace()

    def report(done: int) -> None:
        rate = pace.rate(done)
        if rate and pace.is_due():
            say(f"{label}: {done:,} of {steps:,} {unit}, {rate:,.0f} {unit}/s, {pace.left(done, steps)}")

    return report
