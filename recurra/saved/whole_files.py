"""Files that are written whole or not at all, and places that one run has to itself."""

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: two runs are told apart by the names of their partial files alone
    fcntl = None

#: Longer names are cut to so many bytes before something is added: most file systems allow 255 in all.
LONGEST = 200


class InUseError(OSError):
    """Another run has the place to itself.

    >>> issubclass(whole_files.InUseError, OSError)
    True
    """


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, new: bool = False) -> None:
    """Let `write` fill a file that takes the place of `path` once it is complete and on the disk.

    Until then `path` stays as it was. A link stays one, and what it points to is replaced. With `new` there must be no
    such file, also not one that appeared in the meantime: that is a FileExistsError.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     whole_files.write_whole(Path(folder, "note"), lambda file: file.write(b"all of it"))
    ...     Path(folder, "note").read_text()
    'all of it'
    """
    path = path.resolve()
    partial = _partial(path)
    try:
        with partial.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if new:
            _rename_to_new(partial, path)
        else:
            partial.replace(path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """See that the new name is on the disk too, so that a power cut leaves the old file or the new one."""
    with contextlib.suppress(OSError):  # Windows and some file systems cannot do it
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def try_place(path: Path) -> None:
    """Raise the OSError that writing `path` would end in, as far as it can be known beforehand.

    >>> try:
    ...     whole_files.try_place(Path("no such folder/run"))
    ... except FileNotFoundError:
    ...     print("there is no such folder")
    there is no such folder
    """
    trial = _partial(path.resolve())
    try:
        trial.write_bytes(bytes(4096))
    finally:
        with contextlib.suppress(OSError):
            trial.unlink(missing_ok=True)


def _rename_to_new(partial: Path, path: Path) -> None:
    try:
        os.link(partial, path)  # unlike a rename it never replaces anything
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.open("xb").close()
        partial.replace(path)


@contextmanager
def held(path: Path, wait: bool = False) -> Iterator[bool]:
    """Have `path` to oneself, among all processes of this machine; `InUseError` if another has it, or `wait` for it.

    The system gives it free when the process ends, however that happens. What a killed run left half-written beside
    `path` is removed. The context's value is False where the system or the disk has no locks, and nothing is held.

    >>> with tempfile.TemporaryDirectory() as folder, whole_files.held(Path(folder, "run")):
    ...     pass  # another process that asks for this file now gets an `InUseError`
    """
    path = path.resolve()
    is_held = False
    with contextlib.ExitStack() as releases:
        if fcntl is not None:
            lock = path.with_name(f"{_hidden(path)}.lock")
            number, is_held = _locked(lock, wait)
            releases.callback(_release, lock, number)
        pattern = re.compile(re.escape(_hidden(path)) + r"\.[0-9a-f]{8}\.partial")
        for left in path.parent.iterdir():
            if pattern.fullmatch(left.name):
                with contextlib.suppress(OSError):
                    left.unlink()
        yield is_held


def _partial(path: Path) -> Path:
    """A new name beside `path` for what is not complete yet."""
    return path.with_name(f"{_hidden(path)}.{secrets.token_hex(4)}.partial")


def _hidden(path: Path) -> str:
    return f".{os.fsencode(path.name)[:LONGEST].decode(errors='ignore')}"


def _locked(path: Path, wait: bool) -> tuple[int, bool]:
    """The number of the open file, and whether the system has locked it."""
    assert fcntl is not None
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(number, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            raise InUseError(f"another run is using it (it holds {path})") from None
        except OSError:  # a file system without locks
            return number, False
        except BaseException:  # Ctrl-C while it waits
            os.close(number)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(number), path.stat()):
                return number, True
        os.close(number)  # the run that had it has just removed it


def _release(path: Path, number: int) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)  # while it is locked: whoever opened it before will see that it is gone
    os.close(number)
