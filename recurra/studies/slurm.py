"""Jobs of a queue: `--slurm template.toml`. dask-jobqueue writes and submits them, and each starts workers of Dask.

The template has options of dask-jobqueue in TOML, which are checked; see docs/clusters.md. The scheduler is part of
this process, so everything ends with it. It listens on this machine alone unless the template names an interface or a
host, which workers on other machines need.
"""

import contextlib
import difflib
import inspect
import shlex
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dask import config
from dask.utils import parse_bytes
from distributed.core import Status

from recurra.studies.reading.problems import Problems, parsed
from recurra.studies.settings import SettingsError, read_text
from recurra.training.console import say
from recurra.training.places import workers
from recurra.training.places.base import PlaceError, PlaceLost, Tls, one_line
from recurra.training.places.dask import DaskPlace, DaskWorkers, connected, secured

# dask-jobqueue makes Ctrl-C end the process at once when it is imported: Ctrl-C is made what it was.
_before = signal.getsignal(signal.SIGINT)

import dask_jobqueue  # noqa: E402
from dask_jobqueue.core import Job, JobQueueCluster  # noqa: E402

if threading.current_thread() is threading.main_thread() and _before is not None:
    signal.signal(signal.SIGINT, _before)

KINDS: dict[str, type[JobQueueCluster]] = {
    name.lower(): getattr(dask_jobqueue, f"{name}Cluster")
    for name in ("SLURM", "PBS", "LSF", "SGE", "OAR", "Moab", "HTCondor")
}
#: what is set here, is written elsewhere, or was called otherwise once
ELSEWHERE = {
    "n_workers": "write `jobs`, how many jobs to ask for",
    "host": "write it under [scheduler_options]",
    "dashboard_address": "write it under [scheduler_options]",
    "security": "write a table [tls] with `ca_file`, `cert` and `key`",
    "protocol": "a table [tls] changes it",
    "extra": "it is called `worker_extra_args`",
    "job_extra": "it is called `job_extra_directives`",
    "env_extra": "it is called `job_script_prologue`",
    "header_skip": "it is called `job_directives_skip`",
}
#: what only a program can give
INNER = {"self", "scheduler", "loop", "asynchronous", "job_cls", "scheduler_cls", "silence_logs", "base_class_kwargs"}
INNER |= {"job_kwargs", "kwargs"}

_is_text: Callable[[Any], bool] = lambda value: isinstance(value, str)
_is_texts: Callable[[Any], bool] = lambda value: isinstance(value, list) and all(map(_is_text, value))
_is_table: Callable[[Any], bool] = lambda value: isinstance(value, dict)


def _is_size(value: Any) -> bool:
    try:
        return isinstance(value, str) and parse_bytes(value) > 0
    except ValueError:
        return False


#: options that most templates have, with what they must be; others are passed on as they are
WANTED: list[tuple[str, Callable[[Any], bool], str]] = [
    ("jobs cores processes job_cpu ncpus", lambda value: type(value) is int and value >= 1, "a whole number from 1"),
    ("memory disk", _is_size, 'text such as "24 GB"'),
    ("walltime", _is_text, 'text such as "02:00:00", in quotes'),
    ("queue account project interface python job_name shebang job_mem name resource_spec", _is_text, "text"),
    ("local_directory log_directory shared_temp_directory", _is_text, "text"),
    ("job_script_prologue worker_extra_args job_directives_skip", _is_texts, 'a list such as ["…", "…"]'),
    ("job_extra_directives", lambda value: _is_texts(value) or _is_table(value), 'a list such as ["…", "…"]'),
    ("death_timeout", lambda value: type(value) in (int, float) and value > 0, "a number of seconds"),
    ("nanny", lambda value: isinstance(value, bool), "true or false"),
    ("scheduler_options", _is_table, "a table, [scheduler_options]"),
    ("tls", _is_table, "a table, [tls]"),
]
#: what stands for the scheduler's address in a script that is only shown
SCHEDULER = "tcp://SCHEDULER:PORT"
#: seconds to reach the scheduler of this process, and to end the jobs
START, CLOSE = 30.0, 30.0

T = TypeVar("T")


def _read(path: Path) -> tuple[type[JobQueueCluster], dict[str, Any]]:
    """The kind of a template and its other options, checked: a `SettingsError` has a line for each problem."""
    table, positions = parsed(read_text(path, "--slurm"), str(path))
    problems = Problems(positions)
    kind = table.pop("kind", "slurm")
    if not isinstance(kind, str) or kind not in KINDS:
        problems.add(("kind",), f"`kind` is {kind!r}, and must be one of {', '.join(KINDS)}.")
        problems.stop()
    for key, value in table.items():
        problems.attempt((key,), _check, key, value, KINDS[kind])
    for key, example in (("jobs", "10"), ("cores", "16"), ("memory", '"24 GB"')):
        if key not in table:
            problems.add((key,), f"`{key}` is missing: write for instance {key} = {example}.")
    tls, files = table.pop("tls", None), ("ca_file", "cert", "key")
    if isinstance(tls, dict) and not (tls.keys() == set(files) and all(map(_is_text, tls.values()))):
        problems.add(("tls",), "[tls] must have the three files `ca_file`, `cert` and `key`, and nothing else.")
    problems.stop()
    tls = tls and Tls(*(path.parent.absolute() / Path(tls[name]).expanduser() for name in files))
    return KINDS[kind], {**table, "tls": tls}


def _options_of(cluster: type[JobQueueCluster]) -> set[str]:
    """The names that a cluster of dask-jobqueue takes: its own, and those of its jobs."""
    job_class = cluster.job_cls  # pyright: ignore[reportAttributeAccessIssue]
    takers = (cluster.__init__, job_class.__init__, Job.__init__, JobQueueCluster.__init__)
    return {name for taker in takers for name in inspect.signature(taker).parameters} - INNER


def _check(key: str, value: Any, cluster: type[JobQueueCluster]) -> None:
    """Raise a ValueError unless a cluster takes this option, and this value of it, as far as we know."""
    known = _options_of(cluster) | {"jobs", "tls"}
    if key in ELSEWHERE:
        raise ValueError(f"`{key}` cannot be given here: {ELSEWHERE[key]}.")
    if key not in known:
        near = difflib.get_close_matches(key, known - set(ELSEWHERE), 1)
        raise ValueError(f"`{key}` is no option of {cluster.__name__}.{f' Did you mean `{near[0]}`?' if near else ''}")
    for keys, is_right, wanted in WANTED:
        if key in keys.split() and not is_right(value):
            raise ValueError(f"`{key}` is {value!r}, and must be {wanted}.")


class Slurm(DaskPlace):
    """Jobs of SLURM, or of another queue that dask-jobqueue knows and the template names."""

    def __init__(self, template: Path) -> None:
        try:
            self._cluster, self._template = _read(template)
        except SettingsError as error:
            raise PlaceError(str(error)) from None
        self._path, self._troubles = template, []
        self._jobs, self._tls = self._template.pop("jobs"), self._template.pop("tls")
        self._job = _job_class(self._cluster, self._troubles)

    def print_job(self) -> str:
        """The script of a job as it would be submitted. Nothing is."""
        options = self._options()
        for only_of_cluster in ("name", "scheduler_options", "shared_temp_directory", "silence_logs", "job_cls"):
            options.pop(only_of_cluster, None)
        logs = Path(options.get("log_directory") or ".")
        is_new = not logs.exists()
        address = SCHEDULER
        if options.get("security"):
            options["protocol"], address = "tls://", SCHEDULER.replace("tcp", "tls")
        script = _explained(lambda: self._job(address, name="recurra-0", **options).job_script(), self._path)
        if is_new:  # it was made for a job that is not submitted
            with contextlib.suppress(OSError):
                logs.rmdir()
        return script

    def _connect(self, closing: contextlib.ExitStack) -> DaskWorkers:
        submit = shlex.split(self._job.submit_command or "")[0]
        if shutil.which(submit) is None:
            raise PlaceError(f"`{submit}` is not there: is this a machine from which jobs are submitted?")
        cluster = _explained(lambda: self._cluster(**self._options()), self._path)
        closing.callback(_close, cluster)
        _say_who_can_reach(cluster.scheduler_address, is_secured=self._tls is not None)
        client = closing.enter_context(connected(cluster, cluster.security, START))
        jobs = _Jobs(cluster, self._jobs, self._troubles)
        hint = "See the queue, and what the jobs wrote if they have ended."
        return DaskWorkers(client, f"the jobs of {self._path}", hint, jobs.tend)

    def workers(self) -> int:
        return self._jobs * self._template.get("processes", 1)

    def _options(self) -> dict[str, Any]:
        """What dask-jobqueue is given: the template, and what suits us where that says nothing."""
        options = {"processes": 1, **self._template}
        prologue = list(options.get("job_script_prologue", ()))
        options["job_script_prologue"] = [*prologue, f"export {workers.SHARED_BY}={options['processes']}"]
        kind = self._job.default_config_name()
        named = options.get("interface") or config.get(f"jobqueue.{kind}.interface", None)
        own = (config.get(f"jobqueue.{kind}.scheduler-options", None) or {}) | options.get("scheduler_options", {})
        unseen = ["--no-dashboard", "--dashboard-address", workers.UNSEEN["dashboard_address"]]
        arguments = [*unseen, "--preload", workers.__name__]
        if not (named or "host" in own or "interface" in own):
            own["host"] = workers.LOOPBACK
            arguments += ["--host", workers.LOOPBACK]  # workers that can reach it are on this machine too
        options["worker_extra_args"] = [*arguments, *options.get("worker_extra_args", ())]
        options["scheduler_options"] = {**({} if "dashboard_address" in own else workers.UNSEEN), **own}
        if self._tls:
            options["security"] = secured(self._tls)
        return {**options, "job_cls": self._job, "silence_logs": False}


class _Jobs:
    """The jobs that were asked for. Those that end, as they do when their time is up, are asked for again."""

    def __init__(self, cluster: JobQueueCluster, count: int, troubles: list[str]) -> None:
        self._cluster, self._count, self._troubles = cluster, count, troubles
        self._said, self._outcomes = 0, 0
        self._submitted: set[str] = set()
        cluster.scale(jobs=count)

    def tend(self, outcomes: int, workers: int) -> None:
        """Look after the jobs, of which so many outcomes have come so far, and which have so many workers now."""
        new, self._said = self._troubles[self._said :], len(self._troubles)
        if workers == 0 and len(self._troubles) >= self._count:
            raise PlaceError(f"No job could be submitted. The queue said: {self._troubles[-1]}")
        if new:
            say(f"{len(new)} of {self._count} jobs could not be submitted. The queue said: {new[-1]}")
        self._submitted |= set(self._cluster.workers)
        ended = len(self._submitted - set(self._cluster.workers))
        if ended and outcomes > self._outcomes:  # jobs that end without an outcome would be asked for without an end
            say(f"{ended} of {self._count} jobs ended and {'is' if ended == 1 else 'are'} asked for again.")
            self._outcomes = outcomes
            self._submitted.clear()
            self._cluster.scale(jobs=self._count)
        elif ended == self._count and workers == 0:
            raise PlaceLost(
                "All jobs have ended, and the last ones brought no outcome: look at what they wrote. What was finished"
                " is kept, and the same command goes on from there."
            )


def _job_class(cluster: type[JobQueueCluster], troubles: list[str]) -> type[Job]:
    """A job whose workers compute one order at a time, and that tells if it cannot be submitted."""
    base: Any = cluster.job_cls  # pyright: ignore[reportAttributeAccessIssue]

    class Submitted(base):
        worker_process_threads = 1
        worker_process_memory = "0"  # the queue watches over memory; near Dask's limit a worker would only stand still

        async def _submit_job(self, script_filename: str) -> Any:
            try:
                return await super()._submit_job(script_filename)
            except Exception as error:
                said = str(error).partition("stderr:\n")[2].strip()
                troubles.append(said.splitlines()[0] if said else one_line(error))
                raise

        async def close(self) -> None:
            await super().close()
            self.status = Status.closed  # also if it was never submitted

    return Submitted


def _explained(make: Callable[[], T], path: Path) -> T:
    """What dask-jobqueue makes of a template, or what it has against it."""
    try:
        return make()
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        raise PlaceError(f"{path}: {' '.join(str(error).split())}") from None


def _say_who_can_reach(address: str, is_secured: bool) -> None:
    host = urlsplit(address).hostname or ""
    if host.startswith("127.") or host in ("localhost", "::1"):
        told = ", on this machine alone. For workers on other machines name an `interface` of this one in the template"
        told += ', such as "ib0".'
    elif is_secured:
        told = ", and runs what holders of a certificate of your CA send it."
    else:
        told = ". Dask runs what it is sent: whoever reaches that address can run programs as you. On a network that"
        told += " others use, give the template a table [tls] (docs/clusters.md)."
    say(f"The scheduler listens at {address}{told}")


def _close(cluster: JobQueueCluster) -> None:
    with contextlib.suppress(Exception):  # the workers end by themselves when there is no scheduler any more
        cluster.close(timeout=CLOSE)
