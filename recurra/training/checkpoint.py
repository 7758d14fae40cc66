"""A run half-way, in one file: it goes on where it was and ends with the same numbers.

The file is NumPy's own archive of plain arrays, never pickle, and is replaced whole: a run killed while writing leaves
the previous one. A file that cannot be written costs the checkpoint, not the run.
"""

import functools
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import numpy as np

from recurra.engine.protocol import Run
from recurra.training.console import say
from recurra.training.whole_files import InUseError, held, try_place, write_whole

#: what a damaged archive raises, depending on where it is damaged
DAMAGED = (ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
#: seconds between two checkpoints
EVERY = 20.0


class CheckpointError(ValueError):
    """A run cannot use its checkpoint; the message says why and what to do."""


class UselessCheckpointError(CheckpointError):
    """The file can be read, and no such run can go on from it: it is damaged, or belongs to another one."""


@runtime_checkable
class Gathered(Protocol):
    """What a run has gathered so far, on the host."""

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; ValueError or KeyError if it is not whole."""
        ...


class Checkpoint:
    """Keeps a run in `path` every so many seconds, and when it stops; does nothing where `path` is None.

    `identity` returns a digest of all that the run depends on. It may take a while, so it is called only when there is
    something to read or to write. `steps` is where the run ends.
    """

    def __init__(self, path: Path | None, every: int | float, steps: int, identity: Callable[[], str]):
        self._path, self._every, self._steps = path, every, steps
        self._identity = functools.cache(identity)
        self._last = time.monotonic()
        #: the step at which the file is, as far as this run wrote or read it
        self.kept_at: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the file to oneself, and see that it can be written, before anything is computed."""
        if self._path is None:
            yield
            return
        if self._path.is_dir():
            raise ValueError(
                f"`checkpoint` is {self._path}, which is a folder: add a file name, such as {self._path / 'run.npz'}."
            )
        if not self._path.resolve().parent.is_dir():
            raise ValueError(f"`checkpoint` is {self._path}, and there is no folder for it: create it first.")
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self._path))
                try_place(self._path)
            except InUseError as error:
                raise CheckpointError(
                    f"The checkpoint {self._path} cannot be used: {error}. Wait for it, or name another file."
                ) from None
            except OSError as error:
                raise CheckpointError(
                    f"The checkpoint {self._path} cannot be written: {error.strerror or error}. Name another file."
                ) from None
            yield

    def load(self, run: Run, gathered: Gathered) -> None:
        """Take the run up from the file, if it is there. A finished run of other settings is no longer needed."""
        if self._path is None or not self._path.exists():
            return
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                arrays = dict(kept)
            identity, done, finished = (
                str(arrays.pop("identity")),
                int(arrays.pop("done")),
                bool(arrays.pop("finished")),
            )
            state = [arrays.pop(f"leaf{i}") for i in range(sum(name.startswith("leaf") for name in arrays))]
        except OSError as error:  # such an error may pass, and the file is good
            raise CheckpointError(
                f"The checkpoint {self._path} cannot be read: {error.strerror or error}. Mend that, or name another."
            ) from error
        except DAMAGED as error:
            raise UselessCheckpointError(
                f"{self._path} is no checkpoint of recurra, or a damaged one: delete it to start over, or name another "
                "file."
            ) from error
        if identity != self._identity():
            if finished:
                return
            raise UselessCheckpointError(
                f"The checkpoint {self._path} belongs to a run with other settings, which is not finished: delete it, "
                "or name another file."
            )
        if not 0 <= done <= self._steps:
            raise UselessCheckpointError(
                f"The checkpoint {self._path} is at step {done}, and `steps` is {self._steps}: delete it to start over."
            )
        try:
            if [leaf.shape for leaf in state] != [leaf.shape for leaf in run.snapshot()]:
                raise ValueError("states of other shapes")
            if "seen" in arrays and int(arrays["seen"]) != done:
                raise ValueError("losses of other steps than states")
            gathered.restore(arrays)
        except (KeyError, ValueError) as error:
            raise UselessCheckpointError(
                f"The checkpoint {self._path} is damaged, or of another version, engine or device ({error}): delete it "
                "to start over."
            ) from error
        run.restore(state, done)
        self.kept_at = done

    def keep(self, run: Run, gathered: Gathered, now: bool = False) -> None:
        """Write the file if it is time to, or `now`. Where that fails, the run goes on and it is tried again later."""
        if self._path is None or not (now or time.monotonic() - self._last > self._every):
            return
        arrays = {f"leaf{i}": leaf for i, leaf in enumerate(run.snapshot())}
        arrays |= {"identity": np.array(self._identity()), "done": np.array(run.done)}
        arrays |= {"finished": np.array(run.done == self._steps), **gathered.state()}
        try:
            save_arrays(self._path, arrays)
            self.kept_at = run.done
        except OSError as error:
            _warn(
                f"The checkpoint {self._path} could not be written after step {run.done}: {error.strerror or error}. "
                "The run goes on; a checkpoint that was there before is untouched."
            )
        self._last = time.monotonic()


def _warn(line: str) -> None:
    try:
        warnings.warn(line, stacklevel=4)
    except UserWarning:  # where warnings are errors: it is no reason to lose a run
        say(line)


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an archive whole or not at all."""

    def write(file: BinaryIO) -> None:
        np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, write)
