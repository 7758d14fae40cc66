"""The page of a study: one file that needs no other, and no network."""

import base64
import json
import warnings
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from recurra import __version__
from recurra.paper import plots
from recurra.saved.whole_files import write_whole
from recurra.studies.pages import figures, summary, tables, words
from recurra.studies.pages.choosing import chosen_of
from recurra.studies.pages.points import Points

if TYPE_CHECKING:
    import xarray

PAGE, TEMPLATE = "index.html", "page.html.jinja"
#: a vector graphic of more bytes is shown as a picture, of so many dots an inch
LARGEST, DOTS = 200_000, 140
#: failures, and rows of a table that are shown without being asked for
MOST_FAILURES, FEW_ROWS = 50, 12


def write_page(folder: Path, data: "xarray.Dataset", name: str) -> Path:
    """Write the page of a study of this name, finished or not; where it is."""
    environment = Environment(
        loader=FileSystemLoader(Path(str(files(__package__ or "")))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(TEMPLATE).render(**_content(data, name))
    path = folder / PAGE
    write_whole(path, lambda file: file.write(text.encode("utf-8", "replace")))
    return path


def _content(data: "xarray.Dataset", name: str) -> dict[str, Any]:
    points = Points.read(data)
    found = chosen_of(points)
    made = json.loads(data.attrs.get("made", "{}"))
    failures = made.pop("failures", [])
    best = tables.best_settings(points, found)
    cautions = tables.warnings(points, found)
    return {
        "name": name,
        "networks": summary.networks(points, failures),
        "unfinished": summary.unfinished(points),
        "verdicts": summary.best_in_words(points, found),
        "best": best,
        "cautions": cautions,
        "notes": [note for note in best.notes if note not in cautions],
        "figures": [_figure(drawn) for drawn in figures.all_figures(data, points, found)],
        "alike": summary.alike_in_words(points, found),
        "diverged": tables.diverged(points),
        "few": FEW_ROWS,
        "failures": [_failure(each) for each in failures[:MOST_FAILURES]],
        "more_failures": max(len(failures) - MOST_FAILURES, 0),
        "settings": _flat(points.fixed),
        "made": {**_flat(made), "page made with": f"recurra {__version__}"},
        "study": data.attrs.get("study", ""),
    }


def _failure(failure: dict[str, Any]) -> tuple[str, str]:
    return words.numbers(failure.get("points", [])), str(failure.get("reason", ""))


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


def _figure(drawn: figures.Drawn) -> dict[str, Any]:
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        svg = plots.svg(drawn.figure, drawn.name)
        label = escape(drawn.title)
        if len(svg.encode()) <= LARGEST:
            picture = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        else:
            source = base64.b64encode(plots.png(drawn.figure, DOTS)).decode()
            picture = f'<img alt="{label}" src="data:image/png;base64,{source}">'
    return {"name": drawn.name, "title": drawn.title, "caption": drawn.caption, "picture": Markup(picture)}
