"""Standard output and standard error that end no run: a disk can be full, a pipe broken, a terminal closed."""

import errno
import io
import os
import select
import sys
from typing import Any

from recurra.training.console import say

#: What shells report of a program whose reader has left, as in `recurra learners | head -1`. A script can tell it from
#: a failure.
NO_READER = 141


class Guarded(io.RawIOBase):
    """Writes what can be written. The first error is kept, and so is all that was not written."""

    def __init__(self, raw: Any):
        self._raw = raw
        self.error = None if raw else OSError(errno.EBADF, "it is closed")
        self.missing = bytearray()

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                while (written := self._raw.write(data)) is None:  # a pipe that does not wait, and is full
                    select.select([], [self._raw], [])
                return written
            except OSError as error:
                self.error = error
        self.missing += data
        return len(data)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw is not None and self._raw.isatty()

    def fileno(self) -> int:
        return self._raw.fileno() if self._raw else super().fileno()


class _Output:
    """Standard output once it is guarded, and whether its loss was said."""

    raw: Guarded | None = None
    said = False


def guard() -> None:
    """From now on writing to standard output and standard error raises nothing; `lost` tells of standard output."""
    for name in ("stdout", "stderr"):
        raw, guarded = _guarded(getattr(sys, name))
        setattr(sys, name, guarded)
        if name == "stdout":
            _Output.raw = raw
    # Where a number below 3 is free, the next file to be opened would get it, and be written to by mistake.
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)


def _guarded(stream: Any) -> tuple[Guarded, io.TextIOWrapper]:
    buffer = getattr(stream, "buffer", None)  # which is missing where there is no stream
    raw = Guarded(getattr(buffer, "raw", buffer))
    how: Any = {"errors": "replace"}  # a terminal without ³ or – gets a question mark, not a traceback
    if stream is not None:
        # An unbuffered stream passes its text on at once, but only to the buffer below. So that no line stays there:
        how |= {"encoding": stream.encoding, "line_buffering": stream.line_buffering or stream.write_through}
    return raw, io.TextIOWrapper(io.BufferedWriter(raw), **how)


def lost() -> OSError | None:
    """Why not all of standard output could be written; None if it was."""
    sys.stdout.flush()
    return _Output.raw.error if _Output.raw else None


def say_lost(repeat: bool = False) -> None:
    """One line if standard output could not be written. With `repeat` what was not written follows it.

    A reader who has left wanted no more, so of a broken pipe nothing is said.
    """
    error = lost()
    if error is None or isinstance(error, BrokenPipeError) or _Output.said:
        return
    _Output.said = True
    assert _Output.raw is not None
    missing = _Output.raw.missing.decode(sys.stdout.encoding, "replace").strip() if repeat else ""
    complain(f"Standard output could not be written: {error.strerror or error}.{' It was:' if missing else ''}")
    if missing:
        say(missing)


def closing(status: int) -> int:
    """The exit status in the end: a command whose output was lost did not succeed."""
    say_lost()
    error = lost()
    return status or (0 if error is None else NO_READER if isinstance(error, BrokenPipeError) else 1)


def complain(*lines: str) -> None:
    """Errors, on standard error."""
    for line in lines:
        say(f"error: {line}")
