"""The `recurra` program. Its commands are in `app`; what they need beside the library is installed as an extra."""

import sys

from recurra.cli.extras import lacking


def main() -> None:
    """The `recurra` program, or one line that says what it lacks."""
    if line := lacking("cli", "The `recurra` command"):
        print(f"error: {line}", file=sys.stderr)
        sys.exit(2)
    from recurra.cli.app import main as run

    run()
