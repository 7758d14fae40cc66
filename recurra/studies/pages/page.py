"""The page of a study: one file that needs no other, and no network."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurra import __version__
from recurra.pages.page import write_page
from recurra.studies.pages import figures, tables, words
from recurra.studies.pages.choosing import chosen_of
from recurra.studies.pages.points import Points

if TYPE_CHECKING:
    import xarray

PAGE = "index.html"
#: failures, and rows of a table that are shown without being asked for
MOST_FAILURES, FEW_ROWS = 50, 12


def write_study(folder: Path, data: "xarray.Dataset", name: str) -> Path:
    """Write the page of a study of this name, finished or not; returns its path."""
    return write_page(folder / PAGE, "recurra.studies.pages", _content(data, name))


def _content(data: "xarray.Dataset", name: str) -> dict[str, Any]:
    points = Points.read(data)
    found = chosen_of(points)
    made = json.loads(data.attrs.get("made", "{}"))
    failures = made.pop("failures", [])
    best = tables.best_settings(points, found)
    cautions = tables.warnings(points, found)
    return {
        "name": name,
        "networks": tables.networks(points, failures),
        "unfinished": tables.unfinished(points),
        "verdicts": tables.best_in_words(points, found),
        "best": best,
        "cautions": cautions,
        "notes": [note for note in best.notes if note not in cautions],
        "figures": list(figures.all_figures(data, points, found)),
        "alike": tables.alike_in_words(points, found),
        "diverged": tables.diverged(points),
        "few": FEW_ROWS,
        "failures": [_failure(each) for each in failures[:MOST_FAILURES]],
        "more_failures": max(len(failures) - MOST_FAILURES, 0),
        "settings": _flat(points.fixed),
        "made": {**_flat(made), "page made with": f"recurra {__version__}"},
        "study": data.attrs.get("study", ""),
    }


def _failure(failure: dict[str, Any]) -> tuple[str, str]:
    return f"points {words.numbers(failure.get('points', []))}", str(failure.get("reason", ""))


def _flat(values: dict[str, Any]) -> dict[str, str]:
    """Settings as texts; tables within tables by dotted names."""
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": text for inner, text in _flat(value).items()}
        elif isinstance(value, list):
            flat[key] = ", ".join(map(str, value))
        else:
            flat[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat
