"""This process: one order after the other on all cores; where there are several accelerators, a thread for each."""

import contextlib
import gc
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recurra.engine.hardware import core_device
from recurra.studies.order import Failure, Order, Outcome
from recurra.studies.places.base import TRIES, Attempt, Compute, attempt, failure
from recurra.studies.places.checking import accelerators
from recurra.studies.places.dispatching import Hand, dispatch


class Local:
    """Orders computed in this process. Nothing else needs to be installed."""

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def workers(self) -> int:
        devices = len(accelerators())
        return devices + 1 if devices > 1 else 1

    def each(self, compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
        devices = accelerators()
        return _on_devices(devices, compute, orders) if len(devices) > 1 else _one_by_one(compute, orders)


def _one_by_one(compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
    for order in orders:
        tries: list[Attempt] = []
        while len(tries) < TRIES:
            tries.append(attempt(compute, order, "here"))
            if tries[-1].outcome is not None:
                break
            gc.collect()  # what a failed try leaves behind may be all the memory there is
        yield order, tries[-1].outcome or failure(tries)


def _on_devices(
    devices: list[Any], compute: Compute, orders: Iterable[Order]
) -> Iterator[tuple[Order, Outcome | Failure]]:
    threads = Threads({str(device): device for device in devices}, compute)
    try:
        yield from dispatch(threads, orders)
    finally:
        threads.stop()


class Threads:
    """A thread for each accelerator, and one for the cores, which compute what does not gain by an accelerator."""

    def __init__(self, devices: Mapping[str, Any], compute: Compute) -> None:
        self._compute = compute
        self._ended: queue.SimpleQueue[tuple[int, Attempt]] = queue.SimpleQueue()
        self._withdrawn: set[int] = set()
        self._cores = threading.Lock()
        self._hands = {**{name: Hand(accelerated=True) for name in devices}, "cores": Hand()}
        self._tasks: dict[str, queue.SimpleQueue[tuple[int, Order] | None]] = {}
        for name in self._hands:
            self._tasks[name] = queue.SimpleQueue()
            # A thread that waits for a device cannot be stopped, and is no reason to wait when the program ends.
            serve = threading.Thread(target=self._serve, args=(name, devices.get(name)), daemon=True)
            serve.start()

    def present(self) -> Mapping[str, Hand]:
        return self._hands

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

        while (task := self._tasks[name].get()) is not None:
            number, order = task
            uses_cores = accelerator is None or not order.gains
            device = core_device() if uses_cores else accelerator
            with self._cores if uses_cores else contextlib.nullcontext(), jax.default_device(device):
                if number not in self._withdrawn:
                    self._ended.put((number, attempt(self._compute, order, name)))
