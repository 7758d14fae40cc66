"""Dask's remarks on its own workings: kept from people who did not ask for Dask. What matters to them is said by us."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

SOURCES = ("distributed", "tornado", "bokeh", "asyncio")


@contextmanager
def quiet() -> Iterator[None]:
    """No remarks of Dask's in this process, for as long as it lasts."""
    before = silence()
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def silence() -> dict[logging.Logger, int]:
    """No remarks of Dask's from now on; which loggers had which levels."""
    names = [name for name in [*logging.root.manager.loggerDict, *SOURCES] if name.split(".")[0] in SOURCES]
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in before:
        logger.setLevel(logging.CRITICAL + 1)
    return before
