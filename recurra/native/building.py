"""Compiling C on this machine, and keeping what was compiled in the user's cache.

A library is kept under a digest of its source, its compiler and the processor. It is written elsewhere first and then
renamed, so that a process that is killed leaves no half a library, and processes that compile the same at once do not
disturb each other. A library is loaded only from a folder that belongs to this user alone, and only with the content
that was noted when it was written. Where there is no such folder, it is compiled for this process alone.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

#: how libraries are compiled; the processor's own instructions are allowed, and every rounding is the source's own
FLAGS = ("-std=c99", "-O3", "-march=native", "-fno-math-errno", "-ffp-contract=fast", "-fPIC", "-shared")
#: what is left of a compilation that was killed is removed after so many seconds
STALE = 86_400.0
#: the environment variable that names another folder
FOLDER = "RECURRA_CACHE_DIR"


class NoCompilerError(RuntimeError):
    """C cannot be compiled here; the text says why."""


@functools.cache
def _loaded(digest: str, source: str) -> ctypes.CDLL:
    """The library of a source; kept for the process."""
    folder = _own_folder(cache_folder())
    if folder is not None:
        with contextlib.suppress(OSError):
            if (found := _kept(folder, digest)) is not None:
                return found
            _remove_stale(folder)
            return _load(_compiled(source, folder, digest))
    try:
        with tempfile.TemporaryDirectory(prefix="recurra-") as alone:
            return _load(_compiled(source, Path(alone), digest))
    except OSError as error:
        raise NoCompilerError(f"there is no folder to compile in: {error.strerror or error}") from None


def library(source: str) -> ctypes.CDLL:
    """The source as a library of this process; `NoCompilerError` says why there is none."""
    told = [source, *compiler(), _version(compiler()), *FLAGS, platform.machine(), _processor()]
    digest = hashlib.sha256("\0".join(told).encode()).hexdigest()
    return _loaded(digest, source)


def compiler() -> tuple[str, ...]:
    """The command of the machine's C compiler: that of the environment variable CC, cc, gcc or clang."""
    named = os.environ.get("CC", "").split()
    for each in (named, ["cc"], ["gcc"], ["clang"]):
        if each and (path := shutil.which(each[0])):
            return (path, *each[1:])
    raise NoCompilerError("there is no C compiler: install gcc or clang, or name one in the environment variable CC")


def cache_folder() -> Path:
    """Where libraries are kept: `RECURRA_CACHE_DIR`, or `recurra` in the user's cache."""
    if named := os.environ.get(FOLDER):
        return Path(named) / "native"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "recurra" / "native"


def _own_folder(folder: Path) -> Path | None:
    """The folder if it is this user's, and nobody else may write to it; None if not."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.lstat()
    except (OSError, RuntimeError):
        return None
    if not stat.S_ISDIR(found.st_mode) or not _is_own(found):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _is_own(found: os.stat_result) -> bool:
    """Whether it belongs to this user, and nobody else may write to it."""
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _kept(folder: Path, digest: str) -> ctypes.CDLL | None:
    """A library that was kept, if it is whole and this user's; None if there is none."""
    path, note = folder / f"{digest}.so", folder / f"{digest}.sha256"
    try:
        if not all(stat.S_ISREG(each.lstat().st_mode) and _is_own(each.lstat()) for each in (path, note)):
            return None
        if hashlib.sha256(path.read_bytes()).hexdigest() != note.read_text().strip():
            return None
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return _load(path)


def _compiled(source: str, folder: Path, digest: str) -> Path:
    """The library of a source, in a folder; OSError where there is no room."""
    with tempfile.TemporaryDirectory(prefix="partial-", dir=folder) as within:
        file, made = Path(within, "model.c"), Path(within, "model.so")
        file.write_text(source)
        command = [*compiler(), *FLAGS, "-o", str(made), str(file), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode or not made.exists():
            said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            if shutil.disk_usage(folder).free < 2**20:
                raise OSError(f"there is no room in {folder}")
            raise NoCompilerError(f"{command[0]} failed: {said.strip()}")
        made.chmod(0o700)
        note = Path(within, "model.sha256")
        note.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
        target = folder / f"{digest}.so"
        made.replace(target)
        note.replace(folder / f"{digest}.sha256")
    return target


def _load(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


def _remove_stale(folder: Path) -> None:
    for each in folder.glob("partial-*"):
        with contextlib.suppress(OSError):
            if time.time() - each.lstat().st_mtime > STALE:
                shutil.rmtree(each, ignore_errors=True)


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    try:
        return subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace").stdout
    except OSError as error:
        raise NoCompilerError(f"{command[0]} cannot be run: {error.strerror or error}") from None


@functools.cache
def _processor() -> str:
    """What the processor can do, since a library has instructions of its own for it."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    return platform.processor()
