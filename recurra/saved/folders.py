"""Folders that one kind of work has to itself: claimed once, held by one process at a time, left alone if of others."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from recurra.saved.whole_files import InUseError, held, try_place


class FolderError(Exception):
    """A folder cannot be used, such as that of a sweep; the message says why and what to do.

    >>> issubclass(rc.FolderError, Exception)
    True
    """


class NotKeptError(FolderError):
    """Something that was computed could not be kept, such as on a full disk. What was kept before is whole.

    >>> issubclass(rc.NotKeptError, rc.FolderError)
    True
    """


class OwnFolder:
    """A folder of one kind of `work`, such as a sweep. It is known by its `mark`, a file or a folder in it.

    What is wrong with it is a `recurra.FolderError`.

    >>> with tempfile.TemporaryDirectory() as path:
    ...     Path(path, "thesis.tex").write_text("of somebody else")
    ...     try:
    ...         folders.OwnFolder(Path(path), "runs", "experiment").claim()
    ...     except rc.FolderError as error:
    ...         print("belong to no experiment" in str(error))
    16
    True
    """

    def __init__(self, path: Path, mark: str, work: str):
        self.path, self.mark, self.work = path, path / mark, work

    def claim(self) -> None:
        """Make the folder if it is not there. One without the mark is refused if it has other files in it."""
        with self.writing():
            self._make()
            if not self.mark.exists():
                self._refuse_others()
            try_place(self.mark)

    @contextmanager
    def held(self, alone: bool = False) -> Iterator[None]:
        """Have the folder to oneself, among all processes of this machine. It is made if it is not there.

        If it is to be `alone`, nothing but the mark may be in it. What killed processes left half-written is removed.
        """
        with ExitStack() as stack:
            with self.writing():
                self._make()
                stack.enter_context(held(self.mark))
                if alone:
                    self._refuse_others()
            for left in self.path.rglob(".*.partial"):
                with suppress(OSError):
                    left.unlink()
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Prepare the folder while it lasts: `FolderError` if it cannot be written, or another process has it."""
        try:
            yield
        except InUseError:
            raise FolderError(
                f"{self.path} is in use by another {self.work}: wait until it has ended, or choose another folder."
            ) from None
        except OSError as error:
            raise FolderError(
                f"{self.path} cannot be written: {error.strerror or error}. Make it writable, or choose another folder."
            ) from None

    @contextmanager
    def keeping(self, what: str) -> Iterator[None]:
        """Write `what` while it lasts: `NotKeptError` if that fails."""
        try:
            yield
        except OSError as error:
            raise NotKeptError(
                f"{what} could not be kept in {self.path}: {error.strerror or error}. What was kept before is whole. "
                "Make room for it, and the same call goes on."
            ) from None

    def _make(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise FolderError(f"{self.path} is a file: choose a folder.")
        self.path.mkdir(parents=True, exist_ok=True)

    def _refuse_others(self) -> None:
        """Raise if there is more than the mark, and files that hold its lock or are about to become it."""
        is_own = lambda name: name == self.mark.name or name.startswith(f".{self.mark.name}.")
        others = sorted(each.name for each in self.path.iterdir() if not is_own(each.name))
        if others:
            raise FolderError(
                f"{self.path} has files in it that belong to no {self.work}, such as {others[0]}: choose an empty or "
                "new folder."
            )
