"""Files that one job has to itself, and that of --out: what another job has written meanwhile is never overwritten."""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recurra.cli.stopping import on_leaving, undisturbed
from recurra.cli.streams import complain
from recurra.saved.whole_files import InUseError, held, try_place
from recurra.studies.settings import SettingsError

if TYPE_CHECKING:
    import xarray

#: A disk without room: the run is worth its table even then, and room may be made before it ends.
FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def refused(option: str, value: object, why: str) -> SettingsError:
    """The error that says why the value of an option cannot be used."""
    return SettingsError(f"`{option}` is {value}, {why}")


def claim_file(option: str, path: Path, stack: ExitStack, check: Callable[[Path], None]) -> None:
    """Have a file to oneself until the stack is closed, or the process left.

    Raises a SettingsError, before anything is computed, if the file could not be written, or if `check` does.
    """
    try:
        if path.is_symlink() and not path.exists():
            link = f"a link to {os.readlink(path)}, which does not exist"
            raise refused(option, path, f"{link}: remove the link, or choose another name.")
        if path.is_dir():
            example = f", such as {path / 'runs.nc'}" if option == "out" else ""
            raise refused(option, path, f"which is a folder: add a file name{example}.")
        if not path.parent.is_dir():
            raise refused(option, path, f"and there is no folder {path.parent}: create it first.")
        if path.exists() and not path.is_file():
            raise refused(option, path, "which is not an ordinary file: choose another name.")
        check(path)
        on_leaving(stack.close)
        with undisturbed():
            stack.enter_context(held(path))
            try_place(path)
    except InUseError:
        why = "which another run is writing: wait until it has ended, or choose another name."
        raise refused(option, path, why) from None
    except OSError as error:
        if error.errno not in FULL:
            stack.close()
            raise refused(option, path, f"which cannot be written: {error.strerror or error}.") from None


@contextmanager
def folder_errors(folder: Path, may_be_full: bool = False) -> Iterator[None]:
    """What is done within tells whether the folder of `--out` can be written; a SettingsError says why it cannot."""
    try:
        yield
    except InUseError:
        why = "which another run is using: wait until it has ended, or choose another folder."
        raise refused("out", folder, why) from None
    except FileExistsError:
        raise refused("out", folder, "which is a file: choose a folder.") from None
    except OSError as error:
        if not (may_be_full and error.errno in FULL):
            why = f"which cannot be written: {error.strerror or error}. Fix that, or choose another folder."
            raise refused("out", folder, why) from None


class Output:
    """A netCDF file that a job saves to, again and again.

    As a context it raises a SettingsError before anything is computed if it could not be kept. A file that is there is
    replaced with `force`, or if `is_own` says that the same job has made it.
    """

    def __init__(self, path: Path, force: bool, is_own: Callable[[Path], bool] = lambda path: False):
        self._asked, self._force, self._is_own = path, force, is_own
        #: where the file is, once it is saved
        self.path = path
        self._own: tuple[int, ...] | None = None
        self._complained = False
        self._held = ExitStack()

    def __enter__(self) -> "Output":
        claim_file("out", self._asked, self._held, self._check)
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _check(self, path: Path) -> None:
        if path.exists() and not self._force:
            self._own = _identity(path)  # if it changes from now on, it is no longer the job's own
            if not self._is_own(path):
                raise refused("out", path, "which exists: choose another name, or replace it with --force.")

    def save(self, data: "xarray.Dataset", last: bool) -> bool:
        """Keep the data in the place of what this job kept before; whether it worked. The first failure is said."""
        try:
            self._save(data)
        except OSError as error:
            if not self._complained:
                still = " It holds what was saved before." if self._own else ""
                again = "" if last else " It is tried again after the next learner."
                complain(f"`out` is {self.path}, which could not be written: {error.strerror or error}.{still}{again}")
            self._complained = True
            return False
        return True

    def _save(self, data: "xarray.Dataset") -> None:
        from recurra.training.result import save

        for path in self._names():
            is_own = self._own is not None and self._own == _identity(path)
            try:
                save(data, path, new=not (is_own or self._force))
            except (FileExistsError, IsADirectoryError):  # it came after the check
                continue
            self.path, self._own = path, _identity(path)
            return

    def _names(self) -> Iterator[Path]:
        """Where the file is; else the asked-for name, and that name with a number: runs.nc, runs-2.nc, ..."""
        yield self.path
        asked = self._asked
        yield from (asked.with_name(f"{asked.stem}-{i}{asked.suffix}") for i in itertools.count(2))

    def where(self) -> str:
        """Where it is saved, in words."""
        if self.path == self._asked:
            return f"Saved in {self.path}."
        return f"Saved in {self.path}, for something else has appeared at {self._asked} meanwhile."


def _identity(path: Path) -> tuple[int, ...] | None:
    """What tells a file from another one, or from itself after a change; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
