"""The file that says what jobs to ask a queue for: options of dask-jobqueue in TOML, checked. See docs/clusters.md."""

import difflib
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dask.utils import parse_bytes

from recurra.studies.places.base import PlaceError, Tls
from recurra.studies.places.jobqueue import (
    HTCondorCluster,
    Job,
    JobQueueCluster,
    LSFCluster,
    MoabCluster,
    OARCluster,
    PBSCluster,
    SGECluster,
    SLURMCluster,
)
from recurra.studies.reading.toml_lines import lines_of

KINDS: dict[str, type[JobQueueCluster]] = {
    "slurm": SLURMCluster,
    "pbs": PBSCluster,
    "lsf": LSFCluster,
    "sge": SGECluster,
    "oar": OARCluster,
    "moab": MoabCluster,
    "htcondor": HTCondorCluster,
}
#: the longest file that is read
LONGEST = 1_000_000

#: what dask-jobqueue called otherwise once
RENAMED = {
    "extra": "worker_extra_args",
    "job_extra": "job_extra_directives",
    "env_extra": "job_script_prologue",
    "header_skip": "job_directives_skip",
}
#: what is set here, or where else to write it
ELSEWHERE = {
    "n_workers": "write `jobs`, how many jobs to ask for",
    "host": "write it under [scheduler_options]",
    "dashboard_address": "write it under [scheduler_options]",
    "security": "write a table [tls] with `ca_file`, `cert` and `key`",
    "protocol": "a table [tls] changes it",
}
#: what only a program can give
INNER = {"self", "scheduler", "loop", "asynchronous", "job_cls", "scheduler_cls", "silence_logs", "base_class_kwargs"}
INNER |= {"job_kwargs", "kwargs"}

_is_text: Callable[[Any], bool] = lambda value: isinstance(value, str)
_is_count: Callable[[Any], bool] = lambda value: type(value) is int and value >= 1
_is_texts: Callable[[Any], bool] = lambda value: isinstance(value, list) and all(map(_is_text, value))
_is_table: Callable[[Any], bool] = lambda value: isinstance(value, dict)
_is_number: Callable[[Any], bool] = lambda value: type(value) in (int, float) and value > 0


def _is_size(value: Any) -> bool:
    try:
        return isinstance(value, str) and parse_bytes(value) > 0
    except ValueError:
        return False


COUNT, TEXT, TEXTS = (_is_count, "a whole number from 1"), (_is_text, "text"), (_is_texts, 'a list such as ["…", "…"]')
SIZE = (_is_size, 'text such as "24 GB"')
#: what is wanted of options that most templates have; others are passed on as they are
WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("jobs", "cores", "processes", "job_cpu", "ncpus"), COUNT),
    **dict.fromkeys(("memory", "disk"), SIZE),
    **dict.fromkeys(("queue", "account", "project", "interface", "python", "job_name", "shebang", "job_mem"), TEXT),
    **dict.fromkeys(("local_directory", "log_directory", "shared_temp_directory", "name", "resource_spec"), TEXT),
    **dict.fromkeys(("job_script_prologue", "worker_extra_args", "job_directives_skip"), TEXTS),
    "walltime": (_is_text, 'text such as "02:00:00", in quotes'),
    "job_extra_directives": (lambda value: _is_texts(value) or _is_table(value), TEXTS[1]),
    "death_timeout": (_is_number, "a number of seconds"),
    "nanny": (lambda value: isinstance(value, bool), "true or false"),
    "scheduler_options": (_is_table, "a table, [scheduler_options]"),
    "tls": (_is_table, "a table, [tls]"),
}


@dataclass(frozen=True)
class Template:
    """Jobs to ask a queue for."""

    path: Path
    cluster: type[JobQueueCluster]
    jobs: int
    tls: Tls | None
    #: what is left for dask-jobqueue
    options: dict[str, Any]

    @staticmethod
    def read(path: Path) -> "Template":
        """A file, checked. All that is wrong with it is in one `PlaceError`, a line for each problem."""
        text, table = _parsed(path)
        lines = lines_of(text, table)
        wrong: list[str] = []

        def complain(key: str, problem: str) -> None:
            line = f", line {lines[(key,)]}" if (key,) in lines else ""
            wrong.append(f"{path}{line}: {problem}")

        kind = table.pop("kind", "slurm")
        if not isinstance(kind, str) or kind not in KINDS:
            complain("kind", f"`kind` is {kind!r}, and must be one of {', '.join(KINDS)}.")
            raise PlaceError("\n".join(wrong))
        known = _options_of(KINDS[kind]) | {"jobs", "tls"}
        for key, value in table.items():
            if problem := _problem(key, value, known, KINDS[kind].__name__):
                complain(key, problem)
        for key, example in (("jobs", "10"), ("cores", "16"), ("memory", '"24 GB"')):
            if key not in table:
                complain(key, f"`{key}` is missing: write for instance {key} = {example}.")
        tls = _tls(path, table.pop("tls", None), complain)
        if wrong:
            raise PlaceError("\n".join(wrong))
        return Template(path, KINDS[kind], table.pop("jobs"), tls, table)


def _parsed(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as error:
        raise PlaceError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > LONGEST:
        raise PlaceError(f"{path} is longer than a template of jobs can be.")
    try:
        text = content.decode()
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlaceError(f"{path} is not a TOML file: {error}.") from None


def _options_of(cluster: type[JobQueueCluster]) -> set[str]:
    """The names that a cluster of dask-jobqueue takes: its own, and those of its jobs."""
    job_class = cluster.job_cls  # pyright: ignore[reportAttributeAccessIssue]
    takers = (cluster.__init__, job_class.__init__, Job.__init__, JobQueueCluster.__init__)
    return {name for taker in takers for name in inspect.signature(taker).parameters} - INNER


def _problem(key: str, value: Any, known: set[str], cluster: str) -> str:
    """What is wrong with one line of a template; empty if nothing is."""
    if key in ELSEWHERE:
        return f"`{key}` cannot be given here: {ELSEWHERE[key]}."
    if key in RENAMED:
        return f"`{key}` is called `{RENAMED[key]}`."
    if key not in known:
        near = difflib.get_close_matches(key, known - set(ELSEWHERE) - set(RENAMED), 1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        return f"`{key}` is no option of {cluster}.{hint}"
    is_right, wanted = WANTED.get(key, (lambda _: True, ""))
    return "" if is_right(value) else f"`{key}` is {value!r}, and must be {wanted}."


def _tls(path: Path, table: Any, complain: Callable[[str, str], None]) -> Tls | None:
    names = ("ca_file", "cert", "key")
    if not isinstance(table, dict):
        return None
    if set(table) != set(names) or not all(map(_is_text, table.values())):
        complain("tls", "[tls] must have the three files `ca_file`, `cert` and `key`, and nothing else.")
        return None
    return Tls(*(path.parent.absolute() / Path(table[name]).expanduser() for name in names))
