"""A run of `recurra learn`: rows come in, predictions, checkpoints, a table and a page go out."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

from recurra.cli import stopping
from recurra.cli.learning import report
from recurra.cli.learning.columns import SAMPLE, BadRowError, plan_columns
from recurra.cli.learning.files import DiskFullError, HowFar, Predictions, SavedRun, claim_files, read_checkpoint
from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.report import LiveTable
from recurra.cli.learning.rows import Position, Record, TableRows, open_demo, open_rows
from recurra.cli.learning.session import DivergedError, Session
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
class Ending:
    """How a run ended: its exit status, and what is wrong, if something is."""

    status: int = 0
    error: str = ""
    #: whether the state is worth a checkpoint
    is_good: bool = True


class LearnRun:
    """A session with its input and its files."""

    def __init__(self, options: LearnOptions, rows: TableRows, session: Session, position: Position):
        self.options, self.rows, self.session = options, rows, session
        #: how far the input was dealt with
        self._position = position
        self._checkpoint = SavedRun(options.checkpoint, options) if options.checkpoint else None
        self._predictions: Predictions | None = None
        self._said: set[str] = set()

    def open_predictions(self, length: int) -> None:
        """Continue the file of predictions after so many bytes; 0 begins it anew."""
        if self.options.predictions is not None:
            self._predictions = Predictions(self.options.predictions, length)
            if not length:
                self._predictions.add([self.session.header()])

    def work(self, waiting: list[Record], table: LiveTable, asked: Asked) -> Ending:
        """Learn from rows that are waiting and those that follow, until the input ends, or something ends the run."""
        try:
            while not asked.signal:
                limit = min(BATCH, self.session.notes.room(self.session.rows))
                rows, waiting = waiting[:limit] or self.rows.take(limit), waiting[limit:]
                if not rows and self.rows.ended:
                    break
                self._take(rows)
                for note in self.session.remarks():
                    if note not in self._said:
                        say(note)
                    self._said.add(note)
                if self._checkpoint is not None and self._checkpoint.is_due(self.session.rows):
                    self.save()
                table.show(self.session, self.rows.part(), waiting=not rows)
                if not rows:
                    time.sleep(PAUSE)
        except BadRowError as error:
            return Ending(2, f"{self.rows.name}, {error}. Correct it, or leave bad rows out with --on-bad skip.")
        except InputError as error:
            return Ending(2, str(error))
        except DivergedError as error:
            self._write(error.lines)
            return Ending(1, str(error), is_good=False)
        except DiskFullError as error:
            return Ending(1, str(error), is_good=False)
        except OSError as error:
            return Ending(1, f"`predictions` is {self.options.predictions}, which could not be written: {error}.")
        return Ending(128 + asked.signal if asked.signal else 0)

    def _take(self, rows: list[Record]) -> None:
        while rows:
            lines, bad = self.session.take(rows)
            self._write(lines)
            done = len(lines)
            if bad is not None and self.options.on_bad == "skip":
                self.session.skip(rows[done], str(bad))
                done, bad = done + 1, None
            if done:
                self._position = self.rows.after(rows[done - 1])
            if bad is not None:
                raise bad
            rows = rows[done:]

    def _write(self, lines: list[list]) -> None:
        if self._predictions is not None:
            self._predictions.add(lines)

    def save(self) -> bool:
        """Keep the state in the checkpoint, if there is one; whether it worked."""
        reading = HowFar(self._position, self.rows.separator)
        return self._checkpoint is None or self._checkpoint.save(self.session, reading, self._predictions)

    def finish(self, ending: Ending) -> bool:
        """Save what there is, and close the file of predictions; whether all is on the disk."""
        try:
            kept = not ending.is_good or self.save()
            if self._predictions is not None:
                self._predictions.settle()
            return kept
        except (OSError, DiskFullError) as error:
            complain(str(error))
            return False
        finally:
            if self._predictions is not None:
                self._predictions.close()


def learn(options: LearnOptions) -> int:
    """Learn from a table as it was asked for; the exit status."""
    with ExitStack() as stack:
        claim_files(options, stack)
        path = options.checkpoint
        saved, arrays = read_checkpoint(path, options) if path is not None and path.exists() else (None, {})
        rows = open_demo(options.demo) if options.demo else open_rows(options.file, options.follow)
        stack.callback(rows.close)
        if saved is not None:
            rows.resume(saved.reading.position, saved.reading.how)
        stopping.hand_over()  # signals are noted from now on
        stopping.keep()
        with asked_to_stop() as asked:
            waiting: list[Record] = []
            if saved is None:
                waiting = _first_rows(rows, asked)
                if not waiting:
                    say("Interrupted before the first row.")
                    return 128 + (asked.signal or 0)
                sample = [row.cells for row in waiting if not row.problem]
                session = Session(options, plan_columns(rows.name, rows.columns, sample, options))
                run = LearnRun(options, rows, session, rows.after(None))
                run.save()  # before there are predictions: those of a killed run must not stop the same command
                run.open_predictions(0)
            else:
                try:
                    session = Session.restored(options, saved.layout, arrays, saved.session)
                except (KeyError, ValueError, TypeError, IndexError) as error:
                    raise SettingsError(
                        f"`checkpoint` is {path}, which another version of recurra wrote, or which is not whole "
                        f"({error!r}): start anew with another checkpoint."
                    ) from None
                run = LearnRun(options, rows, session, saved.reading.position)
                run.open_predictions(saved.predictions)
            before = session.last_row
            with LiveTable(rows.name, session) as table:
                ending = run.work(waiting, table, asked)
            kept = run.finish(ending)
            is_new = session.last_row != before or saved is None
            return _report(session, rows.name, ending, kept, is_new)


def _first_rows(rows: TableRows, asked: Asked) -> list[Record]:
    """The rows from which the columns are known, once there are any; none if the process is asked to stop before."""
    has_header = False
    while not asked.signal:
        has_header = has_header or rows.begin()
        if has_header and (found := rows.take(SAMPLE, patient=True)):
            return found
        if has_header and rows.ended:
            raise InputError(f"{rows.name} has a header, and no rows.")
        time.sleep(PAUSE)
    return []


def _report(session: Session, name: str, ending: Ending, kept: bool, is_new: bool) -> int:
    """Report on a run; its exit status."""
    options, page, status = session.options, None, ending.status or (0 if kept else 1)
    if options.out is not None:
        from recurra.cli.learning.page import write_run

        try:
            page = str(write_run(options.out, session, name))
        except OSError as error:
            complain(f"The page could not be written to {options.out}: {error.strerror or error}.")
            status = status or 1
    if not is_new:
        say(f"There is nothing new in {name} since row {session.last_row:,}.")
    if options.as_json:
        report.print_json(session, name, interrupted=ending.status > 2, error=ending.error or None, page=page)
    else:
        report.print_report(session, name)
    say_lost(repeat=True)
    if page:
        say(f"The page is {page}.")
    if ending.error:
        complain(ending.error)
    elif ending.status:
        again = " The same command goes on from there." if options.checkpoint and kept else ""
        say(f"Interrupted after {session.rows:,} rows.{again}")
    return status
