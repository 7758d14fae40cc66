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
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from recurra import FolderError, NotKeptError, provenance
from recurra.saved import archive
from recurra.saved.archive import SavedFileError, UselessFileError
from recurra.saved.folders import OwnFolder
from recurra.saved.whole_files import try_place, write_whole
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
        self.own = OwnFolder(directory, MARK, "reproduction")
        self.own.claim()
        if not self.own.mark.exists():
            self.remember({})
        with self.own.writing():
            self._runs.mkdir(exist_ok=True)
            try_place(self._runs / "run")

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
        with self.own.writing():
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


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint that is of no use any more. If that fails, it does no harm."""
    if checkpoint.is_dir():
        shutil.rmtree(checkpoint, ignore_errors=True)
    else:
        with suppress(OSError):
            checkpoint.unlink()


def _text(experiment: Experiment) -> str:
    return json.dumps(experiment.settings(), sort_keys=True)
