"""Who computes what: orders are handed to workers two at a time, tried once more, and taken back from the dead.

Whoever runs the workers is behind `Hands`: threads of this process, or Dask. A worker computes one order and has the
next one waiting, so that it need not wait itself while an outcome is written to disk.
"""

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, runtime_checkable

from recurra.studies.order import Failure, Order, Outcome
from recurra.studies.places.base import TRIES, Attempt, failure

#: orders a worker has: the one it computes, and the next
SLOTS = 2
#: so many orders that gain by an accelerator wait for each accelerator before workers without one take them too
SPARE = 8
#: seconds after which the workers are looked at again
LOOK = 0.5


class Hand(NamedTuple):
    """What is known of a worker."""

    accelerated: bool = False
    #: whether it starts what it is given; one that is closing, or short of memory, does not
    is_ready: bool = True


@runtime_checkable
class Hands(Protocol):
    """Workers, by name."""

    def present(self) -> Mapping[str, Hand]:
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


def dispatch(hands: Hands, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
    """Each order with what it came to, as `Place.each` promises."""
    state = _Dispatch(hands, orders)
    try:
        goes_on = state.hand_out()
        while goes_on:
            ended = state.collect()
            goes_on = state.hand_out()  # before others see to what has ended, so that nobody waits for them
            yield from ended
    finally:
        state.withdraw_all()


class _Dispatch:
    def __init__(self, hands: Hands, orders: Iterable[Order]) -> None:
        self.hands, self.orders = hands, iter(orders)
        self.numbers = itertools.count()
        self.is_drawn = False
        self.begun: dict[int, _Begun] = {}
        #: tasks to try once more, or that a worker was not to begin with
        self.again: deque[_Task] = deque()
        #: orders drawn and not handed out: those that gain by an accelerator, and the others
        self.ahead: dict[bool, deque[Order]] = {True: deque(), False: deque()}
        self.unfit: set[str] = set()

    def hand_out(self) -> bool:
        """Give workers what they have room for; whether anything is left to be done."""
        ready = self._ready()
        for load in range(SLOTS):
            loads = Counter(begun.worker for begun in self.begun.values())
            for worker in ready:
                if loads[worker] == load and (task := self._task_for(worker, ready)):
                    self._begin(worker, task)
        self._level(ready)
        return bool(self.begun or self.again or any(self.ahead.values()) or not self._is_exhausted())

    def collect(self) -> list[tuple[Order, Outcome | Failure]]:
        """Wait a while for orders to end."""
        ended = [each for number, attempt in self.hands.finished(LOOK) for each in self.end(number, attempt)]
        return ended + list(self.bury())

    def end(self, number: int, attempt: Attempt) -> Iterator[tuple[Order, Outcome | Failure]]:
        """Note an attempt; if it was the last one of its order, what the order came to."""
        begun = self.begun.pop(number, None)
        if begun is None:  # withdrawn in the meantime
            return
        if attempt.is_unfit:
            self.unfit.add(begun.worker)
        if attempt.outcome is not None:
            yield begun.task.order, attempt.outcome
            return
        begun.task.attempts.append(replace(attempt, worker=begun.worker))
        if len(begun.task.attempts) < TRIES:
            self.again.append(begun.task)
        else:
            yield begun.task.order, failure(begun.task.attempts)

    def bury(self) -> Iterator[tuple[Order, Outcome | Failure]]:
        """Take back the orders of workers that are gone. The first that has not ended was tried."""
        present = self.hands.present()
        for worker, numbers in self._by_worker().items():
            if worker in present:
                continue
            first, *others = numbers
            self.hands.withdraw(first)
            yield from self.end(first, Attempt(worker, reason=f"worker {worker} was gone before it was finished"))
            self._take_back(others)

    def withdraw_all(self) -> None:
        """Leave nothing begun behind."""
        for number in self.begun:
            self.hands.withdraw(number)
        self.begun.clear()

    def _begin(self, worker: str, task: _Task) -> None:
        number = next(self.numbers)
        self.begun[number] = _Begun(task, worker)
        self.hands.begin(number, worker, task.order)

    def _ready(self) -> dict[str, bool]:
        """The workers that take orders, and whether they have an accelerator. Unfit ones do if there are no others."""
        ready = {name: hand.accelerated for name, hand in self.hands.present().items() if hand.is_ready}
        fit = {name: has for name, has in ready.items() if name not in self.unfit}
        return fit or ready

    def _task_for(self, worker: str, ready: Mapping[str, bool]) -> _Task | None:
        for place, task in enumerate(self.again):
            if not task.was_at(worker) or all(task.was_at(other) for other in ready):
                del self.again[place]
                return task
        order = self._order_for(ready[worker], ready)
        return None if order is None else _Task(order)

    def _order_for(self, is_accelerated: bool, ready: Mapping[str, bool]) -> Order | None:
        """An order that suits a worker. Kinds of orders matter only where there are both kinds of workers."""
        accelerators = sum(ready.values())
        both = 0 < accelerators < len(ready)
        most = SPARE * accelerators + 1 if both else 1
        own, other = self.ahead[is_accelerated], self.ahead[not is_accelerated]
        while not own and len(other) < most and (order := next(self.orders, None)) is not None:
            self.ahead[order.gains].append(order)
        if own:
            return own.popleft()
        if other and (not both or is_accelerated or len(other) >= most):
            return other.popleft()
        return None

    def _is_exhausted(self) -> bool:
        """Whether there are no more orders. One is drawn to know it."""
        if not self.is_drawn and (order := next(self.orders, None)) is not None:
            self.ahead[order.gains].append(order)
            return False
        self.is_drawn = True
        return True

    def _level(self, ready: Mapping[str, bool]) -> None:
        """Move what waits behind another order to a worker that has none, or away from one that begins nothing."""
        held = self._by_worker()
        idle = [worker for worker in ready if worker not in held]
        for worker, (_, *waiting) in held.items():
            if worker not in ready and worker in self.hands.present():
                self._take_back(waiting)
            elif waiting and (free := self._free_for(self.begun[waiting[-1]], idle, ready)):
                idle.remove(free)
                task = self.begun.pop(waiting[-1]).task
                self.hands.withdraw(waiting[-1])
                self._begin(free, task)

    @staticmethod
    def _free_for(begun: _Begun, idle: list[str], ready: Mapping[str, bool]) -> str | None:
        """An idle worker that computes it as fast as the one it waits for, or faster."""
        task, worker = begun
        for free in idle:
            if not task.was_at(free) and ready[free] in (ready.get(worker), task.order.gains):
                return free
        return None

    def _take_back(self, numbers: list[int]) -> None:
        for number in numbers:
            self.hands.withdraw(number)
            self.again.appendleft(self.begun.pop(number).task)

    def _by_worker(self) -> dict[str, list[int]]:
        """The orders that each worker has, in the sequence in which it got them."""
        held: dict[str, list[int]] = {}
        for number, begun in self.begun.items():
            held.setdefault(begun.worker, []).append(number)
        return held
