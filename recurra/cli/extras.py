"""What is installed besides the library: found before anything is computed, and named in one line where it is not."""

from importlib.util import find_spec

#: what each extra of the package brings
EXTRAS = {
    "cli": ("typer", "rich", "pydantic"),
    "results": ("xarray", "h5netcdf", "h5py"),
    "paper": ("matplotlib", "jinja2", "scipy"),
    "stream": ("matplotlib", "jinja2"),
    "parquet": ("pyarrow",),
    "scale": ("distributed", "dask_jobqueue", "optuna"),
}


def lacking(extra: str, who: str, *only: str) -> str | None:
    """What `who` needs of an extra, or `only` some of it, and how to install it; None if all is there."""
    absent = [name for name in only or EXTRAS[extra] if not _is_installed(name)]
    if not absent:
        return None
    *most, last = absent
    named = f"{', '.join(most)} and {last}" if most else last
    are = "are" if most else "is"
    return f"{who} needs {named}, which {are} not installed: pip install 'recurra[{extra}]'"


def need(extra: str, who: str, *only: str) -> None:
    """Complain before anything is computed if an extra, or some of it, is not installed."""
    if line := lacking(extra, who, *only):
        from recurra.studies.settings import SettingsError  # it is pydantic's, which may be what is missing

        raise SettingsError(line)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
