"""Schedulers and workers of Dask in processes of their own, which end in any case."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from recurra.training.places.base import Tls

HERE = str(Path(__file__).parent)
QUIET = {"DASK_LOGGING__DISTRIBUTED": "error", "JAX_PLATFORMS": "cpu"}


def environment(*folders):
    """In which a process finds the stand-ins, and before them what is in `folders`."""
    return {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join([*map(str, folders), HERE])}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def process(*command, folders=()):
    # in a folder without the library, which would be imported from there
    how = {"env": environment(*folders), "cwd": tempfile.gettempdir()}
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how
    ) as started:
        family = psutil.Process(started.pid)
        try:
            yield started
        finally:
            everyone = [family, *family.children(recursive=True)] if started.poll() is None else []
            for each in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            psutil.wait_procs(everyone, timeout=10)


@contextlib.contextmanager
def scheduler(*options, protocol="tcp"):
    """A scheduler on the loopback, and its address."""
    address = f"127.0.0.1:{(port := free_port())}"
    where = ["--host", f"{protocol}://127.0.0.1", "--port", str(port)]
    unseen = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    with process("-m", "dask", "scheduler", *where, *unseen, *options) as started:
        deadline = time.monotonic() + 30
        while started.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"{protocol}://{address}", started


def worker(address, *options, folders=()):
    """A worker without a nanny: what is killed stays dead."""
    usual = ["--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--no-dashboard", "--host", "127.0.0.1"]
    return process("-m", "dask", "worker", address, *usual, *options, folders=folders)


def certificates(folder):
    """A certificate that is its own authority."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=recurra-tests -keyout {key} -out {cert}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return Tls(cert, cert, key)


def kill(number):
    os.kill(int(number), signal.SIGKILL)


@contextlib.contextmanager
def nobody_left():
    """See that no process is left over, but for the one by which Python looks after semaphores."""
    mine = psutil.Process()
    before = set(mine.children(recursive=True))
    yield
    left = [each for each in mine.children(recursive=True) if each not in before and not _is_tracker(each)]
    _, left = psutil.wait_procs(left, timeout=5)
    assert not left


def _is_tracker(each):
    try:
        return any("resource_tracker" in word for word in each.cmdline())
    except psutil.Error:
        return False


def listening(family=None):
    """The addresses at which processes listen: if none are given, this one and its children."""
    mine = psutil.Process()
    family = [mine, *mine.children(recursive=True)] if family is None else family
    return {
        each.laddr.ip for one in family for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN
    }
