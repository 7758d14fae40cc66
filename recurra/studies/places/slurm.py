"""Jobs of a queue: `--slurm template.toml`. dask-jobqueue writes and submits them, and each starts workers of Dask.

The scheduler is part of this process, so everything ends with it. It listens on this machine alone unless the template
names an interface or a host, which workers on other machines need.
"""

import contextlib
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dask import config
from distributed.core import Status

from recurra.studies.order import Failure, Order, Outcome
from recurra.studies.places.base import Compute, PlaceError, PlaceLost, one_line
from recurra.studies.places.dask import connected, secured
from recurra.studies.places.hands import DaskHands, each_on
from recurra.studies.places.jobqueue import Job, JobQueueCluster
from recurra.studies.places.pinning import SHARED_BY
from recurra.studies.places.quiet import quiet
from recurra.studies.places.template import Template
from recurra.studies.places.workers import LOOPBACK, UNSEEN
from recurra.training.console import say

#: what stands for the scheduler's address in a script that is only shown
SCHEDULER = "tcp://SCHEDULER:PORT"
#: seconds to reach the scheduler of this process, and to end the jobs
START, CLOSE = 30.0, 30.0

T = TypeVar("T")


class Slurm:
    """Jobs of SLURM, or of another queue that dask-jobqueue knows and the template names."""

    def __init__(self, template: Path) -> None:
        self._template, self._troubles = Template.read(template), []
        self._job = _job_class(self._template, self._troubles)

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
        script = _explained(lambda: self._job(address, name="recurra-0", **options).job_script(), self._template.path)
        if is_new:  # it was made for a job that is not submitted
            with contextlib.suppress(OSError):
                logs.rmdir()
        return script

    def __enter__(self) -> "Slurm":
        submit = shlex.split(self._job.submit_command or "")[0]
        if shutil.which(submit) is None:
            raise PlaceError(f"`{submit}` is not there: is this a machine from which jobs are submitted?")
        with contextlib.ExitStack() as closing:
            closing.enter_context(quiet())
            cluster = _explained(lambda: self._template.cluster(**self._options()), self._template.path)
            closing.callback(_close, cluster)
            _say_who_can_reach(cluster.scheduler_address, is_secured=self._template.tls is not None)
            client = closing.enter_context(connected(cluster, cluster.security, START))
            jobs = _Jobs(cluster, self._template.jobs, self._troubles)
            hint = "See the queue, and what the jobs wrote if they have ended."
            self._hands = DaskHands(client, f"the jobs of {self._template.path}", hint, jobs.tend)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def workers(self) -> int:
        return self._template.jobs * self._template.options.get("processes", 1)

    def each(self, compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
        return each_on(self._hands, compute, orders)

    def _options(self) -> dict[str, Any]:
        """What dask-jobqueue is given: the template, and what suits us where that says nothing."""
        options = {"processes": 1, **self._template.options}
        prologue = list(options.get("job_script_prologue", ()))
        options["job_script_prologue"] = [*prologue, f"export {SHARED_BY}={options['processes']}"]
        kind = self._job.default_config_name()
        named = options.get("interface") or config.get(f"jobqueue.{kind}.interface", None)
        own = (config.get(f"jobqueue.{kind}.scheduler-options", None) or {}) | options.get("scheduler_options", {})
        unseen = ["--no-dashboard", "--dashboard-address", UNSEEN["dashboard_address"]]
        arguments = [*unseen, "--preload", "recurra.studies.places.pinning"]
        if not (named or "host" in own or "interface" in own):
            own["host"] = LOOPBACK
            arguments += ["--host", LOOPBACK]  # workers that can reach it are on this machine too
        options["worker_extra_args"] = [*arguments, *options.get("worker_extra_args", ())]
        options["scheduler_options"] = {**({} if "dashboard_address" in own else UNSEEN), **own}
        if self._template.tls:
            options["security"] = secured(self._template.tls)
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


def _job_class(template: Template, troubles: list[str]) -> type[Job]:
    """A job whose workers compute one order at a time, and that tells if it cannot be submitted."""
    base: Any = template.cluster.job_cls  # pyright: ignore[reportAttributeAccessIssue]

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
    if host == "localhost" or host.startswith("127.") or host == "::1":
        say(
            f"The scheduler listens at {address}, on this machine alone. For workers on other machines name an"
            ' `interface` of this one in the template, such as "ib0".'
        )
    elif is_secured:
        say(f"The scheduler listens at {address}, and runs what holders of a certificate of your CA send it.")
    else:
        say(
            f"The scheduler listens at {address}. Dask runs what it is sent: whoever reaches that address can run"
            " programs as you. On a network that others use, give the template a table [tls] (docs/clusters.md)."
        )


def _close(cluster: JobQueueCluster) -> None:
    with contextlib.suppress(Exception):  # the workers end by themselves when there is no scheduler any more
        cluster.close(timeout=CLOSE)
