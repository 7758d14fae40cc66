"""Workers of Dask: orders go to a scheduler, which sends them on, and attempts come back the same way.

What is sent are orders, which are plain data, and names of functions. A worker imports the library that is installed
where it runs, and refuses orders that were written with other versions.
"""

import asyncio
import importlib
import itertools
import queue
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from typing import Any

from distributed import get_worker
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from recurra.studies.order import Failure, Order, Outcome
from recurra.studies.places.base import Attempt, Compute, PlaceLost, attempt, one_line
from recurra.studies.places.checking import accelerated_so_far, refusal, versions
from recurra.studies.places.dispatching import Hand, dispatch
from recurra.training.console import say

#: seconds between looks at which workers there are; with many workers more, since the answer is long
LOOK = 1.0
LOOK_FOR_EACH = 0.01
#: seconds after which a scheduler that does not answer is given up
SILENT = 60.0
#: seconds without workers after which that is said, and said again
WAITED, WAITED_AGAIN = 5.0, 60.0

#: a process computes one order at a time, however many threads Dask was told to use: JAX uses all cores by itself
_one_at_a_time = threading.Lock()


def reference(compute: Callable[..., Any]) -> str:
    """A function's module and name, by which a worker finds it. Only names are sent, never code."""
    module, name = compute.__module__, compute.__qualname__
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is None:
        raise TypeError(f"A worker cannot import `{name}` of `{module}`: it must be a function of an installed module.")
    return f"{module}:{name}"


def work(name: str, order: Order) -> Attempt:
    """Compute an order. This runs on a worker."""
    module, function = name.split(":")
    worker = str(get_worker().address)
    refused = refusal(order.versions, versions(), worker)
    if refused:
        return Attempt(worker, reason=refused, is_unfit=True)
    with _one_at_a_time:
        result = attempt(getattr(importlib.import_module(module), function), order, worker)
    return Attempt(worker, result.outcome, result.reason, accelerated=accelerated_so_far())


def each_on(hands: "DaskHands", compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
    """Each order with what it came to, as `Place.each` promises."""
    hands.compute = reference(compute)
    yield from dispatch(hands, orders)


class DaskHands:
    """The workers of a scheduler. Whatever takes time happens in Dask's own thread, so that nothing can hang here."""

    def __init__(self, client: Any, where: str, hint: str = "", tend: Callable[[int, int], None] | None = None) -> None:
        self.client, self.where, self.compute = client, where, ""
        #: called again and again, with the number of outcomes so far and of workers now
        self._tend = tend or (lambda outcomes, workers: None)
        self._outcomes = 0
        #: what to do where there are no workers
        self._hint = hint
        #: the workers of which it is known whether they have an accelerator
        self.accelerated: dict[str, bool] = {}
        self._present: dict[str, Hand] = {}
        self._futures: dict[int, Any] = {}
        self._ended: queue.SimpleQueue[tuple[int, Any, Attempt | Exception]] = queue.SimpleQueue()
        self._lost = ""
        self._prefix, self._keys = f"recurra-{uuid.uuid4().hex}", itertools.count()
        self._heard = self._peopled = time.monotonic()
        self._patience = WAITED
        self._seen = threading.Event()
        client.loop.add_callback(self._watch)
        self._seen.wait(SILENT)

    def present(self) -> Mapping[str, Hand]:
        return self._present

    def wait(self) -> None:
        """Wait until there is a worker, saying so from time to time."""
        while not self._present:
            self._check()
            time.sleep(0.05)

    def begin(self, number: int, worker: str, order: Order) -> None:
        self._check()
        with warnings.catch_warnings():  # a state is what it is
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            future = self.client.submit(
                work, self.compute, order, key=f"{self._prefix}-{next(self._keys)}", workers=[worker], pure=False
            )
        self._futures[number] = future
        self.client.loop.add_callback(self._fetch, number, future)

    def withdraw(self, number: int) -> None:
        future = self._futures.pop(number, None)
        if future is not None and not self._lost and self.client.status == "running":
            future.release()

    def finished(self, seconds: float) -> list[tuple[int, Attempt]]:
        self._check()
        try:
            ended = [self._ended.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._ended.empty():
            ended.append(self._ended.get())
        # What was withdrawn may end nevertheless, and its number may have been given anew.
        wanted = [each for each in ended if self._futures.get(each[0]) is each[1]]
        return [(number, self._noted(number, self._judged(result))) for number, _, result in wanted]

    def _noted(self, number: int, attempt: Attempt) -> Attempt:
        del self._futures[number]
        self._outcomes += attempt.outcome is not None
        if attempt.accelerated is not None:
            self.accelerated[attempt.worker] = attempt.accelerated
        return attempt

    def _judged(self, result: Attempt | Exception) -> Attempt:
        if isinstance(result, Attempt):
            return result
        if isinstance(result, KilledWorker):
            return Attempt("", reason=f"worker {result.last_worker.address} died while it computed it")
        if isinstance(result, (CommClosedError, CancelledError)):  # nothing is cancelled but what is withdrawn
            raise self._gone("the connection broke")
        # Errors of computing are attempts. What arrives here happened before: most likely nothing is installed there.
        return Attempt("", reason=one_line(result), is_unfit=isinstance(result, ImportError))

    async def _fetch(self, number: int, future: Any) -> None:
        """Bring an attempt here when it has ended. Runs in Dask's thread."""
        try:
            self._ended.put((number, future, await future.result()))
        except Exception as error:
            self._ended.put((number, future, error))

    async def _watch(self) -> None:
        """Look after the workers from time to time. Runs in Dask's thread."""
        try:
            while self.client.status in ("running", "connecting"):
                workers = (await self.client.scheduler.identity())["workers"]
                self._heard = time.monotonic()
                self._present = {
                    name: Hand(self.accelerated.get(name, False), info["status"] == "running")
                    for name, info in workers.items()
                }
                self._seen.set()
                await asyncio.sleep(LOOK + LOOK_FOR_EACH * len(workers))
            self._lost = self._lost or "the connection broke"
        except Exception as error:
            self._lost = one_line(error)
        finally:
            self._seen.set()

    def _check(self) -> None:
        """Raise if the scheduler is gone; say so if there are no workers."""
        now = time.monotonic()
        if self._lost or self.client.status != "running":
            raise self._gone(self._lost or "the connection broke")
        if now - self._heard > SILENT:
            raise self._gone(f"it has not answered for {SILENT:.0f} seconds")
        self._tend(self._outcomes, len(self._present))
        if self._present:
            self._peopled, self._patience = now, WAITED
        elif now - self._peopled > self._patience:
            say(f"Waiting for workers of {self.where}: there are none. {self._hint}")
            self._patience += WAITED_AGAIN

    def _gone(self, seen: str) -> PlaceLost:
        self._lost = seen
        return PlaceLost(
            f"The Dask scheduler at {self.where} is gone ({seen}). What was finished is kept, and the same command goes"
            " on from there."
        )
