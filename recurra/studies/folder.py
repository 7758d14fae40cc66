"""The folder of a study: what was asked for, and what is finished.

    DIR/study.toml           the file of the study; another one is refused
    DIR/groups/N-HASH.nc     networks that were computed together, N of them, as a netCDF file that anyone can read
    DIR/study.nc             all of them in one data set
    DIR/trials/              in their place, what a search keeps: see `tuning`
    DIR/index.html           the page

A group is a file of its own, written whole or not at all, by the one process that was started: workers send it what
they computed. So no two processes write the same file. A store that several write at once, such as zarr, would be of no
use here, and its many small files could not be replaced as one. HASH is the SHA-256 of the file's content, so that a
damaged file is found.
"""

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurra.saved.whole_files import InUseError, held, try_place, write_whole
from recurra.studies.places.base import Order, Outcome
from recurra.studies.study import Study

if TYPE_CHECKING:
    import xarray

FILE, GROUPS, TRIALS, DATA, MADE = "study.toml", "groups", "trials", "study.nc", "made.json"
#: digits of a content's hash in the name of a file
DIGITS = 16


class FolderError(Exception):
    """The folder cannot be used; the message says why and what to do."""


class NotKeptError(FolderError):
    """Something that was computed could not be kept."""


class Folder:
    """A folder that belongs to one study."""

    def __init__(self, path: Path):
        self.path, self._groups = path, path / GROUPS

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
    def held(self, study: Study) -> Iterator[None]:
        """Have the folder to oneself, for this study and no other."""
        self.claim(study)
        with self._writing():
            lock = held(self.path / FILE)
            try:
                lock.__enter__()
            except InUseError:
                raise FolderError(
                    f"{self.path} is in use by another `recurra sweep`: wait until it has ended, or choose another "
                    "folder."
                ) from None
        try:
            self.check(study)  # another process may have taken it over before it was held
            self._groups.mkdir(exist_ok=True)
            for left in self.path.rglob(".*.partial"):  # by a job that was killed
                with suppress(OSError):
                    left.unlink()
            yield
        finally:
            lock.__exit__(None, None, None)

    def claim(self, study: Study, search: bool = False) -> None:
        """Mark the folder as this study's, for a sweep or a search. A folder with other files in it is left alone."""
        with self._writing():
            self._claim(study, GROUPS if not search else TRIALS, TRIALS if not search else GROUPS)

    def is_search(self) -> bool:
        """Whether the folder belongs to `recurra tune`."""
        return (self.path / TRIALS).is_dir()

    def _claim(self, study: Study, inside: str, other: str) -> None:
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
        self.check(study)
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

    def check(self, study: Study) -> None:
        """Raise unless the folder belongs to this study."""
        check_same((self.path / FILE).read_bytes(), study.text, self.path / FILE)

    def keep(self, order: Order, outcome: Outcome) -> None:
        """Keep a finished order."""
        from recurra.studies.dataset import group_of, to_bytes

        content = to_bytes(group_of(order, outcome))
        name = f"{len(order.members)}-{hashlib.sha256(content).hexdigest()[:DIGITS]}.nc"
        with self.keeping("What was computed"):
            write_whole(self._groups / name, lambda file: file.write(content))

    def groups(self) -> "Iterator[xarray.Dataset]":
        """All groups that are kept, as `dataset.group_of` made them."""
        from recurra.studies.dataset import from_bytes

        for path in sorted(self._groups.glob("*.nc")):
            yield from_bytes(self._read(path))

    def _read(self, path: Path) -> bytes:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise FolderError(f"The kept group {path} cannot be read: {error.strerror or error}.") from None
        if path.stem.partition("-")[2] != hashlib.sha256(content).hexdigest()[:DIGITS]:
            raise FolderError(
                f"The kept group {path} is damaged: delete it and run the study again. Only its "
                f"{path.stem.partition('-')[0]} networks are repeated."
            )
        return content

    def done(self, settings: Sequence[dict[str, Any]]) -> set[tuple[int, int]]:
        """The networks that are finished, each a point's number and a seed. `settings` are those of each point."""
        found: set[tuple[int, int]] = set()
        for data in self.groups():
            points = data["point"].values.tolist()
            kept = zip(dict.fromkeys(points), json.loads(data.attrs["settings"]), strict=True)
            if any(point >= len(settings) or settings[point] != own for point, own in kept):
                raise FolderError(
                    f"{self._groups} has networks of other settings than the study says, as another version of recurra "
                    "may have made them: choose another folder for --out."
                )
            found |= set(zip(points, data["seed"].values.tolist(), strict=True))
        return found

    def remember(self, made: dict[str, Any]) -> None:
        """Facts about how the study was carried out."""
        with self.keeping(MADE):
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
        with self.keeping(DATA):
            write_whole(self.path / DATA, lambda file: file.write(content))
        return self.path / DATA

    @contextmanager
    def keeping(self, what: str) -> Iterator[None]:
        """Write `what` while it lasts: `NotKeptError` if that fails."""
        try:
            yield
        except OSError as error:
            raise NotKeptError(
                f"{what} could not be kept in {self.path}: {error.strerror or error}. What was kept before is whole. "
                "Mend that, and the same command goes on."
            ) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except InUseError:
            raise
        except OSError as error:
            raise FolderError(
                f"{self.path} cannot be written: {error.strerror or error}. Mend that, or choose another folder."
            ) from None


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
    raise FolderError(
        "\n".join(
            [
                f"{path.parent} belongs to another study: choose another folder for --out, or take the changes back.",
                *list(lines)[:40],
            ]
        )
    )
