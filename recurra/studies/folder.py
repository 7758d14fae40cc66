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

from recurra.saved.whole_files import InUseError, held, try_place, write_whole
from recurra.studies.study import Study
from recurra.training.folder import GROUPS, FolderError, Groups

if TYPE_CHECKING:
    import xarray

FILE, TRIALS, DATA, MADE = "study.toml", "trials", "study.nc", "made.json"
#: what a search may have more or less of when it goes on
EXTENDED = ("trials", "finalists", "confirm_seeds", "batch")


class Folder:
    """A folder that belongs to one study."""

    def __init__(self, path: Path):
        self.path, self.groups = path, Groups(path)

    @staticmethod
    def existing(path: Path) -> "Folder":
        """A folder that has a study in it."""
        if not (path / FILE).is_file():
            raise FolderError(f"{path} holds no study: make one with `recurra sweep study.toml --out {path}`.")
        return Folder(path)

    def study(self) -> Study:
        """The study that the folder belongs to."""
        return Study.read(self.path / FILE)

    @contextmanager
    def held(self, study: Study, known_as: Callable[[], set[tuple[str, int]]]) -> Iterator[None]:
        """Have the folder to oneself, for this study and no other.

        `known_as` returns what the networks of the study are known by: a study that has all that are kept, and others,
        takes the place of the one before.
        """
        self.claim(study, known_as=known_as)
        with self.groups.held(FILE):
            self.check(study, known_as)  # another process may have taken it over before it was held
            yield

    def claim(
        self, study: Study, search: bool = False, known_as: Callable[[], set[tuple[str, int]]] | None = None
    ) -> None:
        """Mark the folder as this study's, for a sweep or a search. A folder with other files in it is left alone."""
        with self.groups.writing():
            self._claim(study, known_as, *((GROUPS, TRIALS) if not search else (TRIALS, GROUPS)))

    def is_search(self) -> bool:
        """Whether the folder belongs to `recurra tune`."""
        return (self.path / TRIALS).is_dir()

    def _claim(
        self, study: Study, known_as: Callable[[], set[tuple[str, int]]] | None, inside: str, other: str
    ) -> None:
        own = self.path / FILE
        if self.path.exists() and not self.path.is_dir():
            raise FolderError(f"{self.path} is a file: choose a folder for --out.")
        if own.exists():
            self._forget_if_empty(study)
        if (self.path / other).is_dir():
            kinds = {GROUPS: "`recurra sweep`", TRIALS: "`recurra tune`"}
            raise FolderError(f"{self.path} belongs to {kinds[other]}: choose another folder for {kinds[inside]}.")
        if not own.exists():
            self._begin(study)
        self.check(study, known_as)
        (self.path / inside).mkdir(exist_ok=True)
        try_place(self.path / inside / "part")

    def _begin(self, study: Study) -> None:
        """Give the folder its study, unless another process does so at the same time."""
        self.path.mkdir(parents=True, exist_ok=True)
        own = self.path / FILE
        foreign = [each for each in self.path.iterdir() if not each.name.startswith(f".{FILE}.")]
        if foreign and not own.exists():
            raise FolderError(
                f"{self.path} has files in it that belong to no study: choose an empty or new folder for --out."
            )
        with suppress(FileExistsError):
            write_whole(own, lambda file: file.write(study.text.encode()), new=True)

    def _forget_if_empty(self, study: Study) -> None:
        """Let a folder in which nothing was computed belong to this study, unless another process has it."""
        inside = [self.path / GROUPS, self.path / TRIALS]
        if any(path.is_file() for folder in inside for path in folder.rglob("*")):
            return
        with suppress(InUseError), held(self.path / FILE):
            write_whole(self.path / FILE, lambda file: file.write(study.text.encode()))
            for folder in inside:
                with suppress(OSError):
                    folder.rmdir()

    def check(self, study: Study, known_as: Callable[[], set[tuple[str, int]]] | None = None) -> None:
        """Raise unless the folder belongs to this study, or to one that it extends and takes the place of."""
        own = self.path / FILE
        try:
            check_same(own.read_bytes(), study.text, own)
        except OtherStudyError:
            if not self._is_extended(study, known_as):
                raise
            write_whole(own, lambda file: file.write(study.text.encode()))

    def _is_extended(self, study: Study, known_as: Callable[[], set[tuple[str, int]]] | None) -> bool:
        if self.is_search():
            return _without_trials((self.path / FILE).read_text()) == _without_trials(study.text)
        if known_as is None:
            return False
        known = known_as()
        return all(each in known for group in self.groups for each in group.known_as)

    def remember(self, made: dict[str, Any]) -> None:
        """Facts about how the study was carried out."""
        with self.groups.keeping(MADE):
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
        with self.groups.keeping(DATA):
            write_whole(self.path / DATA, lambda file: file.write(content))
        return self.path / DATA


class OtherStudyError(FolderError):
    """The folder belongs to another study."""


def _without_trials(text: str) -> dict[str, Any]:
    """A study's file without how long it is searched."""
    table = tomllib.loads(text)
    tune = {name: value for name, value in table.get("tune", {}).items() if name not in EXTENDED}
    return {**table, "tune": tune}


def check_same(before: bytes, now: str, path: Path) -> None:
    """Raise unless two files say the same study, and show the lines in which they differ."""
    try:
        kept = before.decode()
        if tomllib.loads(kept) == tomllib.loads(now):  # comments and spaces are free
            return
    except ValueError as error:
        raise FolderError(
            f"{path} is damaged: {error}. If it is the same study, copy its file there; else choose another folder for "
            "--out."
        ) from None
    lines = difflib.unified_diff(kept.splitlines(), now.splitlines(), f"{path}", "this study", n=0, lineterm="")
    raise OtherStudyError(
        "\n".join(
            [
                f"{path.parent} belongs to another study: choose another folder for --out, or take the changes back.",
                *list(lines)[:40],
            ]
        )
    )
