"""What a Dask worker does before it takes orders, when it is one of several of a machine (`dask worker --preload`).

Each takes its share of the cores. JAX uses all cores that its process may use, and several processes on the same cores
slow each other down.
"""

import os
import re
import signal
from typing import Any

#: how many workers share the cores of this process
SHARED_BY = "RECURRA_WORKERS_HERE"
#: set if remarks of Dask are not to reach the terminal, nor Ctrl-C the worker: whoever started it sees to both
OWNED = "RECURRA_WORKER_IS_OWNED"


def dask_setup(worker: Any) -> None:
    """Called by Dask when the worker starts. Its name ends in its number among those that share the cores."""
    if OWNED in os.environ:
        from recurra.studies.places.quiet import silence

        silence()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    number = re.search(r"(\d+)$", str(worker.name))
    if number and hasattr(os, "sched_setaffinity"):
        own = share(sorted(os.sched_getaffinity(0)), int(number[1]), int(os.environ.get(SHARED_BY, "1")))
        for thread in os.listdir("/proc/self/task"):  # it holds for one thread, and those that it starts
            os.sched_setaffinity(int(thread), own)


def share(cores: list[int], number: int, count: int) -> list[int]:
    """The cores of one of `count` workers: neighbours, and as many for each as can be. Some share if cores are few."""
    number %= count
    if len(cores) < count:
        return [cores[number % len(cores)]]
    return cores[number * len(cores) // count : (number + 1) * len(cores) // count]
