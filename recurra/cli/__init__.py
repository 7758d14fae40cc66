"""The `recurra` program. Its commands are in `app`; what they need beside the library is installed as an extra."""

import sys

from recurra.cli.environment import lacking
from recurra.cli.streams import complain, guard


def main() -> None:
    """The `recurra` program, or one line that says what it lacks."""
    guard()
    if line := lacking("cli", "The `recurra` command"):
        complain(line)
        sys.exit(2)
    from recurra.cli.app import main as run

    run()
