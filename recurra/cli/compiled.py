"""Compiled programs, kept for the next process. They are a convenience: without room for them a run is only slower."""

import contextlib
import os
import re
import warnings
import zlib
from pathlib import Path
from typing import Any

from recurra import __version__
from recurra.engine.hardware import processor
from recurra.saved.whole_files import try_place
from recurra.training.console import say

FOLDER = "JAX_COMPILATION_CACHE_DIR"
#: what JAX warns of where a program could not be read or written, and the program's name
UNKEPT = re.compile("Error (reading|writing) persistent compilation cache entry for '(.*?)'")


def keep_compiled_programs() -> None:
    """A second process need not compile what the first did; another processor needs programs of its own."""
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # also small programs are kept
    own = None if FOLDER in os.environ else _folder()
    if own is not None:
        os.environ[FOLDER] = str(own)
    warnings.filterwarnings("always", message=UNKEPT.pattern)

    def show(message: Any, *_: Any) -> None:
        if found := UNKEPT.match(str(message)):
            _remove(own, *found.groups())
        else:
            say(f"warning: {message}")

    warnings.showwarning = show


def _folder() -> Path | None:
    """Where programs are kept; None where there is no place for them."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "recurra" / f"{__version__}-{zlib.crc32(processor().encode()):08x}"
        folder.mkdir(parents=True, exist_ok=True)
        try_place(folder / "program")
    except (OSError, RuntimeError):  # RuntimeError: there is no home, or a link leads to itself
        return None
    return folder


def _remove(folder: Path | None, how: str, name: str) -> None:
    """Remove what is cut short, for JAX never does: the program last written, or all of the name that may be it."""
    if folder is None:
        return
    with contextlib.suppress(OSError):
        found = sorted(folder.glob(f"{name}-*-cache"), key=lambda path: path.stat().st_mtime_ns)
        for path in found[-1:] if how == "writing" else found:
            path.unlink()
