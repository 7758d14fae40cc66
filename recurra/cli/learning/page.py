"""The page of a run: one file that needs no other, and no network."""

import base64
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from recurra import __version__
from recurra.cli.learning import models, report
from recurra.cli.learning.figures import all_figures
from recurra.cli.learning.live import number
from recurra.cli.learning.places import PAGE
from recurra.cli.learning.session import Session
from recurra.paper import plots
from recurra.saved.whole_files import write_whole

TEMPLATE = "page.html.jinja"
#: a vector graphic larger than this many bytes is shown as a picture
LARGEST = 400_000


def write_page(folder: Path, session: Session, name: str) -> Path:
    """Write the page of a run on the input of this name; where it is."""
    environment = Environment(
        loader=FileSystemLoader(Path(str(files(__package__ or "")))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    lines = report.lines(session)
    text = environment.get_template(TEMPLATE).render(
        title=f"{session.encoder.layout.target.name}, {_ahead(session.horizon)}",
        name=name,
        verdict=report.verdict(session),
        lines=lines,
        best=min((line.rmse for line in lines if line.rmse is not None), default=None),
        remarks=report.remarks(session, name),
        figures=[_figure(*each) for each in all_figures(session)],
        notes=models.notes(session.model),
        settings=_settings(session),
    )
    path = folder / PAGE
    write_whole(path, lambda file: file.write(text.encode("utf-8", "replace")))
    return path


def _ahead(horizon: int) -> str:
    return f"{horizon:,} row{'s' * (horizon != 1)} ahead" if horizon else "from the same row"


def _figure(name: str, title: str, caption: str, figure: Any) -> dict[str, Any]:
    svg = plots.svg(figure, name)
    if len(svg.encode()) <= LARGEST:
        picture = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    else:
        source = base64.b64encode(plots.png(figure)).decode()
        picture = f'<img alt="{escape(title)}" src="data:image/png;base64,{source}">'
    return {"name": name, "title": title, "caption": caption, "picture": Markup(picture)}


def _settings(session: Session) -> dict[str, str]:
    """What the run was asked for, and what it made of it."""
    layout, wishes = session.encoder.layout, session.wishes
    asked = {option: value for option, value in wishes.shaping().items() if value not in (None, [])}
    inputs = ", ".join(session.encoder.names)
    return {
        "target": layout.target.name,
        "inputs": inputs if len(inputs) < 2000 else f"{len(session.encoder.names):,} columns",
        **({"time": layout.time.name} if layout.time else {}),
        "model": wishes.model.name,
        **{option: ", ".join(value) if isinstance(value, list) else str(value) for option, value in asked.items()},
        "recurra": __version__,
    }
