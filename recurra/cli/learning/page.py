"""The page of a run: one file that needs no other, and no network."""

from pathlib import Path

from recurra import __version__
from recurra.cli.learning import report
from recurra.cli.learning.figures import all_figures
from recurra.cli.learning.files import PAGE
from recurra.cli.learning.report import number
from recurra.cli.learning.session import Session, notes_of
from recurra.pages.page import write_page


def write_run(folder: Path, session: Session, name: str) -> Path:
    """Write the page of a run on the input of this name; returns its path."""
    lines = report.lines(session)
    content = {
        "title": f"{session.encoder.layout.target.name}, {_ahead(session.horizon)}",
        "name": name,
        "verdict": report.verdict(session),
        "lines": lines,
        "best": min((line.rmse for line in lines if line.rmse is not None), default=None),
        "remarks": [*report.remarks(session, name), *notes_of(session.model)],
        "figures": list(all_figures(session)),
        "settings": _settings(session),
    }
    return write_page(folder / PAGE, "recurra.cli.learning", content, number=number)


def _ahead(horizon: int) -> str:
    return f"{horizon:,} row{'s' * (horizon != 1)} ahead" if horizon else "from the same row"


def _settings(session: Session) -> dict[str, str]:
    """What the run was asked for, and what it made of it."""
    layout, options = session.encoder.layout, session.options
    asked = {option: value for option, value in options.result_settings().items() if value not in (None, [])}
    inputs = ", ".join(session.encoder.names)
    return {
        "target": layout.target.name,
        "inputs": inputs if len(inputs) < 2000 else f"{len(session.encoder.names):,} columns",
        **({"time": layout.time.name} if layout.time else {}),
        "model": options.model.name,
        **{option: ", ".join(value) if isinstance(value, list) else str(value) for option, value in asked.items()},
        "recurra": __version__,
    }
