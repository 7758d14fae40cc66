"""Runs that are asked to stop: by Ctrl-C, by a queue that ends a job, by a terminal that is closed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

    from recurra.training.result import Result

#: the signals that ask a run to stop; Windows has no SIGHUP
ASKING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop, and did so between two steps. `result` is what there is, `signal` what asked for it.

    After `sweep` the result is a data set.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2)
    >>> try:
    ...     result = rc.train(network, rc.RFLO(), rc.Add(t1=1, t2=2), steps=200, seeds=2)
    ... except rc.Interrupted as stopped:  # after Ctrl-C
    ...     result = stopped.result
    """

    def __init__(self, message: str, result: "Result | xarray.Dataset", number: int):
        super().__init__(message)
        self.result: Any = result
        self.signal = number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.result, self.signal)  # so that it comes back whole from another process


class Asked:
    """Whether, and by which signal, a run was asked to stop."""

    signal: int | None = None


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """While it lasts, a signal that asks to stop is noted. A second Ctrl-C does what it did before.

    SIGTERM and SIGHUP may come more than once by themselves. A signal that is ignored stays so, as SIGHUP after
    `nohup`. A program's own handler of SIGTERM or SIGHUP stays too. Only the main thread receives signals.
    """
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in ASKING}
    taken = {number: handler for number, handler in before.items() if _may_be_taken(number, handler)}

    def note(number: int, _: Any) -> None:
        asked.signal = asked.signal or number
        if signal.SIGINT in taken:
            signal.signal(signal.SIGINT, taken[signal.SIGINT])

    for number in taken:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _may_be_taken(number: int, handler: Any) -> bool:
    if number == signal.SIGINT:
        return handler not in (signal.SIG_IGN, None)
    return handler in (signal.SIG_DFL, signal.default_int_handler)
