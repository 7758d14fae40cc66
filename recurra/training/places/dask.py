"""Workers of Dask, and the place for a scheduler that is running already: `--cluster tcp://…` or `tls://…`.

What is sent are orders, which are plain data but for parts that a user has written, and names of functions. A worker
imports the library that is installed where it runs, and refuses orders that were written with other versions. Which
worker computes what, and what is tried again, is decided by `dispatch`, which says why. See docs/clusters.md.

Dask's `as_completed` is not used, since it waits without an end where a worker is gone that alone may compute an order,
or a scheduler is silent, while `dispatch` looks up every half second. Nor are Dask's resources: they are declared when
workers start, while here workers are asked whether they have an accelerator; and they can forbid a worker an order, but
not keep the order back until a better worker has had the chance.
"""

import abc
import asyncio
import contextlib
import importlib
import itertools
import logging
import queue
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Security, get_worker
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker
from distributed.versions import VersionMismatchWarning

from recurra.training.console import say
from recurra.training.interrupts import Asked
from recurra.training.places.base import (
    Attempt,
    Compute,
    Order,
    PlaceError,
    PlaceLost,
    Results,
    Tls,
    accelerated_so_far,
    attempt,
    described,
    one_line,
    refusal,
    versions,
)
from recurra.training.places.dispatching import Worker, dispatch

#: seconds that workers have to say which versions they have: they import JAX for it
ANSWER = 120.0
#: seconds in which a connection is closed properly
CLOSE = 2.0
#: seconds between looks at which workers there are; with many workers more, since the answer is long
LOOK = 1.0
LOOK_FOR_EACH = 0.01
#: seconds after which a scheduler that does not answer is given up
SILENT = 60.0
#: seconds without workers after which that is said, and said again
WAITED, WAITED_AGAIN = 5.0, 60.0
#: whose log messages are silenced
SOURCES = ("distributed", "tornado", "bokeh", "asyncio")

#: a process computes one order at a time, however many threads Dask was told to use: JAX uses all cores by itself
_one_at_a_time = threading.Lock()


class DaskPlace(abc.ABC):
    """A place whose workers are Dask's."""

    @abc.abstractmethod
    def _connect(self, closing: contextlib.ExitStack) -> "DaskWorkers":
        """Reach or start the workers. What must be ended when the place is left is entered into `closing`."""

    @abc.abstractmethod
    def workers(self) -> int:
        """How many orders are computed at the same time, at least 1."""

    def __enter__(self) -> "DaskPlace":
        with contextlib.ExitStack() as closing:
            closing.enter_context(_silenced())
            self._workers = self._connect(closing)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def each(self, compute: Compute, orders: Iterable[Order], asked: Asked | None = None) -> Results:
        """Each order with its outcome, as they are finished: see `Place.each`."""
        return self._workers.each(compute, orders, asked)


class Cluster(DaskPlace):
    """The workers of a Dask scheduler that somebody has started, at an address such as `tcp://host:8786`.

    `tls` is for an address that begins with `tls://`. All workers must have the versions that are installed here.

    >>> place = rc.places.Cluster("tcp://host:8786")  # for `rc.sweep(..., place=place)`
    >>> place.address
    'tcp://host:8786'
    """

    def __init__(self, address: str, tls: Tls | None = None, *, timeout: float = 5.0) -> None:
        self.address, self._security, self._timeout = address, security_of(address, tls), timeout

    def _connect(self, closing: contextlib.ExitStack) -> "DaskWorkers":
        client = closing.enter_context(connected(self.address, self._security, self._timeout))
        workers = DaskWorkers(client, self.address, f"Start some: dask worker {self.address} --nthreads 1")
        workers.wait()
        workers.accelerated |= _accelerated(client)
        return workers

    def workers(self) -> int:
        """How many workers there are now, at least 1."""
        return max(len(self._workers.present()), 1)


def security_of(address: str, tls: Tls | None) -> Security | None:
    """What Dask needs to reach an address; a `PlaceError` if it is none, or does not go with the files given."""
    try:
        parts = urlsplit(address)
        is_complete = bool(parts.hostname and parts.port)
    except ValueError:
        parts, is_complete = urlsplit(""), False
    if parts.scheme not in ("tcp", "tls") or not is_complete:
        raise PlaceError(
            f"{address} is not the address of a Dask scheduler: write tcp://HOST:PORT, or tls://HOST:PORT for one that"
            " uses TLS. `dask scheduler` says which it is when it starts."
        )
    if parts.scheme == "tls" and tls is None:
        raise PlaceError(f"{address} is reached with certificates: name a CA file, a certificate and a key.")
    if parts.scheme == "tcp" and tls is not None:
        raise PlaceError(f"There are certificates, and {address} does not use them: write tls:// instead of tcp://.")
    return None if tls is None else secured(tls)


def secured(tls: Tls) -> Security:
    """The same certificate for this process and, where it starts them, for scheduler and workers."""
    for path in (tls.ca_file, tls.cert, tls.key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise PlaceError(f"{path} cannot be read ({error.strerror}): TLS needs it.") from None
    roles = {
        f"tls_{role}_{part}": str(getattr(tls, part))
        for role in ("client", "scheduler", "worker")
        for part in ("cert", "key")
    }
    security = Security(require_encryption=True, tls_ca_file=str(tls.ca_file), **roles)
    try:
        security.get_connection_args("client")
    except OSError as error:
        raise PlaceError(f"The TLS files do not work: {one_line(error)}. They must be in PEM format.") from None
    return security


@contextmanager
def connected(address: Any, security: Security | None, timeout: float) -> Iterator[Client]:
    """A client of a scheduler, by its address or as Dask's cluster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)  # what matters is checked, and named, by us
        try:
            client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise PlaceError(
                f"No Dask scheduler answers at {address} ({one_line(error)}). Is it running, and can this machine reach"
                " it? One is started with `dask scheduler`."
            ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # a scheduler that is gone is no reason to fail once more
            client.close(timeout=CLOSE)


def _accelerated(client: Client) -> dict[str, bool]:
    """Whether each worker has an accelerator; a `PlaceError` if one has other versions."""
    answers = _within(ANSWER, lambda: client.run(described, on_error="return"))
    wrong = []
    for worker, answer in answers.items():
        if isinstance(answer, ImportError):
            wrong.append(f"worker {worker} has no recurra that works ({one_line(answer)}): install the same there")
        elif not isinstance(answer, Exception) and (refused := refusal(versions(), answer["versions"], worker)):
            wrong.append(refused)
    if wrong:
        raise PlaceError("\n".join([f"{len(wrong)} of {len(answers)} workers cannot compute this study:", *wrong]))
    return {worker: answer["accelerated"] for worker, answer in answers.items() if isinstance(answer, dict)}


def _within(seconds: float, ask: Any) -> dict[str, Any]:
    """What a question to all workers brings; nothing if one of them keeps silent."""
    answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def fetch() -> None:
        with contextlib.suppress(Exception):  # a scheduler that is lost meanwhile is found later
            answers.put(ask())

    threading.Thread(target=fetch, daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return {}


class DaskWorkers:
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
        self._present: dict[str, Worker] = {}
        self._futures: dict[int, Any] = {}
        self._ended: queue.SimpleQueue[tuple[int, Any, Attempt | Exception]] = queue.SimpleQueue()
        self._lost = ""
        self._prefix, self._keys = f"recurra-{uuid.uuid4().hex}", itertools.count()
        self._heard = self._peopled = time.monotonic()
        self._patience = WAITED
        self._seen = threading.Event()
        client.loop.add_callback(self._watch)
        self._seen.wait(SILENT)

    def each(self, compute: Compute, orders: Iterable[Order], asked: Asked | None = None) -> Results:
        """Each order with its outcome, as `Place.each` promises."""
        self.compute = reference(compute)
        yield from dispatch(self, orders, asked)

    def present(self) -> Mapping[str, Worker]:
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
        return [(number, self._attempt(number, result)) for number, _, result in wanted]

    def _attempt(self, number: int, result: Attempt | Exception) -> Attempt:
        """The attempt that a result stands for, taken note of."""
        attempt = self._judged(result)
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
                    name: Worker(self.accelerated.get(name, False), info["status"] == "running")
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


@contextmanager
def _silenced() -> Iterator[None]:
    """Silences Dask's own log messages in this process; failures that matter to the user are reported by `places`."""
    before = silence()
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def silence() -> dict[logging.Logger, int]:
    """Silences Dask's own log messages from now on. Returns the loggers with the levels they had."""
    names = [name for name in [*logging.root.manager.loggerDict, *SOURCES] if name.split(".")[0] in SOURCES]
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in before:
        logger.setLevel(logging.CRITICAL + 1)
    return before
