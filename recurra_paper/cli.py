"""The commands `recurra reproduce`, `recurra beyond` and `recurra report`, which the `recurra` program finds by their
entry points. What they run is imported once a command begins."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli import CommandError, check_device, need, raise_on_signals


def reproduce(
    targets: Annotated[list[str] | None, typer.Argument(help="Names of figures or tables; none means all.")] = None,
    profile: Annotated[str, typer.Option(help="Scale: quick (minutes), paper, or many (512 seeds too).")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder for the page, the data and the kept runs.")] = Path("reproduction"),
    seeds: Annotated[int | None, typer.Option(help="Seeds of the loss curves, in place of the profile's.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the loss curves, in place of the profile's.")] = None,
) -> None:
    """Reproduce the paper: figures, table and a ledger of its claims. What is kept in the folder is not run again."""
    need("paper", "`recurra reproduce`")
    from recurra_paper.commands import run_command
    from recurra_paper.reproduction import REPRODUCTION

    _write_page(lambda: run_command(REPRODUCTION, targets or [], profile, out, seeds, steps))


def beyond(
    targets: Annotated[list[str] | None, typer.Argument(help="Names of questions; none means all.")] = None,
    profile: Annotated[str, typer.Option(help="Scale: quick (minutes) or full (the study itself).")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder for the page, the data and the kept runs.")] = Path("beyond"),
) -> None:
    """Answer what the paper leaves open, by experiment. What is kept in the folder is not run again."""
    need("paper", "`recurra beyond`")
    from recurra_paper.beyond.book import BEYOND
    from recurra_paper.commands import run_command

    _write_page(lambda: run_command(BEYOND, targets or [], profile, out))


def report(
    out: Annotated[Path, typer.Argument(help="Folder of an earlier `recurra reproduce` or `recurra beyond`.")],
) -> None:
    """Rebuild the page from the runs that are kept."""
    need("paper", "`recurra report`")
    from recurra_paper.commands import report_command

    _write_page(lambda: report_command(out))


def _write_page(make: Callable[[], Path]) -> None:
    from recurra import FolderError, NotKeptError

    check_device()
    # A run that cannot be kept is said once, in the end, and not of each of its checkpoints.
    warnings.filterwarnings("ignore", message="The checkpoint .* could not be written")
    raise_on_signals()  # from the first run on there is something to keep
    try:
        print(f"\nThe page is {make()}.")
    except NotKeptError as error:
        raise CommandError(str(error), status=1) from None
    except FolderError as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        print("Interrupted: finished runs are kept, and the same command goes on from there.", file=sys.stderr)
        raise
