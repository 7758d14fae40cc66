"""Run what the asked-for figures need, keep it, and go on where an earlier call stopped."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recurra.checkpoint import CheckpointError
from recurra.paper.experiments import Arrays, Experiment, experiments
from recurra.paper.experiments.base import Advance, described
from recurra.paper.profiles import Profile
from recurra.paper.setup import CURVES, learner_of, network_of, task_of
from recurra.paper.store import Store, StoreError
from recurra.training import LEARNING_RATE

#: takes the name of the experiment, how much of the whole is done (0 to 1), and how much of the experiment
Report = Callable[[str, float, float], None]


def reproduce(store: Store, profile: Profile, needed: Sequence[str] | None, report: Report) -> dict[str, Arrays]:
    """The arrays of every experiment whose name starts with one of `needed`; of all where it is None.

    What is kept is not run again. Each finished experiment is kept at once.
    """
    wanted = [e for e in experiments(profile) if needed is None or e.name.startswith(tuple(needed))]
    kept = {e.name: arrays for e in wanted if (arrays := store.get(e)) is not None}
    waiting = sorted((e for e in wanted if e.name not in kept), key=lambda e: e.cost)  # the page fills soonest
    total, done = sum(e.cost for e in waiting), 0.0
    for experiment in waiting:
        advance = lambda part, e=experiment, before=done: report(e.name, (before + part * e.cost) / total, part)
        advance(0.0)
        started = time.perf_counter()
        arrays = _run(experiment, store.checkpoint(experiment), advance)
        store.put(experiment, arrays, time.perf_counter() - started)
        kept[experiment.name] = arrays
        done += experiment.cost
    return {e.name: kept[e.name] for e in wanted}


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
    return "" if not seconds else f", {hours} h {minutes} min" if hours else f", {minutes} min"
