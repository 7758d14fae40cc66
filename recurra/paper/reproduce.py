"""Run what the asked-for figures need, keep it, and go on where an earlier call stopped."""

import dataclasses
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recurra.paper.experiments import Arrays, experiments
from recurra.paper.profiles import Profile
from recurra.paper.store import Store

#: takes the name of the experiment, how much of the whole is done (0 to 1), and how much of the experiment
Report = Callable[[str, float, float], None]


def reproduce(store: Store, profile: Profile, needed: Sequence[str] | None, report: Report) -> dict[str, Arrays]:
    """The arrays of every experiment whose name starts with one of `needed`; of all where it is None.

    What is kept is not run again. Each finished experiment is kept at once.
    """
    wanted = [e for e in experiments(profile) if needed is None or e.name.startswith(tuple(needed))]
    kept = {e.name: arrays for e in wanted if (arrays := store.get(e)) is not None}
    waiting = [e for e in wanted if e.name not in kept]
    total, done = sum(e.cost for e in waiting), 0.0
    for experiment in waiting:
        advance = lambda part, e=experiment, before=done: report(e.name, (before + part * e.cost) / total, part)
        advance(0.0)
        arrays = experiment.run(store.checkpoint(experiment), advance)
        store.put(experiment, arrays)
        kept[experiment.name] = arrays
        done += experiment.cost
    return {e.name: kept[e.name] for e in wanted}


def collect(store: Store, profile: Profile) -> dict[str, Arrays]:
    """What is kept so far."""
    found = {e.name: store.get(e) for e in experiments(profile)}
    return {name: arrays for name, arrays in found.items() if arrays is not None}


def settings_of(profile: Profile, started: float | None = None) -> dict[str, Any]:
    """What the page says about how it was made."""
    import jax

    packages = ("recurra", "jax", "jaxlib", "equinox", "numpy", "scipy", "matplotlib")
    about: dict[str, Any] = {
        "profile": dataclasses.asdict(profile),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "machine": {
            "processor": _processor(),
            "system": platform.system(),
            "devices": ", ".join(sorted({device.device_kind for device in jax.devices()})),
        },
    }
    if started is not None:
        about["seconds"] = round(time.time() - started)
    return about


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
