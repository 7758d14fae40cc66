"""Standard output and standard error that are closed, full or left: no run is lost by it."""

import io
import json
import os
import pty
import subprocess
import sys
import threading
import time

import pytest
import xarray

from processes import PROGRAM, TRAIN, in_a_process
from recurra.cli import streams


@pytest.mark.parametrize(
    ("streams", "status", "said"),
    [
        (">/dev/full", 1, "error: Standard output could not be written: No space left on device.\n"),
        (">&-", 1, "error: Standard output could not be written: it is closed.\n"),
        ("2>&-", 0, ""),
        ("2>/dev/full", 0, ""),
        (">&- 2>&- <&-", 1, ""),
        (">/dev/full 2>&1", 1, ""),
    ],
)
def test_lost_streams(tmp_path, streams, status, said):
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (status, said)


def test_nobody_reads_or_watches_any_more(tmp_path):
    """A pipe without a reader is nothing to speak of; a terminal that was closed is."""
    reader, writer = os.pipe()
    os.close(reader)
    assert in_a_process(tmp_path, "--version", stdout=writer) == (141, None, "")
    os.close(writer)
    leader, follower = pty.openpty()
    os.close(leader)
    status, _, err = in_a_process(tmp_path, "--version", stdout=follower)
    os.close(follower)
    assert (status, err) == (1, "error: Standard output could not be written: Input/output error.\n")


def test_a_run_outlives_its_streams(tmp_path):
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *PROGRAM, *TRAIN, "--out", "runs.nc"]
    assert subprocess.run(closed, cwd=tmp_path, timeout=600).returncode == 1
    with xarray.open_dataset(tmp_path / "runs.nc", engine="h5netcdf") as data:
        assert list(data.learner.values) == ["rflo", "fixed"]


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path):
    """JAX may print there itself."""
    code = "import os; from recurra.cli.streams import guard; guard(); f = open('f', 'w'); os.write(1, b'x')"
    command = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert (tmp_path / "f").read_text() == ""


def test_what_is_kept_nowhere_else_is_said_again(tmp_path):
    with open("/dev/full", "w") as nowhere:
        status, _, err = in_a_process(tmp_path, *TRAIN, "--json", stdout=nowhere)
    first, _, rest = err.partition("\n")
    assert (status, first) == (1, "error: Standard output could not be written: No space left on device. It was:")
    assert {each["learner"] for each in json.loads(rest)["results"]} == {"rflo", "fixed"}


def test_a_pipe_that_does_not_wait_loses_nothing():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    text = b"x" * 200_000  # more than a pipe holds
    received = bytearray()

    def read():
        time.sleep(0.2)
        while piece := os.read(reader, 65536):
            received.extend(piece)

    thread = threading.Thread(target=read)
    thread.start()
    with io.FileIO(writer, "w") as raw, io.BufferedWriter(guarded := streams.Guarded(raw)) as file:
        file.write(text)
    thread.join()
    os.close(reader)
    assert (bytes(received), guarded.error) == (text, None)
