"""The commands `recurra sweep`, `recurra show` and `recurra tune`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli import stopping
from recurra.cli.comparison import print_table
from recurra.cli.extras import need
from recurra.cli.placing import (
    CaFile,
    Cert,
    Cluster,
    Key,
    Local,
    Slurm,
    Workers,
    place_of,
    print_job_of,
    words_of,
)
from recurra.cli.showing import print_json, show, show_search
from recurra.cli.streams import complain
from recurra.studies.parts import check_device
from recurra.studies.settings import SettingsError
from recurra.training.console import say

if TYPE_CHECKING:
    from recurra.studies.places.base import Place

StudyFile = Annotated[Path, typer.Argument(help="TOML file of the study.", metavar="STUDY")]
Out = Annotated[Path, typer.Option("--out", help="Folder for what is finished, the data set and the page.")]


def sweep_command(
    study: StudyFile,
    out: Out = Path("sweep"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much there is to do, and stop.")] = False,
    local: Local = False,
    workers: Workers = None,
    cluster: Cluster = None,
    slurm: Slurm = None,
    print_job: Annotated[
        bool, typer.Option("--print-job", help="With --slurm: show the job's script, and stop.")
    ] = False,
    tls_ca_file: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
) -> None:
    """Train every network of a study, and keep each as it is finished. The same command goes on after a stop.

    For example: recurra sweep examples/learning_rates.toml --out rates --dry-run
    """
    need("results", "`recurra sweep`")
    with _readable_errors():
        make = place_of(local, workers, cluster, slurm, (tls_ca_file, tls_cert, tls_key))
        if print_job:
            print_job_of(slurm, make)
            return
        from recurra.studies.study import Study

        read = Study.read(study)
        check_device()
        if dry_run:
            _estimate(read, out)
            return
        _carry_out(read, out, make(), words_of(workers, cluster, slurm))


def _carry_out(study: Any, out: Path, place: "Place", where: str) -> None:
    from recurra.studies.folder import Folder
    from recurra.studies.sweep import Sweep, made_by

    folder = Folder(out)
    with folder.held(study):
        sweep = Sweep(folder.study())  # its points are numbered in the order of its own file
        stopping.keep(stopping.raise_once)
        try:
            failures = sweep.run(folder, place)
        except KeyboardInterrupt as error:
            status = stopping.status(error)
            say(f"Interrupted: finished groups are kept in {out}, and the same command goes on from there.")
            raise typer.Exit(status) from None
        folder.remember(made_by(where, failures))
        data = sweep.dataset(folder)
        show(folder, data)
        from recurra.studies.dataset import by_settings

        say(f"The data set is {folder.save(by_settings(data))}.")
    if failures:
        count = len({point for each in failures for point in each["points"]})
        complain(f"{count:,} point{'s' * (count != 1)} failed; the page says why. The same command tries again.")
        raise typer.Exit(1)


def _estimate(study: Any, out: Path) -> None:
    """What there is to do, and about how long it takes."""
    from recurra.studies.folder import FILE, Folder
    from recurra.studies.sweep import Sweep

    folder = Folder(out)
    if (out / FILE).is_file():
        folder.check(study)
        study = folder.study()
    sweep = Sweep(study)
    done = sweep.done(folder)
    found = sweep.estimate(sweep.planner().batches(done))
    networks = len(sweep.points) * len(study.seeds)
    rows = [
        ("Networks", f"{networks:,} ({_count(len(sweep.points), 'point')}, {_count(len(study.seeds), 'seed')})"),
        *([("Finished", f"{len(done):,}")] if done else []),
        ("Programs", f"{found['programs']:,}"),
        ("Network-steps", f"{found['network_steps']:,}"),
        (
            "About",
            f"{_duration(found['seconds'])} on this machine, {_duration(found['compile_seconds'])} of it to compile",
        ),
    ]
    print_table(("What there is to do", ""), rows)


def show_command(
    folder: Annotated[Path, typer.Argument(help="Folder of an earlier `recurra sweep` or `recurra tune`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs on standard output.")] = False,
) -> None:
    """Show what a study has found so far: a table, and a page in its folder."""
    need("results", "`recurra show`")
    with _readable_errors():
        from recurra.studies.folder import Folder

        found = Folder.existing(folder)
        if found.is_search():
            show_search(found, as_json)
            return
        from recurra.studies.sweep import Sweep

        data = Sweep(found.study()).dataset(found)
        if as_json:
            print_json(data)
        else:
            from recurra.studies.dataset import by_settings

            show(found, data)
            say(f"The data set is {found.save(by_settings(data))}.")


def tune_command(
    study: StudyFile,
    out: Out = Path("tune"),
    local: Local = False,
    workers: Workers = None,
    cluster: Cluster = None,
    slurm: Slurm = None,
    tls_ca_file: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
) -> None:
    """Search the settings that a study chooses at random, for each of its cases, and confirm them on fresh seeds.

    Several processes may work on one folder at the same time. The same command goes on after a stop.
    """
    need("scale", "`recurra tune`", "optuna")
    need("results", "`recurra tune`")
    with _readable_errors():
        make = place_of(local, workers, cluster, slurm, (tls_ca_file, tls_cert, tls_key))
        from recurra.studies.folder import Folder, NotKeptError
        from recurra.studies.study import Study
        from recurra.studies.tuning.search import tune

        read = Study.read(study)
        check_device()
        folder, place = Folder(out), make()
        folder.claim(read, search=True)
        stopping.keep(stopping.raise_once)
        try:
            with place:
                tune(read, folder, place)
        except OSError as error:  # the journal
            raise NotKeptError(
                f"{out} could not be written: {error.strerror or error}. Trials that were kept before are whole. Mend "
                "that, and the same command goes on."
            ) from None
        except KeyboardInterrupt as error:
            status = stopping.status(error)
            say(f"Interrupted: finished trials are kept in {out}, and the same command goes on from there.")
            raise typer.Exit(status) from None
        show_search(folder)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _duration(seconds: float) -> str:
    """Seconds in words of the size that matters."""
    for name, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return _count(round(seconds), "second")


@contextmanager
def _readable_errors() -> Iterator[None]:
    """What is wrong with a folder, a place or a search is a line, and no traceback."""
    from recurra.studies.folder import FolderError, NotKeptError
    from recurra.studies.places.base import PlaceError, PlaceLost
    from recurra.studies.tuning.tuned import TuningError

    try:
        yield
    except (NotKeptError, PlaceLost, TuningError) as error:
        complain(*str(error).splitlines())
        raise typer.Exit(1) from None
    except (FolderError, PlaceError) as error:
        raise SettingsError(str(error)) from None
