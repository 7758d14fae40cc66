"""The networks of a sweep that are finished, each group of them in a file of its own.

    DIR/groups/N-NAME.safetensors     networks that were computed together, N of them

A group is written whole or not at all, by the one process that was started: workers send it what they computed. So no
two processes write the same file. Every network is known by the identity of its case and by its seed, so a sweep that
is extended, by one more rate or more seeds, finds again what was there.
"""

import functools
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recurra.saved import archive
from recurra.saved.archive import SavedFileError
from recurra.saved.folders import FolderError, NotKeptError, OwnFolder
from recurra.saved.whole_files import try_place
from recurra.training.cases import Identity
from recurra.training.console import say, warn
from recurra.training.identity import same_settings
from recurra.training.orders import Networks
from recurra.training.places.base import Computed, Order, versions

GROUPS = "groups"
#: what a file of this kind is called
KIND = "group of a sweep"
#: what is in front of the names of arrays in a file
VALUE, AXIS = "value/", "axis/"


@dataclass(frozen=True)
class Group:
    """Networks that were computed together: by what each is known, and what they came to, with which versions."""

    known_as: list[tuple[Identity, int]]
    outcome: Computed
    versions: dict[str, str]


class Groups:
    """The groups in a folder."""

    def __init__(self, folder: Path):
        self.own, self.path = OwnFolder(folder, GROUPS, "sweep"), folder / GROUPS
        #: what was read already, by the names of files, which never change
        self._read_already: dict[str, Group] = {}

    @contextmanager
    def held(self, is_claimed: bool = False) -> Iterator[None]:
        """Have the folder to oneself, among all sweeps of this machine. It is made if it is not there.

        A folder with other files in it is refused, unless the caller has found out that it `is_claimed` for this sweep.
        """
        with self.own.held(alone=not is_claimed):
            with self.own.writing():
                self.path.mkdir(exist_ok=True)
                try_place(self.path / "part")
            yield

    def keep(self, order: Order, outcome: Computed, identities: list[Identity]) -> None:
        """Keep a finished order; `identities` are those of the cases of all points."""
        arrays = {VALUE + name: array for name, array in outcome.values.items()}
        arrays |= {AXIS + name: array for name, array in outcome.axes.items()}
        arrays["case"] = np.array([member.row for member in order.members])
        arrays["seed"] = np.array([member.seed for member in order.members])
        cases = [identities[point] for point in order.points]
        unknown = list(dict.fromkeys(each.unknown for each in cases))  # a file's header has no room for them all
        document = {
            "cases": [(each.digest, each.account, unknown.index(each.unknown)) for each in cases],
            "unknown": unknown,
            "dims": outcome.dims,
            "seconds": outcome.seconds,
            "compile_seconds": outcome.compile_seconds,
            "worker": outcome.worker,
            "device": outcome.device,
            "versions": order.versions,
        }
        path = self.path / f"{len(order.members)}-{secrets.token_hex(8)}.safetensors"
        with self.own.keeping("What was computed"):
            archive.write(path, KIND, arrays, document)

    def refuse_old(self) -> None:
        """Raise if the folder has groups of an earlier version, which are not read any more."""
        for path in sorted(self.path.glob("*.nc")):
            raise FolderError(
                f"{path} was made by recurra 0.1, whose groups are not read any more: choose another folder, or delete "
                f"{self.path} to compute the networks again."
            )

    def __iter__(self) -> Iterator[Group]:
        """All groups that are kept."""
        self.refuse_old()
        for path in sorted(self.path.glob("*.safetensors")):
            if path.name not in self._read_already:
                self._read_already[path.name] = self._read(path)
            yield self._read_already[path.name]

    def _read(self, path: Path) -> Group:
        count = re.match(r"\d+", path.name)
        try:
            arrays, about = archive.read(path, KIND)
            dims = {name: tuple(each) for name, each in about["dims"].items()}
            names = lambda told: about["unknown"][told] if isinstance(told, int) else told  # the first 0.2 wrote them
            cases = [Identity(digest, account, tuple(names(told))) for digest, account, told in about["cases"]]
            known = [(cases[row], seed) for row, seed in zip(arrays["case"], arrays["seed"].tolist(), strict=True)]
            made_with = dict(about["versions"])
        except (SavedFileError, KeyError, IndexError, ValueError, TypeError) as error:
            raise FolderError(
                f"The kept group {path} cannot be used: {str(error).rstrip('.')}. If it stays so, delete it and run "
                f"the sweep again. Only its {count[0] if count else ''} networks are repeated."
            ) from None
        part = lambda prefix: {name[len(prefix) :]: each for name, each in arrays.items() if name.startswith(prefix)}
        told = (about.get(name) for name in ("seconds", "compile_seconds", "worker", "device"))
        outcome = Computed(part(VALUE), part(AXIS), dims, *told)  # pyright: ignore[reportArgumentType]
        return Group(known, outcome, made_with)


class Kept:
    """What a folder has of the networks of a sweep, as a context in which more is kept.

    Outcomes that find no room wait in memory, and are tried again after each order. In the end, also if that is an
    interruption, `NotKeptError` says that there still is no room.
    """

    def __init__(self, groups: Groups, networks: Networks):
        self.groups, self._networks = groups, networks
        self._unwritten: list[tuple[Order, Computed]] = []
        self._has_complained = self._has_warned = False

    @functools.cached_property
    def _points(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """The points by their digests, and by their accounts."""
        found: tuple[dict[str, list[int]], dict[str, list[int]]] = {}, {}
        for point, identity in enumerate(self._networks.identities):
            for points, name in zip(found, identity[:2], strict=True):
                points.setdefault(name, []).append(point)
        return found

    def places(self, group: Group) -> list[tuple[tuple[int, int], int]]:
        """The networks of a group that the sweep has: their places, as (point, seed's column), and their rows."""
        columns = self._networks.columns
        is_other = group.versions != versions()
        found = []
        for row, (identity, seed) in enumerate(group.known_as):
            points = self._points[0].get(identity.digest) or (self._alike(identity.account) if is_other else [])
            found += [((point, columns[seed]), row) for point in points if seed in columns]
        return found

    def _alike(self, account: str) -> list[int]:
        """The points of this account, unless networks that differ share it: it does not tell which of them is meant."""
        points = self._points[1].get(account, [])
        here = {self._networks.identities[point].digest for point in points}
        return points if len(here) == 1 and len(self._of_others[account]) == 1 else []

    @functools.cached_property
    def _of_others(self) -> dict[str, set[str]]:
        """The digests of networks that were computed with other versions, by their accounts."""
        found: dict[str, set[str]] = {}
        for group in self.groups:
            for identity, _ in group.known_as if group.versions != versions() else ():
                found.setdefault(identity.account, set()).add(identity.digest)
        return found

    def read(self) -> Iterator[tuple[Group, list[tuple[tuple[int, int], int]]]]:
        """Each group with the places of its networks. Groups that were made with other versions are told of."""
        others: dict[str, int] = {}
        unknown: dict[str, None] = {}
        for group in self.groups:
            places = self.places(group)
            if places and group.versions != versions():
                name = _in_words(group.versions)
                others[name] = others.get(name, 0) + len(places)
                unknown |= dict.fromkeys(name for _, row in places for name in group.known_as[row][0].unknown)
            yield group, places
        if others and not self._has_warned:
            self._has_warned = True
            told = "; ".join(f"{count:,} networks with {name}" for name, count in others.items())
            line = f"Some networks in {self.groups.own.path} were computed with other versions: {told}. "
            warn(f"{line}{same_settings(unknown)}, and they are taken as they are; their last bits may differ.")

    def has_all(self) -> bool:
        """Whether all networks in the folder are networks of this sweep."""
        return all({row for _, row in self.places(group)} == {*range(len(group.known_as))} for group in self.groups)

    def __enter__(self) -> "Kept":
        return self

    def __exit__(self, *_: object) -> None:
        self._write_all()

    def keep(self, order: Order, outcome: Computed) -> None:
        """Keep a finished order, and those that wait."""
        self._unwritten.append((order, outcome))
        try:
            self._write_all()
        except NotKeptError as error:
            if not self._has_complained:
                say(f"{error} Meanwhile the sweep goes on, and it is tried again after each group.")
            self._has_complained = True

    def _write_all(self) -> None:
        while self._unwritten:
            self.groups.keep(*self._unwritten[0], self._networks.identities)
            del self._unwritten[0]


def _in_words(made_with: dict[str, Any]) -> str:
    """The versions that differ from those installed here."""
    return ", ".join(f"{name} {made_with.get(name)}" for name, own in versions().items() if made_with.get(name) != own)
