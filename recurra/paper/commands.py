"""`recurra reproduce` and `recurra report`: run, keep, draw, judge, and write the page."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recurra.paper.claims import ledger
from recurra.paper.experiments import Arrays
from recurra.paper.figures import FIGURES
from recurra.paper.page import build
from recurra.paper.profiles import PROFILES, Profile
from recurra.paper.reproduce import Report, collect, reproduce, settings_of
from recurra.paper.store import NotKeptError, Store, StoreError
from recurra.training.console import console

#: seconds between plain lines of progress
LOG_EVERY = 10.0


def reproduce_command(
    targets: Sequence[str], profile_name: str, out: Path, seeds: int | None, steps: int | None
) -> Path:
    """Run what the targets need and write the page; the path of the page."""
    profile = _profile(profile_name, seeds, steps)
    unknown = [target for target in targets if target not in FIGURES]
    if unknown:
        raise StoreError(f"There is no target {', '.join(unknown)}. The targets are: {', '.join(FIGURES)}.")
    needed = [prefix for target in targets for prefix in FIGURES[target].needs(profile)] if targets else None
    store = Store(out)
    with store.held():
        store.remember({"profile": dataclasses.asdict(profile)})  # for `recurra report`
        # A drawing needs no experiment, and an empty list of prefixes must not mean all of them.
        if needed is None or needed:
            reproduce(store, profile, needed, progress())
        return _page(store, profile)


def report_command(out: Path) -> Path:
    """Rebuild the page from what is kept."""
    store = Store(out, create=False)
    kept = store.recall().get("profile")
    if kept is None:
        raise StoreError(f"{out} holds no kept runs yet: make some with `recurra reproduce --out {out}`.")
    tuples: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    with store.held():
        return _page(store, Profile(**tuples))


def progress() -> Report:
    """How far the whole and the present run are, and the time left: a line that is rewritten, or lines now and then."""
    started, last, live = time.perf_counter(), 0.0, console.isatty()

    def report(name: str, whole: float, part: float) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last < (0.2 if live else LOG_EVERY) and whole < 1:
            return
        last = now
        left = int((now - started) * (1 - whole) / whole) if whole > 0.005 else None
        clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left" if left is not None else ""
        line = f"{whole:4.0%} of the whole, {name} {part:4.0%}  {clock}"
        print(f"\r\x1b[K{line}" if live else line, end="" if live else "\n", file=console, flush=True)

    return report


def _page(store: Store, profile: Profile) -> Path:
    data: dict[str, Arrays] = collect(store, profile)
    rows = ledger(data, profile)
    try:
        return build(store.directory, data, rows, settings_of(profile, store.made))
    except OSError as error:
        raise NotKeptError(
            f"The page could not be written in {store.directory}: {error.strerror or error}. All runs are kept; make "
            f"room and rebuild it with `recurra report {store.directory}`."
        ) from None


def _profile(name: str, seeds: int | None, steps: int | None) -> Profile:
    if name not in PROFILES:
        raise StoreError(f"There is no profile {name!r}. The profiles are: {', '.join(PROFILES)}.")
    changes = {key: value for key, value in (("seeds", seeds), ("steps", steps)) if value is not None}
    for key, value in changes.items():
        if value < 2:
            raise StoreError(f"`{key}` must be at least 2, and is {value}: an uncertainty needs more than one.")
    return dataclasses.replace(PROFILES[name], **changes)
