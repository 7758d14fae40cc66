"""Drops compiled programs when they take too much memory, so that the tests fit into a laptop's."""

import ctypes
import functools
import gc
import os
import pathlib
import sys

import jax

#: A process with more resident memory than this many bytes drops its programs.
LIMIT = 1_700_000_000
#: Dropping takes a second or two, and programs are compiled again: it must be worth that many bytes.
WORTH = 300_000_000
#: The packages whose caches are cleared: the library, the tests and the modules beside this one.
OURS = {"recurra", "recurra_paper", "tests", *(path.stem for path in pathlib.Path(__file__).parent.glob("*.py"))}

_limit = LIMIT


def drop_if_large():
    """Drops all compiled programs if the process has grown beyond the limit."""
    global _limit
    if _resident() > _limit:
        drop()
        _limit = max(LIMIT, _resident() + WORTH)


def drop():
    """Drops everything that JAX, the library and the tests keep of compiled programs, and returns the memory."""
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and each.__module__.partition(".")[0] in OURS:
            each.cache_clear()
    jax.clear_caches()
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _resident():
    """Bytes of memory that the process has now, where the system tells it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0
