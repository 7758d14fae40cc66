"""The page that shows it all: every figure with its claims, the numbers, all claims once more, and how they came about.

DIR/index.html         one file that needs no other, and no network
DIR/claims.json        the ledger
DIR/figures/NAME.svg   each figure once more, to take away; NAME.png likewise
DIR/data/NAME.csv      the numbers it shows, and tables that have no figure
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from recurra.pages import plots
from recurra.pages.page import picture, write_page
from recurra.saved.whole_files import write_whole
from recurra_paper import wording
from recurra_paper.book import Book
from recurra_paper.figures.drawn import Data, Drawn, Table
from recurra_paper.score import STATUSES as STATUSES
from recurra_paper.score import Row, Score, Scores

#: an SVG larger than this many bytes is shown as a PNG of so many dots per inch
LARGEST, DOTS = 600_000, 200
#: what a claim rests on, by the class that the page's filter knows it by
KINDS = {"sampled": "on samples", "counted": "on counts"}


def build(directory: Path, book: Book, data: Data, rows: Sequence[Row], made: Mapping[str, Any]) -> Path:
    """Write the page and what goes with it into the directory; the path of `index.html`.

    `rows` is the ledger, `made` says how and where it was made. Figures whose experiments are not in the data are left
    out, and the page says which.
    """
    scores = Scores.of(rows)
    for folder in (directory, directory / "figures", directory / "data"):
        folder.mkdir(parents=True, exist_ok=True)
    ledger = json.dumps(wording.plain(rows), indent=2, ensure_ascii=False, allow_nan=False)
    _write(directory / "claims.json", ledger + "\n")
    drawn = {name: module.draw(data) for name, module in book.figures.items()}
    figures = [
        _written(directory, name, found) | beside(name, found, rows) | {"title": book.figures[name].TITLE}
        for name, found in drawn.items()
        if found is not None
    ]
    tables = {name: table for name, table in book.tables(data).items() if table}
    for name, table in tables.items():
        _write(directory / "data" / f"{name}.csv", _csv(table))
    content = dict(
        book=book,
        scores=scores,
        sentences=scores.sentences(),
        tally={status: sum(row["status"] == status for row in rows) for status in STATUSES},
        figures=figures,
        shown={figure["name"] for figure in figures},
        missing=[book.figures[name].TITLE for name, found in drawn.items() if found is None],
        tables=tables,
        claims=failing_first(rows),
        fresh=(fresh := failing_first([row for row in rows if "fresh" in row])),
        same=sum(row["status"] == row["fresh"]["status"] for row in fresh),
        kinds=KINDS,
        empty=_empty(rows),
        settings=list(wording.lines(made)),
        profile=_profile_name(made),
    )
    filters = {name: getattr(wording, name) for name in ("subscripts", "estimate", "tied", "spaced")}
    return write_page(directory / "index.html", "recurra_paper", content, **filters, kind=kind)


def beside(name: str, drawn: Drawn, rows: Sequence[Row]) -> dict[str, Any]:
    """The claims that stand beside a figure: in the rows of its table, and by themselves."""
    here = {row["id"]: row for row in rows if row["figure"] == name}
    verdicts = [{word: here[id] for word, id in row.items() if id in here} for row in drawn.judged]
    in_table = {row["id"] for verdict in verdicts for row in verdict.values()}
    alone = failing_first([row for id, row in here.items() if id not in in_table])
    return dict(claims=alone, verdicts=verdicts, in_table=len(in_table), score=Score.of(list(here.values())))


def failing_first(rows: Sequence[Row]) -> list[Row]:
    """The claims, those that fail before the others."""
    return sorted(rows, key=lambda row: STATUSES.index(row["status"]))


def kind(row: Row) -> str:
    """What a claim rests on."""
    return "counted" if row["counted"] else "sampled"


def _empty(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The choices of the filter that leave no claim: a status and a kind, or all of them."""
    matches = lambda row, status, which: status in ("all", row["status"]) and which in ("all", kind(row))
    choices = product(("all", *STATUSES), ("all", *KINDS))
    return [choice for choice in choices if not any(matches(row, *choice) for row in rows)]


def _written(directory: Path, name: str, drawn: Drawn) -> dict[str, Any]:
    """Write a figure's files; what the template needs of it."""
    svg, png = plots.svg(drawn.figure, name), plots.png(drawn.figure)
    _write(directory / "figures" / f"{name}.svg", f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n')
    _write(directory / "figures" / f"{name}.png", png)
    for suffix, table in drawn.tables.items():
        _write(directory / "data" / f"{name}{suffix}.csv", _csv(table))
    shown = picture(drawn.figure, name, drawn.alt, LARGEST, DOTS)
    return dict(name=name, picture=shown, drawn=drawn, width=float(drawn.figure.get_figwidth()))


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def _profile_name(made: Mapping[str, Any]) -> str:
    profile = made.get("profile", "")
    return str(profile.get("name", "") if isinstance(profile, Mapping) else profile)


def _write(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    write_whole(path, lambda file: file.write(data))
