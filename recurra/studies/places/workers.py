"""Several processes of this machine: `--workers N`. Each has its share of the cores, or an accelerator of its own."""

import contextlib
import logging
import multiprocessing
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from distributed import Nanny, Scheduler, SpecCluster

from recurra.studies.order import Failure, Order, Outcome
from recurra.studies.places.base import Compute, PlaceError, one_line
from recurra.studies.places.dask import connected
from recurra.studies.places.hands import DaskHands, each_on
from recurra.studies.places.pinning import OWNED, SHARED_BY
from recurra.studies.places.quiet import quiet

LOOPBACK = "127.0.0.1"
#: nobody but this machine, and no dashboard: what is left of it tells that the scheduler is well
UNSEEN = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
#: seconds a worker has to end by itself: there is nothing to be saved
END = 0.5


class LocalWorkers:
    """Processes of this machine, which only this machine can reach."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise PlaceError(f"There must be at least one worker, and {count} are asked for.")
        self._count = count

    def __enter__(self) -> "LocalWorkers":
        _refuse_second_import()
        with contextlib.ExitStack() as closing:
            closing.enter_context(quiet())
            try:
                cluster = closing.enter_context(contextlib.closing(_cluster(self._count)))
            except (RuntimeError, OSError) as error:
                raise PlaceError(
                    f"The {self._count} worker processes could not be started: {one_line(error)}"
                ) from None
            client = closing.enter_context(connected(cluster, None, 30.0))
            self._hands = DaskHands(client, cluster.scheduler_address)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def workers(self) -> int:
        return self._count

    def each(self, compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
        return each_on(self._hands, compute, orders)


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
        "preload": ["recurra.studies.places.pinning"],
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
