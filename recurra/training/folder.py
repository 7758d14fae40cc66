"""The networks of a sweep that are finished, each group of them in a file of its own.

    DIR/groups/N-NAME.safetensors     networks that were computed together, N of them

A group is written whole or not at all, by the one process that was started: workers send it what they computed. So no
two processes write the same file. Every network is known by the digest of its case and by its seed, so a sweep that is
extended, by one more rate or more seeds, finds again what was there.
"""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recurra.saved import archive
from recurra.saved.archive import SavedFileError
from recurra.saved.whole_files import InUseError, held, try_place
from recurra.training.console import say
from recurra.training.places.base import Computed, Order

GROUPS = "groups"
#: what a file of this kind is called
KIND = "group of a sweep"
#: the file that is locked while a sweep uses a folder
LOCK = "sweep"
#: what is in front of the names of arrays in a file
VALUE, AXIS = "value/", "axis/"


class FolderError(Exception):
    """The folder of a sweep cannot be used; the message says why and what to do."""


class NotKeptError(FolderError):
    """Something that was computed could not be kept."""


@dataclass(frozen=True)
class Group:
    """Networks that were computed together: what each is known by, and what they came to."""

    known_as: list[tuple[str, int]]
    outcome: Computed


class Groups:
    """The groups in a folder."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / GROUPS

    @contextmanager
    def held(self, lock: str = LOCK) -> Iterator[None]:
        """Have the folder to oneself, among all sweeps of this machine. It is made if it is not there."""
        with ExitStack() as stack:
            with self.writing():
                if self.folder.exists() and not self.folder.is_dir():
                    raise FolderError(f"{self.folder} is a file: choose a folder.")
                self.folder.mkdir(parents=True, exist_ok=True)
                try:
                    stack.enter_context(held(self.folder / lock))
                except InUseError:
                    raise FolderError(
                        f"{self.folder} is in use by another sweep: wait until it has ended, or choose another folder."
                    ) from None
                self.path.mkdir(exist_ok=True)
                try_place(self.path / "part")
            for left in self.folder.rglob(".*.partial"):  # by a job that was killed
                with suppress(OSError):
                    left.unlink()
            yield

    def keep(self, order: Order, outcome: Computed, digests: Sequence[str]) -> None:
        """Keep a finished order; `digests` are what the case of each point is known by."""
        arrays = {VALUE + name: array for name, array in outcome.values.items()}
        arrays |= {AXIS + name: array for name, array in outcome.axes.items()}
        arrays["case"] = np.array([member.row for member in order.members])
        arrays["seed"] = np.array([member.seed for member in order.members])
        document = {
            "cases": [digests[point] for point in order.points],
            "dims": outcome.dims,
            "seconds": outcome.seconds,
            "compile_seconds": outcome.compile_seconds,
            "worker": outcome.worker,
            "device": outcome.device,
            "versions": order.versions,
        }
        path = self.path / f"{len(order.members)}-{secrets.token_hex(8)}.safetensors"
        with self.keeping("What was computed"):
            archive.write(path, KIND, arrays, document)

    def __iter__(self) -> Iterator[Group]:
        """All groups that are kept."""
        for path in sorted(self.path.glob("*.nc")):
            raise FolderError(
                f"{path} was made by recurra 0.1, whose groups are not read any more: choose another folder, or delete "
                f"{self.path} to compute the networks again."
            )
        for path in sorted(self.path.glob("*.safetensors")):
            yield self._read(path)

    def _read(self, path: Path) -> Group:
        count = re.match(r"\d+", path.name)
        try:
            arrays, about = archive.read(path, KIND)
            cases, dims = about["cases"], {name: tuple(each) for name, each in about["dims"].items()}
            known = [(cases[row], seed) for row, seed in zip(arrays["case"], arrays["seed"].tolist(), strict=True)]
        except (SavedFileError, KeyError, IndexError, ValueError) as error:
            raise FolderError(
                f"The kept group {path} cannot be used: {str(error).rstrip('.')}. If it stays so, delete it and run "
                f"the sweep again. Only its {count[0] if count else ''} networks are repeated."
            ) from None
        part = lambda prefix: {name[len(prefix) :]: each for name, each in arrays.items() if name.startswith(prefix)}
        told = (about.get(name) for name in ("seconds", "compile_seconds", "worker", "device"))
        return Group(known, Computed(part(VALUE), part(AXIS), dims, *told))  # pyright: ignore[reportArgumentType]

    @contextmanager
    def keeping(self, what: str) -> Iterator[None]:
        """Write `what` while it lasts: `NotKeptError` if that fails."""
        try:
            yield
        except OSError as error:
            raise NotKeptError(
                f"{what} could not be kept in {self.folder}: {error.strerror or error}. What was kept before is whole. "
                "Make room for it, and the same call goes on."
            ) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Prepare the folder while it lasts: `FolderError` if it cannot be written."""
        try:
            yield
        except OSError as error:
            raise FolderError(
                f"{self.folder} cannot be written: {error.strerror or error}. Make it writable, or choose another "
                "folder."
            ) from None


class Pending:
    """Groups on their way to the folder. Those that find no room wait in memory, and are tried again.

    In the end, also if that is an interruption, `NotKeptError` says that there still is no room.
    """

    def __init__(self, groups: Groups, digests: Sequence[str]):
        self._groups, self._digests = groups, digests
        self._pending: list[tuple[Order, Computed]] = []
        self._has_complained = False

    def __enter__(self) -> "Pending":
        return self

    def __exit__(self, *_: object) -> None:
        self._keep_all()

    def keep(self, order: Order, outcome: Computed) -> None:
        """Keep a finished order, and those that wait."""
        self._pending.append((order, outcome))
        try:
            self._keep_all()
        except NotKeptError as error:
            if not self._has_complained:
                say(f"{error} Meanwhile the sweep goes on, and it is tried again after each group.")
            self._has_complained = True

    def _keep_all(self) -> None:
        while self._pending:
            self._groups.keep(*self._pending[0], self._digests)
            del self._pending[0]


def placed(
    group: Group, points: Mapping[str, Sequence[int]], columns: Mapping[int, int]
) -> Iterator[tuple[tuple[int, int], int]]:
    """The networks of a group that a sweep has: the place of each in it, as (point, seed's column), and its row.

    `points` are known by their digests, which several may share, and `columns` by their seeds.
    """
    for row, (digest, seed) in enumerate(group.known_as):
        for point in points.get(digest, ()) if seed in columns else ():
            yield (point, columns[seed]), row
