"""A run of `recurra learn`: rows come in, predictions, checkpoints, a table and a page go out."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

from recurra.cli import stopping
from recurra.cli.learning import report
from recurra.cli.learning.columns import SAMPLE, BadRowError, Layout, choose_layout
from recurra.cli.learning.files import Checkpoint, DiskFullError, Predictions, Saved, claim_files
from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.report import Progress
from recurra.cli.learning.rows import Row, Rows, open_demo, open_rows
from recurra.cli.learning.session import DivergedError, Session, notes_of
from recurra.cli.learning.sources import InputError
from recurra.cli.streams import complain, say_lost
from recurra.studies.settings import SettingsError
from recurra.training.console import say
from recurra.training.interrupts import Asked, asked_to_stop

#: rows that are taken at once
BATCH = 1024
#: seconds between two looks at a file that is followed
PAUSE = 0.1


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit status, and what is wrong, if something is."""

    status: int = 0
    error: str = ""
    #: whether the state is worth a checkpoint
    is_good: bool = True


class Run:
    """A session with its input and its files."""

    def __init__(self, options: LearnOptions, rows: Rows, saved: Saved | None, asked: Asked):
        self.options, self.rows, self._asked = options, rows, asked
        self.session: Session
        self._waiting: list[Row] = []
        #: the last row that was dealt with, or where an earlier run left off
        self._last: Row | None = None
        self._position = saved.position if saved else None
        self._predictions: Predictions | None = None
        every, stop = options.checkpoint_every, options.stop_when_full
        self.checkpoint = Checkpoint(options.checkpoint, every, stop) if options.checkpoint else None
        self._said: set[str] = set()

    def resume(self, saved: Saved) -> None:
        """Take up an earlier run."""
        try:
            self.session = Session.restored(self.options, Layout.of(saved.layout), saved.arrays, saved.session)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise SettingsError(
                f"`checkpoint` is {saved.path}, which another version of recurra wrote, or which is not whole "
                f"({error!r}): start anew with another checkpoint."
            ) from None
        self._open_predictions(saved.predictions)

    def begin(self) -> bool:
        """Begin a new run once there are rows; whether there are any."""
        has_header = False
        while True:
            has_header = has_header or self.rows.begin()
            self._waiting = self.rows.take(SAMPLE, patient=True) if has_header else []
            if self._waiting:
                break
            if has_header and self.rows.ended:
                raise InputError(f"{self.rows.name} has a header, and no rows.")
            if self._asked.signal:
                return False
            time.sleep(PAUSE)
        sample = [row.cells for row in self._waiting if not row.problem]
        layout = choose_layout(self.rows.name, self.rows.columns, sample, self.options.columns, self.options.horizon)
        self.session = Session(self.options, layout)
        # Before the file of predictions is there: that of a killed run must not be in the way of the same command.
        self._save()
        self._open_predictions(0)
        return True

    def _open_predictions(self, length: int) -> None:
        if self.options.predictions is not None:
            self._predictions = Predictions(self.options.predictions, length)
            if not length:
                self._predictions.add([self.session.header()])

    def work(self, progress: Progress) -> Outcome:
        """Learn until the input ends, or something else ends the run."""
        try:
            while not self._asked.signal:
                if not self._step(progress):
                    break
        except BadRowError as error:
            return Outcome(2, f"{self.rows.name}, {error}. Correct it, or leave bad rows out with --on-bad skip.")
        except InputError as error:
            return Outcome(2, str(error))
        except DivergedError as error:
            self._write_predictions(error.lines)
            return Outcome(1, str(error), is_good=False)
        except DiskFullError as error:
            return Outcome(1, str(error), is_good=False)
        except OSError as error:
            return Outcome(1, f"`predictions` is {self.options.predictions}, which could not be written: {error}.")
        return Outcome(128 + self._asked.signal if self._asked.signal else 0)

    def _step(self, progress: Progress) -> bool:
        """Take the next rows; whether there may be more."""
        limit = min(BATCH, self.session.room())
        rows, self._waiting = self._waiting[:limit], self._waiting[limit:]
        rows = rows or self.rows.take(limit)
        if not rows and self.rows.ended:
            return False
        if rows:
            self._take(rows)
        else:
            time.sleep(PAUSE)
        for note in notes_of(self.session.model):
            if note not in self._said:
                say(note)
            self._said.add(note)
        if self.checkpoint is not None and self.checkpoint.is_due(self.session.rows):
            self._save()
        progress.show(self.session, self.rows.part(), waiting=not rows)
        return True

    def _take(self, rows: list[Row]) -> None:
        while rows:
            lines, bad = self.session.take(rows)
            self._write_predictions(lines)
            done = len(lines)
            self._last = rows[done - 1] if done else self._last
            if bad is None:
                return
            if not self.options.skip_bad:
                raise bad
            self.session.skip(rows[done], str(bad))
            self._last, rows = rows[done], rows[done + 1 :]

    def _write_predictions(self, lines: list[list]) -> None:
        if self._predictions is not None and lines:
            self._predictions.add(lines)

    def _save(self) -> bool:
        if self.checkpoint is None:
            return True
        position = self._position if self._last is None and self._position else self.rows.after(self._last)
        reading = {"position": position.plain(), "how": self.rows.separator}
        return self.checkpoint.save(self.session, reading, self._predictions)

    def finish(self, outcome: Outcome) -> bool:
        """Save what there is, and close the file of predictions; whether all is on the disk."""
        kept = True
        try:
            kept = self._save() if outcome.is_good else True
            if self._predictions is not None:
                self._predictions.settle()
        except (OSError, DiskFullError) as error:
            complain(str(error))
            kept = False
        finally:
            if self._predictions is not None:
                self._predictions.close()
        return kept


def learn(options: LearnOptions) -> int:
    """Learn from a table as it was asked for; the exit status."""
    with ExitStack() as stack:
        claim_files(options, stack)
        saved = Saved(options.checkpoint) if options.checkpoint is not None and options.checkpoint.exists() else None
        if saved is not None:
            saved.check(options.result_settings())
        rows = open_demo(options.demo) if options.demo else open_rows(options.file, options.follow)
        stack.callback(rows.close)
        if saved is not None:
            rows.resume(saved.position, saved.separator)
        stopping.hand_over()  # signals are noted from now on
        stopping.keep()
        with asked_to_stop() as asked:
            run = Run(options, rows, saved, asked)
            if saved is not None:
                run.resume(saved)
            elif not run.begin():
                say("Interrupted before the first row.")
                return 128 + (asked.signal or 0)
            before = run.session.rows + run.session.skipped
            with Progress(rows.name) as progress:
                progress.begin(run.session)
                outcome = run.work(progress)
            kept = run.finish(outcome)
            is_new = run.session.rows + run.session.skipped != before or saved is None
            return _report(run.session, rows.name, outcome, kept, is_new)


def _report(session: Session, name: str, outcome: Outcome, kept: bool, is_new: bool) -> int:
    """Report on a run; its exit status."""
    options = session.options
    page, drawn = None, True
    if options.out is not None:
        page = _write_page(session, name)
        drawn = page is not None
    if not is_new:
        say(f"There is nothing new in {name} since row {session.last_row:,}.")
    if options.as_json:
        more = {"interrupted": outcome.status > 2, "error": outcome.error or None, "page": page}
        report.print_json(session, name, **more)
    else:
        report.print_report(session, name)
    say_lost(repeat=True)
    if page:
        say(f"The page is {page}.")
    if outcome.error:
        complain(outcome.error)
    elif outcome.status:
        again = " The same command goes on from there." if options.checkpoint and kept else ""
        say(f"Interrupted after {session.rows:,} rows.{again}")
    return outcome.status or (0 if kept and drawn else 1)


def _write_page(session: Session, name: str) -> str | None:
    """Write the page; where it is, None if that failed."""
    from recurra.cli.learning.page import write_run

    assert session.options.out is not None
    try:
        return str(write_run(session.options.out, session, name))
    except OSError as error:
        complain(f"The page could not be written to {session.options.out}: {error.strerror or error}.")
        return None
