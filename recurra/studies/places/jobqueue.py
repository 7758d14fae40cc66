"""dask-jobqueue, imported so that Ctrl-C stays what it was: the package itself makes it end the process at once."""

import signal
import threading

_before = signal.getsignal(signal.SIGINT)

from dask_jobqueue.core import Job, JobQueueCluster  # noqa: E402
from dask_jobqueue.htcondor import HTCondorCluster  # noqa: E402
from dask_jobqueue.lsf import LSFCluster  # noqa: E402
from dask_jobqueue.moab import MoabCluster  # noqa: E402
from dask_jobqueue.oar import OARCluster  # noqa: E402
from dask_jobqueue.pbs import PBSCluster  # noqa: E402
from dask_jobqueue.sge import SGECluster  # noqa: E402
from dask_jobqueue.slurm import SLURMCluster  # noqa: E402

if threading.current_thread() is threading.main_thread() and _before is not None:
    signal.signal(signal.SIGINT, _before)

__all__ = [
    "HTCondorCluster",
    "Job",
    "JobQueueCluster",
    "LSFCluster",
    "MoabCluster",
    "OARCluster",
    "PBSCluster",
    "SGECluster",
    "SLURMCluster",
]
