"""The page that shows it all: the ledger of claims, every figure with its numbers, and how they came about.

DIR/index.html         one file that needs no other, and no network
DIR/claims.json        the ledger
DIR/figures/NAME.svg   each figure once more, to take away; NAME.png likewise
DIR/data/NAME.csv      the numbers it shows
"""

import base64
import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from recurra.paper import plots
from recurra.paper.figures import FIGURES, Data, Drawn
from recurra.paper.figures.drawn import Table
from recurra.training.whole_files import write_whole

TEMPLATE = "page.html.jinja"
#: in the order in which the page shows them: what fails must not be overlooked
STATUSES = ("does not hold", "not decided", "holds")
#: a vector graphic larger than this many bytes is shown as a picture
LARGEST = 400_000


def build(directory: Path, data: Data, ledger: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Path:
    """Write the page and what goes with it into the directory; the path of `index.html`.

    The ledger's entries have the keys id, text, where, criterion, status, measured, number and uncertainty. Figures
    whose experiments are not in the data are left out, and the page says which.
    """
    unknown = {str(claim["status"]) for claim in ledger} - set(STATUSES)
    if unknown:
        raise ValueError(f"a claim's status is one of {', '.join(STATUSES)}, not {', '.join(sorted(unknown))}")
    for folder in (directory, directory / "figures", directory / "data"):
        folder.mkdir(parents=True, exist_ok=True)
    _write(directory / "claims.json", json.dumps(plain(ledger), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    drawn = {name: module.draw(data) for name, module in FIGURES.items()}
    figures = [_figure(directory, name, found) for name, found in drawn.items() if found is not None]
    page = (
        _environment()
        .get_template(TEMPLATE)
        .render(
            figures=figures,
            missing=[FIGURES[name].TITLE for name, found in drawn.items() if found is None],
            groups=[(status, found) for status in STATUSES if (found := [c for c in ledger if c["status"] == status])],
            counts={status: sum(claim["status"] == status for claim in ledger) for status in STATUSES},
            total=len(ledger),
            settings=list(_lines(settings)),
            profile=_profile_name(settings),
        )
    )
    index = directory / "index.html"
    _write(index, page)
    return index


def plain(value: Any) -> Any:
    """The value in types that JSON knows; what is not a finite number becomes null."""
    match value:
        case Mapping():
            return {str(key): plain(entry) for key, entry in value.items()}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case None | str() | bool() | int():
            return value
        case Sequence():
            return [plain(entry) for entry in value]
        case _:
            return str(value)


def _figure(directory: Path, name: str, drawn: Drawn) -> dict[str, Any]:
    """Write a figure's files; what the template needs of it."""
    svg, png = plots.svg(drawn.figure, name), plots.png(drawn.figure)
    _write(directory / "figures" / f"{name}.svg", f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n')
    _write(directory / "figures" / f"{name}.png", png)
    for suffix, table in drawn.tables.items():
        _write(directory / "data" / f"{name}{suffix}.csv", _csv(table))
    if len(svg.encode()) <= LARGEST:
        picture = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(drawn.alt)}" ', 1)
    else:
        source = base64.b64encode(png).decode()
        picture = f'<img alt="{escape(drawn.alt)}" src="data:image/png;base64,{source}">'
    width = float(drawn.figure.get_figwidth())
    return dict(name=name, title=FIGURES[name].TITLE, picture=Markup(picture), drawn=drawn, width=width)


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def _environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(subscripts=subscripts, estimate=estimate, tied=tied)
    return environment


def subscripts(text: str) -> Markup:
    """`A_k B_ij` with its indices lowered."""
    return Markup(re.sub(r"_(\w+)", r"<sub>\1</sub>", str(escape(text))))


def tied(text: str) -> str:
    """The text with `a = 1` and `1 ± 2` kept on one line, and -1 with a true minus."""
    text = re.sub(r"(?<!\w)-(?=\d)", "−", str(text))
    return re.sub(r" ([=±<>≤≥×]) ", "\u00a0\\1\u00a0", text)


def estimate(claim: Mapping[str, Any]) -> str:
    """The claim's number ± its uncertainty, or nothing where there is none."""
    number, uncertainty = plain(claim["number"]), plain(claim["uncertainty"])
    if not isinstance(number, int | float):
        return ""
    shown = f"{number:.3g}" + (f" ± {uncertainty:.2g}" if isinstance(uncertainty, int | float) else "")
    raised = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    power = lambda found: "×10" + str(int(found[1])).translate(raised)
    return re.sub(r"e([+-]\d+)", power, shown).replace("-", "−")


def _profile_name(settings: Mapping[str, Any]) -> str:
    profile = settings.get("profile", "")
    return str(profile.get("name", "") if isinstance(profile, Mapping) else profile)


def _lines(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each setting and its value in words."""
    for key, value in plain(settings).items():
        if isinstance(value, dict):
            yield _spaced(key), ", ".join(f"{_spaced(name)} {_words(entry)}" for name, entry in value.items())
        else:
            yield _spaced(key), _words(value)


def _words(value: Any) -> str:
    match value:
        case list():
            return "/".join(map(_words, value))
        case float():
            return f"{value:.4g}"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case _:
            return "–" if value is None else str(value)


def _spaced(key: str) -> str:
    return key.replace("_", " ")


def _write(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    write_whole(path, lambda file: file.write(data))
