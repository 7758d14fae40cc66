"""Where a study runs: the options of `recurra sweep` and `recurra tune` that say it, and the place they stand for."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.extras import need
from recurra.studies.settings import SettingsError

if TYPE_CHECKING:
    from recurra.studies.places.base import Place, Tls

PANEL = "Where it runs"
Local = Annotated[
    bool, typer.Option("--local", help="Run here, on all cores or GPUs. This is the default.", rich_help_panel=PANEL)
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="Run here, in so many processes that share the cores.", rich_help_panel=PANEL
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Run on a Dask cluster: its scheduler's address, such as tcp://host:8786.",
        rich_help_panel=PANEL,
    ),
]
Slurm = Annotated[
    Path | None,
    typer.Option(
        "--slurm", help="Run in jobs of SLURM: a TOML file of options of dask-jobqueue.", rich_help_panel=PANEL
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option("--tls-ca-file", help="For tls:// addresses: the authority's file.", rich_help_panel=PANEL),
]
Cert = Annotated[
    Path | None,
    typer.Option("--tls-cert", help="For tls:// addresses: this machine's certificate.", rich_help_panel=PANEL),
]
Key = Annotated[
    Path | None, typer.Option("--tls-key", help="For tls:// addresses: the certificate's key.", rich_help_panel=PANEL)
]


def place_of(
    local: bool, workers: int | None, cluster: str | None, slurm: Path | None, tls: tuple[Path | None, ...]
) -> "Callable[[], Place]":
    """What makes the place that was asked for; what cannot be is refused at once."""
    asked = [
        option
        for option, value in (("--local", local), ("--workers", workers), ("--cluster", cluster), ("--slurm", slurm))
        if value
    ]
    if len(asked) > 1:
        raise SettingsError(f"{' and '.join(asked)} say different things about where to run: choose one.")
    if any(tls) and not cluster:
        raise SettingsError("--tls-ca-file, --tls-cert and --tls-key belong to --cluster tls://…: leave them out.")
    if workers or cluster:
        need("scale", asked[0], "distributed")
    if slurm:
        need("scale", "--slurm", "distributed", "dask_jobqueue")
    if workers:
        from recurra.studies.places.workers import LocalWorkers

        return lambda: LocalWorkers(workers)
    if cluster:
        from recurra.studies.places.dask import Cluster as Dask

        files = _tls(tls)
        return lambda: Dask(cluster, files)
    if slurm:
        from recurra.studies.places.slurm import Slurm as Jobs

        jobs = Jobs(slurm)
        return lambda: jobs
    from recurra.studies.places.dispatching import Local as Here

    return Here


def _tls(files: tuple[Path | None, ...]) -> "Tls | None":
    from recurra.studies.places.base import Tls

    if not any(files):
        return None
    ca_file, cert, key = files
    if ca_file is None or cert is None or key is None:
        raise SettingsError("TLS needs all of --tls-ca-file, --tls-cert and --tls-key: give the missing ones.")
    return Tls(ca_file, cert, key)


def print_job_of(slurm: Path | None, make: Callable[[], Any]) -> None:
    """Print the script of a job, and submit nothing."""
    if slurm is None:
        raise SettingsError("--print-job shows the job of --slurm: add --slurm template.toml.")
    print(make().print_job())


def words_of(workers: int | None, cluster: str | None, slurm: Path | None) -> str:
    """Where a study runs, in words."""
    if cluster:
        return "a Dask cluster"
    return "jobs of a queue" if slurm else f"{workers} processes of one machine" if workers else "one machine"
