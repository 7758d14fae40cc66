"""Orders computed by real processes: workers of this machine, and schedulers that are there. Some are killed."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import places_processes as processes
import places_standins as standins
from recurra.training.places.base import Computed, Failure, PlaceError, PlaceLost, Tls
from recurra.training.places.dask import Cluster, reference
from recurra.training.places.workers import Processes


def orders(count, **settings):
    return [standins.order(number, **settings) for number in range(count)]


def assert_complete(results, given):
    """Each order has come to the outcome that this process computes for it, once."""
    assert sorted(order.points[0] for order, _ in results) == sorted(order.points[0] for order in given)
    for order, result in results:
        assert isinstance(result, Computed), result
        assert result.values["loss"].tobytes() == standins.computed(order).values["loss"].tobytes()


def test_workers_of_this_machine():
    given = orders(12, seconds=0.02)
    listening = processes.listening()
    with processes.nobody_left(), Processes(2) as place:
        assert place.workers() == 2
        results = list(place.each(standins.compute, iter(given)))
        assert processes.listening() - listening <= {"127.0.0.1"}
    assert_complete(results, given)
    by_worker = {result.worker: result.device for _, result in results}
    assert len(by_worker) == 2
    cores = [set(each.split(",")) for each in by_worker.values()]
    everything = {str(core) for core in os.sched_getaffinity(0)}
    if len(everything) > 1:
        assert not cores[0] & cores[1]
    assert cores[0] | cores[1] == everything


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:8786", "not the address of a Dask scheduler: write tcp://HOST:PORT"),
        ("127.0.0.1:8786", "not the address"),
        ("tcp://127.0.0.1", "not the address"),
        ("tcp://127.0.0.1:many", "not the address"),
        ("tls://127.0.0.1:8786", "a CA file, a certificate and a key"),
    ],
)
def test_an_address_that_cannot_be_one(address, said):
    with pytest.raises(PlaceError, match=re.escape(said)):
        Cluster(address)


def test_certificates_that_do_not_fit(tmp_path):
    files = Tls(tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(PlaceError, match="write tls:// instead"):
        Cluster("tcp://127.0.0.1:8786", files)
    with pytest.raises(PlaceError, match=r"ca\.pem cannot be read \(No such file"):
        Cluster("tls://127.0.0.1:8786", files)
    for path in (files.ca_file, files.cert, files.key):
        path.write_text("nothing")
    with pytest.raises(PlaceError, match="TLS files do not work"):
        Cluster("tls://127.0.0.1:8786", files)


def test_nobody_listens():
    address = f"tcp://127.0.0.1:{processes.free_port()}"
    began = time.monotonic()
    with pytest.raises(PlaceError, match=f"No Dask scheduler answers at {address}"), Cluster(address, timeout=0.5):
        pass
    assert time.monotonic() - began < 5


def test_only_names_are_sent():
    with pytest.raises(TypeError, match="A worker cannot import"):
        reference(lambda order: order)
    assert reference(standins.compute) == "places_standins:compute"


@pytest.mark.slow
def test_a_worker_of_this_machine_is_killed_in_the_middle():
    given = orders(60, seconds=0.3)  # enough to do until another worker has started
    results = []
    with processes.nobody_left(), Processes(2) as place:
        for number, each in enumerate(place.each(standins.compute, iter(given))):
            results.append(each)
            if number == 3:
                processes.kill(each[1].worker)
    assert_complete(results, given)
    assert len({result.worker for _, result in results}) == 3  # it was replaced


@pytest.mark.slow
def test_orders_that_raise_or_kill_their_worker(tmp_path):
    given = [
        *orders(8, seconds=0.05),
        standins.order(100, raises="always"),
        standins.order(101, raises_once=str(tmp_path / "raised")),
        standins.order(102, dies=True),
        standins.order(103, dies_once=str(tmp_path / "died")),
        *[standins.order(number, seconds=0.05) for number in range(200, 208)],
    ]
    with processes.nobody_left(), Processes(2) as place:
        results = list(place.each(standins.compute, iter(given)))
        again = list(place.each(standins.compute, orders(4)))  # the place is as good as before
    failures = {order.points[0]: result for order, result in results if isinstance(result, Failure)}
    assert set(failures) == {100, 102}
    assert failures[100].reason == "ValueError: always"
    assert len(set(failures[100].workers)) == 2
    assert "was gone before it was finished" in failures[102].reason
    well = [order for order in given if order.points[0] not in failures]
    assert_complete([each for each in results if isinstance(each[1], Computed)], well)
    assert_complete(again, orders(4))


@pytest.mark.slow
def test_an_abandoned_study_leaves_nothing_to_the_next():
    with Processes(2) as place:
        going = place.each(standins.compute, (standins.order(number, seconds=0.2) for number in range(100)))
        next(going)
        going.close()
        given = [standins.order(number) for number in range(500, 520)]
        assert_complete(list(place.each(standins.compute, given)), given)


@pytest.mark.slow
def test_few_orders_are_under_way_at_a_time():
    drawn = ended = most = 0

    def many():
        nonlocal drawn, most
        for number in range(200):
            drawn += 1
            most = max(most, drawn - ended)
            yield standins.order(number)

    with Processes(2) as place:
        for _ in place.each(standins.compute, many()):
            ended += 1
    assert ended == 200
    assert most <= 2 * 2 + 1


@pytest.mark.slow
def test_a_state_of_many_megabytes():
    import dataclasses

    import numpy as np

    state = ((np.ones((6_000_000,), "float32"), np.arange(3)),)
    given = [dataclasses.replace(order, state=state) for order in orders(3)]
    with Processes(1) as place:
        results = list(place.each(standins.continues, given))
    assert all((np.asarray(result.state[0][0]) == 2).all() for _, result in results)


@pytest.mark.slow
def test_a_worker_of_a_cluster_is_killed_in_the_middle():
    given = orders(12, seconds=0.3)
    results = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(processes.nobody_left())
        address, _ = stack.enter_context(processes.scheduler())
        for _ in range(2):
            stack.enter_context(processes.worker(address))
        place = stack.enter_context(Cluster(address))
        _until(lambda: place.workers() == 2)
        for number, each in enumerate(place.each(standins.compute, iter(given))):
            results.append(each)
            if number == 2:
                processes.kill(each[1].worker)
    assert_complete(results, given)
    assert 1 <= len({result.worker for _, result in results}) <= 2


@pytest.mark.slow
def test_the_scheduler_is_killed_in_the_middle(capfd):
    results, killed = [], []

    def study(address, started):
        with Cluster(address) as place:
            for each in place.each(standins.compute, (standins.order(number, seconds=0.1) for number in range(1000))):
                results.append(each)
                if len(results) == 3:
                    started.kill()
                    killed.append(time.monotonic())

    with processes.nobody_left(), processes.scheduler() as (address, started), processes.worker(address):
        with pytest.raises(PlaceLost, match=f"at {address} is gone .* the same command goes on"):
            study(address, started)
        assert time.monotonic() - killed[0] < 10
    assert_complete(results, orders(len(results)))
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_workers_that_come_late_are_waited_for(capfd, monkeypatch):
    from recurra.training.places import dask

    monkeypatch.setattr(dask, "WAITED", 0.5)
    with processes.scheduler() as (address, _), contextlib.ExitStack() as late:
        timer = threading.Timer(2.0, lambda: late.enter_context(processes.worker(address)))
        timer.start()
        with Cluster(address) as place:
            assert_complete(list(place.each(standins.compute, orders(3))), orders(3))
        timer.join()
    said = capfd.readouterr().err
    assert said.count(f"Waiting for workers of {address}: there are none. Start some: dask worker {address}") == 1


@pytest.fixture
def other_version(tmp_path):
    """A folder with another version of the library."""
    import recurra

    folder = tmp_path / "other"
    shutil.copytree(Path(recurra.__file__).parent, folder / "recurra", ignore=shutil.ignore_patterns("__pycache__"))
    first = folder / "recurra" / "__init__.py"
    first.write_text(first.read_text().replace(f'__version__ = "{recurra.__version__}"', '__version__ = "9.9.9"'))
    return folder


@pytest.mark.slow
def test_workers_with_another_version_are_refused_before_anything_is_computed(other_version):
    said = r"worker tcp://.* has recurra 9\.9\.9 where the study has 0\."
    with (
        processes.scheduler() as (address, _),
        processes.worker(address, folders=[other_version]),
        pytest.raises(PlaceError, match=said) as caught,
    ):
        Cluster(address).__enter__()
    assert "1 of 1 workers cannot compute this study" in str(caught.value)


@pytest.mark.slow
def test_a_worker_with_another_version_that_comes_late_computes_nothing(other_version):
    given = orders(20, seconds=0.2)
    results = []
    with contextlib.ExitStack() as stack:
        address, _ = stack.enter_context(processes.scheduler())
        right = stack.enter_context(processes.worker(address))
        place = stack.enter_context(Cluster(address))
        for each in place.each(standins.compute, iter(given)):
            results.append(each)
            if len(results) == 1:
                stack.enter_context(processes.worker(address, folders=[other_version]))
                _until(lambda: place.workers() == 2)
    assert_complete(results, given)
    assert {result.worker for _, result in results} == {str(right.pid)}


@pytest.mark.slow
def test_orders_of_other_versions_fail_and_name_both():
    wrong = standins.order(0, versions={"recurra": "0.0.1", "jax": "0.1"})
    with processes.scheduler() as (address, _), processes.worker(address), Cluster(address) as place:
        [(_, failed), (_, well)] = sorted(
            place.each(standins.compute, [wrong, standins.order(1)]), key=lambda each: each[0].points
        )
    assert re.search(r"worker tcp://\S+ has recurra \S+ where the study has 0\.0\.1 and jax", failed.reason)
    assert isinstance(well, Computed)


@pytest.mark.slow
def test_encrypted(tmp_path):
    files = processes.certificates(tmp_path)
    options = ["--tls-ca-file", str(files.ca_file), "--tls-cert", str(files.cert), "--tls-key", str(files.key)]
    with processes.scheduler(*options, protocol="tls") as (address, _):
        with processes.worker(address, *options), Cluster(address, files) as place:
            assert_complete(list(place.each(standins.compute, orders(5))), orders(5))
        with pytest.raises(PlaceError, match="No Dask scheduler answers"):
            Cluster(address.replace("tls", "tcp"), timeout=2.0).__enter__()


PROGRAM = """
import places_standins as standins
from recurra.training.places.workers import Processes

if __name__ == "__main__":
    with Processes(2) as place:
        for order, result in place.each(standins.compute, [standins.order(n, seconds=60 * (n > 0)) for n in range(9)]):
            print("computed", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopping_the_program_stops_its_workers(tmp_path, number):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py")]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": processes.environment(), "text": True}
    with subprocess.Popen(command, start_new_session=True, **how) as program:
        assert program.stdout.readline() == "computed\n"
        workers = psutil.Process(program.pid).children(recursive=True)
        began = time.monotonic()
        if number == signal.SIGINT:
            os.killpg(program.pid, number)  # as a terminal does for Ctrl-C
        else:
            program.kill()
        said = program.communicate(timeout=20)[1]
    assert time.monotonic() - began < 10
    assert not psutil.wait_procs(workers, timeout=10)[1]
    if number == signal.SIGINT:
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert said.count("Traceback") == 1


@pytest.mark.slow
def test_a_program_that_its_workers_would_start_again(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.replace('if __name__ == "__main__":', "if True:"))
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, env=processes.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert 'put what it does under `if __name__ == "__main__":`' in done.stderr
    assert "The 2 worker processes could not be started" in done.stderr.splitlines()[-1]


def _until(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert holds()
