"""The `recurra` program. Its commands are in `app`; what they need beside the library is installed as an extra.

Other packages add commands through the entry-point group `recurra.commands`. What they may need is here.
"""

import sys

from recurra.cli.environment import CommandError as CommandError
from recurra.cli.environment import check_device as check_device
from recurra.cli.environment import lacking
from recurra.cli.environment import need as need
from recurra.cli.stopping import raise_on_signals as raise_on_signals
from recurra.cli.streams import complain, guard
from recurra.training.progress import Pace as Pace


def main() -> None:
    """The `recurra` program, or one line that says what it lacks."""
    guard()
    if line := lacking("cli", "The `recurra` command"):
        complain(line)
        sys.exit(2)
    from recurra.cli.app import main as run

    run()
