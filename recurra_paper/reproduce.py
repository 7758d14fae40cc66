"""Run what the asked-for figures need, keep it, and go on where an earlier call stopped.

Experiments that compare losses over settings call `recurra.sweep`. The others call `recurra.train`, for what a sweep
does not give: weights, records that are passed on during a run, or a checkpoint in the middle of one that takes hours.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from recurra import CheckpointError, FolderError, NotKeptError, UselessCheckpointError, provenance
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.store import Store, remove

#: takes the name of the experiment, how much of the whole is done (0 to 1), and how much of the experiment
Report = Callable[[str, float, float], None]


#: Experiments at a time: while one compiles on one core, others run.
AT_ONCE = 8


def reproduce(store: Store, wanted: Sequence[Experiment], report: Report) -> dict[str, Arrays]:
    """The arrays of every wanted experiment. What is kept is not run again; each finished one is kept at once."""
    kept = {e.name: arrays for e in wanted if (arrays := store.get(e)) is not None}
    waiting = sorted((e for e in wanted if e.name not in kept), key=lambda e: e.cost)  # short ones first
    progress, stop = _Progress(waiting, report), threading.Event()
    finished: dict[str, tuple[Arrays, float]] = {}
    unkept: dict[str, str] = {}

    def run(experiment: Experiment) -> None:
        def advance(part: float) -> None:
            if stop.is_set():
                raise CancelledError
            progress.at(experiment, part)

        advance(0.0)
        started = time.perf_counter()
        try:
            arrays = _run(experiment, store.checkpoint(experiment), advance)
            finished[experiment.name] = arrays, time.perf_counter() - started
            store.put(experiment, *finished[experiment.name])
        except NotKeptError as error:
            unkept[experiment.name] = str(error)
            raise
        kept[experiment.name] = arrays
        progress.at(experiment, 1.0)

    def last_try() -> None:
        """Two that are written at once may both find no room, where there is room for one."""
        for experiment in [e for e in waiting if e.name in unkept and e.name in finished]:
            with suppress(NotKeptError):
                store.put(experiment, *finished[experiment.name])
                del unkept[experiment.name]

    # All of them run in threads, so that only this one, which waits, is asked to stop.
    pool = ThreadPoolExecutor(min(AT_ONCE, provenance.machine()["cores"]))
    running: list[Future[None]] = []
    try:
        for experiment in sorted(waiting, key=lambda e: not e.alone):
            running.append(pool.submit(run, experiment))
            if experiment.alone:
                running[-1].result()
        for each in as_completed(running):
            each.result()
    except BaseException as error:  # what runs keeps its checkpoint and ends, the rest never starts
        stop.set()
        if isinstance(error, KeyboardInterrupt):
            print("\nStopping once what runs is kept; Ctrl-C again leaves at once.", file=sys.stderr)
        pool.shutdown(cancel_futures=True)
        last_try()
        if isinstance(error, NotKeptError):
            raise NotKeptError(_in_words(unkept)) from None
        if unkept:
            print(f"error: {_in_words(unkept)}", file=sys.stderr)
        raise
    pool.shutdown()
    return {e.name: kept[e.name] for e in wanted}


def _in_words(unkept: Mapping[str, str]) -> str:
    names = lambda reason: ", ".join(name for name, why in unkept.items() if why == reason)
    each = "; ".join(f"{names(reason)} ({reason})" for reason in dict.fromkeys(unkept.values()))
    told = f"Not kept: {each}. " if each else "It stopped, for there was no room for a while. "
    return f"{told}Runs that were kept are untouched, and the same command goes on from there."


class _Progress:
    """How far the whole is when several experiments report."""

    def __init__(self, waiting: Sequence[Experiment], report: Report):
        self._total, self._report = sum(e.cost for e in waiting), report
        self._done: dict[str, float] = {}
        self._lock = threading.Lock()

    def at(self, experiment: Experiment, part: float) -> None:
        """An experiment has done this part of its work, from 0 to 1."""
        with self._lock:
            self._done[experiment.name] = part * experiment.cost
            self._report(experiment.name, sum(self._done.values()) / self._total, part)


def _run(experiment: Experiment, checkpoint: Path, advance: Advance) -> Arrays:
    try:
        try:
            return experiment.run(checkpoint, advance)
        except (UselessCheckpointError, FolderError) as error:
            if isinstance(error, NotKeptError):
                raise
            remove(checkpoint)  # damaged, or of an older program: the part it holds is done again
            return experiment.run(checkpoint, advance)
    except OSError as error:
        reason = f"{error.strerror or error}, in {checkpoint.parent}"
    except (CheckpointError, MemoryError, jax.errors.JaxRuntimeError) as error:
        reason = next(iter(str(error).splitlines()), "out of memory").rstrip(".")
    raise NotKeptError(reason)


def collect(store: Store, wanted: Sequence[Experiment]) -> dict[str, Arrays]:
    """What is kept so far."""
    found = {e.name: store.get(e) for e in wanted}
    return {name: arrays for name, arrays in found.items() if arrays is not None}


def made_on(made: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """On which machines, with which versions and in what time the runs were made, in words."""
    groups: dict[str, list[float]] = {}
    for about in made.values():
        words = _words(about["machine"]) + "; " + _words(about["versions"]) if about else "a machine not recorded"
        groups.setdefault(words, []).append(about.get("seconds", 0.0))
    told = [f"{len(each)} runs{_clock(sum(each))}: {words}" for words, each in groups.items()]
    names = ["machine", *(f"machine {i}" for i in range(2, len(told) + 1))]
    return dict(zip(names, told, strict=False))


def _words(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def _clock(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    told = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f", {told} in all, several at a time" if seconds else ""
