"""The folder of a study: what was asked for, and what is finished.

DIR/study.toml           the file of the study; another one is refused, unless it has all that is there and more
DIR/groups/              networks that were computed together: see `recurra.training.folder`
DIR/study.nc             all of them in one data set
DIR/trials/              in their place, what a search keeps: see `tuning`
DIR/index.html           the page
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurra.saved.folders import FolderError, OwnFolder
from recurra.saved.whole_files import InUseError, held, try_place, write_whole
from recurra.studies.study import Study
from recurra.training.folder import GROUPS, Groups

if TYPE_CHECKING:
    import xarray

FILE, TRIALS, DATA, MADE = "study.toml", "trials", "study.nc", "made.json"
#: what makes folders that have this in them
KINDS = {GROUPS: "`recurra sweep`", TRIALS: "`recurra tune`"}
#: what a search may have more or less of when it goes on
EXTENDED = ("trials", "finalists", "confirm_seeds", "batch")


class Folder:
    """A folder that belongs to one study."""

    def __init__(self, path: Path):
        self.path, self.groups, self._file = path, Groups(path), path / FILE
        self.own = OwnFolder(path, FILE, "study")

    @staticmethod
    def existing(path: Path) -> "Folder":
        """A folder that has a study in it."""
        if not (path / FILE).is_file():
            raise FolderError(f"{path} holds no study: make one with `recurra sweep study.toml --out {path}`.")
        Groups(path).refuse_old()
        return Folder(path)

    def study(self) -> Study:
        """The study that the folder belongs to."""
        return Study.read(self.path / FILE)

    @contextmanager
    def held(self, study: Study, has_all: Callable[[Groups], bool]) -> Iterator[None]:
        """Have the folder to oneself, for this study and no other.

        `has_all` tells whether the study has all networks that are kept: one that has these, and others, takes the
        place of the one before.
        """
        self.claim(study, has_all=has_all)
        with self.groups.held(is_claimed=True):
            self.check(study, has_all)  # another process may have taken it over before it was held
            yield

    def claim(self, study: Study, search: bool = False, has_all: Callable[[Groups], bool] | None = None) -> None:
        """Mark the folder as this study's, for a sweep or a search. A folder with other files in it is left alone."""
        inside, other = (TRIALS, GROUPS) if search else (GROUPS, TRIALS)
        self.own.claim()
        with self.own.writing():
            if self._file.exists():
                self._forget_if_empty(study)
            if (self.path / other).is_dir():
                told = f"{self.path} belongs to {KINDS[other]}: choose another folder for {KINDS[inside]}."
                raise FolderError(told)
            if not self._file.exists():
                with suppress(FileExistsError):  # another process gives it one at the same time
                    self._write(study, new=True)
            self.check(study, has_all)
            (self.path / inside).mkdir(exist_ok=True)
            try_place(self.path / inside / "part")

    def is_search(self) -> bool:
        """Whether the folder belongs to `recurra tune`."""
        return (self.path / TRIALS).is_dir()

    def check(self, study: Study, has_all: Callable[[Groups], bool] | None = None) -> None:
        """Raise unless the folder belongs to this study, or to one that it extends and takes the place of."""
        if self.is_extended(study, has_all):
            self._write(study)

    def is_extended(self, study: Study, has_all: Callable[[Groups], bool] | None = None) -> bool:
        """Whether this study extends that of the folder, and is not the same. Raise if the folder's is another."""
        if not (differing := self._differing(study)):
            return False
        if self.is_search():
            extends = _without_trials(self._file.read_text("utf-8")) == _without_trials(study.text)
        else:
            extends = has_all is not None and has_all(self.groups)
        if not extends:
            told = f"{self.path} belongs to another study: choose another folder for --out, or take the changes back."
            raise FolderError("\n".join([told, *differing[:40]]))
        return True

    def _write(self, study: Study, new: bool = False) -> None:
        write_whole(self._file, lambda file: file.write(study.text.encode()), new=new)

    def _forget_if_empty(self, study: Study) -> None:
        """Let a folder in which nothing was computed belong to this study, unless another process has it."""
        inside = [self.path / GROUPS, self.path / TRIALS]
        if any(path.is_file() for folder in inside for path in folder.rglob("*")):
            return
        with suppress(InUseError), held(self.groups.path):
            self._write(study)
            for folder in inside:
                with suppress(OSError):
                    folder.rmdir()

    def _differing(self, study: Study) -> list[str]:
        """The lines in which the study differs from that of the folder; none if both say the same."""
        try:
            kept = self._file.read_text("utf-8")
            if tomllib.loads(kept) == tomllib.loads(study.text):  # comments and spaces are free
                return []
        except ValueError as error:
            raise FolderError(
                f"{self._file} is damaged: {error}. If it is the same study, copy its file there; else choose another "
                "folder for --out."
            ) from None
        names = str(self._file), "this study"
        return list(difflib.unified_diff(kept.splitlines(), study.text.splitlines(), *names, n=0, lineterm=""))

    def remember(self, made: dict[str, Any]) -> None:
        """Facts about how the study was carried out."""
        with self.own.keeping(MADE):
            write_whole(self.path / MADE, lambda file: file.write(json.dumps(made, indent=1).encode()))

    def recall(self) -> dict[str, Any]:
        """What was remembered last."""
        try:
            return json.loads((self.path / MADE).read_text())
        except (OSError, ValueError):  # it is a convenience
            return {}

    def save(self, data: "xarray.Dataset") -> Path:
        """Write the data set of the whole study."""
        from recurra.studies.dataset import to_bytes

        content = to_bytes(data)
        with self.own.keeping(DATA):
            write_whole(self.path / DATA, lambda file: file.write(content))
        return self.path / DATA


def _without_trials(text: str) -> dict[str, Any]:
    """A study's file without how long it is searched."""
    table = tomllib.loads(text)
    tune = {name: value for name, value in table.get("tune", {}).items() if name not in EXTENDED}
    return {**table, "tune": tune}
