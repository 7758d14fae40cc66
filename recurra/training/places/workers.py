"""Several processes of this machine: `--workers N`. Each has its share of the cores, or an accelerator of its own.

Dask imports this module in every worker before it takes orders (`dask worker --preload`), and calls `dask_setup`: each
of several workers of a machine takes its share of the cores. JAX uses all cores that its process may use, and several
processes on the same cores slow each other down.
"""

import contextlib
import logging
import multiprocessing
import os
import re
import signal
from pathlib import Path
from typing import Any

from distributed import Nanny, Scheduler, SpecCluster

from recurra.training.places.base import PlaceError, one_line
from recurra.training.places.dask import DaskPlace, DaskWorkers, connected, silence

LOOPBACK = "127.0.0.1"
#: nobody but this machine, and no dashboard: what is left of it tells that the scheduler is well
UNSEEN = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
#: the variable that says how many workers share the cores of a process
SHARED_BY = "RECURRA_WORKERS_HERE"
#: the variable that is set if neither Dask's log messages are to reach the terminal nor Ctrl-C the worker: the process
#: that started the worker handles both
OWNED = "RECURRA_WORKER_IS_OWNED"
#: seconds a worker has to end by itself: there is nothing to be saved
END = 0.5


class Processes(DaskPlace):
    """Processes of this machine, which share its cores, or have an accelerator each. Only this machine can reach them.

    A script that starts processes is imported by them, so it must do that under `if __name__ == "__main__":`.

    >>> place = rc.places.Processes(4)  # for `rc.sweep(..., place=place)`
    >>> place.workers()
    4
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise PlaceError(f"There must be at least one worker, and {count} are asked for.")
        self._count = count

    def _connect(self, closing: contextlib.ExitStack) -> DaskWorkers:
        _refuse_second_import()
        try:
            cluster = closing.enter_context(contextlib.closing(_cluster(self._count)))
        except (RuntimeError, OSError) as error:
            raise PlaceError(f"The {self._count} worker processes could not be started: {one_line(error)}") from None
        client = closing.enter_context(connected(cluster, None, 30.0))
        return DaskWorkers(client, cluster.scheduler_address)

    def workers(self) -> int:
        """How many processes there are."""
        return self._count


class _Nanny(Nanny):
    """Starts a worker process again if it dies, and does not wait long for it to end."""

    async def close(self, timeout: float = END, reason: str = "nanny-close") -> Any:
        return await super().close(timeout=min(timeout, END), reason=reason)


def _cluster(count: int) -> SpecCluster:
    scheduler = {"cls": Scheduler, "options": {"host": LOOPBACK, "port": 0, "protocol": "tcp://", **UNSEEN}}
    return SpecCluster(
        scheduler=scheduler,
        workers={number: {"cls": _Nanny, "options": _options(number, count)} for number in range(count)},
        silence_logs=False,
    )


def _options(number: int, count: int) -> dict[str, Any]:
    gpus = _gpus()
    device = {"CUDA_VISIBLE_DEVICES": gpus[number]} if number < len(gpus) else {"JAX_PLATFORMS": "cpu"} if gpus else {}
    return {
        "host": LOOPBACK,
        "protocol": "tcp://",
        "nthreads": 1,
        "memory_limit": 0,  # a worker near Dask's limit would stop to take orders; the engine looks at memory itself
        "dashboard_address": f"{LOOPBACK}:0",
        "silence_logs": logging.CRITICAL + 1,
        "preload": [__name__],
        "env": {SHARED_BY: str(count), OWNED: "1", **device},
    }


def _gpus() -> list[str]:
    """The NVIDIA GPUs of this machine as CUDA numbers them. JAX is not asked: it would take their memory."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name for name in visible.split(",") if name]
    if os.environ.get("JAX_PLATFORMS", "cuda") == "cpu":
        return []
    found = [path.name for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(number) for number in range(len(found))]


def _refuse_second_import() -> None:
    """A program that starts processes is imported by them, and must not start more of them then."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise PlaceError('Worker processes import your program: put what it does under `if __name__ == "__main__":`.')


def dask_setup(worker: Any) -> None:
    """Called by Dask when the worker starts. Its name ends in its number among those that share the cores."""
    if OWNED in os.environ:
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
