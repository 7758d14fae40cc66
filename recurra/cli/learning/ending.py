"""The end of a run: the table or JSON, the page, and what else a person should know."""

from typing import TYPE_CHECKING

from recurra.cli.learning import report
from recurra.cli.learning.session import Session
from recurra.cli.streams import complain, say_lost
from recurra.training.console import say

if TYPE_CHECKING:
    from recurra.cli.learning.run import Ending


def tell(session: Session, name: str, ending: "Ending", kept: bool, is_new: bool) -> int:
    """Report on a run; its exit status."""
    wishes = session.wishes
    page, drawn = None, True
    if wishes.out is not None:
        page = _page(session, name)
        drawn = page is not None
    if not is_new:
        say(f"There is nothing new in {name} since row {session.last_row:,}.")
    if wishes.as_json:
        more = {"interrupted": ending.status > 2, "error": ending.error or None, "page": page}
        report.print_json(session, name, **more)
    else:
        report.print_report(session, name)
    say_lost(repeat=True)
    if page:
        say(f"The page is {page}.")
    if ending.error:
        complain(ending.error)
    elif ending.status:
        again = " The same command goes on from there." if wishes.checkpoint and kept else ""
        say(f"Interrupted after {session.rows:,} rows.{again}")
    return ending.status or (0 if kept and drawn else 1)


def _page(session: Session, name: str) -> str | None:
    """Write the page; where it is, None if that failed."""
    from recurra.cli.learning.page import write_run

    assert session.wishes.out is not None
    try:
        return str(write_run(session.wishes.out, session, name))
    except OSError as error:
        complain(f"The page could not be written to {session.wishes.out}: {error.strerror or error}.")
        return None
