"""Remarks to a person. Nobody may be there any more: a terminal can be closed, a pipe broken, a disk full."""

import contextlib
import sys
import warnings
from typing import Any


class Console:
    """Standard error as a file, for which a lost line is no reason to end a run."""

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):  # ValueError: the file is closed
            if sys.stderr is not None:
                sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Send it off."""
        with contextlib.suppress(OSError, ValueError):
            if sys.stderr is not None:
                sys.stderr.flush()

    def isatty(self) -> bool:
        """Whether a person sees it at once."""
        try:
            return sys.stderr is not None and sys.stderr.isatty()
        except ValueError:
            return False

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


#: where remarks go
console = Console()


def say(line: str) -> None:
    """A remark, where it cannot be taken for a result."""
    print(line, file=console, flush=True)


def warn(line: str, stacklevel: int = 4) -> None:
    """Warn the caller of the library, who is so many calls away.

    Where warnings are errors, print: nothing is to be lost for a warning.
    """
    try:
        warnings.warn(line, stacklevel=stacklevel)
    except UserWarning:
        say(line)
