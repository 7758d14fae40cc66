"""Run what the asked-for figures need, keep it, and go on where an earlier call stopped."""

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from recurra.engine.hardware import cores
from recurra.paper.experiments import Arrays, Experiment, experiments
from recurra.paper.experiments.base import Advance, described
from recurra.paper.profiles import Profile
from recurra.paper.setup import CURVES, learner_of, network_of, task_of
from recurra.paper.store import Store, StoreError
from recurra.training.checkpoint import CheckpointError
from recurra.training.train import LEARNING_RATE

#: takes the name of the experiment, how much of the whole is done (0 to 1), and how much of the experiment
Report = Callable[[str, float, float], None]


#: Experiments at a time: while one compiles on one core, others run.
AT_ONCE = 4


def reproduce(store: Store, profile: Profile, needed: Sequence[str] | None, report: Report) -> dict[str, Arrays]:
    """The arrays of every experiment whose name starts with one of `needed`; of all where it is None.

    What is kept is not run again. Each finished experiment is kept at once.
    """
    wanted = [e for e in experiments(profile) if needed is None or e.name.startswith(tuple(needed))]
    kept = {e.name: arrays for e in wanted if (arrays := store.get(e)) is not None}
    waiting = sorted((e for e in wanted if e.name not in kept), key=lambda e: e.cost)  # short ones first
    progress, stop = _Progress(waiting, report), threading.Event()

    def run(experiment: Experiment) -> None:
        def advance(part: float) -> None:
            if stop.is_set():
                raise CancelledError
            progress.at(experiment, part)

        advance(0.0)
        started = time.perf_counter()
        arrays = _run(experiment, store.checkpoint(experiment), advance)
        store.put(experiment, arrays, time.perf_counter() - started)
        kept[experiment.name] = arrays
        progress.at(experiment, 1.0)

    for experiment in waiting:
        if experiment.alone:
            run(experiment)
    pool = ThreadPoolExecutor(min(AT_ONCE, cores()))
    try:
        running = [pool.submit(run, experiment) for experiment in waiting if not experiment.alone]
        for each in as_completed(running):
            each.result()
    except BaseException as error:  # what runs keeps its checkpoint and ends, the rest never starts
        stop.set()
        if isinstance(error, KeyboardInterrupt):
            print("\nStopping once what runs is kept; Ctrl-C again leaves at once.", file=sys.stderr, flush=True)
        pool.shutdown(cancel_futures=True)
        raise
    return {e.name: kept[e.name] for e in wanted}


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
        return experiment.run(checkpoint, advance)
    except CheckpointError:  # damaged, or of an older program: the part it holds is done again
        checkpoint.unlink()
        return experiment.run(checkpoint, advance)
    except OSError as error:
        raise StoreError(
            f"{experiment.name} stopped: {error.strerror or error} ({checkpoint.parent}). What was kept before is "
            "untouched; make room and run again."
        ) from None


def collect(store: Store, profile: Profile) -> dict[str, Arrays]:
    """What is kept so far."""
    found = {e.name: store.get(e) for e in experiments(profile)}
    return {name: arrays for name, arrays in found.items() if arrays is not None}


def settings_of(profile: Profile, made: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the page says about how it was made: the scale, and on which machines with which versions."""
    groups: dict[str, list[float]] = {}
    for about in made.values():
        words = _words(about["machine"]) + "; " + _words(about["versions"]) if about else "a machine not recorded"
        groups.setdefault(words, []).append(about.get("seconds", 0.0))
    told = [f"{len(each)} runs{_clock(sum(each))}: {words}" for words, each in groups.items()]
    names = ["machine", *(f"machine {i}" for i in range(2, len(told) + 1))]
    learners = {name: described(learner_of(name, "add", "1")) for name in CURVES}
    network = described(network_of(task_of("add", "1"), "1"))
    hyperparameters = {
        "network": network,
        "learning rate": LEARNING_RATE,
        "learners on Add": "; ".join(learners.values()),
    }
    return {"profile": dataclasses.asdict(profile), **hyperparameters, **dict(zip(names, told, strict=False))}


def _words(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def _clock(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    told = f"{hours} h {minutes} min" if hours else f"{minutes} min"
    return f", {told} in all, several at a time" if seconds else ""
