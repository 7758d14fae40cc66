"""A run half-way, in one file: it goes on where it was and ends with the same numbers.

The file is replaced whole: a run killed while writing leaves the previous one. A file that cannot be written costs the
checkpoint, not the run.
"""

import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from recurra.saved import archive
from recurra.saved.archive import SavedFileError, UselessFileError
from recurra.saved.whole_files import InUseError, held, try_place
from recurra.training.console import warn
from recurra.training.identity import Account, installed, same_settings

#: what a file of this kind is called
KIND = "run"
#: seconds between two checkpoints
EVERY = 20.0
#: Of a longer account, as JSON, a file has the digest alone: its header has room for a few million characters.
LONGEST = 500_000
#: Where a checkpoint takes long to write, the next one comes after so many times as long.
PAUSE = 9


class CheckpointError(ValueError):
    """A run cannot use its checkpoint; the message says why and what to do.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> try:
    ...     rc.train(network, rc.RFLO(), task, steps=200, checkpoint="no such folder/run")
    ... except rc.CheckpointError as error:
    ...     print("there is no folder" in str(error))
    True
    """


class UselessCheckpointError(CheckpointError):
    """The file can be read, and no such run can go on from it: it is damaged, or belongs to another one.

    A program may delete such a file and start over.

    >>> issubclass(rc.UselessCheckpointError, rc.CheckpointError)
    True
    """


@runtime_checkable
class Resumable(Protocol):
    """What is kept of a run of an engine, and of the lives of agents: all that it needs to go on."""

    #: the steps that are done
    done: int
    #: what it is computed on, in words
    device: str

    def snapshot(self) -> list[np.ndarray]:
        """All that the run needs to go on, as plain arrays."""
        ...

    def restore(self, arrays: Sequence[np.ndarray], done: int) -> None:
        """Go on from a snapshot of the same run, taken after so many steps."""
        ...


@runtime_checkable
class Gathered(Protocol):
    """What a run has gathered so far, on the host."""

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; ValueError or KeyError if it is not whole."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """Keeps a run somewhere."""

    def load(self, run: Resumable, gathered: Gathered) -> None:
        """Take the run up from there, if it is there."""
        ...

    def keep(self, run: Resumable, gathered: Gathered, now: bool = False) -> None:
        """Keep the run if it is time to, or `now`."""
        ...


class Checkpoint:
    """Keeps a run in `path` every so many seconds, and when it stops; does nothing where `path` is None.

    `identity` returns a digest of all that the run depends on, and `account` tells what that is. They may take a while,
    so they are called only when there is something to read or to write. `steps` is where the run ends.
    """

    def __init__(
        self,
        path: Path | None,
        every: int | float,
        steps: int,
        identity: Callable[[], str],
        account: Callable[[], Account],
    ):
        self._path, self._every, self._steps = path, every, steps
        self._identity, self._account = functools.cache(identity), functools.cache(account)
        self._last, self._pause = time.monotonic(), float(every)
        #: the step at which the file is, as far as this run wrote or read it
        self.kept_at: int | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the file to oneself, and see that it can be written, before anything is computed."""
        with nullcontext() if self._path is None else held_checkpoint(self._path):
            yield

    def load(self, run: Resumable, gathered: Gathered) -> None:
        """Take the run up from the file, if it is there. A finished run of other settings is no longer needed."""
        if self._path is None or not self._path.exists():
            return
        arrays, about = read_checkpoint(self._path)
        done = about["done"]
        state = [arrays.pop(name) for i in range(len(arrays)) if (name := f"state.{i}") in arrays]
        if not self._is_of_this_run(about):
            if about["finished"]:
                return
            old = "" if about.get("versions") else ", or to one of recurra 0.1 whose program was another"
            raise UselessCheckpointError(
                f"The checkpoint {self._path} belongs to a run with other settings{old}, which is not finished: delete "
                f"it, {'end that run with 0.1, ' if old else ''}or name another file."
            )
        if not 0 <= done <= self._steps:
            raise UselessCheckpointError(
                f"The checkpoint {self._path} is at step {done}, and `steps` is {self._steps}: delete it to start over."
            )
        try:
            if [(leaf.shape, leaf.dtype) for leaf in state] != [(leaf.shape, leaf.dtype) for leaf in run.snapshot()]:
                raise ValueError("states of other shapes or types")
            if "seen" in arrays and int(arrays["seen"]) != done:
                raise ValueError("losses of other steps than states")
            gathered.restore(arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise UselessCheckpointError(
                f"The checkpoint {self._path} is damaged, or of another version, engine or device ({error}): delete it "
                "to start over."
            ) from error
        run.restore(state, done)
        self.kept_at = done

    def _is_of_this_run(self, about: Mapping[str, Any]) -> bool:
        """Whether a file was made with the same settings, as far as its versions allow to tell."""
        if about["identity"] == self._identity():
            return True
        versions, now = about.get("versions"), installed()
        if versions in (None, now) or about["account"] not in _written(self._account()):
            return False
        others = ", ".join(f"{name} {versions.get(name)}" for name in now if versions.get(name) != now[name])
        unknown = dict.fromkeys([*about["unknown"], *self._account().unknown])
        warn(
            f"The checkpoint {self._path} was made with {others}. {same_settings(unknown)}, and the run goes on from "
            "it; its bits may differ from those of a run with one version."
        )
        return True

    def keep(self, run: Resumable, gathered: Gathered, now: bool = False) -> None:
        """Write the file if it is time to, or `now`. Where that fails, the run goes on and it is tried again later."""
        began = time.monotonic()
        if self._path is None or not (now or began - self._last > self._pause):
            return
        arrays = {f"state.{i}": leaf for i, leaf in enumerate(run.snapshot())}
        account = self._account()
        about = {"identity": self._identity(), "done": run.done, "finished": run.done == self._steps}
        about |= {"versions": installed(), "account": _written(account)[-1], "unknown": list(account.unknown)}
        try:
            archive.write(self._path, KIND, {**arrays, **gathered.state()}, about)
            self.kept_at = run.done
        except (OSError, ValueError) as error:  # ValueError: there is more to say of it than a file has room for
            why = str(getattr(error, "strerror", None) or error).rstrip(".")
            warn(
                f"The checkpoint {self._path} could not be written after step {run.done}: {why}. "
                "The run goes on; a checkpoint that was there before is untouched."
            )
        self._last = time.monotonic()
        if self._every:
            self._pause = max(self._every, PAUSE * (self._last - began))


def _written(account: Account) -> list[Any]:
    """An account as JSON has it, and if it is long its digest too, which is what a file then has."""
    text = json.dumps(account.told)
    digest = [{"sha256": hashlib.sha256(text.encode()).hexdigest()}] if len(text) > LONGEST else []
    return [json.loads(text), *digest]


@contextmanager
def held_checkpoint(path: Path) -> Iterator[None]:
    """Have a file to oneself, and see that it can be written; `CheckpointError` if not."""
    if path.is_dir():
        raise CheckpointError(
            f"`checkpoint` is {path}, which is a folder: add a file name, such as {path / 'run.safetensors'}."
        )
    if not path.resolve().parent.is_dir():
        raise CheckpointError(f"`checkpoint` is {path}, and there is no folder for it: create it first.")
    with ExitStack() as stack:
        try:
            stack.enter_context(held(path))
            try_place(path)
        except InUseError as error:
            raise CheckpointError(
                f"The checkpoint {path} cannot be used: {error}. Wait for it, or name another file."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"The checkpoint {path} cannot be written: {error.strerror or error}. Name another file."
            ) from None
        yield


def read_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a run, and what is known of it; `CheckpointError` if the file is not one.

    That is its identity, the steps it has done, whether that was all, and its account with the versions it was made
    with; files of 0.1 have no account.
    """
    try:
        arrays, about = archive.read(path, KIND)
    except UselessFileError as error:
        raise UselessCheckpointError(f"{error} Delete it to start over, or name another file.") from error
    except SavedFileError as error:  # which may pass, and the file is good
        raise CheckpointError(f"{error} Try again once that has passed, or name another file.") from error
    match about:
        case {
            "identity": str(),
            "done": int(),
            "finished": bool(),
            "versions": dict(),
            "account": _,
            "unknown": list(),
        }:
            return arrays, about
        case {"identity": str(), "done": int(), "finished": bool(), **rest} if not rest:
            return arrays, about
    raise UselessCheckpointError(f"{path} is no checkpoint of a run: delete it to start over, or name another file.")
