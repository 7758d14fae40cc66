"""The commands `recurra sweep`, `recurra tune` and `recurra show`: where a study runs, and what it has found."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial, wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from recurra.cli import stopping
from recurra.cli.environment import check_device, lacking, need
from recurra.cli.streams import complain
from recurra.cli.tables import counted, print_table
from recurra.studies.settings import SettingsError
from recurra.training.console import say

if TYPE_CHECKING:
    import xarray

    from recurra.studies.folder import Folder
    from recurra.training.places.base import Place

PANEL = "Where it runs"


def _where(flag: str, what: str, **how: Any) -> Any:
    return typer.Option(flag, help=what, rich_help_panel=PANEL, **how)


@dataclass(frozen=True)
class Where:
    """Where a study runs: options that commands take as one argument, `where`."""

    local: Annotated[bool, _where("--local", "Run here, on all cores or GPUs. This is the default.")] = False
    workers: Annotated[
        int | None, _where("--workers", "Run here, in so many processes that share the cores.", min=1)
    ] = None
    cluster: Annotated[
        str | None, _where("--cluster", "Run on a Dask cluster: its scheduler's address, such as tcp://host:8786.")
    ] = None
    slurm: Annotated[
        Path | None, _where("--slurm", "Run in jobs of SLURM: a TOML file of options of dask-jobqueue.")
    ] = None
    tls_ca_file: Annotated[Path | None, _where("--tls-ca-file", "For tls:// addresses: the authority's file.")] = None
    tls_cert: Annotated[Path | None, _where("--tls-cert", "For tls:// addresses: this machine's certificate.")] = None
    tls_key: Annotated[Path | None, _where("--tls-key", "For tls:// addresses: the certificate's key.")] = None

    def place(self) -> "Callable[[], Place]":
        """What makes the place that was asked for; what cannot be is refused at once."""
        asked = [f"--{name}" for name in ("local", "workers", "cluster", "slurm") if getattr(self, name)]
        files = [self.tls_ca_file, self.tls_cert, self.tls_key]
        if len(asked) > 1:
            raise SettingsError(f"{' and '.join(asked)} say different things about where to run: choose one.")
        if any(files) and not self.cluster:
            raise SettingsError("--tls-ca-file, --tls-cert and --tls-key belong to --cluster tls://…: leave them out.")
        if self.workers:
            need("scale", "--workers", "distributed")
            from recurra.training.places.workers import Processes

            return partial(Processes, self.workers)
        if self.cluster:
            need("scale", "--cluster", "distributed")
            from recurra.training.places.base import Tls
            from recurra.training.places.dask import Cluster

            if any(files) and not all(files):
                raise SettingsError("TLS needs all of --tls-ca-file, --tls-cert and --tls-key: give the missing ones.")
            return partial(Cluster, self.cluster, Tls(*cast(Any, files)) if any(files) else None)
        if self.slurm:
            need("scale", "--slurm", "distributed", "dask_jobqueue")
            from recurra.studies.slurm import Slurm

            jobs = Slurm(self.slurm)
            return lambda: jobs
        from recurra.training.places.dispatching import Local

        return Local

    def in_words(self) -> str:
        """Where a study runs, in words."""
        if self.cluster:
            return "a Dask cluster"
        if self.slurm:
            return "jobs of a queue"
        return f"{self.workers} processes of one machine" if self.workers else "one machine"


def _with_place(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `Where` in the place of its last argument."""
    own, options = signature(command).parameters, signature(Where).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        where = Where(**{name: given.pop(name) for name in options})
        command(**given, where=where)

    # Typer reads the options of a command from its signature.
    run.__signature__ = Signature([*list(own.values())[:-1], *options.values()])  # pyright: ignore
    return run


StudyFile = Annotated[Path, typer.Argument(help="TOML file of the study.", metavar="STUDY")]
Out = Annotated[Path, typer.Option("--out", help="Folder for what is finished, the data set and the page.")]


@_with_place
def sweep_command(
    study: StudyFile,
    out: Out = Path("sweep"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much there is to do, and stop.")] = False,
    print_job: Annotated[
        bool, typer.Option("--print-job", help="With --slurm: show the job's script, and stop.")
    ] = False,
    where: Where = Where(),
) -> None:
    """Train every network of a study, and keep each as it is finished. The same command goes on after a stop.

    For example: recurra sweep examples/learning_rates.toml --out rates --dry-run
    """
    need("results", "`recurra sweep`")
    with _readable_errors():
        make = where.place()
        if print_job:  # and submit nothing
            if where.slurm is None:
                raise SettingsError("--print-job shows the job of --slurm: add --slurm template.toml.")
            print(cast(Any, make()).print_job())
            return
        from recurra.studies.study import Study

        read = Study.read(study)
        check_device()
        if dry_run:
            _estimate(read, out)
        else:
            _carry_out(read, out, make(), where.in_words())


def _carry_out(study: Any, out: Path, place: "Place", where: str) -> None:
    from recurra.studies.folder import Folder
    from recurra.studies.sweep import Sweep, made_by

    folder = Folder(out)
    with folder.held(study, lambda groups: Sweep(study).kept(groups).has_all()):
        sweep = Sweep(folder.study())  # its points are numbered in the order of its own file
        stopping.hand_over()
        with _interruptible("groups", out):
            failures = sweep.run(folder, place)
        folder.remember(made_by(where, failures))
        data = sweep.dataset(folder)
        _show(folder, data)
    if failures:
        count = len({point for each in failures for point in each["points"]})
        complain(f"{counted(count, 'point')} failed; the page says why. The same command tries again.")
        raise typer.Exit(1)


def _estimate(study: Any, out: Path) -> None:
    """What there is to do, and about how long it takes."""
    from recurra.studies.folder import FILE, Folder
    from recurra.studies.sweep import Sweep

    folder, sweep = Folder(out), Sweep(study)
    if (out / FILE).is_file():  # nothing is written: it may be of another study, which this one extends
        folder.is_extended(study, lambda groups: sweep.kept(groups).has_all())
    missing = sweep.missing(folder)
    found = sweep.estimate(missing)
    networks = len(sweep.points) * len(study.seeds)
    done = networks - sum(len(batch.members) for batch in missing)
    compiling = f"{_duration(found['compile_seconds'])} of it to compile"
    rows = {
        "Networks": f"{networks:,} ({counted(len(sweep.points), 'point')}, {counted(len(study.seeds), 'seed')})",
        **({"Finished": f"{done:,}"} if done else {}),
        "Programs": f"{found['programs']:,}",
        "Network-steps": f"{found['network_steps']:,}",
        "About": f"{_duration(found['seconds'])} on this machine, {compiling}",
    }
    print_table(("What there is to do", ""), list(rows.items()))


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
            _show_search(found, as_json)
            return
        from recurra.studies.sweep import Sweep

        data = Sweep(found.study()).dataset(found)
        if not as_json:
            _show(found, data)
            return
        from recurra.studies.pages.choosing import chosen

        best = [_finite(asdict(each)) for each in chosen(data)]
        print(json.dumps(best, indent=2, allow_nan=False))


@_with_place
def tune_command(study: StudyFile, out: Out = Path("tune"), where: Where = Where()) -> None:
    """Search the settings that a study chooses at random, for each of its cases, and confirm them on fresh seeds.

    Several processes may work on one folder at the same time. The same command goes on after a stop.
    """
    need("scale", "`recurra tune`", "optuna")
    need("results", "`recurra tune`")
    with _readable_errors():
        make = where.place()
        from recurra.saved.folders import NotKeptError
        from recurra.studies.folder import Folder
        from recurra.studies.study import Study
        from recurra.studies.tuning.search import tune

        read = Study.read(study)
        check_device()
        folder, place = Folder(out), make()
        read.searches()  # what cannot be searched is refused before anything is written, or started elsewhere
        folder.claim(read, search=True)
        stopping.keep(stopping.raise_once)
        try:
            with _interruptible("trials", out), place:
                tune(read, folder, place)
        except OSError as error:  # the journal
            raise NotKeptError(
                f"{out} could not be written: {error.strerror or error}. Trials that were kept before are whole. Fix "
                "that, and the same command goes on."
            ) from None
        _show_search(folder)


def _duration(seconds: float) -> str:
    """Seconds in words of the size that matters."""
    for name, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return counted(round(seconds), "second")


@contextmanager
def _interruptible(finished: str, out: Path) -> Iterator[None]:
    """A stop ends the command with a line that says what is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        status = stopping.status(error)
        say(f"Interrupted: finished {finished} are kept in {out}, and the same command goes on from there.")
        raise typer.Exit(status) from None


@contextmanager
def _readable_errors() -> Iterator[None]:
    """What is wrong with a folder, a place or a search is a line, and no traceback."""
    from recurra.saved.folders import FolderError, NotKeptError
    from recurra.studies.tuning.tuned import TuningError
    from recurra.training.places.base import PlaceError, PlaceLost

    try:
        yield
    except (NotKeptError, PlaceLost, TuningError) as error:
        complain(*str(error).splitlines())
        raise typer.Exit(1) from None
    except (FolderError, PlaceError) as error:
        raise SettingsError(str(error)) from None


def _show(folder: "Folder", data: "xarray.Dataset") -> None:
    """Print the best settings, write the page if what draws it is installed, and save the data set."""
    from recurra.studies.dataset import by_settings
    from recurra.studies.pages import tables

    _print_with_notes(tables.rows(data))
    if line := lacking("paper", "The page"):
        say(line)
    else:
        from recurra.studies.pages.page import write_study

        with folder.own.keeping("The page"):
            say(f"The page is {write_study(folder.path, data, folder.path.resolve().name)}.")
    say(f"The data set is {folder.save(by_settings(data))}.")


def _show_search(folder: "Folder", as_json: bool = False) -> None:
    """Print what a search has found, and say where its page is."""
    from recurra.studies.tuning.tuned import PAGE, found_in, summary

    if as_json:
        print(json.dumps(found_in(folder), indent=2, allow_nan=False))
        return
    _print_with_notes(summary(folder))
    page = folder.path / PAGE
    if page.exists():
        say(f"The page is {page}.")


def _print_with_notes(table: Any) -> None:
    print_table(table.header, table.rows)
    for note in table.notes:
        print(note)


def _finite(value: Any) -> Any:
    """Plain data as JSON has it, which knows no nan."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
