"""A run of `recurra learn`: rows come in, predictions, checkpoints, a table and a page go out."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

from recurra.cli import stopping
from recurra.cli.learning import kinds, models, sources
from recurra.cli.learning.columns import BadRowError
from recurra.cli.learning.feeds import InputError
from recurra.cli.learning.kept import Checkpoint, DiskFullError, Saved
from recurra.cli.learning.live import Progress
from recurra.cli.learning.places import take_places
from recurra.cli.learning.predictions import Predictions
from recurra.cli.learning.session import DivergedError, Session, of_part
from recurra.cli.learning.table import Row, Rows
from recurra.cli.learning.wishes import Wishes
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


class Run:
    """A session with its input and its files."""

    def __init__(self, wishes: Wishes, rows: Rows, saved: Saved | None, asked: Asked):
        self.wishes, self.rows, self._asked = wishes, rows, asked
        self.session: Session
        self._waiting: list[Row] = []
        #: the last row that was dealt with, or where an earlier run left off
        self._last: Row | None = None
        self._position = saved.position if saved else None
        self._predictions: Predictions | None = None
        every, stop = wishes.checkpoint_every, wishes.stop_when_full
        self.checkpoint = Checkpoint(wishes.checkpoint, every, stop) if wishes.checkpoint else None
        self._said: set[str] = set()

    def go_on(self, saved: Saved) -> None:
        """Take up an earlier run."""
        layout = kinds.Layout.of(saved.layout)
        arrays = of_part(saved.arrays, "model")
        self.session = Session(self.wishes, layout, models.restored(self.wishes.model, saved.session["model"], arrays))
        try:
            self.session.restore(saved.arrays, saved.session)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise SettingsError(
                f"`checkpoint` is {saved.path}, which another version of recurra wrote, or which is not whole "
                f"({error!r}): start anew with another checkpoint."
            ) from None
        self._open_predictions(saved.predictions)

    def begin(self) -> bool:
        """Begin a new run once there are rows; whether there are any."""
        while not self.rows.begin():
            if self._asked.signal:
                return False
            time.sleep(PAUSE)
        self._waiting = self.rows.take(kinds.SAMPLE, patient=True)
        while not self._waiting:
            if self.rows.ended:
                raise InputError(f"{self.rows.name} has a header, and no rows.")
            if self._asked.signal:
                return False
            time.sleep(PAUSE)
            self._waiting = self.rows.take(kinds.SAMPLE, patient=True)
        sample = [row.cells for row in self._waiting if not row.problem]
        columns = self.wishes.columns
        layout = kinds.layout(self.rows.name, self.rows.columns, sample, columns, self.wishes.horizon)
        model = models.build(self.wishes.model, layout.width, self.wishes.horizon)
        self.session = Session(self.wishes, layout, model)
        # Before the file of predictions is there: that of a killed run must not be in the way of the same command.
        self._save()
        self._open_predictions(0)
        return True

    def _open_predictions(self, length: int) -> None:
        if self.wishes.predictions is not None:
            self._predictions = Predictions(self.wishes.predictions, length)
            if not length:
                self._predictions.add([self.session.header()])

    def work(self, progress: Progress) -> Ending:
        """Learn until the input ends, or something else ends the run."""
        try:
            while not self._asked.signal:
                if not self._step(progress):
                    break
        except BadRowError as error:
            return Ending(2, f"{self.rows.name}, {error}. Correct it, or leave bad rows out with --on-bad skip.")
        except InputError as error:
            return Ending(2, str(error))
        except DivergedError as error:
            self._keep(error.lines)
            return Ending(1, str(error), is_good=False)
        except DiskFullError as error:
            return Ending(1, str(error), is_good=False)
        except OSError as error:
            return Ending(1, f"`predictions` is {self.wishes.predictions}, which could not be written: {error}.")
        return Ending(128 + self._asked.signal if self._asked.signal else 0)

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
        for note in models.notes(self.session.model):
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
            self._keep(lines)
            done = len(lines)
            self._last = rows[done - 1] if done else self._last
            if bad is None:
                return
            if not self.wishes.skip_bad:
                raise bad
            self.session.skip(rows[done], str(bad))
            self._last, rows = rows[done], rows[done + 1 :]

    def _keep(self, lines: list[list]) -> None:
        if self._predictions is not None and lines:
            self._predictions.add(lines)

    def _save(self) -> bool:
        if self.checkpoint is None:
            return True
        position = self._position if self._last is None and self._position else self.rows.after(self._last)
        reading = {"position": position.plain(), "how": self.rows.how}
        return self.checkpoint.save(self.session, reading, self._predictions)

    def finish(self, ending: Ending) -> bool:
        """Save what there is, and close the file of predictions; whether all is on the disk."""
        kept = True
        try:
            kept = self._save() if ending.is_good else True
            if self._predictions is not None:
                self._predictions.settle()
        except (OSError, DiskFullError) as error:
            from recurra.cli.streams import complain

            complain(str(error))
            kept = False
        finally:
            if self._predictions is not None:
                self._predictions.close()
        return kept


def learn(wishes: Wishes) -> int:
    """Learn from a table as it was asked for; the exit status."""
    from recurra.cli.learning.ending import tell

    with ExitStack() as stack:
        take_places(wishes, stack)
        saved = Saved(wishes.checkpoint) if wishes.checkpoint is not None and wishes.checkpoint.exists() else None
        if saved is not None:
            saved.check(wishes.shaping())
        rows = sources.open_demo(wishes.demo) if wishes.demo else sources.open_rows(wishes.file, wishes.follow)
        stack.callback(rows.close)
        if saved is not None:
            rows.go_on(saved.position, saved.how)
        stopping.hand_over()  # signals are noted from now on
        stopping.keep()
        with asked_to_stop() as asked:
            run = Run(wishes, rows, saved, asked)
            if saved is not None:
                run.go_on(saved)
            elif not run.begin():
                say("Interrupted before the first row.")
                return 128 + (asked.signal or 0)
            before = run.session.rows + run.session.skipped
            with Progress(rows.name) as progress:
                progress.begin(run.session)
                ending = run.work(progress)
            kept = run.finish(ending)
            is_new = run.session.rows + run.session.skipped != before or saved is None
            return tell(run.session, rows.name, ending, kept, is_new)
