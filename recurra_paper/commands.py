"""`recurra reproduce`, `recurra beyond` and `recurra report`: run, keep, draw, judge, and write the page."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recurra import FolderError, NotKeptError
from recurra.cli import Pace
from recurra_paper.beyond.book import BEYOND
from recurra_paper.book import Book
from recurra_paper.claims.base import ledger
from recurra_paper.experiments.base import Arrays
from recurra_paper.page import build
from recurra_paper.reproduce import Report, collect, made_on, reproduce
from recurra_paper.reproduction import REPRODUCTION
from recurra_paper.store import Store

BOOKS = {book.name: book for book in (REPRODUCTION, BEYOND)}


def run_command(
    book: Book, targets: Sequence[str], profile_name: str, out: Path, seeds: int | None = None, steps: int | None = None
) -> Path:
    """Run what the targets need and write the page; the path of the page."""
    profile = _profile(book, profile_name, seeds, steps)
    unknown = [target for target in targets if target not in book.figures]
    if unknown:
        raise FolderError(f"There is no target {', '.join(unknown)}. The targets are: {', '.join(book.figures)}.")
    wanted = book.experiments(profile)
    if targets:
        needed = tuple(prefix for target in targets for prefix in book.figures[target].needs(profile))
        wanted = [e for e in wanted if e.name.startswith(needed)]
    store = Store(out)
    with store.own.held():
        kept = store.recall().get("book", book.name)
        if kept != book.name:
            raise FolderError(
                f"{out} holds runs of `recurra {BOOKS[kept].command}`: choose another folder for `recurra "
                f"{book.command}`."
            )
        store.remember({"book": book.name, "profile": dataclasses.asdict(profile)})  # for `recurra report`
        found = reproduce(store, wanted, progress()) if wanted else {}
        return _page(store, book, profile, found)


def report_command(out: Path) -> Path:
    """Rebuild the page from what is kept."""
    store = Store(out, create=False)
    kept = store.recall()
    if "profile" not in kept:
        raise FolderError(f"{out} holds no kept runs yet: make some with `recurra reproduce --out {out}`.")
    book = BOOKS[kept.get("book", "reproduction")]
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in kept["profile"].items()}
    known = next(iter(book.profiles.values()))
    try:
        profile = type(known)(**values)
    except TypeError:
        raise FolderError(
            f"{out} was made by another version of recurra: run `recurra {book.command} --profile {values['name']} "
            f"--out {out}`, which keeps the runs that have not changed."
        ) from None
    with store.own.held():
        return _page(store, book, profile, {})


def progress() -> Report:
    """How far the whole and the present run are, and the time left: a line that is rewritten, or lines now and then."""
    live = sys.stderr.isatty()
    pace = Pace(every=0.2 if live else None)
    pace.rate(0.0)  # the whole starts now

    def report(name: str, whole: float, part: float) -> None:
        if whole < 1 and not pace.is_due():
            return
        line = f"{whole:4.0%} of the whole, {name} {part:4.0%}  {pace.left(whole, 1.0) if whole > 0.005 else ''}"
        print(f"\r\x1b[K{line}" if live else line, end="" if live else "\n", file=sys.stderr, flush=True)

    return report


def _page(store: Store, book: Book, profile: Any, found: Mapping[str, Arrays]) -> Path:
    """Write the page from what was just `found` and what else is kept."""
    everything = book.experiments(profile)
    kept = {**collect(store, [each for each in everything if each.name not in found]), **found}
    data = {each.name: kept[each.name] for each in everything if each.name in kept}
    rows = ledger(book.claims, data, profile, book.fresh.data(data) if book.fresh else None)
    made = {"profile": dataclasses.asdict(profile), **made_on(store.made)}
    try:
        return build(store.directory, book, data, rows, made)
    except OSError as error:
        raise NotKeptError(
            f"The page could not be written in {store.directory}: {error.strerror or error}. All runs are kept; make "
            f"room and rebuild it with `recurra report {store.directory}`."
        ) from None


def _profile(book: Book, name: str, seeds: int | None, steps: int | None) -> Any:
    if name not in book.profiles:
        raise FolderError(f"There is no profile {name!r}. The profiles are: {', '.join(book.profiles)}.")
    changes = {key: value for key, value in (("seeds", seeds), ("steps", steps)) if value is not None}
    for key, value in changes.items():
        if value < 2:
            raise FolderError(f"`{key}` must be at least 2, and is {value}: an uncertainty needs more than one.")
    return dataclasses.replace(book.profiles[name], **changes)
