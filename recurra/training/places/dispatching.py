"""Orders handed to workers, one at a time, tried once more, and taken back from workers that are gone.

`dispatch` knows the workers only by the protocol `Workers`: they are threads of this process, or Dask's. It decides
itself what goes where, because Dask's scheduler would lose orders: if a worker dies, Dask blames everything that the
worker held, and after some deaths gives up healthy orders together with the one that kills.

`Local` is the place without any other process: one order after the other on all cores or on the accelerator; where
there are several accelerators, a thread for each.
"""

import contextlib
import gc
import itertools
import queue
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from recurra.training.interrupts import Asked
from recurra.training.places.base import (
    TRIES,
    Attempt,
    Compute,
    Computed,
    Failure,
    Order,
    Results,
    accelerators,
    attempt,
    failure,
)

#: so many orders that gain by an accelerator wait for each accelerator before workers without one take them too
SPARE = 8
#: seconds after which the workers are looked at again
LOOK = 0.5


class Worker(NamedTuple):
    """What is known of a worker."""

    accelerated: bool = False
    #: whether it starts what it is given; one that is closing, or short of memory, does not
    is_ready: bool = True


@runtime_checkable
class Workers(Protocol):
    """Workers, by name."""

    def present(self) -> Mapping[str, Worker]:
        """Those that are there now."""
        ...

    def begin(self, number: int, worker: str, order: Order) -> None:
        """Hand an order to one worker, after those it already has."""
        ...

    def withdraw(self, number: int) -> None:
        """Forget an order that was begun: its attempt is not wanted any more."""
        ...

    def finished(self, seconds: float) -> list[tuple[int, Attempt]]:
        """Attempts that have ended, by number; none if that took too long."""
        ...


@dataclass
class _Task:
    order: Order
    attempts: list[Attempt] = field(default_factory=list)

    def was_at(self, worker: str) -> bool:
        return any(each.worker == worker for each in self.attempts)


class _Begun(NamedTuple):
    task: _Task
    worker: str


def dispatch(workers: Workers, orders: Iterable[Order], asked: Asked | None = None) -> Results:
    """Each order with its outcome, as `Place.each` promises."""
    dispatcher = _Dispatcher(workers, orders)
    try:
        goes_on = dispatcher.hand_out()
        while goes_on and not (asked and asked.signal):
            ended = dispatcher.collect()
            goes_on = dispatcher.hand_out()  # before the caller sees what has ended, so that no worker waits for that
            yield from ended
    finally:
        for number in dispatcher.begun:
            workers.withdraw(number)


class _Dispatcher:
    def __init__(self, workers: Workers, orders: Iterable[Order]) -> None:
        self.workers, self.orders = workers, iter(orders)
        self.numbers = itertools.count()
        #: the one order that each busy worker has, by its number
        self.begun: dict[int, _Begun] = {}
        #: tasks to try once more
        self.again: deque[_Task] = deque()
        #: orders drawn and not handed out: those that gain by an accelerator, and the others
        self.ahead: dict[bool, deque[Order]] = {True: deque(), False: deque()}
        self.unfit: set[str] = set()

    def hand_out(self) -> bool:
        """Give an order to each worker that has none; whether anything is left to be done."""
        ready = self._ready()
        busy = {begun.worker for begun in self.begun.values()}
        for worker in ready:
            if worker not in busy and (task := self._task_for(worker, ready)):
                number = next(self.numbers)
                self.begun[number] = _Begun(task, worker)
                self.workers.begin(number, worker, task.order)
        return bool(self.begun or self.again or any(self.ahead.values()) or self._draw())

    def collect(self) -> list[tuple[Order, Computed | Failure]]:
        """Wait a while for orders to end, and take back those of workers that are gone."""
        ended = [each for number, attempt in self.workers.finished(LOOK) for each in self._end(number, attempt)]
        present = self.workers.present()
        for number, (_, worker) in list(self.begun.items()):
            if worker not in present:
                self.workers.withdraw(number)
                ended += self._end(number, Attempt(worker, reason=f"worker {worker} was gone before it was finished"))
        return ended

    def _end(self, number: int, attempt: Attempt) -> Results:
        """Note an attempt; if it was the last one of its order, the order's outcome."""
        begun = self.begun.pop(number, None)
        if begun is None:  # withdrawn in the meantime
            return
        if attempt.is_unfit:
            self.unfit.add(begun.worker)
        if attempt.outcome is not None:
            yield begun.task.order, attempt.outcome
            return
        begun.task.attempts.append(replace(attempt, worker=begun.worker))
        if len(begun.task.attempts) < TRIES and not attempt.is_final:
            self.again.append(begun.task)
        else:
            yield begun.task.order, failure(begun.task.attempts)

    def _ready(self) -> dict[str, bool]:
        """The workers that take orders, and whether they have an accelerator. Unfit ones do if there are no others."""
        ready = {name: worker.accelerated for name, worker in self.workers.present().items() if worker.is_ready}
        fit = {name: has for name, has in ready.items() if name not in self.unfit}
        return fit or ready

    def _task_for(self, worker: str, ready: Mapping[str, bool]) -> _Task | None:
        for task in self.again:
            if not task.was_at(worker) or all(task.was_at(other) for other in ready):
                self.again.remove(task)
                return task
        order = self._order_for(ready[worker], ready)
        return None if order is None else _Task(order)

    def _order_for(self, is_accelerated: bool, ready: Mapping[str, bool]) -> Order | None:
        """An order that suits a worker. Kinds of orders matter only where there are both kinds of workers."""
        accelerators = sum(ready.values())
        both = 0 < accelerators < len(ready)
        most = SPARE * accelerators + 1 if both else 1
        own, other = self.ahead[is_accelerated], self.ahead[not is_accelerated]
        while not own and len(other) < most and self._draw():
            pass
        if own:
            return own.popleft()
        if other and (not both or is_accelerated or len(other) >= most):
            return other.popleft()
        return None

    def _draw(self) -> bool:
        """Draw an order; False if there are no more."""
        order = next(self.orders, None)
        if order is not None:
            self.ahead[order.gains].append(order)
        return order is not None


class Local:
    """Orders computed in this process. Nothing else needs to be installed."""

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def workers(self) -> int:
        devices = len(accelerators())
        return devices + 1 if devices > 1 else 1

    def each(self, compute: Compute, orders: Iterable[Order], asked: Asked | None = None) -> Results:
        devices = accelerators()
        return _on_devices(devices, compute, orders, asked) if len(devices) > 1 else _one_by_one(compute, orders, asked)


def _one_by_one(compute: Compute, orders: Iterable[Order], asked: Asked | None) -> Results:
    for order in orders:
        if asked and asked.signal:
            return
        tries: list[Attempt] = []
        while len(tries) < TRIES:
            tries.append(attempt(compute, order, "here"))
            if tries[-1].outcome is not None or tries[-1].is_final:
                break
            gc.collect()  # what a failed try leaves behind may be all the memory there is
        yield order, tries[-1].outcome or failure(tries)


def _on_devices(devices: list[Any], compute: Compute, orders: Iterable[Order], asked: Asked | None) -> Results:
    threads = DeviceThreads({str(device): device for device in devices}, compute)
    try:
        yield from dispatch(threads, orders, asked)
    finally:
        threads.stop()


class DeviceThreads:
    """A thread for each accelerator, and one for the cores, which compute what does not gain by an accelerator."""

    def __init__(self, devices: Mapping[str, Any], compute: Compute) -> None:
        self._compute = compute
        self._ended: queue.SimpleQueue[tuple[int, Attempt]] = queue.SimpleQueue()
        self._withdrawn: set[int] = set()
        self._cores = threading.Lock()
        self._workers = {**{name: Worker(accelerated=True) for name in devices}, "cores": Worker()}
        self._tasks: dict[str, queue.SimpleQueue[tuple[int, Order] | None]] = {}
        for name in self._workers:
            self._tasks[name] = queue.SimpleQueue()
            # A thread that waits for a device cannot be stopped, and is no reason to wait when the program ends.
            serve = threading.Thread(target=self._serve, args=(name, devices.get(name)), daemon=True)
            serve.start()

    def present(self) -> Mapping[str, Worker]:
        return self._workers

    def begin(self, number: int, worker: str, order: Order) -> None:
        self._tasks[worker].put((number, order))

    def withdraw(self, number: int) -> None:
        self._withdrawn.add(number)

    def finished(self, seconds: float) -> list[tuple[int, Attempt]]:
        try:
            return [self._ended.get(timeout=seconds)]
        except queue.Empty:
            return []

    def stop(self) -> None:
        """End the threads after what they compute."""
        for tasks in self._tasks.values():
            tasks.put(None)

    def _serve(self, name: str, accelerator: Any) -> None:
        import jax

        from recurra.engine.hardware import core_device

        while (task := self._tasks[name].get()) is not None:
            number, order = task
            uses_cores = accelerator is None or not order.gains
            device = core_device() if uses_cores else accelerator
            with self._cores if uses_cores else contextlib.nullcontext(), jax.default_device(device):
                if number not in self._withdrawn:
                    self._ended.put((number, attempt(self._compute, order, name)))
