"""The checkpoint of a run: everything that is needed to go on, in one file that is replaced whole."""

import time
from pathlib import Path
from typing import Any

from recurra.cli.learning.predictions import Predictions
from recurra.cli.learning.session import Session
from recurra.cli.learning.table import Position
from recurra.cli.output import FULL
from recurra.cli.streams import complain
from recurra.saved.archive import SavedFileError, read, write
from recurra.studies.settings import SettingsError
from recurra.training.console import say

KIND = "learn"


class DiskFullError(Exception):
    """There is no room for a checkpoint, and the user wants the run to stop then."""


class Checkpoint:
    """A file that the state of a run is saved to, again and again."""

    def __init__(self, path: Path, every: float, stop_when_full: bool):
        self.path = path
        self._every, self._stop = every, stop_when_full
        self._saved = time.monotonic()
        self._rows = -1
        #: whether the last attempt failed
        self.failed = False

    def is_due(self, rows: int) -> bool:
        """Whether it is time to save the state after so many rows."""
        return rows != self._rows and time.monotonic() - self._saved >= self._every

    def save(self, session: Session, reading: dict[str, Any], predictions: Predictions | None) -> bool:
        """Replace the file by the present state; whether it worked. The first failure is said.

        `reading` says how far the input was read. The predictions are on the disk before the file that counts them.
        """
        arrays, document = session.state()
        self._saved = time.monotonic()
        try:
            length = 0 if predictions is None else predictions.settle()
            how = {"settings": session.wishes.shaping(), "reading": reading, "predictions": length}
            write(self.path, KIND, arrays, {**how, "session": document, "layout": session.encoder.layout.plain()})
        except OSError as error:
            self._complain(error)
            return False
        if self.failed:
            say(f"The checkpoint {self.path} could be written again.")
        self.failed, self._rows = False, session.rows
        return True

    def _complain(self, error: OSError) -> None:
        why = error.strerror or str(error)
        if self._stop and error.errno in FULL:
            raise DiskFullError(f"The checkpoint {self.path} could not be written: {why}. The one before it stays.")
        if not self.failed:
            complain(
                f"The checkpoint {self.path} could not be written: {why}. The one before it stays, if there is one, "
                "and it is tried again."
            )
        self.failed = True


class Saved:
    """What a checkpoint holds."""

    def __init__(self, path: Path):
        try:
            self.arrays, document = read(path, KIND)
            self.settings: dict[str, Any] = document["settings"]
            self.session: dict[str, Any] = document["session"]
            self.layout: dict[str, Any] = document["layout"]
            self.position = Position.of(document["reading"]["position"])
            self.how = str(document["reading"]["how"])
            self.predictions = int(document["predictions"])
        except SavedFileError as error:
            raise SettingsError(f"`checkpoint` is {path}, and {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise SettingsError(f"`checkpoint` is {path}, which is not complete: {error!r}.") from None
        self.path = path

    def check(self, asked: dict[str, Any]) -> None:
        """Raise a `SettingsError` that says what differs, if anything that shapes the result does."""
        shown = lambda value: (
            "not given" if value in (None, []) else ",".join(value) if isinstance(value, list) else value
        )
        lines = [
            f"--{name} is {shown(value)}, and was {shown(self.settings.get(name))}"
            for name, value in asked.items()
            if value != self.settings.get(name)
        ]
        if lines:
            raise SettingsError(
                f"The checkpoint {self.path} belongs to other settings: {'; '.join(lines)}. Use the settings it was "
                "made with, or start anew with another checkpoint."
            )
