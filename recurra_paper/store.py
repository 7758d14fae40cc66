"""Kept runs: one file an experiment, found again by its full configuration.

    DIR/recurra.json                marks the folder as ours
    DIR/runs/KEY.safetensors        arrays of a finished experiment, with its settings inside
    DIR/runs/KEY.part               a checkpoint of one that was running, a file or the folder of a sweep

A file is written whole or not at all, so that a kill at any point loses at most the experiments in progress back to
their last checkpoints.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from recurra import FolderError, NotKeptError, provenance
from recurra.saved import archive
from recurra.saved.archive import SavedFileError, UselessFileError
from recurra.saved.whole_files import InUseError, held, try_place, write_whole
from recurra_paper.experiments.base import Arrays, Experiment

MARK = "recurra.json"
FORMAT = 1
#: what the file of a finished experiment is called
KIND = "experiment"


class Store:
    """A folder of kept runs."""

    def __init__(self, directory: Path, create: bool = True):
        self.directory, self._runs = directory, directory / "runs"
        #: how each experiment read or kept so far was made: seconds, machine and versions
        self.made: dict[str, dict[str, Any]] = {}
        if not create and not (directory / MARK).is_file():
            raise FolderError(f"{directory} holds no kept runs: make some with `recurra reproduce --out {directory}`.")
        with self._writing():
            self._claim()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the folder to oneself."""
        with ExitStack() as stack:
            try:
                with self._writing():
                    stack.enter_context(held(self.directory / MARK))
            except InUseError:
                raise FolderError(
                    f"{self.directory} is in use by another `recurra reproduce` or `recurra report`: wait until it has "
                    "ended, or choose another folder."
                ) from None
            for left in self.directory.rglob(".*.partial"):  # by a job that was killed
                with suppress(OSError):
                    left.unlink()
            yield

    def get(self, experiment: Experiment) -> Arrays | None:
        """The arrays of a finished experiment, or None."""
        path = self._path(experiment)
        if not path.exists():
            return None
        try:
            arrays, about = archive.read(path, KIND)
        except UselessFileError as error:
            raise FolderError(
                f"The kept run of {experiment.name} cannot be used. {error} Delete that file and run again; only this "
                "experiment is repeated."
            ) from None
        except SavedFileError as error:  # which may pass
            raise FolderError(f"The kept run of {experiment.name} cannot be used. {error} Try again.") from None
        if about.get("settings") != _text(experiment):
            raise FolderError(f"The kept run {path} holds other settings than its name says: delete it and run again.")
        self.made[experiment.name] = about.get("made", {})
        return arrays | {name: np.array(words, str) for name, words in about.get("text", {}).items()}

    def put(self, experiment: Experiment, arrays: Arrays, seconds: float) -> None:
        """Keep a finished experiment, with the time it took and on what."""
        made = self.made[experiment.name] = {
            "seconds": seconds,
            "machine": provenance.machine(),
            "versions": provenance.versions(),
        }
        text = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind == "U"}
        numbers = {name: array for name, array in arrays.items() if name not in text}
        about = {"settings": _text(experiment), "made": made, "text": text}
        try:
            archive.write(self._path(experiment), KIND, numbers, about)
        except OSError as error:
            raise NotKeptError(f"{error.strerror or error}, in {self._runs}") from None
        remove(self.checkpoint(experiment))

    def checkpoint(self, experiment: Experiment) -> Path:
        """A file for the experiment to go on from, or a folder if it is a sweep."""
        return self._path(experiment).with_suffix(".part")

    def remember(self, about: dict[str, Any]) -> None:
        """Facts about the folder, for `recall`; they also mark it as ours."""
        text = json.dumps({"format": FORMAT, **about})
        with self._writing():
            write_whole(self.directory / MARK, lambda file: file.write(text.encode()))

    def recall(self) -> dict[str, Any]:
        """What was remembered last."""
        try:
            return json.loads((self.directory / MARK).read_text())
        except (OSError, ValueError):
            raise FolderError(
                f"{self.directory / MARK} cannot be read: run `recurra reproduce --out {self.directory}` again, which "
                "writes it anew and repeats no finished run."
            ) from None

    def _path(self, experiment: Experiment) -> Path:
        digest = hashlib.sha256(_text(experiment).encode()).hexdigest()[:16]
        return self._runs / f"{experiment.name.replace('/', '_')}-{digest}.safetensors"

    def _claim(self) -> None:
        """Mark the folder as ours. A folder with other files in it is left alone."""
        mark = self.directory / MARK
        if not mark.exists():
            if self.directory.exists() and not self.directory.is_dir():
                raise FolderError(f"{self.directory} is a file: choose a folder for --out.")
            # What begins with the mark's name is what a job has left that was killed, or is about to mark the folder.
            if self.directory.is_dir() and any(
                not path.name.startswith(f".{MARK}.") for path in self.directory.iterdir()
            ):
                raise FolderError(
                    f"{self.directory} has files in it that `recurra reproduce` did not make: choose an empty or new "
                    "folder for --out."
                )
            self.directory.mkdir(parents=True, exist_ok=True)
            self.remember({})
        self._runs.mkdir(exist_ok=True)
        try_place(self._runs / "run")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except InUseError:
            raise
        except OSError as error:
            raise FolderError(
                f"{self.directory} cannot be written: {error.strerror or error}. Make it writable, or choose another "
                "folder."
            ) from None


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint that is of no use any more. If that fails, it does no harm."""
    if checkpoint.is_dir():
        shutil.rmtree(checkpoint, ignore_errors=True)
    else:
        with suppress(OSError):
            checkpoint.unlink()


def _text(experiment: Experiment) -> str:
    return json.dumps(experiment.settings(), sort_keys=True)
