"""A run half-way, in one file: it goes on where it was and ends with the same numbers.

The file is NumPy's own archive of plain arrays, never pickle, and is replaced whole: a run killed while writing leaves
the previous one.
"""

import functools
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from recurra.engine.protocol import Run
from recurra.training.whole_files import replacing

#: what a damaged archive raises, depending on where it is damaged
UNREADABLE = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
#: seconds between two checkpoints
EVERY = 20.0


class CheckpointError(ValueError):
    """A run cannot continue from the file; the message says why and what to do."""


@runtime_checkable
class Gathered(Protocol):
    """What a run has gathered so far, on the host."""

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned."""
        ...


class Checkpoint:
    """Keeps a run in `path` now and then; does nothing where `path` is None.

    `identity` returns a digest of all that the run depends on. It may take a while, so it is called only when there is
    something to read or to write.
    """

    def __init__(self, path: Path | None, identity: Callable[[], str]):
        self._path, self._identity = path, functools.cache(identity)
        self._last = time.monotonic()

    def load(self, run: Run, gathered: Gathered) -> None:
        """Take the run up from the file, if it is there."""
        if self._path is None or not self._path.exists():
            return
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                arrays = dict(kept)
        except UNREADABLE as error:
            raise CheckpointError(f"The checkpoint {self._path} cannot be read: delete it to start over.") from error
        if str(arrays.pop("identity", "")) != self._identity():
            raise CheckpointError(
                f"The checkpoint {self._path} belongs to a run with other settings: delete it, or name another file."
            )
        done = int(arrays.pop("done"))
        leaves = sum(name.startswith("leaf") for name in arrays)
        state = [arrays.pop(f"leaf{i}") for i in range(leaves)]
        if [leaf.shape for leaf in state] != [leaf.shape for leaf in run.snapshot()]:
            raise CheckpointError(f"The checkpoint {self._path} is of another version: delete it to start over.")
        run.restore(state, done)
        gathered.restore(arrays)

    def keep(self, run: Run, gathered: Gathered, now: bool = False) -> None:
        """Write the file if it is time to, or `now`."""
        if self._path is None or not (now or time.monotonic() - self._last > EVERY):
            return
        arrays = {f"leaf{i}": leaf for i, leaf in enumerate(run.snapshot())}
        arrays |= {"identity": np.array(self._identity()), "done": np.array(run.done), **gathered.state()}
        save_arrays(self._path, arrays)
        self._last = time.monotonic()

    def clear(self) -> None:
        """The run is complete: remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an archive whole or not at all."""
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
