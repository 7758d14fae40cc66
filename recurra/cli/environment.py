"""What the program finds around it: installed extras, and a folder for compiled programs.

A missing extra is named in one line, before anything is computed. Compiled programs are kept for the next process. That
is a convenience: without room for them a run is only slower.
"""

import contextlib
import os
import re
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recurra import __version__
from recurra.engine.hardware import processor
from recurra.saved.whole_files import try_place
from recurra.training.console import say

#: what each extra of the package brings
EXTRAS = {
    "cli": ("typer", "rich", "pydantic"),
    "results": ("xarray", "h5netcdf", "h5py"),
    "paper": ("matplotlib", "jinja2", "scipy"),
    "stream": ("matplotlib", "jinja2"),
    "parquet": ("pyarrow",),
    "scale": ("distributed", "dask_jobqueue", "optuna"),
}
FOLDER = "JAX_COMPILATION_CACHE_DIR"
#: what JAX warns of where a program could not be read or written, and the program's name
UNKEPT = re.compile("Error (reading|writing) persistent compilation cache entry for '(.*?)'")


class CommandError(Exception):
    """Ends a command. Every line of the message is an error on standard error, and `status` is the exit status.

    docs/how-to/add-a-command.md has an example.
    """

    def __init__(self, message: str, status: int = 2):
        super().__init__(message)
        self.status = status


def lacking(extra: str, who: str, *only: str) -> str | None:
    """What `who` needs of an extra, or `only` some of it, and how to install it; None if all is there."""
    absent = [name for name in only or EXTRAS[extra] if not _is_installed(name)]
    if not absent:
        return None
    *most, last = absent
    named = f"{', '.join(most)} and {last}" if most else last
    are = "are" if most else "is"
    return f"{who} needs {named}, which {are} not installed: pip install 'recurra[{extra}]'"


def need(extra: str, who: str, *only: str) -> None:
    """Raise a `CommandError` if an extra of recurra's, or `only` some of its packages, are not installed.

    `who` is what needs them. docs/how-to/add-a-command.md has an example.
    """
    if line := lacking(extra, who, *only):
        raise CommandError(line)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False


def check_device() -> None:
    """Raise a `CommandError` if JAX has no device to compute on.

    docs/how-to/add-a-command.md has an example.
    """
    import jax

    try:
        jax.devices()
    except Exception as error:  # JAX raises several, some without a word
        said = str(error).partition(" (")[0].rstrip(".") or "there is no such device"
        asked = os.environ.get("JAX_PLATFORMS")
        raise CommandError(
            f"JAX_PLATFORMS is {asked!r}, which JAX cannot use here: {said}. Unset it, or set JAX_PLATFORMS=cpu."
            if asked
            else f"JAX finds no device to compute on: {said}. JAX_PLATFORMS=cpu takes the processor."
        ) from None


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
