"""A process that is asked to stop: by Ctrl-C, by a queue that ends a job, by a terminal that is closed."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from recurra.training.console import console, say
from recurra.training.interrupts import ASKING, Interrupted


class _Process:
    """What is known of stopping this process."""

    #: what `leave` lets go of
    releases: tuple[Callable[[], object], ...] = ()
    #: whether `leave` has to wait, and for which signal it was called meanwhile
    is_busy, waiting = False, 0
    #: where the numbers of signals arrive
    arrived: socket.socket | None = None


def watch() -> None:
    """Leave at once when asked to, from now on. A signal that is ignored stays so, as SIGHUP after `nohup`."""
    _replace((signal.SIG_DFL, signal.default_int_handler), leave)
    # A handler that raises KeyboardInterrupt does not tell which signal it was, and the exit status should.
    _Process.arrived, told = socket.socketpair()
    for end in (_Process.arrived, told):
        end.setblocking(False)
    signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)


def leave(number: int, _: Any) -> None:
    """End at once, for there is nothing to keep. An exception while JAX loads or compiles may crash it."""
    if _Process.is_busy:
        _Process.waiting = number
        return
    for release in _Process.releases:
        with contextlib.suppress(Exception):  # the signal may have come in the middle of it
            release()
    show_cursor = "\x1b[?25h" if console.isatty() else ""  # which a progress bar hides
    say(f"{show_cursor}Interrupted: nothing new was kept.")
    os._exit(128 + number)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Leave only afterwards, so that nothing is left half done: a file that was made is also removed."""
    _Process.is_busy = True
    try:
        yield
    finally:
        _Process.is_busy = False
        if _Process.waiting:
            leave(_Process.waiting, None)


def on_leaving(release: Callable[[], object]) -> None:
    """Also do this when the process is left at once."""
    _Process.releases += (release,)


def hand_over() -> None:
    """Before the first result: `recurra.train` is to note signals itself. Ctrl-C is already among those it takes."""
    _replace((leave,), signal.default_int_handler, ASKING[1:])


def keep(handler: Any = signal.default_int_handler) -> None:
    """From now on there is something to keep: signals raise KeyboardInterrupt."""
    _replace((leave,), handler)


def raise_on_signals() -> None:
    """From now on Ctrl-C and other requests to stop raise KeyboardInterrupt, once.

    Until then they end the process at once. An example is in docs/how-to/add-a-command.md.
    """
    keep(raise_once)


def raise_once(number: int, frame: FrameType | None) -> None:
    """A handler for `keep`. A signal may come again, as when a terminal closes: that changes nothing.

    Only Ctrl-C does, for a person has reasons.
    """
    if frame is not None and frame.f_code.co_name == "_xla_gc_callback":
        # Python ignores what is raised in a callback of the garbage collector, and JAX has one: ask again soon.
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        return
    _ignore_repeats()
    raise KeyboardInterrupt


def status(error: BaseException) -> int:
    """The exit status, once a signal has been heard."""
    _ignore_repeats()
    if isinstance(error, Interrupted):
        return 128 + error.signal
    try:
        arrived = _Process.arrived.recv(4096) if _Process.arrived else b""
    except BlockingIOError:
        arrived = b""
    return 128 + next((number for number in arrived if number in ASKING), signal.SIGINT)


def _ignore_repeats() -> None:
    _replace((leave, raise_once, signal.default_int_handler), signal.SIG_IGN, ASKING[1:])


def _replace(old: tuple[Any, ...], new: Any, numbers: tuple[int, ...] = ASKING) -> None:
    for number in numbers:
        if signal.getsignal(number) in old:
            signal.signal(number, new)
